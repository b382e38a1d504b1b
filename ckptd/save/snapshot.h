/* Snapshot: one step's state of all local ranks, from the first byte to the read-back. Levels only rise, and only when true
 * for every rank.
 *
 *   OPEN ──► COPIED ──► CAPTURED ──► DURABLE ──► VERIFIED
 *     └────────┴──► FAILED              (when storage fails the memory copy goes on, and stays good: storage_rc)
 *
 * From CAPTURED on it may also become replicated, before or after it is on storage.
 *
 * OPEN: some rank has begun. COPIED: every local rank's device has finished and its fence was called. From CAPTURED on the coordinator
 * says what is true for every rank of the job: CAPTURED when the host's digests of every copy match those born at the source. */
#ifndef CKPTD_SAVE_SNAPSHOT_H
#define CKPTD_SAVE_SNAPSHOT_H

#include "arena/room.h"
#include "checkpoint/room.h"

enum snapshot_state {
	SNAPSHOT_OPEN = 1,
	SNAPSHOT_COPIED,
	SNAPSHOT_CAPTURED,
	SNAPSHOT_DURABLE,
	SNAPSHOT_VERIFIED,
	SNAPSHOT_FAILED,
	SNAPSHOT_STATE_END
};

enum part_state {
	PART_ABSENT = 0, /* the rank has not begun */
	PART_CAPTURING,  /* its device is copying */
	PART_COPIED,     /* complete and fenced; digests under way */
	PART_DIGESTED,   /* and match */
	PART_RELEASED,   /* the slot was given back */
};

/* What becomes of it once it is durable: decided then, by the settings of that moment. It is shown to ranks as long as it lives, so that
 * nothing that is merely under way may look like VERIFY_NEVER. */
enum snapshot_verify {
	VERIFY_NEVER = 0, /* by the setting verify */
	VERIFY_QUEUED,    /* it is read back here */
	VERIFY_READING,
	VERIFY_AWAITED, /* it was, or another node does; the coordinator says when it is verified for all */
	VERIFY_LEFT, /* it was to be read back, and too many later ones are, or the job is gone: nobody is told any more */
};

struct donor;
struct saves;

struct part {
	enum part_state state;
	struct memory *mem; /* a reference */
	uint32_t slot;
	bool orphan;      /* the process that captured it is gone: nothing writes to the slot any more */
	uint64_t *leaves; /* the host's digests, mem->layout.nleaves */
	uint64_t *
		replica_digests; /* digests of what it holds of replicas (save/replica_digests.h); NULL: they are not compared */
	bool voted;              /* they were asked for */
	uint64_t submitted;  /* leaves handed to workers */
	struct list digests; /* items of leaves with workers, in order of these */
	unsigned in_flight;
	uint64_t piece, piece_bytes; /* cursor: pieces before it lie below the progress, and their bytes */
	uint64_t settled;            /* the same: pieces before it are digested */
};

struct snapshot {
	struct list link;
	struct saves *saves;
	struct step_id id;
	enum snapshot_state state;
	bool to_storage;
	bool due, passed_over; /* by the policy persist-every (save/save_policy.h); neither: not decided */
	bool promoted; /* asked for memory only, or passed over; to be written in place of one that gave up its slots */
	int rc;        /* FAILED: why */
	int storage_rc; /* storage or read-back failed, the copy in memory is good */
	bool flushed;   /* an operator has asked for it: it may wait for the disk longer than a policy lets others */
	bool stays;     /* nothing has failed: by storage_rc a policy keeps it in memory, and may think better of it */
	struct err err;
	uint32_t nparts; /* one per local rank, in the job's order of them */
	struct part *parts;
	struct node_part *commit;
	struct node_part_rank *commit_ranks;
	bool slots_on_disk; /* the disk no longer reads the slots */
	bool anew; /* the commit stops, for it is to be written in the directory of another coordinator (saves.ordered) */
	enum snapshot_verify verify;
	uint32_t told; /* the epoch in which the coordinator heard that the local parts are captured */
	uint64_t told_ns;
	uint32_t said; /* the epoch in which the coordinator heard how far its commit is */
	bool proven;   /* an earlier incarnation of this daemon has shown that it is captured on every rank */
	bool damaged;  /* its copy in memory no longer matches its digests */
	bool overtaken; /* by a later one, while nobody coordinated the job: its slots go, and what is prepared of it stays */
	bool stored;    /* it was read from storage */
	unsigned works; /* digest items in flight */
	uint64_t opened_ns, captured_ns, commit_ns, durable_ns,
		verified_ns;    /* commit_ns: writing began, perhaps while it was copied */
	uint64_t replicated_ns; /* every rank of the job has its copies on other nodes since; 0: not */
	uint32_t late_rank, late_phase;
	int shown_level, shown_error;
	uint32_t shown_rank, shown_phase;
	enum level_shown noted_level; /* of the statistics: what was counted */
	bool noted_failed, noted_replicated;
};

