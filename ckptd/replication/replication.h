/* Replication: copies of snapshots in the memory of other nodes. One per daemon, for all jobs; it sees the world through
 * the net, the pool and the clock.
 *
 * Sender: a captured slot goes to the nodes that replication/placement.h names, directly out of the arena. Its leaf
 * digests go with it, and its table if the holder does not know it yet.
 *
 *   sender                                holder
 *    | OFFER ───────────────────────────►  |  memory for two slots of the rank, present in pages
 *    | ◄─────────────────────────── TICKET |  one of them is open for the sender
 *    | table, leaves, bytes: copies ─────► |
 *    | SEAL ────────────────────────────►  |  first the memory is closed, then every leaf is digested
 *    | ◄───────────────────────────── HELD |  or REFUSED, at any point, with the reason
 *
 * The other slot keeps what it has meanwhile. A slot that holds `keep`, the newest snapshot that is replicated for every
 * rank, is never
 * given to another one. Fetching is the same in the other direction: FETCH → SOURCE, copies, RELEASE; what was fetched is digested
 * before it is said to be there.
 *
 * A node that restores asks all nodes what they hold, in arenas of their own ranks, too: SURVEY → HOLDINGS.
 *
 * Epochs: a message of an older epoch than is known of its job changes nothing and is not answered. When the epoch is
 * raised, what arrives from an older one is closed and thrown away; what is held whole stays. */
#ifndef CKPTD_REPLICATION_REPLICATION_H
#define CKPTD_REPLICATION_REPLICATION_H

#include "arena/room.h"
#include "base/err.h"
#include "format/tensor/names.h"

#include <stdbool.h>
#include <stdint.h>

struct memory_account;
struct net;
struct pool;
struct replica;
struct replica_item;
struct roster;

enum { REPLICA_COPIES_MAX = 4 };

struct replica_config {
	struct pool *pool;
	struct memory_account *memory; /* its `copies` are what is held here */
	const uint64_t *memory_limit;  /* of the node, for all that the account has; read at each turn */
	struct net *net;
	const struct roster *roster;
	unsigned self;
	const uint64_t *bandwidth; /* bytes/s of what is sent to holders, 0: no limit; read at each turn */
	uint64_t patience_ns;      /* without an answer or progress */
	/* A snapshot of one of our own ranks that is complete in memory; -ENOENT. */
	int (*find)(void *arg, const char *job, uint32_t rank, struct step_id id, struct memory **mem, uint32_t *slot);
	/* Calls fn for each of those that ranks of another division could be given; nobody else may have it. NULL: none. */
	void (*own)(void *arg, const char *job, void (*fn)(void *to, const struct replica_item *item), void *to);
	void *arg;
};

int replica_new(const struct replica_config *config, struct replica **out);
/* After net_free. What has not ended ends with -ESHUTDOWN, but nobody is called. */
void replica_free(struct replica *r);

/* The net's events; messages are those of peer_replica.h. */
void replica_node_up(struct replica *r, unsigned node);
void replica_node_down(struct replica *r, unsigned node);
void replica_message(struct replica *r, unsigned node, uint16_t type, const void *body, size_t len);
/* Deadlines, the limit of bandwidth, copies that are missing; every few milliseconds. */
void replica_tick(struct replica *r);
/* Something is on its way, or waits for a tick: these should be frequent. */
bool replica_busy(const struct replica *r);

/* Whether the node holds copies that were sent from here, as far as is known: its loss matters at once. */
bool replica_minds(const struct replica *r, unsigned node);

/* This node has learned of an epoch of the job. Sends of an older one end with -ESTALE. */
void replica_epoch(struct replica *r, const char *job, uint32_t epoch);
/* The newest epoch of the job that messages or calls have told of; 0: none. A job without a store must not begin below
 * it. */
uint32_t replica_known_epoch(const struct replica *r, const char *job);

/* ---- sending */

struct replica_sent {
	const char *job;
	uint32_t rank;
	struct step_id id;
	unsigned wanted, held; /* wanted: copies, or as many as there are other nodes */
	int rc;                /* 0: held == wanted > 0; else why not, in words in err */
	struct err err;
};

struct replica_send {
	const char *job;
	uint32_t epoch; /* now */
	uint32_t rank;
	struct step_id id;
	struct step_id keep; /* the newest that is replicated for every rank of the job; epoch 0: none */
	struct memory *mem;
	uint32_t slot;          /* stays as it is (slot_view.copies) until done */
	const uint64_t *leaves; /* the daemon's own digests; copied */
	unsigned copies;
	void (*done)(void *arg, const struct replica_sent *sent); /* once, and never inside of replica_send */
	void *arg;
};
/* -ENOMEM, -ESTALE (the epoch), -EBUSY: this rank is being sent already. Afterwards, as long as the slot has this
 * snapshot and no later one was sent, a copy whose holder is lost is made anew. */
