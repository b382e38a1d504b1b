/* Messages between the nodes of a job and its coordinator; who sends which when, and what each means, stands in
 * ckptd/coordinator/coordinator.h. Each begins with the job. Little-endian fields (base/bytes.h). Encode functions append
 * and return 0 or -ENOMEM; decode functions check everything that can be checked without knowing the job: -EBADMSG says
 * which message and why. */
#ifndef CKPT_FORMAT_PEER_COORD_H
#define CKPT_FORMAT_PEER_COORD_H

#include "format/arena/arena.h"
#include "format/arena/culprit.h"
#include "format/arena/job_blobs.h"
#include "format/arena/schedule.h"
#include "format/arena/tensor_heads.h"
#include "format/files/manifest.h"
#include "format/files/shares.h"
#include "format/message/peer.h"
#include "format/message/wire.h"
#include "format/tensor/rollback.h"

enum {
	PEER_STORED = 64,      /* checkpoints on storage that a restore may come to */
	PEER_UNFIT_MAX = 200,  /* what is wrong with a node, with the NUL */
	PEER_MEMORY = 8,       /* snapshots in the memory of a node */
	PEER_HOLDERS_EACH = 4, /* nodes that are named to fetch a rank's part from */
	PEER_HOLDERS = PEER_HOLDERS_EACH * WIRE_LOCAL_MAX,
	PEER_REPLICA_DIGESTS_MAX = 512,     /* sums of sets of replicas, in one message */
	PEER_COMPARE_PARTS = 32,            /* into which what is compared is divided each time */
	PEER_COMPARED_MAX = WIRE_LOCAL_MAX, /* two sums of each part, or that of each rank */
	PEER_RECOVERED_MAX = UINT16_MAX,    /* bytes of what is told of a recovery */
};

/* Each message begins with the term of the coordinator that it is for, or from. */
static inline void peer_term_put(struct wbuf *out, uint64_t term)
{
	wbuf_u64(out, term);
}
/* Moves behind it. False: the message is too short. */
static inline bool peer_term_take(const void **body, size_t *len, uint64_t *term)
{
	struct rbuf r = rbuf_of(*body, *len);
	*term = rbuf_u64(&r);
	*body = (const uint8_t *)*body + r.pos;
	*len -= r.pos;
	return !r.failed;
}

/* A node takes part in a job. */
/* When a job was asked to end (`ckpt halt`). All its nodes know the same: what bears the highest number holds. */
struct peer_halt {
	uint64_t number; /* how often it was asked, or that was taken back; 0: never */
	/* COMMAND_HALT, which is not taken back; COMMAND_HALT_AFTER, COMMAND_HALT_BEFORE; 0: nothing is asked */
	uint32_t kind;
	uint64_t before_ns; /* since the Unix epoch */
};

static inline bool peer_halt_equal(const struct peer_halt *a, const struct peer_halt *b)
{
	return a->number == b->number && a->kind == b->kind && a->before_ns == b->before_ns;
}

struct peer_node_join {
	uint32_t world, nranks;
	uint32_t plan;             /* that gave them (ckptd/coordinator/assignment.h); 0: none did */
	uint32_t known;            /* the last epoch that somebody on the node has heard of; 0: none */
	struct step_id replicated; /* the newest that it was told of; epoch 0: none */
	bool finished;             /* all of them have said goodbye and ended */
	bool goes_on; /* somebody on the node has been in an epoch, and may have been asked what is on record */
	bool gone;    /* no process of the job is there, and no launcher */
	struct peer_halt halt; /* as far as the node knows */
	/* Steps that all of them have copied in the epoch of the message, which all of them have entered: the newest
	 * ones, and the newest first. captured: an earlier coordinator has shown it so. */
	uint32_t ncopied;
	struct peer_copied {
		uint64_t step;
		bool captured;
	} copied[PEER_MEMORY];
	/* the epoch that all of them have entered, and are in at work; 0: not all, or their plan is about to change */
	uint32_t in;
	uint32_t ranks[WIRE_LOCAL_MAX]; /* with that, or with a step: which they are */
};

