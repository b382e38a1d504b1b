/* Loads: what a restore copies out of the slots of the node's arenas into the registered memory. It is planned for all
 * arenas before anything is copied. Then leaves are copied in runs, as they arrive. The daemon tells in each arena what
 * has been brought and verified (struct arena_bring) while it brings the rest, and in its answer what the whole is. The
 * arenas are shared: that a slot still holds what is copied is looked up before and after each copy. */
#ifndef CKPT_LOADS_H
#define CKPT_LOADS_H

#include "client/session/session.h"

/* What one device gets out of one arena. */
struct load {
	const struct capture_device *to;
	struct span *spans; /* by first leaf; a captured piece each */
	bool *rank_blob;    /* of each */
	size_t n;
};

/* What is had of one arena. */
struct origin {
	const struct arena *from;
	uint64_t granule; /* leaves */
	struct load loads[ARENA_PARTS];
	uint32_t nloads;
	uint32_t before; /* the turn that the arena was in when the restore was asked for */
	/* What was copied is of this attempt, slot and step; turn 0: of none. */
	uint32_t turn, slot;
	struct step_id id;
	bool no_blobs;
	bool rest;                            /* not all of it had been copied when the answer came */
	uint64_t loaded[ARENA_GRANULES / 64]; /* by granule */
	uint64_t bytes;                       /* of them, as progress tells */
};

struct loads {
	struct origin *origins;
	uint32_t n;
	uint64_t bytes;     /* that this rank registered */
	uint64_t early;     /* of them, copied while others were brought; known after loads_finish */
	struct span *batch; /* room for what is handed to a device at once */
	void *stream;
	bool planned;
	bool finishing;          /* the daemon has answered */
	_Atomic bool *undefined; /* set before anything is written to the registered memory */
	uint64_t put;            /* bytes of the last copy out of an arena */
	struct load_progress *progress;
};

/* Before the restore is asked for: what the arenas tell now is of an earlier one. Without a plan. -ENOMEM. */
int loads_init(struct loads *loads, ckpt *s, const struct stage *stage, void *stream, struct err *err);
void loads_free(struct loads *loads);
/* Every registered byte comes from exactly one captured piece: layout_make split each registered piece over the local
 * ranks. Touches nothing. */
int loads_plan(struct loads *loads, const ckpt *s, const struct stage *stage, struct err *err);
/* Something is being brought since: there may be something to copy. */
bool loads_seen(const struct loads *loads);
/* Copies what is there by now and was not copied yet; *any: there was something. What an attempt that is over left behind
 * does not count, and is no error. */
int loads_follow(struct loads *loads, bool *any, struct err *err);
/* Behind an error, too, before the memory may be used: nothing is being copied any more. */
int loads_end_parts(struct loads *loads, struct err *err);
/* All is there: copies the rest; everything, where what was copied is of something else than the answer says. */
int loads_finish(struct loads *loads, const struct wire_restored *m, struct err *err);
/* Then: in which epoch the state began without a restore, as far as memory tells; 0: it came from storage, or was
 * restored itself. */
uint32_t loads_began(const struct loads *loads);

#endif
