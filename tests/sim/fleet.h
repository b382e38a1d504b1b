/* A fleet: several whole daemons on one simulated net and one simulated store, and a job whose ranks are spread over them. Each node has a
 * launcher, which holds the arenas of its ranks while its daemon is gone; a node that is lost loses ranks, launcher, arenas and the
 * copies that its daemon held. The world of the job is fixed, or elastic: then launchers offer processes, and plans say who is which rank
 * (fleet_launcher.c). What is checked, and when: test_cluster.c. */
#ifndef CKPT_SIM_FLEET_H
#define CKPT_SIM_FLEET_H

#include "daemon.h"
#include "job/job.h"
#include "net_sim.h"
#include "rng.h"
#include "shutdown.h"
#include "world.h"

enum {
	FLEET_NODES_MAX = 4,
	FLEET_RANKS_MAX = 8,
	FLEET_SAVES = 512,
	FLEET_EPOCHS = 512,
	FLEET_PLANS = 1024,
	FLEET_ADDRESS = 8,
	FLEET_NUMBERS = NET_SIM_NODES /* that members are given in a run */
};
/* Those that plans have let go and that have not ended yet are processes, too. */
enum { FLEET_PROCESSES_MAX = 16, FLEET_PLACES_MAX = 4 };

#define FLEET_STORE "/sim/store"
#define FLEET_JOB "sim"

/* A rank that a plan has given to a launcher. */
struct fleet_participant {
	uint32_t id;
	struct fleet_rank *process; /* alive, or of which the arena is held; NULL: none */
	bool retired;               /* it is not started any more */
	uint64_t start_ns;          /* not before; UINT64_MAX: no more */
	uint64_t kill_ns;           /* the daemon holds it for lost; UINT64_MAX: it does not */
};

/* Of an elastic job. */
struct fleet_assignment {
	bool runs, spare, leaving, drained;
	uint32_t processes; /* that it offers */
	uint32_t plan, world, nplaces;
	uint32_t seq; /* of its last offer */
	struct fleet_participant places[FLEET_PLACES_MAX];
};

struct fleet_node {
	unsigned id;
	struct daemon daemon;
	bool up;
	bool joining; /* it is started, and no member of the cluster yet */
	bool ending;  /* it was told to end, and is not up any more */
	struct shutdown shutdown;
	unsigned number;         /* in the cluster: its id, or another one, if it was removed and has joined anew */
	bool forgotten;          /* somebody has asked to remove it, since it joined */
	bool was_forgotten;      /* somebody has asked to remove it, ever */
	unsigned machine;        /* another one has another address */
	unsigned life;           /* of its daemon: what that held for others is gone with it */
	uint32_t nranks;         /* of the job, that live here */
	struct client *launcher; /* NULL: it has not greeted this daemon yet */
	uint32_t heard;          /* the last epoch that the launcher was told of */
	bool ended;              /* the launcher has: its ranks had finished */
	uint64_t ended_ns;
	bool away;          /* lost, and nobody starts it again */
	uint64_t frozen_ns; /* nothing of it runs until then, and nothing of it knows */
	bool undrain;       /* it is to have ranks again, and nobody was there who could be told */
	uint32_t processes; /* that a launcher here has at its start */
	struct {
		bool seen,
			is; /* it was, or was not, drained, by what is on record, and nothing else has been asked since */
		uint64_t term; /* in which that was seen last */
	} drain;
	struct fleet_assignment assignment;
};