/* Whether the message says which ranks they are. */
static inline bool peer_names_ranks(const struct peer_node_join *m)
{
	return m->in || m->ncopied;
}

/* To a node that has finished. */
enum peer_finish_state {
	PEER_STAYS = 1, /* others are still at work */
	PEER_NEEDED,    /* its ranks are, again */
	PEER_DISMISSED, /* all have finished */
	PEER_FINISH_STATE_END,
};

/* What a node has for a job whose world may change; the whole of it each time. */
struct peer_capacity {
	uint32_t want, least; /* ranks of the job */
	uint32_t processes;   /* that can take part; 0: its launcher has gone */
	bool spare, leaving, drained;
	char unfit[PEER_UNFIT_MAX]; /* what is wrong with the node; "": nothing */
	uint32_t plan, world; /* the last that it was given, with ranks or without; 0: none, or not known any more */
	uint32_t n;
	uint32_t ranks[WIRE_LOCAL_MAX]; /* of that plan: those that it keeps alive */
};

/* What was newest in memory is on storage, or why not, and nothing is under way. */
struct peer_quiesced {
	uint32_t plan; /* the one after which */
	int32_t rc;
	char text[WIRE_TEXT_MAX];
};

/* All ranks of a node wait to enter, with their addresses (n × WIRE_ADDRESS_MAX) and the blobs of the job that each of them has. */
struct peer_node_ready {
	uint32_t n;
	uint32_t ranks[WIRE_LOCAL_MAX], lens[WIRE_LOCAL_MAX];
	uint8_t addresses[WIRE_LOCAL_MAX * WIRE_ADDRESS_MAX];
	uint64_t tensors[WIRE_LOCAL_MAX]; /* a digest of each one's: tensor_heads.h */
	struct job_blobs blobs;
	bool goes_on; /* as in NODE_JOIN, by now */
};

/* How a rank of the node knows its tensors, asked by the coordinator: from the `first` entry of its table on; or how it
 * knows the one whose name has this hash. */
struct peer_tensors_ask {
	uint32_t rank, first;
	uint64_t name; /* 0: its list */
};

enum { PEER_TENSORS_LISTED = 8192 };

struct peer_tensors {
	struct peer_tensors_ask ask;
	uint64_t digest;      /* of its table, which may be another one by now; 0: it has none */
	uint32_t n, next;     /* heads that are listed; the entry that follows, 0: none */
	const uint8_t *heads; /* n × TENSOR_HEAD_SIZE, not owned; decoded: within the body */
	char name[NAME_TENSOR_MAX],
		text[TENSOR_HEAD_TEXT]; /* of the one that was asked for; "": it has none of that hash */
};

/* WANT, LOST, MISSING. */
struct peer_rank {
	uint32_t rank;
	bool was_in; /* LOST: it had entered the epoch */
	char why[WIRE_TEXT_MAX];
};

/* What a node has found to restore. */
struct peer_restore_candidates {
	uint32_t nranks;
	uint32_t ranks[WIRE_LOCAL_MAX]; /* that it has */
	uint32_t nmemory;
	struct step_id memory[PEER_MEMORY]; /* complete in memory for all ranks of this node, and shown as captured */
	uint32_t nstored;
	struct step_id stored[PEER_STORED]; /* the newest ones that are wanted, in order */
	bool others;                        /* it has some that are not wanted */
	int storage_rc;                     /* the store could not be read */
	char why[WIRE_TEXT_MAX];            /* of what was passed over */
};

/* What a node is to bring into the slots of its ranks: what is in its own memory, else from who holds a copy, else from storage. */
struct peer_restore_fetch {
	struct step_id id;
	uint32_t world; /* of which it was saved */
	bool stored;
	bool recut; /* each node looks for its ranks' parts in what memory has of that world; then there are no holders */
	uint32_t nholders;
	struct peer_holder {
		uint32_t rank, node;
	} holders[PEER_HOLDERS]; /* in the order in which they are tried */
};

