/* Layout: where the captured pieces of every rank of a node stand, in its slots and in its files. Both have the same
 * order. A slot is the concatenation of the data sections of the rank's files, so that a file is written directly out of
 * the arena. A pure function of the registrations of all local ranks, so that a replaced rank gets the same one.
 *
 * Replicated pieces are written once. Those that the same local ranks hold are laid end to end in order of name and
 * position, and cut into equal shares. There is one share for each holder, in order of rank. A cut is moved to the
 * nearest leaf boundary of the piece it falls in (a contiguous piece is cut into flat ranges). If that piece is not
 * contiguous, the cut moves to the nearest step of its outermost dimension longer than 1. So each share is within one
 * leaf of the mean; a cut in a piece that is not contiguous adds at most half of such a step. Blobs of a rank are never
 * replicated, those of the job always are.
 *
 * A group is split into parts at piece boundaries. There is a boundary between what is of one rank, what is of the job,
 * and what is of each replica group (other nodes may hold these, too: shares.h). A group is also split when its data
 * exceeds a bound, and when its header might exceed that of safetensors readers (about 150,000 pieces).
 *
 * Within a group what is replicated comes last: blobs of the job first, then by replica group. Pieces are then ordered by
 * element size (descending), then by name and position. They stand without gaps, as safetensors requires. Every file's
 * data starts at a multiple of LAYOUT_ALIGN in the slot. A tensor without elements is captured as one piece of 0 bytes by
 * the lowest local rank that registers a piece of it; other empty pieces are left out.
 *
 * Encoding: u32 rank, world, nfiles, npieces; per file: str group, u32 part, npieces; per piece: u32 entry, source,
 * u8 dimensions of its box (0 for a flat range), region. All else is derived. */
#ifndef CKPT_FORMAT_LAYOUT_H
#define CKPT_FORMAT_LAYOUT_H

#include "format/arena/registration.h"

#define LAYOUT_ALIGN 4096u
#define LAYOUT_FILE_MAX (16ull << 30) /* a group above this is split into parts */

struct layout_piece {
	uint32_t entry;       /* index into the rank's registration */
	uint32_t source;      /* index into entry.pieces: the registered piece of which this is all or a part */
	struct region region; /* what is captured: within that piece */
	uint32_t file;        /* index into layout.files */
	uint64_t at;          /* byte offset in the file's data section */
	uint64_t slot_at;     /* byte offset in the slot */
	uint64_t bytes;
	uint64_t first_leaf; /* index of its first leaf among the rank's leaves */
};

struct layout_file {
	char group[NAME_GROUP_MAX];
	uint32_t part;
	/* 0: of its rank alone; else the same for all files, of whatever node, with this group and replica group */
	uint64_t share;
	uint64_t slot_at; /* multiple of LAYOUT_ALIGN */
	uint64_t data_size;
	uint32_t first_piece, npieces; /* its pieces are consecutive in layout.pieces */
};

struct layout {
	uint32_t rank, world;
	uint32_t nfiles, npieces;
	struct layout_file *files;
	struct layout_piece *pieces;
	uint64_t slot_size;  /* multiple of LAYOUT_ALIGN */
	uint64_t data_bytes; /* sum of pieces */
	uint64_t nleaves;
	uint64_t nwitnesses; /* leaves behind those, of what others capture (witness.h) */
};

/* Lays out n ranks, in any order (layouts[i] belongs to regs[i]; all of one world, no rank twice). All ranks that
 * register an entry must describe it alike. Other kinds, dtypes, shapes or groups under one name are -EINVAL, both sides
 * named. So are pieces of one replica group that overlap without being equal. Other overlaps are -EEXIST. `job_complete`
 * says that the registrations are those of all ranks of the job: then a hole is an error too (-ENODATA), named as in
 * region_cover. -E2BIG: so many tensors or pieces that the node's manifest could not be written. On error every
 * layouts[i] is empty. file_max: LAYOUT_FILE_MAX, or smaller in tests; a larger piece has a file of its own. */
int layout_make(const struct registration *const *regs, uint32_t n, bool job_complete, uint64_t file_max,
		struct layout *layouts, struct err *err);
void layout_free(struct layout *layout);
/* Whether they place the same pieces alike; both are of equal registrations. */
bool layout_equal(const struct layout *a, const struct layout *b);
/* layout_file.share of a file that its pieces are in. */
uint64_t layout_share_of(const struct entry *entry);
/* 0 or -ENOMEM. */
int layout_encode(const struct layout *layout, struct wbuf *out);
/* Checks all bounds against the registration that it belongs to. -EBADMSG says what is wrong; then *layout is empty. Reads
 * no further than the layout's end. */
int layout_decode(struct rbuf *in, const struct registration *reg, struct layout *layout, struct err *err);

#endif
