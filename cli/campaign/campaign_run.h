/* One campaign at work: a job under `ckpt run`, with a daemon of its own that allows faults. The faults come one after
 * the other, then the end of the job, and then the same steps undisturbed. All that it makes is in one folder:
 *
 *	store/  journal  spans  run.log  train.jsonl  s (socket)       the disturbed run; the trainer's --report is train.jsonl
 *	calm/   calm.log  calm.jsonl  calm.s                           the undisturbed one
 *
 * On several nodes each has a ckptd and a `ckpt run`. Then there are, instead of spans, run.log and s, of node K:
 *
 *	node-K.spans  node-K.log  node-K.s    and of all: roster  key
 *
 * On hosts (campaign_hosts.h) also: hosts (the token), node-K.memory (what ranks there had mapped), and node-K.train.jsonl, of which
 * train.jsonl is made at the end. */
#ifndef CKPT_CLI_CAMPAIGN_RUN_H
#define CKPT_CLI_CAMPAIGN_RUN_H

#include "faults/fault_request.h"
#include "journal/journal.h"
#include "network/net.h"
#include "process/launch_proc.h"
#include "process/left_memory.h"
#include "remote/hosts.h"

#include <limits.h>

/* peer-timeout of the daemons. Nobody is lost who is only late: on one machine all nodes share its processors. */
enum { CAMPAIGN_PEER_MS = 10000 };

struct campaign_node {
	struct proc run, daemon; /* daemon: on several nodes; else `ckpt run` has it */
	struct proc bridge;      /* to its host */
	int run_in, daemon_in;   /* on a host: stdin of their remote shells; -1: none */
	uint64_t start_at;       /* its daemon is to be started then; 0: it is not */
	bool to_run;             /* its `ckpt run` is to be started, once its daemon answers */
	bool answers;            /* its daemon, when it was asked last */
	int64_t waited_for; /* rank + 1, by its daemon, when it was asked last; 0: no standstill, -1: nobody stands out */
	bool knows_loss;    /* its daemon knows enough steps to name a spike of the loss, and names nothing now */
	uint64_t loss_since; /* of the newest trouble with the loss that was noted; as its daemon dates it */
	uint32_t spikes;     /* that its daemon has named */
	off_t log_read;      /* so much of its log has been looked at for who is named in it */
	int status;          /* of its `ckpt run`, when that has ended */
	bool lost_daemon;    /* status is of the remote shell of its daemon: the way there broke */
};

/* How training ended. */
struct campaign_end {
	uint64_t step;
	char params[32];
};

struct campaign {
	const struct cli *cli;
	struct campaign_file file;
	const char *folder;
	char *const *command; /* of a rank; NULL: ckpt-train */
	struct campaign_journal journal;
	struct hosts hosts;      /* has none: the nodes are on this machine */
	uint64_t beat_at;        /* when the hosts are to hear that somebody is there */
	struct campaign_net net; /* of the nodes of the disturbed run; has no nodes: they are on loopback */
	struct campaign_node nodes[CAMPAIGN_NODES_MAX];
	uint32_t nnodes;     /* of the run that is at work */
	bool disturbed;      /* that run */
	uint32_t calm_world; /* ranks of the undisturbed one */
	uint64_t steps;
	size_t no_network;         /* faults that were left out: the nodes have no network of their own */
	bool *ended;               /* by fault: in the journal */
	struct left_memory memory; /* that ranks of the disturbed run had; on hosts they have it in files */
	struct {
		uint64_t epoch;
		pid_t pids[CAMPAIGN_RANKS_MAX];
	} noted; /* whose memory was noted last */
	size_t fired, not_fired;
	struct step_id durable;        /* the newest that the journal has */
	struct campaign_end end, calm; /* of the disturbed and of the undisturbed run */
};

char *campaign_path(const struct campaign *c, const char *name, char dst[PATH_MAX]);
/* Of the node: "s", or "node-1.s" where there are several. */
char *campaign_node_path(const struct campaign *c, uint32_t node, const char *name, char dst[PATH_MAX]);
/* The faults that the journal has not, then the end of the job. An exit code with the message printed; EXIT_CANCELLED: it
 * was interrupted, and all that it had started has ended. */
int campaign_disturb(struct campaign *c);
/* The same steps without faults, each by as many ranks: a run for each stretch of steps that one world has made. */
int campaign_calm(struct campaign *c);
/* "final step=… loss=… params=…" of a trainer's log. False: it does not stand there. */
bool campaign_final(const char *path, struct campaign_end *out);

/* ---- campaign_watch.c ---------------------------------------------------------------------------------------------- */

/* Between two looks at what the daemons say: each is the whole status of all of them. */
#define CAMPAIGN_LOOK_MS 50

/* The job, put together from what the daemons of its nodes say. */
struct campaign_view {
	bool runs; /* on each node that has ranks, in the same epoch, with a process for each rank; where none move, on each node */
	uint64_t epoch;
	uint32_t ranks, world;
	uint64_t seen;   /* which, as bits */
	uint32_t offers; /* nodes that have processes for the job, as its coordinator says; of ranks that move */
	uint64_t steps[CAMPAIGN_RANKS_MAX];
	pid_t pids[CAMPAIGN_RANKS_MAX];
	uint32_t nodes[CAMPAIGN_RANKS_MAX]; /* where each is now */
	struct step_id replicated;          /* the newest */
};

