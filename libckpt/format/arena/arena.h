/* The arena: one memfd per rank, created and sealed by ckptd, mapped by the rank and the daemon. It outlives both: whoever
 * holds the descriptor can hand it back. Layout of the memory, no logic. All integers are native: it never leaves the node.
 *
 *	[0, ARENA_HEAD)                  struct arena_head
 *	[table_at, +table_len)           registration and layout of this rank, encoded (written once by the daemon)
 *	[leaves_at, + slots × (nleaves + nwitnesses) × 8)  per slot: the source digests, born where the state lives, and
 *	                                 behind them those of replicas that others capture (witness.h; written by the rank)
 *	[slots_at, + slots × slot_size)  per slot: the captured pieces, packed as in the files (see layout.h)
 *
 * Who writes what: each field says it. The daemon reads everything in here as the word of an untrusted process: it
 * copies, checks bounds, and keeps its own view. A rank that scribbles damages only its own snapshots. It also damages
 * what is known of health marks after a restart of the daemon, but could as well have given such marks.
 *
 * A slot's life, as the rank sees it: FREE → (rank: begin) CAPTURING → (device) done=1 → (rank: fence) fenced=1 → … → (daemon only)
 * FREE, perhaps intact. A rank that cannot finish sets done to a negative errno; the daemon frees the slot. */
#ifndef CKPT_FORMAT_ARENA_H
#define CKPT_FORMAT_ARENA_H

#include "format/tensor/names.h"

#include <stdatomic.h>
#include <stdint.h>

#define ARENA_MAGIC 0x31414e4552414b43ull /* "CKARENA1" */
enum {
	ARENA_VERSION = 2,
	ARENA_HEAD = 16384,
	ARENA_SLOTS_MIN = 3,
	ARENA_SLOTS_MAX = 8,
	ARENA_PARTS = 8,   /* devices of one rank */
	ARENA_STATUS = 32, /* most recent snapshots whose level is shown */
	ARENA_HEALTH_MARKS = 32,
	ARENA_REASON = 256, /* bytes of its text, with the NUL */
	ARENA_ALIGN = 2 << 20,
};

enum slot_state { SLOT_FREE = 0, SLOT_CAPTURING = 1 };
enum slot_target { SLOT_MEMORY = 1, SLOT_STORAGE = 2 };
enum slot_flags {
	SLOT_NO_SOURCE_DIGESTS = 1, /* the device has none: the daemon writes its own into the leaf table */
	SLOT_WITNESSES = 2,         /* replicas are digested, too, and are to be compared with those of other ranks */
	/* Of what the daemon has restored to the slot: */
	SLOT_PARTIAL = 4, /* these ranks do not register all that was saved: as that step it is of use to nobody else */
	SLOT_NO_BLOBS = 8, /* the saved world did not have this rank: its own blobs are not there */
};

/* enum ckpt_level of the public header, as it stands in arena_status. */
enum level_shown { LEVEL_PENDING = 0, LEVEL_CAPTURED, LEVEL_REPLICATED, LEVEL_DURABLE, LEVEL_VERIFIED };

struct arena_slot {
	_Alignas(64) _Atomic uint32_t state; /* rank: FREE → CAPTURING (compare-and-swap); daemon: → FREE */
	_Atomic uint32_t fenced;             /* rank: 1 after the fence; 2: given up (never fenced) */
	_Atomic uint32_t done;               /* device: 1 complete, (uint32_t)-errno failed, 0 running */
	uint32_t target;                     /* rank: enum slot_target */
	_Atomic uint64_t step; /* rank: set before state becomes CAPTURING; read by other threads at any time */
	_Atomic uint32_t epoch;
	uint32_t flags;    /* rank, and daemon where it fills the slot: enum slot_flags */
	uint64_t begin_ns; /* rank: clock_now() at begin */
	/* daemon, before it frees the slot: 1: what was captured or restored still stands in it, every byte found to
	 * match the leaf table; rank: 0 when it has taken it. So a capture can leave out what is there already. */
	_Atomic uint32_t intact;
	/* rank, and daemon where it fills the slot out of memory: the epoch in which the state began without a restore;
	 * what was restored from memory has begun where that began. 0: it came from storage, or nobody told */
	uint32_t began;
	_Alignas(64) _Atomic uint64_t progress; /* device: bytes that have arrived, a prefix of the pieces in
						 * the order of the layout */
};

