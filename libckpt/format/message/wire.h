/* The control protocol between a node's daemon and its local clients, over a unix socket. Bodies are little-endian fields
 * (base/bytes.h); each message has an encode and a decode function, and decode checks everything before anyone uses it.
 *
 *   rank                    daemon                    launcher (ckpt run)
 *    | HELLO ──────────────► |                          |
 *    | ◄──────────── WELCOME |                          |     or ERROR
 *    | [RETURN: arena] ────► |  (after the daemon restarted: the rank hands its arena back)
 *    | REGISTER ───────────► |  … until all local ranks have registered
 *    | ◄────────────── ARENA | ── HOLD (arena) ───────► |     the launcher holds the descriptors, too
 *    | JOIN ───────────────► |  … until every rank of the job has joined this epoch
 *    | ◄───────────── JOINED |
 *    | RESTORE ────────────► |  … all ranks
 *    | ◄─────────── RESTORED |
 *    |      (saves go through shared memory; the doorbell eventfd wakes the daemon)
 *    | MARK ───────────────► |  what the training says of a checkpoint
 *    | ◄──────────────── MARK |  (no body: it was taken)
 *    | ◄────────────── EVENT |  the sentence for a snapshot that failed
 *    | ◄────────────── EPOCH | ── EPOCH ──────────────► |     a rank is lost; its replacement is wanted
 *    | BYE ────────────────► |                          | SPAWNED (rank, pidfd), EXITED (rank, status)
 *    | ◄──────────────── BYE |                          | STOP
 *   the world changes (ckpt run --min-ranks):
 *    |                       | ◄───────────────── OFFER |     so many processes it has, these ranks it does not replace
 *    |                       | ── PLAN ───────────────► |     who is which rank from now on
 *    |                       | ── COMMAND ────────────► |     its node is drained, or not any more: OFFER repeats it
 *    | JOIN, REGISTER ─────► |                          |
 *    | ◄────────────── MOVED |  instead of an answer: another rank and world; REGISTER and JOIN follow anew
 *   ckpt status: HELLO → WELCOME, STATUS → STATUS (JSON text)
 *   of a system service, by root: [USER], then as these
 *   ckpt flush, halt: HELLO → WELCOME, COMMAND → COMMAND (what was done), or ERROR
 *
 * A reply has the seq of its request. Any request may be answered by ERROR {rc, text}. STOP and BYE have no body. Encode
 * functions append and return 0 or -ENOMEM; decode functions leave *m empty or partial on error, with nothing to free:
 * -EBADMSG says which message and why.
 *
 * HELLO of a rank is answered by -EBUSY when a living process holds the rank (its pid named). It is answered by -EAGAIN
 * while a dead one is still being torn down: the client tries again. A request that repeats a pending one of the same
 * type (REGISTER, JOIN, RESTORE after a timeout) replaces it; only the later seq is answered. RETURN has no reply unless
 * it is refused. */
#ifndef CKPT_FORMAT_WIRE_H
#define CKPT_FORMAT_WIRE_H

#include "base/bytes.h"
#include "base/err.h"
#include "format/message/fault.h"
#include "format/tensor/digest.h"
#include "format/tensor/names.h"

#include <stdbool.h>

enum {
	WIRE_PROTOCOL = 2, /* raised with every release in which a message has changed */
	WIRE_TEXT_MAX = 512,
	WIRE_ADDRESS_MAX = 256,
	WIRE_LOCAL_MAX = 64,
	WIRE_HOST_MAX = 254,
	WIRE_REASON_MAX = 256
};

enum wire_type {
	WIRE_HELLO = 1,
	WIRE_WELCOME,
	WIRE_ERROR,
	WIRE_REGISTER, /* body: u32 timeout_ms (as in JOIN), then registration_encode() */
	WIRE_ARENA,
	WIRE_JOIN,
	WIRE_JOINED,
	WIRE_RESTORE,
	WIRE_RESTORED,
	WIRE_EVENT,
	WIRE_EPOCH,
	WIRE_HOLD,
	WIRE_RETURN,
	WIRE_SPAWNED,
	WIRE_EXITED,
	WIRE_STOP,
	WIRE_STATUS,
	WIRE_BYE,
	WIRE_COMMAND,
	WIRE_USER,
	WIRE_MOVED,
	WIRE_OFFER,
	WIRE_PLAN,
	WIRE_MARK,
	WIRE_TYPE_END
};