int snapshot_new(struct saves *saves, struct step_id id, uint32_t nparts, struct snapshot **out);
/* Works and commit must have ended. */
void snapshot_free(struct snapshot *s);

/* A rank's slot that belongs to this snapshot. orphan: see struct part. */
int snapshot_add(struct snapshot *s, uint32_t index, struct memory *mem, uint32_t slot, bool orphan);
/* Follows the counters, digests what has arrived, moves on. */
void snapshot_follow(struct snapshot *s);
/* Whether it can be restored from will be known in a moment: its digests run, or the coordinator has just been asked. */
bool snapshot_undecided(const struct snapshot *s);
/* Every part on every node is as it was at its source. */
void snapshot_captured(struct snapshot *s);
/* Ends it; a captured one keeps its memory and only fails towards storage. `gone`: see part_release. */
void snapshot_fail(struct snapshot *s, int rc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* A policy keeps it in memory. */
void snapshot_stay(struct snapshot *s, int rc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* It does not come to storage. Whether it stays in memory is for the coordinator to say, once all have digested it: it is
 * compared as if it had been for memory only. Until then its ranks are not told. */
void snapshot_fail_storage(struct snapshot *s, int rc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The only place where the state changes; an illegal transition ends the daemon, which restarts without losing the arenas. */
void snapshot_set_state(struct snapshot *s, enum snapshot_state state);
const char *snapshot_state_name(enum snapshot_state state);

/* What is wrong with it, as far as is known; 0: nothing. */
static inline int snapshot_error(const struct snapshot *s)
{
	return s->rc ? s->rc : s->state >= SNAPSHOT_CAPTURED ? s->storage_rc : 0;
}

/* It is to be written, or is being written. */
bool snapshot_to_storage(const struct snapshot *s);
/* Complete and good on every rank here; whether it is on all others the coordinator has yet to say. */
bool snapshot_is_digested(const struct snapshot *s);
/* Complete and good on every rank, whatever became of it since. */
bool snapshot_is_captured(const struct snapshot *s);
/* Its copy in memory is complete, not yet given back, and in the arenas that the ranks use now. */
bool snapshot_in_memory(const struct snapshot *s);
/* It was restored, and its ranks do not register all that was saved: it does not stand for that step. Each of its slots says so. */
static inline bool snapshot_is_partial(const struct snapshot *s)
{
	for (uint32_t i = 0; i < s->nparts; i++)
		if (s->parts[i].mem && s->parts[i].mem->head->slots[s->parts[i].slot].flags & SLOT_PARTIAL)
			return true;
	return false;
}
/* Storage has it, also if it was read from there. */
static inline bool snapshot_is_stored(const struct snapshot *s)
{
	return s->state == SNAPSHOT_DURABLE || s->state == SNAPSHOT_VERIFIED || s->stored;
}
/* It is durable, and the word that it is verified, or damaged, has yet to come. */
bool snapshot_awaits_readback(const struct snapshot *s);
/* Every rank here has begun it: its parts can be written, as far as they have come. */
bool snapshot_is_writable(const struct snapshot *s);
/* No slot of it was given back. */
bool snapshot_has_slots(const struct snapshot *s);
/* How far they have come, in commit_ranks. */
void snapshot_note_arrived(struct snapshot *s);
/* Nothing of it runs. */
bool snapshot_idle(const struct snapshot *s);
/* Gives back the slots whose capture has ended (of a process that is gone: all). True when none is left. */
bool snapshot_release(struct snapshot *s);
/* Shows level, error and who is late to every rank, if something changed. */
void snapshot_publish(struct snapshot *s);

/* What is still in memory of it, for a repair; s may be NULL or given back: then there is nothing. To be dropped. 0 or -ENOMEM. */
int snapshot_donor(const struct snapshot *s, struct donor *out); /* save/snapshot_donor.c */

#endif
