/* The parts of replica: the frame (replication/replication.c), what is sent (replication/send.c), what is held
 * (replication/hold.c), who holds what (replication/survey.c), what others fetch here
 * (replication/serve.c) and what is fetched there (replication/fetch.c). For these alone. */
#ifndef CKPTD_REPLICATION_REPLICATION_PRIVATE_H
#define CKPTD_REPLICATION_REPLICATION_PRIVATE_H

#include "base/bytes.h"
#include "base/list.h"
#include "format/message/peer_replica.h"
#include "replication/placement.h"
#include "replication/replication.h"
#include "replication/transfer.h"
#include "runtime/room.h"

/* What of one job is copied. */
struct copied {
	struct list link;
	struct replica *replica;
	char name[NAME_JOB_MAX];
	uint64_t used;            /* replica.uses, then */
	uint32_t epoch;           /* the newest that is known */
	struct step_id forgotten; /* nobody asks for what is older */
	bool *reached;            /* nodes that something was offered to */
	struct list shipments, holdings, servings, fetches;
	struct survey *survey; /* that runs; NULL: none */
};

struct replica {
	struct replica_config config;
	struct list jobs;
	unsigned njobs;
	uint64_t uses;      /* of jobs, in order */
	struct list outbox; /* messages that found the queue full */
	unsigned noutbox;
	uint64_t tokens;
	uint64_t born_ns; /* when it was made: others may still be on their way here */
	bool *met;        /* by node: it has been here, so that it is not on its way any more */
	struct placement placement[REPLICA_COPIES_MAX]; /* by copies - 1; holders NULL: to be made */
	struct throttle throttle;
	struct bucket bucket;
	uint64_t no_rate;
	unsigned active; /* ways that are more than waiting */
	struct replica_counts counts;
};

/* ---- replication/replication.c */

/* NULL: there is none (and no memory, where it was to be made). */
struct copied *copied_find(const struct replica *r, const char *job);
struct copied *copied_get(struct replica *r, const char *job);
/* In the order of the calls; what the queue does not take waits here. */
void replica_post(struct replica *r, unsigned node, enum peer_type type, const struct wbuf *body);
/* SEAL, HELD, RELEASE. */
void replica_post_head(struct copied *job, unsigned node, enum peer_type type, uint64_t token);
void replica_refuse(struct copied *job, unsigned node, uint64_t token, int rc, const char *text);
/* Clock time until which so many bytes may take to be touched or digested. */
uint64_t replica_until(const struct replica *r, uint64_t bytes);
const char *replica_node(const struct replica *r, unsigned node);

/* ---- replication/send.c */

enum { TRIES_MAX = REPLICA_COPIES_MAX + 4 };

enum target_state { TARGET_WAITING = 0, TARGET_OFFERED, TARGET_COPYING, TARGET_SEALED, TARGET_HELD, TARGET_STOPPING };

/* One holder of a shipment. */
struct target {
	struct list link;
	struct shipment *s;
	unsigned node;
	enum target_state state;
	uint64_t token, deadline;
	struct transfer transfer;
};

/* A rank's snapshot that is sent to its holders. When all has been said of it, it stays, so that a lost copy can be made anew. */
struct shipment {
	struct list link;
	struct copied *job;
	struct replica_send what; /* mem: a reference, NULL when the slot has something else */
	uint32_t epoch;
	uint64_t born; /* in the order of tokens */
	uint64_t *leaves;
	struct wbuf table; /* encoded when the first holder wants it */
	bool active;       /* counted in slot_view.copies */
	bool told;
	bool again; /* copies that are missing are to be made after all */
	unsigned tried[TRIES_MAX], ntried;
	int rc; /* why a way failed, the first time */
	struct err err;
	struct list ways;
};

static inline struct shipment *shipment_of(struct list *node)
{
	return list_entry(node, struct shipment, link);
}

static inline struct target *target_of(struct list *node)
{
	return list_entry(node, struct target, link);
}

void send_epoch(struct copied *job);
void send_up(struct copied *job, unsigned node);
void send_down(struct copied *job, unsigned node);
void send_tick(struct copied *job);
void send_forget(struct copied *job, struct step_id before);
/* rc 0: the daemon ends, nobody is called. */
void send_end(struct copied *job, int rc);
bool send_busy(const struct copied *job);

/* ---- replication/send_target.c */

void target_set_state(struct target *w, enum target_state state);
void target_free(struct target *w);
void target_offer(struct target *w);
/* It is freed, at once or when nothing of it is in flight. */
void target_fail(struct target *w, int rc, const char *text);
/* A node that a shipment cannot go to, and why. */
void target_remember(struct shipment *s, unsigned node, int rc, const char *text);
void send_ticket(struct copied *job, unsigned node, const struct peer_open *m);
void send_held(struct copied *job, unsigned node, const struct peer_head *m);
/* False: the token is of nothing that is sent. */
bool send_refused(struct copied *job, unsigned node, const struct peer_refused *m);
/* ---- replication/hold.c */