int replica_send(struct replica *r, const struct replica_send *what);
/* The nodes that hold copies of a rank's snapshot as far as this node, which sent them, knows. Returns how many. */
unsigned replica_holders(const struct replica *r, const char *job, uint32_t rank, struct step_id id,
			 unsigned nodes[REPLICA_COPIES_MAX]);
/* All that are wanted, as far as there are nodes for them, and one at least. */
bool replica_whole(const struct replica *r, const char *job, uint32_t rank, struct step_id id);

/* ---- what is held here for others, and what is kept of a former world */

/* The part of one rank, in one shape or in any. */
struct replica_part {
	uint32_t rank, world; /* world 0: whatever it is */
	struct step_id id;
	const struct digest *table; /* NULL: whatever it is */
};

struct replica_item {
	uint32_t rank, world;
	uint32_t owner; /* as in struct peer_holding */
	struct step_id id;
	struct digest table;
};
/* Calls fn for every complete copy of the job that this node holds. */
void replica_inventory(const struct replica *r, const char *job, void (*fn)(void *arg, const struct replica_item *item),
		       void *arg);
/* The memory of one of them: a reference for the caller, and its slot. It is not overwritten before replica_unpin.
 * -ENOENT. */
int replica_pin(struct replica *r, const char *job, const struct replica_part *part, struct memory **mem,
		uint32_t *slot);
void replica_unpin(struct replica *r, struct memory *mem, uint32_t slot);
/* What stands there is of no use, or is needed no more: nobody finds it from now on. */
void replica_drop(struct memory *mem, uint32_t slot);
/* The arena of a rank that this node had in a world that is over. What is complete in it is held from now on as if it had
 * been sent here, and forgotten in the same way. ids: by slot; epoch 0: nothing that is of use. Only what is older than a
 * snapshot that every rank of the job has copies of is let go for want of memory. -ENOMEM. */
int replica_keep(struct replica *r, const char *job, struct memory *mem, const struct step_id *ids);
/* Bytes of all that is kept so, of all jobs. */
uint64_t replica_kept(const struct replica *r);
/* What is held of a job by this node and all others that answer in time. A node that is asked closes what is open of older epochs
 * first. */
struct replica_found {
	unsigned node;
	uint32_t rank, world, owner;
	struct step_id id;
	struct digest table;
};
struct replica_surveyed {
	const char *job;
	uint32_t epoch;
	uint32_t known; /* the newest that anybody has told of: the job may have begun elsewhere */
	const struct replica_found *found;
	size_t n;
	unsigned unheard; /* nodes of the roster that are not there, or have not answered */
	char names[64];   /* some of them */
};
/* Only the last one of a job ends; -ENOMEM, -ESTALE (the epoch). done: once, and perhaps inside. */
int replica_survey(struct replica *r, const char *job, uint32_t epoch,
		   void (*done)(void *arg, const struct replica_surveyed *surveyed), void *arg);
/* Nobody will ask for snapshots before this one, here or where this node has sent them. */
void replica_forget(struct replica *r, const char *job, struct step_id before);
/* The job has ended: nothing of it is held, sent or fetched any more; callbacks come with -ESHUTDOWN. */
void replica_end(struct replica *r, const char *job);
/* It goes on without this node: nothing of it is sent or fetched here any more, what is held stays. */
void replica_leave(struct replica *r, const char *job);

/* ---- fetching */

struct replica_fetched {
	const char *job;
	uint32_t rank;
	struct step_id id;
	unsigned from;
	int rc; /* -EBADMSG: damaged; -ENOENT: not there; -ESTALE: of another shape, or epoch; … */
	struct err err;
};

struct replica_fetch {
	const char *job;
	uint32_t epoch, rank;
	uint32_t world; /* 0: whatever it is */
	struct step_id id;
	const struct digest *table; /* only one with this table will do; NULL: any, or that of mem */
	unsigned from;              /* a node, also this one */
	/* The claimed slot of an arena with the same table; it stays claimed until done. NULL: into memory of this node
	 * as if it had been sent here, to be looked at with replica_pin. */
	struct memory *mem;
	uint32_t slot;
	/* NULL, or, before done: these leaves are in the slot and match their digests, which are there as well. */
	void (*arrived)(void *arg, const char *job, uint32_t rank, uint64_t first, uint64_t count);
	void (*done)(void *arg, const struct replica_fetched *fetched); /* once, never inside of replica_fetch */
	void *arg;
};
/* -ENOMEM, -ESTALE (the epoch), -ENOTCONN, -ENOENT (this node does not hold it), -EEXIST (it holds it already). */
int replica_fetch(struct replica *r, const struct replica_fetch *what);

/* ---- for status and metrics */

struct replica_counts {
	uint64_t sent, sent_bytes, send_failed, held, refused, fetched, fetch_failed, served;
	uint64_t stale;  /* messages of older epochs */
	uint64_t remade; /* copies made anew because a holder was lost */
};
const struct replica_counts *replica_counts(const struct replica *r);

#endif
