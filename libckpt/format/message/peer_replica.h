/* Messages by which daemons copy snapshots between their memories; who sends which when is drawn in
 * ckptd/replication/replication.h. Each begins with the job, the epoch that the sender of the message knows, and a token
 * that the side which began chose and by which both name the transfer. Little-endian fields (base/bytes.h). Encode
 * functions append and return 0 or -ENOMEM; decode functions check everything and leave nothing to free: -EBADMSG says
 * which message and why. */
#ifndef CKPT_FORMAT_PEER_REPLICA_H
#define CKPT_FORMAT_PEER_REPLICA_H

#include "base/bytes.h"
#include "base/err.h"
#include "format/arena/registration.h"
#include "format/message/peer.h"
#include "format/tensor/digest.h"
#include "format/tensor/names.h"

#define PEER_SLOT_MAX REGISTRATION_DATA_MAX
enum { PEER_TEXT_MAX = 512, PEER_TABLE_MAX = 2 * REGISTRATION_BYTES_MAX };

struct peer_head {
	char job[NAME_JOB_MAX];
	uint32_t epoch;
	uint64_t token;
};

/* What a rank's snapshot takes: its table (registration and layout), its leaf digests, its slot. */
struct peer_shape {
	struct digest table;
	uint64_t table_len, nleaves, slot_size;
};

/* How to reach a part of the other's memory (struct net_ticket); size 0: it is not wanted. */
struct peer_ticket {
	uint64_t key, address, size;
};

struct peer_tickets {
	struct peer_ticket table, leaves, slot;
};

struct peer_offer {
	struct peer_head head;
	uint32_t rank, world;
	struct step_id id, keep; /* keep.epoch 0: none */
	uint32_t began;          /* as in struct arena_slot */
	uint32_t lacks;          /* enum slot_flags: what of the step was not restored to it */
	struct peer_shape shape;
};

struct peer_fetch {
	struct peer_head head;
	uint32_t rank, world; /* world 0: of whatever world it is */
	struct step_id id;
	bool same_table; /* only one with this table will do */
	struct digest table;
};

struct peer_source {
	struct peer_head head;
	uint32_t world;
	uint32_t began; /* as in struct arena_slot */
	uint32_t lacks; /* as in struct peer_offer */
	struct peer_shape shape;
	struct peer_tickets tickets;
};

struct peer_refused {
	struct peer_head head;
	int32_t rc; /* -errno */
	char text[PEER_TEXT_MAX];
};

struct peer_forget {
	struct peer_head head;
	struct step_id before;
};

/* A copy that a node holds, or what stands in the arena of a rank of its own. */
struct peer_holding {
	uint32_t rank, world;
	/* the node that sent it, whose rank it was; PEER_OWNER_UNKNOWN: it was fetched from another holder */
	uint32_t owner;
	struct step_id id;
	struct digest table;
};

/* HOLDINGS, the answer to SURVEY: all of the job that other ranks could be given. */
struct peer_holdings {
	struct peer_head head;
	uint32_t n;
	const uint8_t *items; /* n encoded ones, in the message */
};
enum { PEER_HOLDINGS_MAX = 8192, PEER_HOLDING_BYTES = 40 };
#define PEER_OWNER_UNKNOWN UINT32_MAX

/* TICKET, the answer to an OFFER. */
struct peer_open {
	struct peer_head head;
	struct peer_tickets tickets;
};

int peer_offer_encode(const struct peer_offer *m, struct wbuf *out);
int peer_offer_decode(const void *body, size_t len, struct peer_offer *m, struct err *err);
int peer_open_encode(const struct peer_open *m, struct wbuf *out);
int peer_open_decode(const void *body, size_t len, struct peer_open *m, struct err *err);
int peer_fetch_encode(const struct peer_fetch *m, struct wbuf *out);
int peer_fetch_decode(const void *body, size_t len, struct peer_fetch *m, struct err *err);
int peer_source_encode(const struct peer_source *m, struct wbuf *out);
int peer_source_decode(const void *body, size_t len, struct peer_source *m, struct err *err);
int peer_refused_encode(const struct peer_refused *m, struct wbuf *out);
int peer_refused_decode(const void *body, size_t len, struct peer_refused *m, struct err *err);
int peer_forget_encode(const struct peer_forget *m, struct wbuf *out);
int peer_forget_decode(const void *body, size_t len, struct peer_forget *m, struct err *err);
int peer_holdings_encode(const struct peer_holdings *m, struct wbuf *out);
/* *m points into the body. */
int peer_holdings_decode(const void *body, size_t len, struct peer_holdings *m, struct err *err);
void peer_holding_put(const struct peer_holding *m, struct wbuf *items);
struct peer_holding peer_holding_at(const struct peer_holdings *m, uint32_t i); /* i < n */
/* SEAL, HELD, RELEASE and SURVEY are no more than this. */
int peer_head_encode(const struct peer_head *m, struct wbuf *out);
int peer_head_decode(uint16_t type, const void *body, size_t len, struct peer_head *m, struct err *err);

/* "OFFER"; "?" for what is not in this file. */
const char *peer_replica_name(uint16_t type);

#endif