/* A process; which rank, it knows itself: in an elastic job it learns when that has changed. */
struct fleet_rank {
	uint32_t id, world, local_world;
	unsigned home;
	int pid;
	bool used;   /* of an elastic job: else this is nobody */
	bool held;   /* the launcher holds the arena, too */
	bool old;    /* the arena is one of a world that is over */
	bool doomed; /* has no rank any more, and was told to end */
	bool alive, joined, restored;
	bool finished; /* not alive, and not started again before it is needed */
	bool registering, joining, restoring;
	uint32_t life; /* of the process; no two have the same */
	uint32_t seq;
	uint32_t epoch; /* that this process joined last; 0: none */
	struct client *client;
	struct rank *rank;  /* in the daemon; NULL while there is none */
	int fd;             /* its arena, as the launcher holds it */
	uint32_t entered;   /* the last epoch that was entered with that since this launcher holds it */
	struct memory *mem; /* the same, mapped by the test */
	uint32_t wake;      /* of mem, when its levels were looked at */
	uint64_t born_ns;   /* when this arena was seen first */
	uint64_t next_step;
	int slot;             /* being captured; -1: none */
	struct step_id saves; /* as which step */
	uint32_t piece;       /* next piece to copy */
	bool pauses;          /* in the fence of `saves`, for the next epoch */
	uint64_t pause_ns;    /* not longer than until then */
	uint64_t worked_ns;   /* when it began something last */
	uint64_t begun_ns;    /* the process */
	bool asked;           /* was in an epoch when what the job was asked was seen last */
};

/* What is known of a save. One that was spilled stands in the store under another epoch, too. */
struct fleet_save {
	struct step_id id;
	uint32_t world;    /* that saved it */
	uint32_t in;       /* of whose ranks it stands in memory: that, or one that has restored it */
	struct step_id is; /* where nobody has begun it: the save that it is; epoch 0: not seen yet */
	uint32_t fenced;   /* bit per rank: copied and fenced */
	uint32_t late;     /* of them: begun or ended after somebody had been told of a later epoch */
	bool begun, to_storage, committed;
	uint64_t begun_ns;
	int level;           /* the highest that any rank was shown */
	uint64_t durable_ns; /* when LEVEL_DURABLE was shown first */
	bool news;           /* shown as replicated to somebody, just now */
	uint32_t told;       /* bit per rank: was shown that */
	bool replicated;     /* shown to all */
	unsigned losses;     /* fleet.losses when its copies cannot have been lost yet */
	bool waived;         /* the world has changed without it, for a reason that is allowed */
};

/* What is known of an epoch that was entered. */
struct fleet_epoch {
	uint32_t epoch, world;
	uint8_t members[FLEET_RANKS_MAX * FLEET_ADDRESS];
	uint32_t entered; /* bit per rank */
	bool restored, fresh;
	struct step_id id;    /* restored by all */
	uint64_t entered_ns;  /* by the first */
	struct step_id safe;  /* the newest that its guarantee covers; epoch 0: none */
	struct step_id whole; /* without a store: the newest that memory has all parts of then, of whatever world */
	uint64_t faults;      /* fleet_faults() then */
	uint64_t shocks;      /* fleet_shocks() then */
	uint64_t ended;       /* sessions, until then */
	bool connected;       /* all that were there */
	uint64_t term;        /* fleet_term() then */
	bool parted;          /* a partition stood: who coordinates next may not reach those who are in it */
	bool asked;           /* nothing but what may wait has changed the world since the epoch before */
};

/* What is known of a plan that some launcher has heard of. */
struct fleet_plan {
	uint32_t world;              /* 0: nothing */
	uint8_t on[FLEET_RANKS_MAX]; /* by rank: its node, from 1 on; 0: not heard of */
};