struct peer_choice {
	struct step_id id;
	enum wire_source source;
	char why[WIRE_TEXT_MAX]; /* of all that was passed over */
};

/* A node's part of a checkpoint, written and fsynced. */
struct peer_part {
	struct manifest_node node;
	uint32_t began;                /* as in struct manifest */
	uint64_t bytes, stored, files; /* of data files; what they hold, and take */
};

/* What is only in memory is brought to storage before the world changes, one part for each node that had ranks
 * (ckptd/job/spill.h). As an order: what is to be done; in a report: what has been, or that it cannot be. */
enum peer_spill_phase {
	PEER_SPILL_GATHER = 1, /* the part's snapshots are to stand in the memory of the node, checked */
	PEER_SPILL_WRITE,      /* they are to be written, and fsynced */
	PEER_SPILL_STORED,     /* what was written is part of a checkpoint */
	PEER_SPILL_KEEP,       /* nobody knows whether it is, or nothing was: it is nobody's business any more */
	PEER_SPILL_CLEAR,      /* it is to be deleted */
	PEER_SPILL_FAILED,     /* only reported */
};

struct peer_spill {
	uint32_t owner; /* the node whose ranks these were, in the roster */
	enum peer_spill_phase phase;
	struct step_id as;               /* the name under which it is written */
	uint64_t maker;                  /* WRITE, CLEAR: as in peer_save */
	struct share_parts parts;        /* WRITE: as in peer_save */
	struct peer_restore_fetch bring; /* GATHER: who has which rank's part; the others: only which snapshot it is */
};

struct peer_spilled {
	uint32_t owner;
	enum peer_spill_phase phase;
	struct step_id as;
	struct shares shares;     /* GATHER: of the owner's ranks */
	struct peer_part part;    /* WRITE */
	int32_t rc;               /* FAILED */
	char text[WIRE_TEXT_MAX]; /* why */
};

/* Of one snapshot: FETCHED, COPIED, REACHED, UNCOPIED, READY, PASSED, FAILED, CLEARED, FORGOT, LEFT_OUT; LEVEL, FAIL, COPY,
 * KEEP, PASS, WRITE, CLEAR. */
struct peer_save {
	struct step_id id;
	/* REACHED, LEVEL: enum level_shown; FETCHED: enum wire_source, the lowest rung that a part came from */
	uint32_t level;
	bool flag; /* WRITE: a checkpoint is there already; CLEAR: what was written is kept; FAILED, FAIL, SKIPPED, SKIP:
			   towards storage alone */
	uint64_t maker; /* WRITE, CLEAR: of the directory, as in name_work(): what was written in another one stays */
	struct share_parts parts; /* WRITE: what it writes of what several nodes hold alike */
	int32_t rc;               /* FETCHED, FAILED, FAIL: 0 or -errno */
	char text[WIRE_TEXT_MAX]; /* why; FETCHED without an error: what was passed over */
};

/* Of an operator: for the other nodes of the job, or, with a token, for the coordinator, whose ANSWER the operator waits for. */
struct peer_request {
	uint64_t token; /* 0: none; those of a drain have one, and those of an operator's halt */
	struct wire_command command;
};

struct peer_answer {
	uint64_t token;
	int32_t rc;
	uint32_t left;            /* as in wire_answer */
	char text[WIRE_TEXT_MAX]; /* the answer, or why not */
};

/* What the ranks of a node hold of sets of replicas in one snapshot (witness.h), each sum once, in as many messages as that takes. */
struct peer_replica_digests {
	struct step_id id;
	uint32_t n;
	struct peer_replica_digest {
		uint64_t set, sum;
		uint32_t pieces; /* of the set */
	} of[PEER_REPLICA_DIGESTS_MAX];
};

/* Where the sums of a set differ: its pieces first … first + count - 1 are to be told of, in parts of peer_compare_part()
 * each; a single one rank by rank. */
struct peer_compare {
	struct step_id id;
	uint64_t set;
	uint32_t first, count;
};
static inline uint32_t peer_compare_part(const struct peer_compare *c)
{
	return (c->count + PEER_COMPARE_PARTS - 1) / PEER_COMPARE_PARTS;
}