/* Where one device of several tells how far it is; the library sums the parts into the slot. Unused when the rank's state
 * lives on one device: that one writes the slot's own counters. Stands here because a device can only write to the arena. */
struct arena_part {
	_Atomic uint64_t progress;
	_Atomic uint32_t done; /* as in arena_slot */
	uint32_t reserved;
};

/* Why a level is not reached yet. */
enum late_phase {
	LATE_NOBODY = 0,
	LATE_BEGIN,
	LATE_CAPTURE,
	LATE_FENCE,
	LATE_DIGEST,
	LATE_WRITE,
	LATE_COMMIT,
	LATE_VERIFY, /* durable, and it will be read back; LATE_NOBODY then: it will not */
	LATE_GONE,   /* the daemon was restarted after it had given the slot back: no further level can come */
	LATE_COPY, /* captured, and it is copied to other nodes, if no newer one is before; LATE_NOBODY then: it is not */
};

/* Written by the daemon under a sequence lock: odd while it changes. The ring is searched by (epoch, step), epoch 0:
 * unused. An entry appears when the daemon first sees the snapshot. A new one takes the place of the one that has not
 * changed for longest, but never of one that is on its way to storage (arena_status_stays). So an outcome stays until
 * those of 32 other snapshots have changed, however late it came. */
struct arena_status {
	/* each change takes numbers above all in the ring, modulo 2^32: they tell the order of the changes */
	_Atomic uint32_t seq;
	_Atomic uint32_t epoch;
	_Atomic uint64_t step;
	_Atomic int32_t level; /* enum ckpt_level */
	_Atomic int32_t error; /* 0 or -errno: final */
	_Atomic uint32_t late_rank;
	_Atomic uint32_t late_phase;
};

/* Written by the rank. */
struct arena_flight {
	_Atomic uint64_t beat_ns; /* clock_now() */
	_Atomic uint64_t step;
	_Atomic uint32_t phase;
	_Atomic uint32_t in_collective;
	_Atomic uint64_t coll_seq, coll_bytes, coll_since_ns;
	char coll_op[16]; /* a torn read is possible and harmless */
};

/* Written by the rank: how it came into its epoch and out of its last restore. Zero where its library does not tell. */
struct arena_entry {
	_Atomic uint64_t step;       /* what it went on from; written before loaded_ns */
	_Atomic uint64_t loaded_ns;  /* clock_now(): ckpt_restore was done */
	_Atomic uint64_t stepped_ns; /* and the first heartbeat of a later step; earlier than loaded_ns: not yet */
	_Atomic uint32_t joined;     /* the last epoch that the rank has entered, in this process or an earlier one */
};

/* What of a step that is brought into a slot, to be restored, is there and matches its digests: the ranks of the node
 * load it while the rest is on its way. In granules, runs of leaves in the order of the layout. Written by the daemon.
 * Each attempt (a step, a source) has a turn of its own, which ends before anything else happens to the slot. So what was
 * copied out of it within a turn was right. */
enum { ARENA_GRANULES = 1024, ARENA_GRANULE_LEAVES = 256 };
struct arena_bring {
	_Atomic uint32_t turn; /* odd: an attempt, which the rest is of; even: there is none */
	_Atomic uint32_t slot;
	_Atomic uint64_t step;
	_Atomic uint32_t epoch;
	_Atomic uint32_t no_blobs; /* 1: the saved world did not have this rank: its own blobs are not there */
	_Atomic uint64_t there[ARENA_GRANULES / 64]; /* by granule; set after its last byte and digest */
};

/* Leaves of each granule but the last of so many. */
static inline uint64_t arena_granule(uint64_t nleaves)
{
	uint64_t least = nleaves / ARENA_GRANULES + (nleaves % ARENA_GRANULES != 0);
	return least > ARENA_GRANULE_LEAVES ? least : ARENA_GRANULE_LEAVES;
}

