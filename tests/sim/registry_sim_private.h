/* The parts of the simulated registry: what stands in it and what was asked of it (registry_sim.c), leases as either side has them (registry_lease_sim.c),
 * and what nodes know of it (registry_mirror_sim.c). For these alone. */
#ifndef CKPT_SIM_REGISTRY_SIM_PRIVATE_H
#define CKPT_SIM_REGISTRY_SIM_PRIVATE_H

#include "registry_sim.h"

#include "base/list.h"
#include "registry/lease_private.h"
#include "registry/registry.h"

/* SHORTER: a lease is as short against the run as it is in a long one. */
enum { NODES = 64, RECORDS = 64, LEASES = 256, SHORTER = 5, VALUE_MAX = 4096 };

struct item {
	char key[REGISTRY_KEY_MAX];
	uint8_t value[VALUE_MAX];
	size_t len;
	uint64_t created, changed, lease; /* created 0: it does not stand; lease 0: none */
};

/* What has happened, in order: the record as it was then. */
struct change {
	struct item item;
	uint64_t at_ns;
	bool gone;
};

/* As it stands in the registry, whatever its owner thinks. */
struct standing_lease {
	uint64_t id, ends_ns, length_ns;
	bool early; /* it ends sooner than it has to stand */
};

struct transaction {
	struct registry_compare compare[REGISTRY_CHANGES_MAX];
	struct registry_change change[REGISTRY_CHANGES_MAX];
	char keys[2 * REGISTRY_CHANGES_MAX][REGISTRY_KEY_MAX];
	uint8_t values[REGISTRY_CHANGES_MAX][VALUE_MAX];
	unsigned ncompare, nchange;
	registry_done *callback;
	void *arg;
};

/* What a node has asked, on its way to the registry or back. */
struct request {
	struct list flying;  /* sim.flying, as long as it may yet be done */
	struct list waiting; /* requests of its node, as long as that waits for an answer */
	bool flies, waits;
	unsigned node;
	uint64_t sent_ns, arrives_ns, answer_ns, deadline_ns;
	bool muted;
	struct transaction *transaction; /* NULL: it is about the lease */
	enum lease_want want;            /* then */
	uint64_t length_ns;
	uint64_t lease;            /* that it is about, or under which it puts; 0: none */
	bool done, applied, ended; /* ended: there is no such lease any more */
	uint64_t revision;
};

struct registry {
	unsigned node;
	struct registry_config config;
	struct registry_events events;
	struct item mirror[RECORDS];
	unsigned nmirror;
	uint64_t at;                  /* changes of the log that it has heard of */
	uint64_t upto;                /* changes that there were when it began to read; UINT64_MAX: it does not read */
	uint64_t read_ns, trouble_ns; /* when that has been read; since when it is cut off, 0: it is not */
	uint64_t held, held_ns;       /* that change is heard at that time */
	bool synced, away, dead;
	struct lease lease; /* on a clock that is as fast as the lease is short */
	struct list requests;
	int fd; /* never ready: who simulates polls */
};

struct registry_sim {
	struct item items[RECORDS];
	unsigned nitems;
	struct change *log;
	uint64_t nlog, cap, revision, leases;
	struct standing_lease lease[LEASES];
	unsigned nleases;
	bool cut[NODES];
	struct registry *nodes[NODES];
	struct list flying;
	struct registry_faults faults;
	struct registry_sim_counts counts;
	uint64_t rng; /* what happens here moves nothing elsewhere */
};
extern struct registry_sim registry_sim;

/* registry_sim.c */
/* How long something takes from here to there. */
uint64_t registry_delay(void);
bool registry_chance(unsigned per_thousand);
struct request *request_new(struct registry *r, uint64_t deadline_ns);
/* Nobody waits for it any more. */
void request_leave(struct request *q);
/* What stood under that lease goes. */
void registry_drop(uint64_t lease);

/* registry_lease_sim.c */
bool lease_stands(uint64_t id);
/* Of those that are to end until then, the first; NULL: none. */
struct standing_lease *lease_to_end(uint64_t until_ns);
void lease_end(struct standing_lease *l);
/* The request has come: it is done. */
void lease_serve(struct request *q, uint64_t now);
/* The owner's side: its time may be over, it hears the answer (failed: that there is none), it asks. */
void lease_look_at(struct registry *r);
void lease_hear(struct registry *r, const struct request *q, bool failed);
void lease_turn(struct registry *r);
/* The registry says that it has ended. */
void lease_is_over(struct registry *r, uint64_t id);

/* registry_mirror_sim.c */
struct item *item_find(struct item *items, unsigned n, const char *key);
void mirror_follow(struct registry *r);

#endif