struct peer_compared {
	struct peer_compare ask;
	uint32_t n; /* 0: this node does not hold the set */
	struct peer_sum {
		uint32_t of; /* the part, with at most two different sums of it; or the rank */
		uint64_t sum;
	} of[PEER_COMPARED_MAX];
	char name[NAME_TENSOR_MAX]; /* of a single piece: its tensor */
};

/* What a recovery was on this node, for the catalog (ckptd/restore/recovery_json.h): text on one line, that nobody here looks into. */
struct peer_recovered {
	uint64_t at_ns; /* clock_wall() */
	uint32_t len;
	const char *text; /* not owned; decoded: within the body, without a NUL */
};

/* A rank of the node asks for a step, or will soon, that no schedule has; and what the node has. */
struct peer_schedule_wanted {
	uint64_t step;        /* UINT64_MAX: none, it only tells what it has */
	struct schedule held; /* the newest of this epoch that a rank of the node was given; number 0: none */
	/* As this node would have the next one: intervals as in struct schedule, and for how many steps. */
	uint64_t memory_every, storage_every, steps;
};

/* No rank of the node has given a heartbeat for far longer than a step takes, and where each of them is; n 0: that is over. */
struct peer_silent {
	uint32_t n;
	/* By rising rank. is.beat_ns: how long ago its last heartbeat was, since each node has a clock of its own; its
	 * phase and since when it is in the collective are not told. */
	struct suspect of[WIRE_LOCAL_MAX];
};

/* How far the ranks of the node have come, and how long they have waited: counters that only grow. */
struct peer_pace {
	uint64_t clock_ns; /* of the node, when it looked; no other node has that clock */
	uint32_t n;
	struct peer_rank_pace {
		uint32_t rank;
		uint64_t step;
		uint64_t waited_ns; /* in collectives, in all */
		uint64_t left;      /* collectives, in all */
	} of[WIRE_LOCAL_MAX];       /* by rising rank */
};

/* Why a node leaves. */
enum peer_leave {
	PEER_RANKS_LOST = 0, /* or they are others' by now */
	PEER_RANKS_FINISHED,
	PEER_RANKS_COME_AGAIN, /* by a plan that its launcher knows: the node says next which that is */
	PEER_LEAVE_END
};

/* From a node. */
struct peer_report {
	enum peer_type type;
	char job[NAME_JOB_MAX];
	uint32_t epoch; /* that the node is in; 0: none yet */
	union {
		struct peer_node_join node_join;
		enum peer_leave leave;
		struct peer_node_ready joining;
		struct peer_rank rank;
		/* RESTORING; or STEP_NEWEST, STEP_NEWEST_HEALTHY. PAUSED: the newest that a save was begun of */
		uint64_t step;
		struct shares shares; /* SHARES: of its ranks */
		struct peer_restore_candidates found;
		struct peer_save save;
		struct peer_prepared {
			struct step_id id;
			uint64_t maker; /* of the directory that it is in, as in peer_save */
			struct peer_part part;
		} prepared;
		struct peer_capacity assignment;
		struct peer_quiesced quiesced;
		struct peer_spilled spilled;
		struct peer_request request;
		/* REPLICA_DIGESTS: all before the snapshot has REACHED captured */
		struct peer_replica_digests replica_digests;
		struct peer_compared compared;
		struct peer_recovered recovered; /* of the job, whether or not it is still there */
		struct peer_schedule_wanted schedule_wanted;
		struct peer_silent silent;
		struct peer_pace pace;
		struct peer_tensors tensors;
	};
};

/* What was lost. */
enum lost_kind {
	LOST_NONE = 0,
	LOST_RANK,   /* its process has ended */
	LOST_HANG,   /* it was the one that all others waited for */
	LOST_NODE,   /* or its daemon */
	LOST_DAEMON, /* a rank that did not come back after its daemon was started again */
	LOST_KINDS
};