/* What the training has said of a checkpoint (ckpt_mark), for the daemon's next incarnation. Written by the daemon under
 * a sequence lock, as arena_status; the same in all arenas of a node; epoch 0: unused. */
struct arena_health_mark {
	_Atomic uint32_t seq;
	uint32_t epoch;
	uint64_t step;
	uint64_t given_at;
	uint32_t unhealthy;
	char reason[ARENA_REASON];
};

/* Written by the rank: the last step that it found no free slot for, and has left out. Epoch 0: none, or it is being
 * changed. Unused where the daemon is older. */
struct arena_left_out {
	_Atomic uint64_t step;
	_Atomic uint32_t epoch;
};

/* A fault that the rank is to play (ckpt_fault). The daemon writes kind and ms, then seq; the rank writes taken. Equal:
 * there is none. */
struct arena_fault {
	_Atomic uint32_t seq, taken;
	_Atomic uint32_t kind; /* enum fault_kind; 0: it is taken back */
	_Atomic uint32_t ms;
};

/* Which steps are saved (ckpt_due; format/arena/schedule.h). Written by the daemon under a sequence lock, as
 * arena_status: a ring, by number. Of one epoch and number all nodes of the job have the same content, ever. Epoch 0:
 * unused. */
enum { ARENA_SCHEDULES = 8 };
struct arena_schedule {
	_Atomic uint32_t seq, epoch, number;
	_Atomic uint64_t from, until, wanted;
	_Atomic uint64_t memory_from, memory_every, storage_from, storage_every;
};

/* Spent in begin and fence, of so many saves. */
struct arena_stall {
	_Atomic uint64_t ns, saves;
};

/* Written by the rank: the last step that it has asked for, and what its saves have kept it from. Epoch 0: it has not
 * asked, or it is being changed. */
struct arena_asked {
	_Atomic uint64_t step, ns; /* ns: clock_now() */
	_Atomic uint32_t epoch;
	struct arena_stall stall; /* of all */
};

/* Written by the rank when it leaves a collective, under a sequence lock together with in_collective. How long it was in
 * the collectives that it has left, in all since the arena is there. And twice their number, odd while it changes. Unused
 * where the library is older. */
struct arena_waited {
	_Atomic uint64_t seq, ns;
};

/* Written by the rank: the losses that it has handed over last (ckpt_beat_loss; format/arena/losses.h), each under a
 * sequence lock. A ring, by number: the number of the one in losses[i] is seq / 2 - 1, and odd while it changes. Unused
 * where the library is older. */
enum { ARENA_LOSSES = 32 };
struct arena_loss {
	_Atomic uint64_t seq, step;
	_Atomic double loss;
	_Atomic float gradient_norm; /* negative: not given */
	_Atomic uint32_t epoch;
};
struct arena_losses {
	_Atomic uint64_t count; /* handed over in all since the arena is there */
	struct arena_loss ring[ARENA_LOSSES];
};

/* The world that the arena was made for is over: no epoch has this number. */
#define ARENA_EPOCH_OVER UINT32_MAX

struct arena_head {
	/* daemon, once, before the descriptor is handed out */
	uint64_t magic;
	uint32_t version, nslots;
	uint64_t size, table_at, table_len, leaves_at, slots_at, slot_size, nleaves, nwitnesses;
	uint64_t table_low, table_high; /* digest of the table bytes */
	char job[NAME_JOB_MAX];
	uint32_t rank, world;

	/* daemon */
	_Alignas(64) _Atomic uint32_t
		epoch;         /* of the job; raised before anyone is told in any other way; or ARENA_EPOCH_OVER */
	_Atomic uint32_t stop; /* 1: the operator wants the job to end */
	_Atomic uint32_t wake; /* futex: bumped after every change of status, slots or epoch */
	_Atomic uint32_t generation; /* bumped by each daemon that takes the arena over */
	/* the world changes: who calls the fence of a step >= this one waits for the next epoch; 0: it does not */
	_Atomic uint64_t pause;