/* As many ranks train as at the start; where they move, all nodes are there, too. */
bool campaign_is_whole(const struct campaign *c, const struct campaign_view *v);
/* Of the disturbed run: ranks go from node to node. */
bool campaign_is_elastic(const struct campaign *c);
/* Whether the job trains, and the node has ranks of it. */
bool campaign_trains(const struct campaign_view *v);
bool campaign_has_ranks(const struct campaign_view *v, uint32_t node);
/* What is new about the job goes to the journal. */
int campaign_watch(struct campaign *c, struct campaign_view *v, struct err *err);
/* 0: the run goes on; else an exit code. */
int campaign_check_run(struct campaign *c);
/* Until all ranks are at work, and something is on storage that is newer than `after`. An exit code. */
int campaign_await_work(struct campaign *c, struct step_id after);
/* Until all ranks have made n steps more. An exit code. */
int campaign_await_steps(struct campaign *c, uint64_t n);
/* Until then; what becomes durable is noted meanwhile. An exit code. */
int campaign_await_time(struct campaign *c, uint64_t at);
int campaign_note_saved(struct campaign *c, const char *level, struct step_id id, struct err *err);
/* Whether the node's daemon answers: the journal has each change. */
int campaign_note_daemon(struct campaign *c, uint32_t node, bool answers, struct err *err);

/* ---- campaign_cause.c ---------------------------------------------------------------------------------------------- */

/* Those of n faults that the journal has not, together, until it has what became of each. An exit code. */
int campaign_cause(struct campaign *c, size_t first, size_t n);

/* ---- campaign_spike.c ---------------------------------------------------------------------------------------------- */

/* Until the node's daemon can name a spike. -EAGAIN: it does not come so far. */
int campaign_spike_await(struct campaign *c, uint32_t node, struct err *err);
/* "loss" of its status: what is new goes to the journal. */
int campaign_note_losses(struct campaign *c, uint32_t node, const json_t *loss, struct err *err);

/* ---- campaign_drain.c ---------------------------------------------------------------------------------------------- */

/* A node is drained: looks whether it has no ranks any more, and takes that back after the time that is given. *until:
 * when; 0: it has some yet. */
int campaign_drain_look(struct campaign *c, uint32_t node, uint64_t for_ms, uint64_t *until,
			struct fault_result *result, struct err *err);
/* Takes it back. */
int campaign_undrain(const struct campaign *c, uint32_t node, struct err *err);

/* ---- campaign_cut.c ------------------------------------------------------------------------------------------------ */

/* The network is as the faults before this one have left it, and then this one breaks it too, each by probes. Not 0: this one
 * breaks nothing, as far as that can be had. */
int campaign_cut(struct campaign *c, const struct campaign_fault *fault, struct fault_result *result, struct err *err);
/* The fault breaks it no more, by probes. What became of the fault is in *result. */
void campaign_mend(struct campaign *c, const struct campaign_fault *fault, struct fault_result *result);
/* For how long somebody is cut off: on a bad cable nobody is, and whoever is named is named wrongly. */
uint64_t campaign_cut_ms(const struct campaign_fault *fault);
/* What launchers say between "cut" and "joined" of ranks that hang is of no rank's making. */
int campaign_note_ways(struct campaign *c, const char *event, uint64_t for_ms, struct err *err);

/* ---- campaign_named.c ---------------------------------------------------------------------------------------------- */

/* What the logs of the nodes have now is passed over. */
void campaign_skip_logs(struct campaign *c);
/* Who is named as hung in what is new there goes to the journal. */
int campaign_note_named(struct campaign *c, struct err *err);

/* ---- the processes ------------------------------------------------------------------------------------------------- */

/* campaign_start.c: the command lines. Starts the `ckpt run`, or the daemon, of a node. */
int campaign_start_run(struct campaign *c, uint32_t node, struct err *err);
int campaign_start_daemon(struct campaign *c, uint32_t node, struct err *err);

/* campaign_nodes.c: the processes */
int campaign_start(struct campaign *c, bool disturbed, uint64_t steps, struct err *err);
/* Starts what is due, and waits until all `ckpt run` have ended, or one has not ended well. -ECANCELED: it was
 * interrupted; -ETIMEDOUT; another error: something cannot be started. *status: the wait status, of several the one that
 * is not 0. */
int campaign_await(struct campaign *c, uint64_t deadline, int *status, struct err *err);
/* A node is lost, with the n ranks on it: all its processes have died when this returns. It is started again after
 * for_ms. */
int campaign_kill_node(struct campaign *c, uint32_t node, const pid_t *ranks, uint32_t n, uint64_t for_ms,
		       struct err *err);
/* Whatever is left of it. */
void campaign_stop(struct campaign *c);

/* campaign_roster.c: how the nodes of several find and know each other. */
int campaign_write_cluster(const struct campaign *c, struct err *err);

#endif
