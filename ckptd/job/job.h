/* Job: the ranks of one training job on this node, their barriers, and its epoch.
 *
 * An epoch is a period in which the same processes take part. It is raised when one of them is lost or a new one wants
 * in. First it is raised in the arenas, so that begin, fence and wait refuse. Then snapshots that are not complete on
 * every rank are given up. Then everybody is told. All join again, restore, and go on.
 *
 *   rank: ABSENT → CONNECTED → REGISTERED → JOINED → LEFT (said goodbye)
 *                  ◄──────── lost: ABSENT (process gone)          JOINED → REGISTERED when the epoch is raised */
#ifndef CKPTD_JOB_JOB_H
#define CKPTD_JOB_JOB_H

#include "arena/room.h"
#include "base/list.h"
#include "base/repeat.h"
#include "config/setting.h"
#include "coordinator/room.h"
#include "job/copying.h"
#include "job/finish.h"
#include "job/halt.h"
#include "job/monitor/interval.h"
#include "job/monitor/loss_policy.h"
#include "job/monitor/loss_watch.h"
#include "job/monitor/standstill.h"
#include "job/monitor/straggler_watch.h"
#include "job/resize.h"
#include "restore/room.h"
#include "runtime/room.h"
#include "save/room.h"

#include <sys/types.h>

struct control;
struct job;
struct jobs;
struct peers;
struct storage;

enum rank_state { RANK_ABSENT = 0, RANK_CONNECTED, RANK_REGISTERED, RANK_JOINED, RANK_LEFT };

/* A request that waits at a barrier. seq 0: none. */
struct waiting {
	uint32_t seq;
	uint64_t deadline;
};

struct rank {
	struct job *job;
	uint32_t id; /* in the world; RANK_MAX: nobody has come for this place yet */
	/* among the job's ranks on this node: of job.ranks, and of what has one place for each of them */
	uint32_t index;
	enum rank_state state;
	struct client *client; /* NULL: not connected (the process may be alive) */
	pid_t pid;             /* 0: the process is gone */
	int pidfd;
	struct watch *pid_watch;
	/* what the launcher has started for it, and is still there: perhaps a script whose child the process is; 0:
	 * nothing */
	pid_t launched;
	int doorbell;
	struct watch *doorbell_watch;
	struct memory *mem;
	struct table *table;  /* a reference: what it sent last; NULL: nothing that counts */
	uint64_t table_bytes; /* of runtime.memory.tables; until the job ends */
	bool rejoined; /* the process had joined before it came to this daemon: it may still write to its slots */
	bool was_in;   /* the process has been in an epoch: it may have been asked to end (job/halt.h) */
	bool failed; /* what the launcher had started for it ended with an error: it is started again, or all is over */
	bool moved;  /* the process is another rank than it knows (job/resize.h) */
	bool hello_received; /* the process has said HELLO; else only the launcher has named it */
	bool registered, arena_sent;
	bool resumed; /* came back to a restarted daemon in the middle of an epoch */
	struct waiting registering, joining, restoring;
	uint64_t restore_step;
	uint32_t address_len;
	uint8_t address[WIRE_ADDRESS_MAX];
	struct pace pace;
	uint64_t seen_ns; /* connected or lost its connection at */
	bool hung;
};

struct job {
	struct list link;
	struct jobs *jobs; /* of this node */
	struct runtime *runtime;
	struct storage *storage;
	struct peers *peers;
	struct control *control;
	char name[NAME_JOB_MAX];
	struct policy policy; /* [job], as it stands for this one */
	uint32_t world;       /* ranks of the job, wherever they are */
	uint32_t nlocal;      /* of them on this node: at most WIRE_LOCAL_MAX */
	bool spread;          /* over nodes; else all its ranks are here */
	uint32_t epoch;       /* as the coordinator has told it; 0: it has not yet */
	uint32_t known;       /* the last that anybody here has heard of */
	uint32_t entered;     /* the last that its ranks here have entered under this incarnation of the daemon */
	uint64_t entered_ns;  /* when that was: heartbeats before it are of an earlier epoch */
	uint32_t nslots;
	bool fresh; /* no rank has joined this incarnation of the daemon */
	bool stop;
	bool yields;        /* it ends here, unless somebody comes */
	uint32_t over;      /* in this epoch all its ranks have finished, wherever they were; 0: nobody has said so */
	uint64_t pause;     /* of its arenas (format/arena/arena.h) in this epoch */
	struct halt halt;   /* when it is to be asked to stop */
	bool has_arenas;    /* arenas exist for all local ranks */
	struct rank *ranks; /* nlocal */
	struct client *launcher;
	struct saves saves;
	struct copies copies;
	struct copying copying;
	struct restore restore;
	struct health_marks health_marks;
	struct resize resize;
	struct finish finish;
	struct former *former; /* NULL: nothing is left of earlier ranks but what is in the arenas */
	struct save_stats save_stats;
	struct recovery_log recovery_log;
	struct job_interval interval;
	struct straggler_watch stragglers;
	struct standstill standstill;
	struct loss_watch loss;
	struct loss_policy_state loss_policy;
	/* the epoch in which the run began of whose earlier checkpoints retention has told; 0: none */
	uint32_t earlier_told;
	uint64_t dormant_ns;     /* since when no process is left; 0: some is */
	uint64_t resumed_ns;     /* since when resumed ranks wait for the missing; 0: none do */
	bool linked;             /* its coordinator is in reach, and was told all that holds */
	uint64_t linked_term;    /* of that coordinator */
	uint64_t apart_since_ns; /* see job/apart.h; 0: it is not */
	uint64_t join_ns;        /* when to join again, having been turned away; 0: nothing of the kind is due */
	struct repeat refusal;   /* why it was */
	char refused[200];       /* the same in words, for whoever waits in vain; "": it was not, or has been let in */
	/* since when arenas of an earlier incarnation of the daemon are expected back; 0: none are */
	uint64_t returning_ns;
};