	_Alignas(64) struct arena_flight flight;
	_Alignas(64) struct arena_status status[ARENA_STATUS];
	_Alignas(64) struct arena_slot slots[ARENA_SLOTS_MAX];
	_Alignas(64) struct arena_part parts[ARENA_SLOTS_MAX][ARENA_PARTS]; /* rank only */
	_Alignas(64) struct arena_entry entry;
	_Alignas(64) struct arena_bring bring; /* stays even where the daemon is older */
	_Alignas(64) struct arena_health_mark health_marks[ARENA_HEALTH_MARKS]; /* unused where the daemon is older */
	_Alignas(64) struct arena_left_out left_out;
	_Alignas(64) struct arena_fault fault; /* unused where the daemon is older */
	/* daemon: so many bytes from the beginning are in memory, in pages as large as they will be; all, where no more
	 * is done about it. It wakes who waits. Unused where the daemon is older. */
	_Alignas(64) _Atomic uint64_t settled;
	_Atomic uint32_t pinning; /* rank: it waits for that, and the daemon is not to put it off */
	_Alignas(64) struct arena_schedule schedules[ARENA_SCHEDULES]; /* unused where the daemon is older */
	_Alignas(64) struct arena_asked asked;                         /* unused where the library is older */
	_Atomic uint32_t schedules_kept;         /* daemon: 1: it answers what is asked; 0: it is older */
	_Alignas(64) struct arena_waited waited; /* unused where the library is older; stays where the daemon is */
	_Alignas(64) struct arena_losses losses; /* the same */
	/* daemon: until then no heartbeat is to be expected (ckptd/job/apart.h), ns of CLOCK_MONOTONIC; 0: it was always.
	 * Unused where the daemon is older. */
	_Alignas(64) _Atomic uint64_t apart_ns;
	/* rank: the type of the elements in its collective, as arena_typed(), written before in_collective. 0: it was not
	 * given. Unused where the library is older. */
	_Alignas(64) _Atomic uint64_t typed;
	struct arena_stall storage_stall; /* rank: of saves to storage alone. Unused where the library is older. */
	/* daemon: the rank that all others of the job wait for (ckptd/job/monitor/standstill.h), as arena_named(). ARENA_NOBODY:
	 * all stand still, and none stands out; 0: that has not been looked into. Unused where the daemon is older. */
	_Atomic uint64_t named;
};

_Static_assert(sizeof(struct arena_head) <= ARENA_HEAD, "the head has a fixed place");

/* Of another collective than the flight record has it says nothing: a library that knows of no types may have come. */
static inline uint64_t arena_typed(uint64_t coll_seq, uint8_t dtype)
{
	return coll_seq << 8 | dtype;
}

#define ARENA_NOBODY UINT32_MAX

/* What stands in arena_head.named: it counts in this epoch only. */
static inline uint64_t arena_named(uint32_t epoch, uint32_t rank)
{
	return (uint64_t)epoch << 32 | (rank + 1);
}

/* The arithmetic of an arena; sizes in bytes; nleaves: all of a slot. -EOVERFLOW, or -EINVAL for a slot count outside
 * 3..8. */
struct arena_plan {
	uint64_t table_at, leaves_at, slots_at, size;
};
int arena_plan(uint64_t table_len, uint64_t nleaves, uint64_t slot_size, uint32_t nslots, struct arena_plan *out);

/* The highest number in the ring. */
uint32_t arena_status_newest(const struct arena_head *head);
/* a was changed before b. */
static inline bool arena_status_older(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}
/* On its way to storage, perhaps with its slot given back already: whoever waits for it has nothing else to look at. */
static inline bool arena_status_stays(uint32_t late_phase)
{
	return late_phase == LATE_WRITE || late_phase == LATE_COMMIT;
}

void arena_leave_out(struct arena_head *head, struct step_id id);
/* Epoch 0: none, or it is being changed. */
struct step_id arena_left_out(const struct arena_head *head);

/* Checks a head copied out of a mapping of `size` bytes against itself: magic, version, every bound. -EBADMSG says what. */
int arena_check(const struct arena_head *copy, uint64_t size, struct err *err);

#endif
