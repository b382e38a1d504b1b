/* The plan of a restore, from the inside. Private to the restore; restore.h is the interface.
 *
 * saved.c       which pieces are saved of the tensors that are wanted
 * saved_axis.c  the search among the pieces of a tensor
 * plan.c        who wants what of which piece: links; what is wrong with the wants
 * plan_leaves.c which leaves of a piece are needed, and their digests from the sidecars
 * extent.c      the order of the reads
 * scatter.c     the copy
 * restore.c     the reads; checkers.c: the threads that check and copy
 * want_leaves.c the digests of destinations that are no saved piece */
#ifndef CKPT_STORE_PLAN_H
#define CKPT_STORE_PLAN_H

#include "format/files/packed.h"
#include "store/read/restore.h"
#include "store/read/saved.h"

#include <stdatomic.h>

/* A destination takes something from a piece. */
struct plan_link {
	uint32_t file, piece; /* as in saved_piece */
	uint32_t want;
	uint32_t first, end; /* leaves of the piece that hold something of it */
};

/* A piece of which something is needed. */
struct plan_piece {
	uint32_t file, piece;
	uint64_t first_link;
	uint32_t nlinks;
	uint32_t first, end; /* leaves of the piece between which the needed ones lie */
	uint64_t pool;       /* the first one's index in plan.digests and plan.needed */
};

struct restore_plan {
	struct checkpoint *ck;
	const struct want *wants;
	size_t nwants;
	bool *whole; /* per want: one piece is exactly its region, the leaves of both are the same */
	/* While it is executed, per want: for each of its leaves the leaves of pieces of which something may still come
	 * to it. NULL: its digests are not asked for, or are those of the piece. */
	_Atomic uint32_t **left;
	struct saved saved;
	struct packed_index *indexes; /* of saved.files; empty where a file is not packed, or not needed */
	struct plan_link *links;      /* by file, piece, want */
	size_t nlinks, links_cap;
	struct plan_piece *pieces; /* in the order of their bytes, file by file */
	size_t npieces;
	uint64_t *digests; /* of leaves, expected */
	uint64_t *needed;  /* one bit per leaf of the pool */
	uint64_t pool, pool_cap;
	uint64_t useful, read;
};

static inline const struct manifest_file *plan_file(const struct restore_plan *plan, uint32_t file)
{
	return plan->saved.files[file];
}

static inline const struct manifest_piece *plan_saved(const struct restore_plan *plan, const struct plan_piece *p)
{
	return &plan_file(plan, p->file)->pieces[p->piece];
}

/* Makes plan->pieces from the sorted links, finds their needed leaves and loads their digests. */
int plan_leaves(struct restore_plan *plan, struct err *err);

/* Destinations that ask for digests and are no saved piece: a leaf of them is digested, and told to have arrived, when
 * all that it is made of was copied. 0 or -ENOMEM. */
int want_leaves_begin(struct restore_plan *plan, const struct restore_options *opts);
/* From any thread: a leaf of the piece was copied to the destination. */
void want_leaves_copied(const struct restore_plan *plan, const struct restore_options *opts,
			const struct plan_link *link, uint32_t leaf);
/* Also after an error of the first. */
void want_leaves_end(struct restore_plan *plan);

/* ---- extent.c: reads, aligned to DISK_ALIGN, each of whole leaves, in the order of the files.
 * Leaves that are not needed are read when they lie between needed ones at a distance that is not worth a second read. */

struct extent_at {
	size_t piece;  /* index into plan.pieces */
	uint32_t leaf; /* of the piece */
};

struct extent {
	uint32_t file;
	uint64_t offset, len;        /* in the file; the end may lie behind the file's */
	struct extent_at first, end; /* needed leaves, end exclusive */
};

/* The first needed leaf at or after *at; false: there is none. */
bool extent_seek(const struct restore_plan *plan, struct extent_at *at);
/* The next read at or after *at, which moves to its end; of `max` bytes at most, but one leaf or chunk. */
bool extent_next(const struct restore_plan *plan, uint64_t max, struct extent_at *at, struct extent *extent);
/* Where a leaf stands in its file, and what must be read for it: the same, or, where the file is packed, the chunk that holds it. */
void leaf_range(const struct restore_plan *plan, struct extent_at at, uint64_t *from, uint64_t *to);
void leaf_stored(const struct restore_plan *plan, struct extent_at at, uint64_t *from, uint64_t *to);
/* The chunk that holds the leaf; NULL: its file is not packed. */
const struct packed_chunk *leaf_chunk(const struct restore_plan *plan, struct extent_at at);

#endif
