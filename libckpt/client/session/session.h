/* The session inside: what the files of the library share.
 *
 *   env.c table.c       settings, and what the rank holds           (know nothing of a session)
 *   arenas.c spans.c capture*.c span_index.c stage.c   the mapped memory, its devices and plans
 *   link.c service.c news.c   the socket, the service thread, what it heard
 *   loads_plan.c loads.c       what a restore copies, and when
 *   session.c register.c blob.c rebind.c join.c move.c save.c wait.c restore.c beat.c range.c error.c   the calls of ckpt.h */
#ifndef CKPT_SESSION_H
#define CKPT_SESSION_H

#include "base/list.h"
#include "ckpt.h"
#include "client/capture/env.h"
#include "client/capture/stage.h"
#include "client/capture/table.h"
#include "client/session/service.h"

enum {
	PENDING_MAX = ARENA_STATUS, /* saves to storage whose end ckpt_close waits for */
	BEGUN_MAX = 64,             /* last saves whose repetition is noticed here; the daemon refuses older ones */
};

/* Counted: the caller's handle, ckpt.unfenced and ckpt.pending. */
struct ckpt_snapshot {
	_Atomic unsigned refs;
	ckpt *s;             /* not used once the session is closed */
	struct stage *stage; /* a reference */
	struct step_id id;
	uint32_t slot;
	uint32_t begun; /* stage_newest before it had its slot */
	ckpt_target target;
	_Atomic int level;      /* the highest that was seen */
	_Atomic int failed;     /* the error of its launch or fence; final */
	char why[ERR_TEXT_MAX]; /* of `failed`: written before it */
};

/* Of the restore that runs, or of the last one. Any thread reads it. */
struct load_progress {
	_Atomic uint64_t done, total; /* bytes of this rank; total 0: not known yet */
};

struct ckpt {
	uint64_t token;                /* when it was opened: tells sessions apart in the per-thread errors */
	const _Atomic uint32_t *alive; /* a page that reads 0 in a child */
	struct settings settings;      /* rank, world and local_world change in session_move, under service.lock */
	struct device_layers layers;

	/* Registration, join and restore: one thread at a time. */
	struct table table;
	struct wire_joined joined; /* under `save` */
	_Atomic uint32_t epoch;    /* of it */
	ckpt_view view;
	_Atomic bool undefined; /* a restore failed half-way */
	struct load_progress progress;
	_Atomic uint64_t due_asked,
		due_missed; /* (epoch << 32 | number) of the last schedule behind which one was asked for, or waited for in vain */
	_Atomic pid_t beats;     /* the thread that gave the last heartbeat; 0: none did */
	struct step_id restored; /* what was restored last; epoch 0: nothing */
	struct wire_moved moved; /* of the answer MOVED to a REGISTER or JOIN */
	uint32_t moved_on;       /* the connection that it came on: service.generation */
	bool moving;             /* it came, and a device still reads what was registered */

	/* Locks in the order of acquisition: save, stage_lock, service.send_lock, service.lock. */
	pthread_mutex_t save;           /* one begin at a time; unfenced, pending; what the table has */
	struct ckpt_snapshot *unfenced; /* the last one that was begun; references */
	struct ckpt_snapshot *pending[PENDING_MAX];
	unsigned npending;
	uint32_t began; /* the epoch of the first save of a state that did not come from storage; 0: none */
	struct step_id begun[BEGUN_MAX]; /* a ring; epoch 0: unused */
	unsigned nbegun;                 /* ever */

	pthread_mutex_t stage_lock; /* the pointer only */
	struct stage *stage;        /* NULL before ckpt_join */

	struct service service;
};

/* session.c */
/* 0, or -ECHILD in a child of the process that opened the session; -EINVAL: s is NULL. */
int session_check(const ckpt *s, struct err *err);
/* A reference to the stage, or NULL before ckpt_join. */
struct stage *session_stage(ckpt *s);
/* The same, and the REGISTER of it: the table is that of the stage as long as that is there. *rc: 0 or -ENOMEM. */
struct stage *session_stage_table(ckpt *s, struct wbuf *table, int *rc);

/* Between two heartbeats of a wait. */
#define BEAT_NS (250 * CLOCK_NS_PER_MS)
/* A thread that gives heartbeats waits in a call, which has a deadline of its own: it does not hang. Others' waits are none. */
void beat_waiting(ckpt *s);
/* stage_sleep, for at most BEAT_NS. */
void beat_sleep(ckpt *s, const struct stage *stage, uint32_t seen, uint64_t deadline);
/* The same for waits for a device. */
struct patience beat_patience(ckpt *s, uint64_t deadline);
/* The deadline of a wait; *ms is what to tell people. */
uint64_t session_deadline(const ckpt *s, int timeout_ms, uint32_t *ms);

/* error.c */
/* Keeps the sentence for the calling thread; returns rc. */
int session_fail(const ckpt *s, int rc, const struct err *err);
/* The same for -EINVAL and this sentence. s may be NULL. */
int session_refuse(const ckpt *s, const char *text);

/* move.c */
/* The stage in place of the one that is there, whose snapshots are forgotten. NULL: none yet. */
void session_stage_replace(ckpt *s, struct stage *stage);
/* -EREMCHG, and the sentence. */
int session_moved(const ckpt *s, struct err *err);
/* The process is another rank of another world, as s->moved says: its table is empty again, and there is no stage. */
void session_move(ckpt *s);

/* What a call says that was given no snapshot. */
#define SNAPSHOT_NULL "the snapshot is NULL: ckpt_begin makes one, unless it fails"

/* save.c */
void snapshot_put(struct ckpt_snapshot *snap);
/* The last save that was begun, if its fence was not called, is given up, and its capture ended. */
void save_end_unfenced(ckpt *s, uint64_t deadline);

/* -ESTALE: the epoch that this rank has joined is over. */
int session_check_epoch(ckpt *s, const struct stage *stage, struct err *err);
/* Whether the last save that was begun reads the state yet, with the save lock held. */
bool save_is_open(const ckpt *s);

/* wait.c */
/* For ckpt_close: durable, whatever epoch begins meanwhile. 0, the error that ended it, -ETIMEDOUT. */
int snapshot_wait_end(struct ckpt_snapshot *snap, uint64_t deadline, uint32_t ms, struct err *err);

#endif