/* ADOPT, RAISE, RANK_WANTED, REJECT, END, RESUME. */
struct peer_word {
	uint32_t epoch, rank; /* RAISE: with the flag, the rank whose loss it follows from */
	/* ADOPT: its ranks go on in the epoch; RAISE: it follows from a loss; REJECT: what its launcher offers is refused,
	 * not only that its ranks enter; END: what is held stays */
	bool flag;
	enum lost_kind loss; /* RAISE, with the flag */
	int32_t rc;          /* END: 0: all its ranks have finished; else they are lost, or nobody knows */
	char text[WIRE_TEXT_MAX];
};

/* No rank of the job gives a heartbeat; without the flag: that is over. */
struct peer_standstill {
	uint32_t epoch;
	bool is, named;      /* named: the others wait for the rank; else it is only the first, and none stands out */
	uint32_t rank, node; /* node: that has it, in the roster */
	uint64_t silent_ns;  /* how long ago the last heartbeat of any of them was */
	char text[CULPRIT_TEXT_MAX]; /* where the rank is, and where most others are */
};

struct peer_look {
	uint64_t step;         /* as RESTORING */
	struct rollbacks back; /* what they give up is not wanted */
};

/* Who is late again and again in a job, after each round that was judged. Shares are of a node's time, in millionths;
 * ratios are of own parts to those of the others, in thousandths. */
enum { PEER_STRAGGLERS_MAX = 16, PEER_SHARE = 1000000 };
struct peer_stragglers {
	uint32_t epoch;
	uint32_t n, nown;
	struct peer_straggler {
		bool whole;          /* the node; else the rank */
		uint32_t rank, node; /* rank: 0 if it is the node; node: that it is or has it, in the roster */
		uint32_t ratio;
		uint64_t lasted_ns, lost_ns;
	} of[PEER_STRAGGLERS_MAX]; /* nodes first; more are not told */
	/* Those ranks of the node that is told this which were compared. */
	struct peer_own_part {
		uint32_t rank;
		bool late;
		uint32_t own, ratio;
		uint32_t cost; /* share of the last round for which the others waited for it alone, at most */
	} own[WIRE_LOCAL_MAX];
};

/* From the coordinator. */
struct peer_order {
	enum peer_type type;
	char job[NAME_JOB_MAX];
	union {
		struct peer_word word;
		struct wire_joined joined; /* decoded: owned (peer_order_free) */
		struct peer_look look;
		uint64_t step; /* PAUSE: in the fence of a later one; UINT64_MAX: of none */
		struct peer_restore_fetch bring;
		struct peer_choice choice; /* RESTORED */
		struct peer_refuse {
			int32_t rc;
			char text[WIRE_TEXT_MAX], why[WIRE_TEXT_MAX];
		} refuse;
		struct peer_save save;
		/* QUIESCE: of the plan that will be left; INVALIDATE_PLAN: of the one that holds, and a participant that
		 * was taken by an older one is none; FINISH_STATE: enum peer_finish_state. LIST_PIECES: bits of the
		 * node's shares. ANNOUNCE: 0. */
		uint32_t number;
		struct wire_plan plan;
		struct peer_spill spill;
		struct wire_command command;
		struct peer_answer answer;
		struct peer_compare compare;
		struct schedule schedule;
		struct peer_standstill standstill;
		struct peer_stragglers stragglers;
		struct peer_halt halt;
		struct peer_tensors_ask tensors;
	};
};

int peer_report_encode(const struct peer_report *m, struct wbuf *out);
int peer_report_decode(uint16_t type, const void *body, size_t len, struct peer_report *m, struct err *err);
int peer_order_encode(const struct peer_order *m, struct wbuf *out);
int peer_order_decode(uint16_t type, const void *body, size_t len, struct peer_order *m, struct err *err);
/* Of what this process has encoded itself: its numbers are taken as they are. */
int peer_order_decode_own(uint16_t type, const void *body, size_t len, struct peer_order *m, struct err *err);
void peer_order_free(struct peer_order *m);

/* "NODE_JOIN"; "?" for what is not in this file. */
const char *peer_coord_name(uint16_t type);

#endif