enum wire_role { ROLE_RANK = 1, ROLE_LAUNCHER, ROLE_OBSERVER };

/* The rung that a restore came from; the values are those of enum ckpt_source. */
enum wire_source { WIRE_FROM_MEMORY = 1, WIRE_FROM_PEER, WIRE_FROM_STORAGE };

/* protocol_min, protocol_max and version stand first and keep their places in every future protocol, as does the whole
 * ERROR message. So two builds that do not understand each other can say so: decode answers -EPROTONOSUPPORT with both
 * sides named. */

struct wire_hello {
	uint32_t protocol_min, protocol_max;
	enum wire_role role;
	char job[NAME_JOB_MAX]; /* observer: may be empty */
	uint32_t rank, world,
		local_world; /* rank: 0 for the other roles; world 0: an observer, or a launcher that waits for a plan */
	bool spread;         /* the job is on several nodes, however many of its ranks are on this one */
	uint32_t epoch;      /* the last epoch this client knows (after a daemon restart), else 0 */
	uint32_t slots;
	uint32_t plan;    /* launcher: the number of the last plan that it was given; 0: none */
	char version[32]; /* of the client's build, for messages */
};

struct wire_welcome {
	uint32_t protocol;
	uint32_t epoch; /* of the job now */
	char node[NAME_NODE_MAX];
	char version[32];
	bool storage; /* the daemon has a store */
	bool peers;   /* replication is configured */
	bool spread;  /* the job is on several nodes */
	/* at which other nodes reach this one: a name or an address; "": it is in no cluster */
	char host[WIRE_HOST_MAX];
};

struct wire_error {
	int32_t rc; /* -errno */
	char text[WIRE_TEXT_MAX];
};

/* fds: doorbell eventfd, then the arenas of all local ranks in the order of `ranks` (the rank's own read-write, the others
 * read-only). Every arena carries its registration and layout in its head. */
struct wire_arena {
	uint32_t nlocal;
	uint32_t ranks[WIRE_LOCAL_MAX];
	uint64_t size[WIRE_LOCAL_MAX];
};

struct wire_join {
	uint32_t epoch;      /* last joined, 0 the first time */
	uint32_t timeout_ms; /* the daemon answers by then with who is missing; 0: its own default */
	uint32_t address_len;
	uint8_t address[WIRE_ADDRESS_MAX];
};

struct wire_joined {
	uint32_t epoch, world;
	uint32_t *address_len; /* world entries, owned */
	uint8_t *addresses;    /* world × WIRE_ADDRESS_MAX, owned */
};
void wire_joined_free(struct wire_joined *m);

struct wire_restore {
	uint32_t epoch;
	uint64_t step;       /* or STEP_NEWEST, STEP_NEWEST_HEALTHY */
	uint32_t timeout_ms; /* as in JOIN */
};

/* The step stands complete in the slots of the local arenas: each rank copies what it needs from its own and its
 * neighbours'. */
struct wire_restored {
	uint64_t step;
	uint32_t epoch;  /* in which it was saved */
	uint32_t source; /* enum wire_source */
	uint64_t fetch_ns;
	uint32_t nlocal;
	uint32_t ranks[WIRE_LOCAL_MAX];
	uint32_t slots[WIRE_LOCAL_MAX]; /* the slot of each local rank's arena */
	/* the saved world was smaller: that rank keeps the rank blobs that it has */
	bool rank_blobs_absent[WIRE_LOCAL_MAX];
	char why[WIRE_TEXT_MAX];
};

/* The training has judged the state in a checkpoint of its job, of this epoch or an earlier one. */
struct wire_mark {
	uint32_t epoch; /* that the rank has joined */
	struct step_id id;
	bool unhealthy;
	char reason[WIRE_REASON_MAX];
};

struct wire_event {
	struct step_id id; /* the text does not repeat it */
	int32_t rc;
	char text[WIRE_TEXT_MAX];
};

struct wire_epoch {
	uint32_t epoch;
	uint32_t nlost;
	uint32_t lost[WIRE_LOCAL_MAX]; /* ranks without a process: the launcher starts them */
	bool elsewhere; /* it follows from the loss of a rank of another node, as far as all epochs since the job was at work do */
	char reason[WIRE_TEXT_MAX];
};

/* HOLD (daemon → launcher) and RETURN (launcher or rank → daemon): fds = { arena }. */
struct wire_arena_of {
	uint32_t rank;
	uint64_t size;
};