/* A rank whose snapshots are held here. A slot is whole when mem->slots[].used; copies counts who reads it. */
struct holding {
	struct list link;
	struct copied *job;
	uint32_t rank, world;
	struct memory *mem;
	uint32_t owners[ARENA_SLOTS_MAX]; /* by slot, what stands in it: as in struct peer_holding */
	bool kept;                        /* it is the arena of a former rank: nothing arrives in it */
	bool fetched; /* the same of a part that was fetched to be read once: the copies of its rank filled theirs */
	struct arrival *arrival;
	struct prefaulted filled;
	bool present; /* its pages have been touched, as far as they could be */
};

/* A snapshot on its way into a slot. */
struct arrival {
	struct holding *holding;
	uint32_t slot;
	struct step_id id;
	uint32_t began, lacks; /* as in struct slot_view */
	uint32_t epoch;
	unsigned node;
	uint64_t session, token;
	struct net_region *regions[TRANSFER_PARTS]; /* table, leaves, slot: open for the sender */
	struct fetch *fetch;                        /* NULL: it is sent */
	uint64_t deadline;
	struct work work;
	bool running; /* a worker has it */
	bool ended;   /* meanwhile: it is thrown away when the worker is done */
	int rc;
	struct err err;
};

static inline struct holding *holding_of(struct list *node)
{
	return list_entry(node, struct holding, link);
}

void hold_offer(struct copied *job, unsigned node, const struct peer_offer *m);
void hold_seal(struct copied *job, unsigned node, const struct peer_head *m);
/* The sender or fetcher gives up, or is done. False: the token is of nothing that arrives. */
bool hold_release(struct copied *job, unsigned node, const struct peer_head *m);
void hold_epoch(struct copied *job);
void hold_down(struct copied *job, unsigned node);
void hold_tick(struct copied *job);
void hold_forget(struct copied *job, struct step_id before);
void hold_end(struct copied *job);
/* Makes room for what a fetch brings: fetch_filled is called when its pages are there. */
int hold_for_fetch(struct fetch *fetch, const struct peer_source *m, struct arrival **out, struct err *err);
/* What the fetch brought is in the slot; fetch_checked is called when it was digested. */
void hold_check(struct arrival *a);
void hold_drop(struct arrival *a);

/* ---- replication/hold_memory.c: memory for what is held */

struct wish {
	uint32_t rank, world;
	struct step_id id, keep;
	bool fetched; /* it is read once: no copy makes room for it */
	const struct peer_shape *shape;
};

struct holding *holding_for(const struct copied *job, const struct wish *w);
void holding_free(struct holding *h);
bool holding_is_empty(const struct holding *h); /* and nothing is on its way */
/* The arrival in its slot, or why there is no room for it. */
int make_arrival(struct copied *job, const struct wish *w, struct arrival **out, struct err *err);
/* The whole copy of a snapshot. */
struct holding *hold_find(const struct copied *job, const struct replica_part *part, uint32_t *slot);

/* ---- replication/serve.c */

void serve_fetch(struct copied *job, unsigned node, const struct peer_fetch *m);
bool serve_release(struct copied *job, unsigned node, const struct peer_head *m);
void serve_down(struct copied *job, unsigned node);
void serve_tick(struct copied *job);
void serve_end(struct copied *job);

/* ---- replication/fetch.c */

struct fetch;
void fetch_source(struct copied *job, unsigned node, const struct peer_source *m);
bool fetch_refused(struct copied *job, unsigned node, const struct peer_refused *m);
void fetch_filled(struct fetch *fetch, int rc, const struct err *err);
void fetch_checked(struct fetch *fetch, int rc, const struct err *err);
const struct replica_fetch *fetch_what(const struct fetch *fetch);
struct copied *fetch_job(struct fetch *fetch);
void fetch_epoch(struct copied *job);
void fetch_down(struct copied *job, unsigned node);
void fetch_tick(struct copied *job);
void fetch_end(struct copied *job, int rc);

/* ---- replication/survey.c */

void survey_asked(struct copied *job, unsigned node, const struct peer_head *m);
void survey_answer(struct copied *job, unsigned node, const struct peer_holdings *m);
void survey_tick(struct copied *job);
void survey_up(struct copied *job, unsigned node);
void survey_down(struct copied *job, unsigned node);
/* Nobody is told. */
void survey_end(struct copied *job);

static inline struct net_ticket to_net(const struct peer_ticket *t)
{
	return (struct net_ticket){.key = t->key, .address = t->address, .size = t->size};
}

static inline struct peer_ticket from_region(const struct net_region *region)
{
	struct net_ticket t = region ? net_region_ticket(region) : (struct net_ticket){0};
	return (struct peer_ticket){.key = t.key, .address = t.address, .size = t.size};
}

#endif