/* A rank or launcher says HELLO. On 0 *rank is set for a rank (NULL for a launcher), *out to the job. */
int job_hello(struct jobs *jobs, struct client *client, const struct wire_hello *hello, pid_t pid, struct job **out,
	      struct rank **rank, struct err *err);
/* After job_hello of a process of another PID namespace (pid < 0): the pidfd tells of its end. Takes the pidfd; -1: the
 * end of the connection must do. */
void job_watch_foreign(struct rank *rank, pid_t pid, int pidfd);
/* Its connection is gone. */
void job_disconnected(struct job *job, struct rank *rank);

/* Requests; answered at once or when the barrier opens. */
void job_register(struct rank *rank, uint32_t seq, const void *body, size_t len);
void job_join(struct rank *rank, uint32_t seq, const struct wire_join *m);
void job_restore(struct rank *rank, uint32_t seq, const struct wire_restore *m);
void job_bye(struct rank *rank, uint32_t seq);
/* What training says of a checkpoint (job/health_mark.c): answered when it is noted, or refused: -ESTALE. */
void job_mark(struct rank *rank, uint32_t seq, const struct wire_mark *m);
void job_init_marks(struct job *job);
/* An arena comes back from a rank or a launcher; fd is taken over. */
int job_return(struct job *job, uint32_t rank, int fd, struct err *err);
/* An arena that the service manager held while no daemon was there, of the rank and world that `hello` names; fd is taken
 * over. Its job is there again, without any process. */
int job_retake(struct jobs *jobs, const struct wire_hello *hello, int fd, struct err *err);
/* From the launcher: a process that it has started (pidfd taken over; -1: none) or that has ended. */
void job_spawned(struct job *job, uint32_t rank, pid_t pid, int pidfd);
void job_exited(struct job *job, uint32_t rank, pid_t pid, int status);
void job_stop(struct job *job);
/* The world changes at the next save: ranks wait in the fence of a save of a step later than this one; UINT64_MAX: they
 * do not. */
void job_pause(struct job *job, uint64_t after);

/* Another world wants to begin: without any process the job ends here as soon as what is newest in its memory is on
 * storage. */
void job_yield(struct job *job);
/* Its ranks have finished in this epoch, so that what a process of an earlier world has left here is of no use. This says
 * nothing of a later incarnation of the job. */
void job_over(struct job *job, uint32_t epoch);
/* Deadlines, hangs, lingering; every tick. False: the job has ended and was freed. */
bool job_tick(struct job *job);
/* It has a process, or a launcher, that is there. */
bool job_alive(const struct job *job);
/* Nothing runs or is wanted: no save, restore or health mark of it, and no directory of a checkpoint. */
bool job_idle(const struct job *job);
void job_free(struct job *job);

/* The service manager holds the rank's arena, too, as soon as it is ready; or no longer. When the daemon ends nothing is
 * dropped: the next one takes it from there. */
void job_keep_arena(struct rank *rank);
void job_drop_arena(struct rank *rank);
/* Bytes of the arenas that it holds. */
uint64_t job_memory(const struct job *job);
struct job *job_find(struct jobs *jobs, const char *name);
/* NULL: the rank is not on this node, or nowhere. */
struct rank *job_rank(const struct job *job, uint32_t id);
/* The same, and one that is new here takes a place that nobody has yet. NULL: there is none. */
struct rank *job_claim(struct job *job, uint32_t id);
/* All its ranks here have said goodbye. */
bool job_finished(const struct job *job);
const char *rank_state_name(enum rank_state state);

#endif
