/* The launcher of `ckpt run`: starts the ranks of a job on this node, watches them, and replaces those that are lost. One
 * thread, one poll; nothing in it waits without a deadline.
 *
 *	rank:  WAITING (start_at) → RUNNING → (exit 0, or 3 after it was at work) FINISHED
 *	                              ↓ died    → WAITING, as long as restarts are left
 *	       FINISHED → WAITING when the daemon wants it again: another rank was lost, and the job goes back together
 *	stop:  NONE → ASKED (ranks see ckpt_should_stop) → TERM → KILL
 *
 * launch.c        the loop and the end            launch_ranks.c    a rank's life
 * launch_daemon.c the daemon and what it says     launch_stop.c     ending early
 * launch_faults.c faults on purpose               launch_env.c      what processes find in their environment
 * launch_hang.c   ranks without a heartbeat       launch_report.c   what happened
 * launch_world.c  a world that changes            launch_nodes.c    a job on several nodes
 * launch_stay.c   until others have finished, too
 * Parts that know nothing of it: launch_proc, launch_sink, launch_link, launch_held, launch_keeper, launch_budget,
 * launch_recovery, launch_ended, launch_dismissed. */
#ifndef CKPT_CLI_LAUNCH_H
#define CKPT_CLI_LAUNCH_H

#include "launcher/inject.h"
#include "launcher/launch_budget.h"
#include "launcher/launch_dismissed.h"
#include "launcher/launch_ended.h"
#include "launcher/launch_held.h"
#include "launcher/launch_keeper.h"
#include "launcher/launch_link.h"
#include "launcher/launch_recovery.h"
#include "process/launch_proc.h"
#include "process/launch_sink.h"

enum rank_stand { RANK_WAITING = 0, RANK_RUNNING, RANK_FINISHED };
enum stop_stand { STOP_NONE = 0, STOP_ASKED, STOP_TERM, STOP_KILL };

struct launch_rank {
	uint32_t id;
	enum rank_stand stand;
	struct proc proc;
	struct stream out, err;
	uint64_t start_at;    /* WAITING: not before; UINT64_MAX: no more */
	uint64_t pause_until; /* WAITING: nor before this, whatever the daemon wants */
	uint64_t kill_at;     /* RUNNING: the daemon holds it for lost; UINT64_MAX: no */
	uint64_t lost_ns;     /* since when */
	struct streak streak;
	unsigned starts;
	int status;   /* as of waitpid, of the last process that ended */
	bool ended;   /* there was one */
	bool retired; /* it is not started any more: the job is to go on without it */
};

struct launch_options {
	char **argv;          /* of the ranks, NULL-terminated */
	uint32_t processes;   /* here */
	uint32_t nodes, node; /* on which the job has as many each; which this one is, unless there is a plan */
	const char *address;  /* at which others reach this node; NULL: as its daemon says */
	uint32_t least; /* ranks with which the job still goes on; 0: its world never changes, and there is no plan */
	bool spare;     /* this node waits until another one is lost */
	const char *job;
	uint64_t grace_ns;
	uint64_t hang_ns; /* 0: hangs are not ended */
	bool prefix;      /* lines of the ranks begin with "[2] " */
	bool quiet;       /* no remarks */
	bool attended;    /* stdin is read (stop_hear) */
	bool json;        /* stdout is for the report: the ranks' goes to stderr */
};

struct launch {
	struct launch_options options;
	struct keeper keeper;
	struct uplink link;
	struct held_all held;
	struct budget budget;  /* losses of ranks */
	struct loss loss;      /* the last */
	uint64_t memory_kills; /* by the kernel in our control group, of which ranks were told */
	uint32_t world;        /* of the job now; 0: not planned yet, or none of it is here */
	uint32_t plan;         /* its number; 0: none yet */
	bool waits;            /* for a plan that gives it ranks */
	bool leaving;          /* its ranks are to go to other nodes first */
	bool joined;           /* some have been in the job, in a world before this one */
	bool over;             /* the job needs nothing of this node any more, says the daemon */
	uint64_t stays_ns;     /* since when only other nodes have ranks at work; 0: not */
	bool told_stays;
	bool drained;              /* what the daemon has said of its node */
	struct launch_rank *ranks; /* of it, those that are here: nranks of WIRE_LOCAL_MAX */
	uint32_t nranks;
	struct dismissed dismissed; /* by the last plans */
	char address[64];           /* for the ranks, as a literal; "": they are all on this node */
	uint32_t retired;           /* processes that were given up in all */
	struct sink out, err;
	struct fault *faults;
	size_t nfaults;
	struct recoveries recoveries;
	uint32_t epoch;
	uint64_t epoch_ns; /* when it changed, or a process was killed for hanging */
	/* Of several nodes, while no rank beats (launch_hang.c). When the ranks were looked at early, and the last
	 * heartbeat of the rank that was known to hang then, 0: none was. The last heartbeat of the rank that was spared,
	 * and from when on that one has its time. When the daemon was asked whether it is at work. */
	uint64_t hang_looked_ns, hang_known_ns, hang_spared_ns, hang_held_ns, hang_asked_ns;
	int signals;         /* signalfd; the caller's, by launch_take_signals() */
	uint64_t begin_ns;   /* of the launcher */
	uint64_t started_ns; /* when the ranks were first started; 0: not yet */
	uint64_t heard_ns;   /* of who attends */
	bool told_busy;      /* that another launcher of the job is there */
	bool daemon_ready;   /* our own daemon has answered since it was started */
	enum stop_stand stop;
	int stop_signal;       /* which one asked; 0: none did */
	uint64_t stop_next_ns; /* when to go further; UINT64_MAX: no further */
	bool failed;           /* gave up */
	int failure;           /* the exit code then */
};

