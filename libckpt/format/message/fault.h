/* The catalogue of faults on purpose: one table that `ckpt run --inject`, `ckpt fault`, campaigns, the daemon, help and documents
 * read. A kind stands here when it can be caused and its effect can be seen. */
#ifndef CKPT_FORMAT_FAULT_H
#define CKPT_FORMAT_FAULT_H

#include <stdbool.h>
#include <stdint.h>

enum { FAULT_NAME_MAX = 24, FAULT_TIME_MAX_MS = 86400000 };
/* By how much the time of day jumps, if nothing is said, and at most. */
#define FAULT_JUMP_NS (86400 * 1000000000ull)
#define FAULT_JUMP_MAX_S (366 * 86400)
/* Within so long after a fault training is at work again, unless the catalogue has another time. */
#define FAULT_AT_WORK_MS 180000
/* A rank that hangs is named within so long after hang-timeout. */
#define FAULT_NAMED_MS 2000
/* By how much an operation of a slow disk is longer. */
#define FAULT_LAG_NS (100 * 1000000ull)

/* The numbers stand in messages and arenas: new kinds come at the end. */
enum fault_kind {
	FAULT_KILL = 1,
	FAULT_STOP,
	FAULT_ABORT,
	FAULT_KILL_DAEMON,
	FAULT_TRAP,
	FAULT_ILLEGAL_ADDRESS,
	FAULT_NEVER_ENDS,
	FAULT_DEVICE_LOST,
	FAULT_ABSENT,
	FAULT_MISMATCH,
	FAULT_NAN,
	FAULT_FLIP,
	FAULT_SLOW,
	FAULT_EXIT_EARLY,
	FAULT_STOP_DAEMON,
	FAULT_FLIP_ARENA,
	FAULT_FLIP_REPLICA,
	FAULT_FLIP_FILE,
	FAULT_FLIP_MANIFEST,
	FAULT_DISK_FULL,
	FAULT_DISK_EIO,
	FAULT_DRAIN,
	FAULT_KILL_NODE,
	FAULT_LINK_DOWN,
	FAULT_ONE_WAY,
	FAULT_PARTITION,
	FAULT_LINK_SLOW,
	FAULT_REBOOT,
	FAULT_CLOCK_JUMP,
	FAULT_ECC,
	FAULT_RESTART_DAEMON,
	FAULT_FLIP_SIDECAR,
	FAULT_DISK_READ_ONLY,
	FAULT_LOSS_SPIKE,
	FAULT_DISK_STALL,
	FAULT_DISK_SLOW,
	FAULT_DISK_CORRUPT,
	FAULT_LINK_LOSS,
	FAULT_LINK_DELAY,
	FAULT_POWER_CUT,
	FAULT_KIND_END
};

/* What a fault is aimed at. */
enum fault_target {
	FAULT_AT_RANK = 1, /* a rank of the node */
	FAULT_AT_DAEMON,
	FAULT_AT_CHECKPOINT, /* of the job, on storage */
	FAULT_AT_STORE,      /* as the daemon sees it */
	FAULT_AT_NODE,
	FAULT_AT_NETWORK, /* what joins the nodes */
};

/* Who causes it. */
enum fault_actor {
	FAULT_BY_SIGNAL = 1, /* the launcher, or the daemon: a signal to a process */
	FAULT_BY_RANK,       /* the rank plays it, if its program knows how (ckpt_fault, CKPT_PLAY) */
	FAULT_BY_DAEMON,     /* the daemon alone */
	FAULT_BY_COMMAND,    /* `ckpt fault`, when the daemon allows it */
	FAULT_BY_CAMPAIGN,   /* `ckpt campaign`, which has made what it breaks */
};

enum fault_time { FAULT_TIME_NONE = 0, FAULT_TIME_MAY, FAULT_TIME_MUST };

struct fault_entry {
	enum fault_kind kind;
	const char *name;
	enum fault_target target;
	enum fault_actor actor;
	enum fault_time time;                        /* for=TIME, --for TIME */
	bool run;                                    /* `ckpt run --inject` has it */
	int signal;                                  /* of FAULT_BY_SIGNAL */
	const char *does, *needs, *fired, *expected; /* one line each, no full stop; needs "": nothing */
	uint32_t fires_ms;                           /* within so long it has fired, or it will not */
	uint32_t
		expected_ms; /* within so long after that, and after its time, what is expected has happened; 0: no time is promised */
};

/* In the order of the documents; kind 0 ends it. */
extern const struct fault_entry fault_catalogue[];

/* NULL: there is none. */
const struct fault_entry *fault_find(const char *name, uint64_t len);
const struct fault_entry *fault_of(enum fault_kind kind);
/* The daemon's process is gone then: it cannot be told what became of the fault. */
static inline bool fault_ends_daemon(const struct fault_entry *f)
{
	return f->kind == FAULT_KILL_DAEMON || f->kind == FAULT_RESTART_DAEMON;
}
/* The daemon ends its whole node, itself last: it has answered before. */
static inline bool fault_ends_node(const struct fault_entry *f)
{
	return f->kind == FAULT_KILL_NODE || f->kind == FAULT_POWER_CUT;
}
/* Why a daemon does not cause what a campaign alone does. */
#define FAULT_NEEDS_NETWORK                                                                                            \
	"it needs CAP_NET_ADMIN, and a network that may be broken: ckpt campaign makes one, and alone causes it"
/* "?" outside the catalogue. */
const char *fault_kind_name(enum fault_kind kind);
const char *fault_target_name(enum fault_target target);
const char *fault_actor_name(enum fault_actor actor);
/* "kill, stop and abort": the kinds of `ckpt run` alone, or all. Returns dst. */
char *fault_names(bool run_only, char *dst, uint64_t size);

#endif
