/* Arenas: the memory of all local ranks as this process maps it. The own one is writable, the others are for reading at a
 * restore. Heads and tables are checked on private copies: a neighbour that scribbles over its arena can spoil a restore, not
 * this process. */
#ifndef CKPT_ARENAS_H
#define CKPT_ARENAS_H

#include "base/channel.h"
#include "format/arena/arena.h"
#include "format/arena/layout.h"
#include "format/message/wire.h"

struct arena {
	uint32_t rank;
	uint64_t size, leaves_at, slots_at, slot_size, nleaves, nwitnesses; /* checked copies of the head's */
	uint32_t nslots;
	uint8_t *base;
	dev_t dev; /* with ino: which memory it is */
	ino_t ino;
	struct registration reg;
	struct layout layout;
};

struct arenas {
	uint32_t n;
	struct arena *all; /* n */
	struct arena *own; /* one of all */
	int own_fd;        /* handed back to a daemon that restarted */
};

/* Maps what an ARENA message brought; takes its descriptors (index 0, the doorbell, stays in the frame). `table`: what this rank
 * registered, which its own arena must carry. Children do not inherit the mappings. */
int arenas_map(struct frame *f, const struct wire_arena *msg, uint32_t rank, const struct wbuf *table,
	       struct arenas *out, struct err *err);
void arenas_unmap(struct arenas *arenas);
/* Whether the message's descriptors are the memory that is mapped. */
bool arenas_same(const struct arenas *arenas, const struct frame *f, const struct wire_arena *msg);
/* NULL: no such local rank. */
const struct arena *arenas_find(const struct arenas *arenas, uint32_t rank);

static inline struct arena_head *arena_head(const struct arena *arena)
{
	return (struct arena_head *)arena->base;
}

static inline uint8_t *arena_slot_data(const struct arena *arena, uint32_t slot)
{
	return arena->base + arena->slots_at + slot * arena->slot_size;
}

/* nleaves of what is captured, then nwitnesses. */
static inline uint64_t *arena_slot_leaves(const struct arena *arena, uint32_t slot)
{
	return (uint64_t *)(arena->base + arena->leaves_at) + slot * (arena->nleaves + arena->nwitnesses);
}

/* Sleeps until the wake counter of the head differs from `seen`, or the deadline. */
void arena_sleep(const struct arena *arena, uint32_t seen, uint64_t deadline);
/* Ends that, for this process, as the daemon does. */
void arena_wake(const struct arena *arena);

/* The captured piece to which a leaf belongs; NULL for a leaf beyond the last. */
const struct layout_piece *arena_piece_of_leaf(const struct arena *arena, uint64_t leaf);
/* "tensor w, elements [0:4, 0:8], bytes 65536 to 131072 of them". Returns dst. */
char *arena_leaf_text(const struct arena *arena, uint64_t leaf, char *dst, size_t size);

#endif