/* From here on signals wait for the loop, in a signalfd. Before anything is made that must not be left behind. */
int launch_take_signals(int *signals, struct err *err);
/* Runs until all is over; the exit code. signals, keeper, faults and options are set; launch_free releases all but the
 * signals. */
int launch_run(struct launch *launch);
int launch_init(struct launch *launch, const struct launch_options *options, struct err *err);
void launch_free(struct launch *launch);

/* A line on stderr, in order with those of the ranks. launch_say: a remark (--quiet silences it). */
void launch_say(struct launch *launch, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void launch_warn(struct launch *launch, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Ends the run with this exit code, and says why. */
void launch_give_up(struct launch *launch, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* launch_daemon.c */
void daemon_tick(struct launch *launch, uint64_t now);
void daemon_receive(struct launch *launch, uint64_t now);
/* How things stand there; that it answers tells that it is at work. */
void daemon_ask(struct launch *launch);
/* Our own daemon's process has ended: reaps it. */
void daemon_ended(struct launch *launch, uint64_t now);

/* launch_ranks.c */
void ranks_tick(struct launch *launch, uint64_t now);
uint64_t ranks_next(const struct launch *launch);
/* A child that has ended, if it is a rank's: reaps it. What follows is decided when all that have ended are reaped. */
bool ranks_reap(struct launch *launch, pid_t pid, struct ended *ended);
void ranks_settle(struct launch *launch, struct ended *ended, uint32_t n, uint64_t now);
/* What the daemon says about lost ranks. */
void ranks_lost(struct launch *launch, const struct wire_epoch *m, uint64_t now);
/* What it says of a new epoch: it follows from the loss of a rank of another node. */
void ranks_lost_elsewhere(struct launch *launch, uint64_t now);
/* A recovery is under way: notes when no rank is without a process any more. */
void ranks_note_replaced(struct launch *launch, uint64_t now);
/* All have finished. */
bool ranks_none_left(const struct launch *launch);
bool ranks_over(const struct launch *launch);
void ranks_signal(struct launch *launch, int sig);
/* NULL: the rank is not here. */
struct launch_rank *ranks_find(const struct launch *launch, uint32_t id);
/* Its processes are not started any more. */
void ranks_finish(struct launch_rank *rank);
void ranks_init(struct launch_rank *rank, uint32_t id);

/* launch_nodes.c */
struct cli;
/* The options of a job on several nodes, for so many ranks on each; an exit code. */
int nodes_read(const struct cli *cli, uint32_t processes, struct launch_options *options);
/* The daemon has said where this node is. */
void nodes_welcomed(struct launch *launch);

/* launch_stay.c: of a job on several nodes, whose world does not change. The loss of a rank elsewhere may need those that
 * have finished here. So the launcher stays as long as there is a daemon that will say when none is at work any more. */
/* All have finished here, and it stays. */
bool stay_wanted(const struct launch *launch);
void stay_tick(struct launch *launch, uint64_t now);
uint64_t stay_next(const struct launch *launch);
/* The loop is over: why, if the job may not be. */
void stay_end(struct launch *launch);

/* launch_world.c */
/* The rank is not to be started again: true when the job goes on without it. */
bool world_retire(struct launch *launch, struct launch_rank *rank);
/* To a daemon that has just been greeted, and when anything of it has changed. */
void world_offer(struct launch *launch);
/* The ranks are to go to other nodes, or the job to end where that cannot be; false: they cannot. */
bool world_leave(struct launch *launch);
/* Who is which rank from now on. */
void world_plan(struct launch *launch, const struct wire_plan *m, uint64_t now);

/* launch_hang.c: kills the rank for which the others wait, one at a time. Of several nodes the launcher of its node does. */
void hang_tick(struct launch *launch, uint64_t now);
uint64_t hang_next(const struct launch *launch);

/* launch_stop.c */
void stop_signalled(struct launch *launch, int sig, uint64_t now);
/* On stdin, of who attends it: a letter, T or I, is SIGTERM or SIGINT to the whole job; any other that somebody is there.
 * The end of stdin, or five minutes of silence, is SIGTERM to this launcher. */
void stop_hear(struct launch *launch, uint64_t now);
void stop_begin(struct launch *launch, enum stop_stand stand, uint64_t now);
void stop_tick(struct launch *launch, uint64_t now);

/* launch_faults.c */
void faults_tick(struct launch *launch, uint64_t now);
/* The rank's process has ended, perhaps of what it played: that must not be handed to the next one. */
void faults_note(struct launch *launch, uint32_t rank, uint64_t now);
uint64_t faults_next(const struct launch *launch, uint64_t now);
size_t faults_fired(const struct launch *launch);

/* launch_report.c: the table on stdout, when there is something to tell; the report as JSON (owned by the caller). */
void report_print(const struct launch *launch);
json_t *report_json(const struct launch *launch, const struct cli *cli, int code);

/* launch_env.c: a copy of this environment with these variables set or (NULL) removed; free() it. NULL: no memory. */
struct env_pair {
	const char *name, *value;
};
char **env_with(const struct env_pair *pairs, size_t n);
/* The environment of a rank; free() it. */
char **env_of_rank(const struct launch *launch, const struct launch_rank *rank);

#endif
