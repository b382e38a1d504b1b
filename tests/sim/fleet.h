/* A fleet: several whole daemons on one simulated net and one simulated store, and a job whose ranks are spread over them. Each node has a
 * launcher, which holds the arenas of its ranks while its daemon is gone; a node that is lost loses ranks, launcher, arenas and the
 * copies that its daemon held. What is checked, and when: test_cluster.c. */
#ifndef CKPT_SIM_FLEET_H
#define CKPT_SIM_FLEET_H

#include "daemon.h"
#include "job.h"
#include "rng.h"
#include "world.h"

enum { FLEET_NODES_MAX = 4, FLEET_RANKS_MAX = 6, FLEET_SAVES = 512, FLEET_EPOCHS = 512, FLEET_ADDRESS = 8 };

#define FLEET_STORE "/sim/store"
#define FLEET_JOB "sim"

struct fleet_node {
	unsigned id;
	struct daemon daemon;
	int lock;
	bool up;
	unsigned life;           /* of its daemon: what that held for others is gone with it */
	uint32_t nranks;         /* of the job, that live here */
	struct client *launcher; /* NULL: it has not greeted this daemon yet */
	uint32_t heard;          /* the last epoch that the launcher was told of */
};

struct fleet_rank {
	uint32_t id;
	unsigned home;
	bool alive, joined, restored;
	bool registering, joining, restoring;
	uint32_t life; /* of the process; no two have the same */
	uint32_t seq;
	uint32_t epoch; /* that this process joined last; 0: none */
	struct client *client;
	struct rank *rank;  /* in the daemon; NULL while there is none */
	int fd;             /* its arena, as the launcher holds it */
	struct memory *mem; /* the same, mapped by the test */
	uint32_t wake;      /* of mem, when its levels were looked at */
	uint64_t born_ns;   /* when this arena was seen first */
	uint64_t next_step;
	int slot;             /* being captured; -1: none */
	struct step_id saves; /* as which step */
	uint32_t piece;       /* next piece to copy */
};

/* What is known of a save. */
struct fleet_save {
	struct step_id id;
	uint32_t fenced; /* bit per rank: copied and fenced */
	uint32_t late;   /* of them: begun or ended after somebody had been told of a later epoch */
	bool begun, to_storage;
	int level;       /* the highest that any rank was shown */
	bool news;       /* shown as replicated to somebody, just now */
	uint32_t told;   /* bit per rank: was shown that */
	bool replicated; /* shown to all */
	unsigned losses; /* fleet.losses when its copies cannot have been lost yet */
};

/* What is known of an epoch that was entered. */
struct fleet_epoch {
	uint32_t epoch;
	uint8_t members[FLEET_RANKS_MAX * FLEET_ADDRESS];
	uint32_t entered; /* bit per rank */
	bool restored, fresh;
	struct step_id id;      /* restored by all */
	struct step_id durable; /* the newest that anybody was shown before */
	struct step_id safe;    /* the newest that its guarantee covers; epoch 0: none */
	uint64_t faults;        /* fleet_faults() then */
};

struct fleet {
	unsigned n;
	uint32_t world, slots, copies;
	bool stored;   /* there is a store */
	bool settling; /* no faults any more */
	struct fleet_node nodes[FLEET_NODES_MAX];
	struct fleet_rank ranks[FLEET_RANKS_MAX];
	struct fleet_save saves[FLEET_SAVES];
	unsigned nsaves;
	struct fleet_epoch epochs[FLEET_EPOCHS];
	unsigned nepochs;
	uint32_t told;             /* the newest epoch that any arena has shown */
	uint32_t lives;            /* processes so far */
	uint64_t last_step;        /* that any rank has begun */
	uint64_t pace_ns, next_ns; /* from step to step; when the next one can be taken */
	unsigned losses;           /* of daemons and of nodes, and when the last few were */
	uint64_t loss_ns[256];
	uint64_t faults; /* that tests have made */
};

struct fleet_sum {
	uint64_t captured, replicated, durable, restores, from_memory, from_peer, from_storage, fresh, epochs, kills,
		daemons, losses, moves, cuts, power_cuts, late, held, promised, trials, checked, intact;
};

extern struct fleet fleet;
extern struct fleet_sum fleet_sum;

/* Only with CKPT_SIM_TRACE=1. */
void fleet_trace(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* fleet_node.c */
void fleet_begin(unsigned nodes, bool stored, const char *policies);
void fleet_end(void);
void fleet_start(struct fleet_node *n);
/* The daemon dies (SIGKILL); arenas and ranks stay. */
void fleet_kill_daemon(struct fleet_node *n);
/* Everything on it dies. */
void fleet_lose(struct fleet_node *n);
/* All nodes are lost, and of the store stays what was confirmed, and any part of the rest. */
void fleet_power_cut(void);
/* Something of the daemon goes on; all: everything that can. True when there was something. */
bool fleet_turn(struct fleet_node *n, bool all);
/* The launcher greets the daemon. */
void fleet_launch(struct fleet_node *n);
struct job *fleet_job(struct fleet_node *n); /* NULL: it has none */
uint64_t fleet_faults(void);
bool fleet_connected(void); /* all with all */
void fleet_tell(void);      /* on standard output: what everybody is at */

/* fleet_rank.c */
void fleet_connect(struct fleet_rank *r);
void fleet_step(struct fleet_rank *r);
void fleet_kill_rank(struct fleet_rank *r);
void fleet_forget_rank(struct fleet_rank *r); /* with its arena */
uint32_t fleet_content(uint32_t entry, uint64_t element, struct step_id id);
/* Of all ranks alike, of each a part, of the first and the last alike. */
enum { FLEET_WEIGHTS = 0, FLEET_MOMENTS, FLEET_ENDS };
/* The slot in which the rank's arena has it; -1: none. */
int fleet_slot(const struct fleet_rank *r, struct step_id id);

/* fleet_check.c */
struct fleet_save *fleet_save_of(struct step_id id);
void fleet_joined(struct fleet_rank *r, const struct wire_joined *m);
/* id NULL: there is nothing to restore, says the daemon. */
void fleet_restored(struct fleet_rank *r, const struct step_id *id);
/* What can be seen at once. */
void fleet_check(void);
/* Every rank's part is in its home's memory, or in another one's that is up. */
bool fleet_restorable(struct step_id id);
/* Every rank's part is held by another node. */
bool fleet_copied(struct step_id id);
struct step_id fleet_newest_durable(void);
struct step_id fleet_newest_safe(void);

/* fleet_store.c */
void fleet_watch_store(void);
void fleet_check_store(void);

#endif