struct fleet {
	unsigned n;
	uint32_t world, slots, copies; /* world: where it is fixed */
	uint32_t nprocesses;           /* of `ranks` */
	bool elastic;
	bool registry;        /* who coordinates is elected; else it is the first node */
	bool members;         /* then: the nodes stand in the registry, too */
	uint32_t want, least; /* then: ranks */
	uint32_t node_wait_ms;
	bool stopped;          /* the job is asked to end, since too few ranks would be left */
	bool stored;           /* there is a store */
	bool verified;         /* and what is in it is read back, by the settings */
	bool quiescing;        /* no faults any more */
	bool finishing;        /* then: ranks finish, and nothing has to outlive that */
	bool over;             /* all have */
	bool mute;             /* ranks give no heartbeats */
	bool asks;             /* ranks ask which steps are saved */
	bool goes_back;        /* somebody lets the job go back to earlier steps */
	struct rollbacks back; /* as far as a restore has shown */
	struct fleet_node nodes[FLEET_NODES_MAX];
	struct fleet_rank ranks[FLEET_PROCESSES_MAX];
	struct fleet_save saves[FLEET_SAVES];
	unsigned nsaves;
	struct fleet_epoch epochs[FLEET_EPOCHS];
	unsigned nepochs;
	struct fleet_plan plans[FLEET_PLANS];      /* by number */
	uint32_t told;                             /* the newest epoch that any arena has shown */
	uint32_t lives;                            /* processes so far */
	uint64_t incarnations;                     /* of daemons, so far */
	uint64_t given[(FLEET_NUMBERS + 63) / 64]; /* a bit for each number that a member had */
	uint64_t last_step;                        /* that any rank has begun */
	uint64_t finished;         /* the step after which some rank has gone on, in the epoch entered last */
	uint64_t pace_ns, next_ns; /* from step to step; when the next one can be taken */
	struct {
		uint64_t inode, born_ns;
	} arenas[64]; /* the last ones that were seen: a ring */
	unsigned narenas;
	unsigned losses; /* of daemons and of nodes, and when the last few were */
	uint64_t loss_ns[256];
	uint64_t faults;          /* that tests have made */
	uint64_t cuts;            /* of them: of ways */
	uint64_t deaths;          /* of processes and launchers */
	struct fleet_node *dying; /* is about to tell a plan, and does not come to the end of it; NULL: none */
	unsigned dying_life, last_words;
	struct fleet_node *last; /* the same, about to tell the end */
	uint32_t drain_plan;     /* the last that was seen to hold */
	bool drain_lost;         /* the coordinator is lost as soon as a drain is on record */
	bool drain_told;         /* one is */
	struct {
		bool seen;        /* what the job was asked is on record, and nothing else has been asked since */
		bool gone;        /* since then nobody of it was left, neither rank nor launcher */
		bool lost;        /* the coordinator is lost as soon as it is */
		uint64_t ends_ns; /* the job dies as one; 0: it does not */
		uint32_t kind;
		uint64_t before_ns, term;
	} halt;
	uint64_t resumed_term; /* the last in which an epoch went on that was entered in another one */
};

struct fleet_sum {
	uint64_t captured, replicated, durable, restores, from_memory, from_peer, from_storage, fresh, epochs, kills,
		daemons, losses, moves, cuts, power_cuts, late, held, promised, trials, checked, intact, elastic, plans,
		shrunk, grown, spilled, recut, asked, leaves, drains, launchers, returns, stopped, early, restarted,
		ends, elections, heirs, joins, replaced, untold, half_told, lapses, unanswered, called, freezes,
		resumed, planned, schedules, rollbacks, went_back, drain_early, drain_held, halts, halt_early,
		halt_held, halt_anew, let_go, end_untold, stops, unrenewed, late_done, early_ends, doubles, leads,
		partitions, elsewhere, parted_epochs, absences, alone, outlived, meanwhile, rankless, removed,
		removed_alive, not_removed, put_out, anew, gone;
};

extern struct fleet fleet;
extern struct fleet_sum fleet_sum;
/* Prints all of it; false: something has never happened. */
bool fleet_tell_sums(void);