struct wire_spawned { /* fds = { pidfd } */
	uint32_t rank;
	int32_t pid;
};

struct wire_exited {
	uint32_t rank;
	int32_t pid, status; /* as of waitpid */
};

/* The job goes on with another world, and this process in another place. */
struct wire_moved {
	uint32_t rank, world, local_world;
};

/* Of the launcher of a job whose world may change; again whenever anything of it does. */
struct wire_offer {
	uint32_t want, least; /* ranks of the job, on all nodes */
	uint32_t processes;   /* that this launcher can have */
	bool spread;          /* on several nodes */
	bool spare;           /* it waits until others are lost */
	bool leaving;         /* it is to be let go, without losing a step */
	bool drained;         /* the last that it was told by DRAIN or UNDRAIN, for a daemon that has begun anew */
	uint32_t plan;        /* the number of the last plan that it was given; 0: none */
	uint32_t n;
	uint32_t ranks[WIRE_LOCAL_MAX]; /* of that plan: those that it keeps alive */
};

#define WIRE_NEW_PROCESS UINT32_MAX

/* The ranks of this node from now on. */
struct wire_plan {
	uint32_t number; /* 0 with world 0: the job has ended */
	uint32_t world, n;
	uint32_t ranks[WIRE_LOCAL_MAX];
	/* what its process was in the plan before; WIRE_NEW_PROCESS: one is to be started */
	uint32_t was[WIRE_LOCAL_MAX];
};

enum wire_command_kind {
	COMMAND_FLUSH = 1,   /* write the newest snapshot in memory to storage now */
	COMMAND_HALT,        /* the job is to make a last checkpoint and end: now */
	COMMAND_HALT_AFTER,  /* … after the next checkpoint that is durable */
	COMMAND_HALT_BEFORE, /* … early enough to have ended at at_ns */
	COMMAND_GO_ON,       /* takes back a halt that has not begun */
	COMMAND_DRAIN,       /* a node's ranks are to go to other nodes, and it is given no more */
	COMMAND_UNDRAIN,
	COMMAND_DRAINED,  /* asks how far that is */
	COMMAND_FAULT,    /* a fault on purpose: is caused, or allowed */
	COMMAND_FAULTED,  /* asks what has become of it, or tells that of one that was allowed */
	COMMAND_REMOVE,   /* a node that is not there is to be forgotten by the cluster; of no job */
	COMMAND_ROLLBACK, /* the job goes back to an earlier step, in a new epoch */
	COMMAND_CLEAR,    /* the failures of a node are forgotten; of no job */
};

enum fault_outcome { FAULT_PENDING = 0, FAULT_FIRED, FAULT_NOT_FIRED, FAULT_OUTCOME_END };

/* Of COMMAND_FAULT: what. Of COMMAND_FAULTED: its number, and an outcome with a sentence where that is told. */
struct wire_fault {
	uint32_t kind; /* enum fault_kind */
	/* of a fault at a rank; of power-cut: what is drawn from; of clock-jump: seconds ahead, as an int32_t, 0: a day;
	 * else 0 */
	uint32_t rank;
	uint64_t for_ms;
	uint32_t number;  /* FAULTED: which; FAULT of a bit in memory: what its place is drawn from */
	uint32_t outcome; /* enum fault_outcome */
	char text[WIRE_REASON_MAX];
};

/* Where to, and why. */
struct wire_rollback {
	struct step_id to;
	char reason[WIRE_REASON_MAX];
};

/* From an observer. job: "" means the only one there is; of REMOVE it is empty. */
struct wire_command {
	uint32_t kind; /* enum wire_command_kind */
	char job[NAME_JOB_MAX];
	uint64_t at_ns;            /* since the Unix epoch */
	char node[NAME_NODE_MAX];  /* DRAIN, UNDRAIN, DRAINED, REMOVE; else empty */
	struct wire_fault fault;   /* FAULT, FAULTED; of others it is not sent */
	struct wire_rollback back; /* ROLLBACK; of others it is not sent */
};

/* From root, as the first word to a system service: what follows is for the worker of that user. Not answered, but by an
 * ERROR. */
struct wire_user {
	char name[128]; /* or the number */
};

struct wire_answer {
	struct step_id id;      /* flush: what is written */
	uint32_t left;          /* of a drain: ranks that the node has still. Of a fault: enum fault_outcome */
	uint32_t number;        /* of a fault: to ask for it. Of a rollback: the epoch that ends */
	char job[NAME_JOB_MAX]; /* of REMOVE empty */
	/* one sentence; of DRAINED: why they have not gone, "": nothing is known against it */
	char text[WIRE_TEXT_MAX];
};

