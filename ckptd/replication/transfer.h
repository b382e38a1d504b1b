/* Transfer: bytes between our memory and regions of another node, in pieces. A few of them are under way at a time, so
 * that each has a deadline of its own and the limit of bandwidth is kept. A piece that fails while the session lasts is
 * tried again a few times. */
#ifndef CKPTD_REPLICATION_TRANSFER_H
#define CKPTD_REPLICATION_TRANSFER_H

#include "cluster/room.h"
#include "runtime/room.h"

enum { TRANSFER_PARTS = 3, TRANSFER_DEPTH = 4, TRANSFER_PIECE = 8 << 20, TRANSFER_RETRIES = 3 };

struct transfer;

struct transfer_op {
	struct net_op op;
	struct transfer *transfer;
	unsigned part;
	bool busy;
};

struct transfer {
	struct net *net;
	unsigned node;
	enum net_kind kind;
	struct {
		void *buf;
		uint64_t len;
		struct net_ticket ticket;
	} parts[TRANSFER_PARTS];   /* moved in this order; of length 0: left out */
	uint64_t patience_ns;      /* for one piece */
	struct throttle *throttle; /* NULL: no limit */
	struct bucket *bucket;
	/* From net_poll or throttle_pump, when nothing is in flight any more; the transfer may be freed inside. rc: 0, or
	 * why not all was moved. */
	void (*done)(struct transfer *transfer);
	/* NULL, or from net_poll: another piece has been moved, perhaps the last one. Changes nothing of the transfer. */
	void (*advanced)(struct transfer *transfer);
	int rc;
	uint64_t moved;

	/* private */
	uint64_t session;
	unsigned part, in_flight, retries;
	uint64_t at; /* of the part: what stands before has been begun */
	bool asking;
	struct turn turn;
	struct transfer_op ops[TRANSFER_DEPTH];
};

/* False: there is nothing to move, and done will not be called. */
bool transfer_start(struct transfer *transfer);
/* Begins no other piece. True: nothing is in flight and done will not be called; false: it will. */
bool transfer_stop(struct transfer *transfer, int rc);
/* Bytes of the part, from its beginning without a gap, that have been moved. */
uint64_t transfer_front(const struct transfer *transfer, unsigned part);

#endif