/* Only with CKPT_SIM_TRACE=1. */
void fleet_trace(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#define fleet_each(r)                                                                                                  \
	for (struct fleet_rank *r = fleet.ranks; r < fleet.ranks + fleet.nprocesses; r++)                              \
		if (r->used)

/* fleet_node.c */
void fleet_begin(unsigned nodes, bool stored, const char *policies);
void fleet_start(struct fleet_node *n); /* of a member: and goes on with that; it is up when it has joined */
/* What stands in the registry of an open roster at the beginning: all nodes, or all but the last. */
void fleet_enlist(bool all);
/* Whose the next lines of the log are, and when they were written as the simulated clock has it. */
void fleet_name_log(const struct fleet_node *n);
/* Whether a part of a daemon has its turn. */
bool fleet_now_and_then(bool all);

/* fleet_down.c */
/* The daemon dies (SIGKILL); arenas and ranks stay. */
void fleet_kill_daemon(struct fleet_node *n);
/* The daemon is told to end (SIGTERM): it ends what it is at, and is started again after that. */
void fleet_stop_daemon(struct fleet_node *n);
/* Its ranks have finished, and it is let go. */
void fleet_end_launcher(struct fleet_node *n);
/* As fleet_turn, of one that is about to end. */
bool fleet_turn_ending(struct fleet_node *n, bool all);
/* Everything on it dies. */
void fleet_lose(struct fleet_node *n);
/* All nodes are lost, and of the store stays what was confirmed, and any part of the rest. */
void fleet_power_cut(void);
void fleet_end(void);
/* What is in the memory of one node is lost, or of no use any more. */
void fleet_count_loss(void);

/* fleet_node.c */
/* Something of the daemon goes on; all: everything that can. True when there was something. */
bool fleet_turn(struct fleet_node *n, bool all);
/* The launcher greets the daemon. */
void fleet_launch(struct fleet_node *n);
struct job *fleet_job(struct fleet_node *n); /* NULL: it has none */
/* Who coordinates, as it knows itself, and is up; NULL: nobody. */
struct fleet_node *fleet_coordinator(void);
/* No two values of it are of the same coordinator's life. */
uint64_t fleet_term(void);
uint64_t fleet_faults(void);
uint64_t
fleet_shocks(void); /* those of them that are not the loss of memory or of a process, nor what follows from it */
bool fleet_connected(void); /* all with all; but for those that nobody starts again */
/* fleet_tell.c */
void fleet_tell(void); /* on standard output: what everybody is at */

/* fleet_rank.c */
void fleet_connect(struct fleet_rank *r);
void fleet_step(struct fleet_rank *r);
void fleet_kill_rank(struct fleet_rank *r);
/* A process that nobody hears of any more: it is gone, with its arena. */
void fleet_forget_rank(struct fleet_rank *r);
void fleet_drop_arena(struct fleet_rank *r);
/* Another process, of this rank. */
void fleet_born(struct fleet_rank *r, uint32_t id, uint32_t world, uint32_t local_world);
uint32_t fleet_content(uint32_t tensor, uint64_t element, struct step_id id);
/* Of all ranks alike, of each a part, of the first and the last alike, and of all but every third rank alike, so that nodes hold different parts of
 * one replica group. */
enum { FLEET_WEIGHTS = 0, FLEET_MOMENTS, FLEET_ENDS, FLEET_THIRDS, FLEET_TENSORS = FLEET_THIRDS + 3 };
/* Which of them it is. */
uint32_t fleet_tensor(const char *name);
/* The slot in which the arena has it; -1: none. */
int fleet_slot(const struct memory *mem, struct step_id id);

/* fleet_train.c: training and saving, the next small step of it. True: the epoch is over, and the rank is to join again. */
bool fleet_train(struct fleet_rank *r);
/* fleet_due.c: asks which steps are saved, and compares the answer with that of others. */
void fleet_ask(const struct fleet_rank *r);
/* All ranks that are at work can be told of their next step. */
bool fleet_decided(void);
void fleet_due_begin(void);
void fleet_capture(struct fleet_rank *r);

/* fleet_rollback.c: the job goes back to an earlier checkpoint. True: it was asked to. */
bool fleet_roll_back(struct fleet_node *n);
/* It was not given up, as far as is known. */
bool fleet_counts(struct step_id id);
/* The newest durable one that was shown so until then, and counts. */
struct step_id fleet_durable_before(uint64_t ns);
/* The rank has restored in the epoch: what is known of rollbacks from now on. True: something new. */
bool fleet_back_by(const struct fleet_rank *r, const struct fleet_epoch *e);

/* fleet_launcher.c */
void launcher_begin(struct fleet_node *n, uint32_t processes, bool spare); /* somebody starts a launcher */
void launcher_greet(struct fleet_node *n);                                 /* it finds the daemon */
/* That it says then: what it was told, or what the heads of the arenas that it holds say of its ranks; 0: none. */
uint32_t launcher_epoch(const struct fleet_node *n);
void launcher_hear(struct fleet_node *n);               /* what that has to say */
void launcher_turn(struct fleet_node *n);               /* processes that are due are started */
void launcher_ended(struct fleet_rank *r, bool retire); /* of a process: it is started again, or given up for good */
void launcher_leave(struct fleet_node *n);              /* SIGTERM: its ranks are to go to other nodes */
void launcher_kill(struct fleet_node *n);               /* SIGKILL, and all of its processes end with it */
void launcher_lost(struct fleet_node *n);               /* the node is lost */
void launcher_finished(struct fleet_rank *r); /* a process has ended well; the launcher ends with the last one */
/* Ranks that the others could have without this node (NULL: with all). */
uint32_t launcher_without(const struct fleet_node *n);

/* fleet_settle.c. No faults any more; a minute in which all must come to train, and a save as far as it can. */
/* When sessions are parked in this seed. */
void fleet_park(uint64_t seed);
void fleet_mend(void);
void fleet_settle(const char *after);
void fleet_go_on(uint64_t rounds);

/* fleet_end.c: all finish; nothing is left of the job. */
void fleet_finish(void);
/* fleet_elastic_end.c: the same of an elastic one. */
void elastic_finish(void);
/* Has nothing under way, and could end. */
bool fleet_may_finish(const struct fleet_rank *r);
/* It says goodbye, and ends. */
void fleet_finish_rank(struct fleet_rank *r);
/* What net and registry have counted in this run goes to the sums of all. */
void fleet_count_world(void);
/* All ranks of the node have. */
bool fleet_finished(const struct fleet_node *n);

/* fleet_elastic.c: what happens to an elastic job. */
void elastic_place(void);
void elastic_lost(struct fleet_node *n);  /* the node is */
bool elastic_event(struct fleet_node *n); /* true: something was done */
/* The coordinator's daemon dies before it has told any node of a plan, or when it has told some. True: it has. */
bool elastic_interrupt(void);
void elastic_mend(void);
void elastic_begin_again(struct fleet_node *n); /* somebody starts a launcher as the first one was */
void elastic_turn(struct fleet_node *n);        /* what could not be asked is asked again */
void elastic_trials(void);

/* fleet_drain.c. 0: it holds; -EINPROGRESS: as soon as it is on record. */
int drain_ask(struct fleet_node *n, bool drained);
void drain_ask_and_lose(struct fleet_node *n, bool drained);
/* The coordinator's daemon dies since a drain is on record. True: it has. */
bool drain_interrupt(void);
void drains_check(void);

/* fleet_halt.c: the job is asked to end later, or that is taken back. True: it was. */
bool halt_ask(void);
/* The coordinator's daemon dies since that is on record. True: it has. */
bool halt_interrupt(void);
/* Neither rank nor launcher of the job is left. */
void halt_nobody(void);
void halt_daemon_lost(void);
void halts_check(void);

/* fleet_node.c */
/* The way from one node to another one. */
void fleet_cut(unsigned from, unsigned to, bool cut);

/* fleet_registry.c: what happens to the registry, from a stream of its own. */
void registry_begin(uint64_t seed, uint64_t delay_ns, unsigned drop);
/* The node does not reach it. */
void registry_cut(unsigned node, bool cut);
/* True: something has happened. */
bool registry_happens(void);
/* Something is not over yet. */
bool registry_is_broken(void);
void registry_mend(void);
/* One thing happens when all is well. */
void registry_trials(void);
void registry_check(void);

/* fleet_members.c: nodes that are removed from an open roster. */
void members_begin(uint64_t seed);
bool members_happens(void);
/* One is about to be removed. */
bool members_change(void);
void members_mend(void);
void members_joined(struct fleet_node *n);
/* It stands in the registry that some node has that number. */
void members_give(unsigned number);
/* The daemon hears that it is no member any more: it ends, and is started again after that. */
bool members_put_out(struct fleet_node *n, const struct err *why);
void members_check_gone(void);

/* fleet_check.c */
struct fleet_save *fleet_save_of(struct step_id id);
/* The save that this is, by the first of its elements. */
struct fleet_save *fleet_origin(struct step_id id, uint32_t entry, uint64_t element, uint32_t value);
bool fleet_complete(const struct fleet_save *s); /* every rank has copied and fenced it, in its epoch */
/* What the next plan should come to, as the world is; and what it is. */
uint32_t fleet_expected_world(void);
uint32_t fleet_entered_world(void);
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
/* A checkpoint stands in the store, for good, that is this save or a later one. */
bool fleet_stored_since(struct step_id id);

#endif