int wire_hello_encode(const struct wire_hello *m, struct wbuf *out);
int wire_hello_decode(const void *body, size_t len, struct wire_hello *m, struct err *err);
int wire_welcome_encode(const struct wire_welcome *m, struct wbuf *out);
int wire_welcome_decode(const void *body, size_t len, struct wire_welcome *m, struct err *err);
int wire_error_encode(const struct wire_error *m, struct wbuf *out);
int wire_error_decode(const void *body, size_t len, struct wire_error *m, struct err *err);
int wire_arena_encode(const struct wire_arena *m, struct wbuf *out);
int wire_arena_decode(const void *body, size_t len, struct wire_arena *m, struct err *err);
int wire_join_encode(const struct wire_join *m, struct wbuf *out);
int wire_join_decode(const void *body, size_t len, struct wire_join *m, struct err *err);
int wire_joined_encode(const struct wire_joined *m, struct wbuf *out);
int wire_joined_decode(const void *body, size_t len, struct wire_joined *m, struct err *err);
int wire_restore_encode(const struct wire_restore *m, struct wbuf *out);
int wire_restore_decode(const void *body, size_t len, struct wire_restore *m, struct err *err);
int wire_restored_encode(const struct wire_restored *m, struct wbuf *out);
int wire_restored_decode(const void *body, size_t len, struct wire_restored *m, struct err *err);
int wire_event_encode(const struct wire_event *m, struct wbuf *out);
int wire_event_decode(const void *body, size_t len, struct wire_event *m, struct err *err);
int wire_epoch_encode(const struct wire_epoch *m, struct wbuf *out);
int wire_epoch_decode(const void *body, size_t len, struct wire_epoch *m, struct err *err);
int wire_arena_of_encode(const struct wire_arena_of *m, struct wbuf *out);
int wire_arena_of_decode(const void *body, size_t len, struct wire_arena_of *m, struct err *err);
int wire_spawned_encode(const struct wire_spawned *m, struct wbuf *out);
int wire_spawned_decode(const void *body, size_t len, struct wire_spawned *m, struct err *err);
int wire_exited_encode(const struct wire_exited *m, struct wbuf *out);
int wire_exited_decode(const void *body, size_t len, struct wire_exited *m, struct err *err);

/* wire_world.c */
int wire_moved_encode(const struct wire_moved *m, struct wbuf *out);
int wire_moved_decode(const void *body, size_t len, struct wire_moved *m, struct err *err);
int wire_offer_encode(const struct wire_offer *m, struct wbuf *out);
int wire_offer_decode(const void *body, size_t len, struct wire_offer *m, struct err *err);
int wire_plan_encode(const struct wire_plan *m, struct wbuf *out);
int wire_plan_decode(const void *body, size_t len, struct wire_plan *m, struct err *err);
/* As a part of another message. */
void wire_plan_put(struct wbuf *out, const struct wire_plan *m);
void wire_plan_get(struct rbuf *r, struct wire_plan *m);
bool wire_plan_is_sound(const struct wire_plan *m);

int wire_mark_encode(const struct wire_mark *m, struct wbuf *out);
int wire_mark_decode(const void *body, size_t len, struct wire_mark *m, struct err *err);
int wire_user_encode(const struct wire_user *m, struct wbuf *out);
int wire_user_decode(const void *body, size_t len, struct wire_user *m, struct err *err);
/* Within other messages: as encode and decode; a failure to read shows in the buffer. -EBADMSG. */
void wire_command_put(struct wbuf *out, const struct wire_command *m);
void wire_command_get(struct rbuf *r, struct wire_command *m);
int wire_command_check(const struct wire_command *m, struct err *err);
bool wire_command_is_halt(const struct wire_command *m); /* or takes one back */
bool wire_command_is_drain(const struct wire_command *m);
bool wire_command_is_fault(const struct wire_command *m);
int wire_command_encode(const struct wire_command *m, struct wbuf *out);
int wire_command_decode(const void *body, size_t len, struct wire_command *m, struct err *err);
int wire_answer_encode(const struct wire_answer *m, struct wbuf *out);
int wire_answer_decode(const void *body, size_t len, struct wire_answer *m, struct err *err);

/* "HELLO"; "?" outside the enumeration. */
const char *wire_name(uint16_t type);

#endif
