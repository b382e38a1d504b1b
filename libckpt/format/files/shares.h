/* Shares: who writes what the ranks of several nodes hold alike. What a node's ranks hold together of one replica group (or of the blobs of
 * the job) in one group of tensors is a share; its files hold nothing else (layout.h). The nodes whose share is the same divide it: each writes
 * a part of its bytes, in the order of the registered pieces, and as few of them as leave each part SHARE_PART_MIN. A boundary between
 * parts is moved to the nearest leaf of the piece it falls in.
 *
 * A share with pieces that are not contiguous is not divided so: those nodes that have it in the same files as the first of them write a part of
 * the files each, and the others none of it.
 *
 * Shares that have something in common without being the same are written by each of these nodes, and such a checkpoint is not committed
 * (ckptd/checkpoint/directory_compare.c): what a replica group has in a group of tensors is to be on all of its nodes.
 *
 * Encoding: u32 n, then of each u64 what, cut, bytes; of parts u32 part, parts. */
#ifndef CKPT_FORMAT_SHARES_H
#define CKPT_FORMAT_SHARES_H

#include "format/arena/layout.h"

enum { SHARES_MAX = 16 }; /* of a node; what is beyond is taken for one with the last */

/* A file costs its making, its sync and its name in each checkpoint: smaller parts would not be written sooner. */
#define SHARE_PART_MIN (16ull << 20)

struct held_share {
	uint64_t what; /* the registered pieces, whatever their order and whoever captures them */
	uint64_t cut; /* how they stand in files; the same for equal pieces in the same order, whatever the ranks are */
	uint64_t bytes; /* to be divided; 0: it is divided by files */
};

/* In the order in which the files of a node begin them. */
struct shares {
	uint32_t n;
	struct held_share of[SHARES_MAX];
};

/* Of each share, `part` of `parts` of its bytes; or, where it is divided by files, of its files, counted over the node's ranks, those whose
 * number divided by `parts` leaves `part`. parts 0: none. */
struct share_parts {
	uint32_t n; /* 0: all that there is */
	struct share_part {
		uint32_t part, parts;
	} of[SHARES_MAX];
};

/* `layouts` and `regs` by rank. 0 or -ENOMEM. */
int shares_make(const struct layout *const *layouts, const struct registration *const *regs, uint32_t n,
		struct shares *out);
/* parts[i] is that of the node with shares[i]; part_min: SHARE_PART_MIN, or smaller in tests. 0 or -ENOMEM. */
int shares_assign(const struct shares *const *shares, struct share_parts *const *parts, uint32_t n, uint64_t part_min);
/* out[i]: what of layouts[i] the node writes. Its pieces are pieces of that or contiguous parts of them, and stand for the same places of the
 * slot and the same leaves; those of a file follow each other in the slot, where the first need not be aligned. A file of which nothing is
 * written is not in it. 0 or -ENOMEM; then every out[i] is empty. Freed with layout_free. */
int shares_take(const struct layout *const *layouts, const struct registration *const *regs, uint32_t n,
		const struct share_parts *parts, struct layout *out);

void shares_put(struct wbuf *out, const struct shares *shares);
void shares_get(struct rbuf *r, struct shares *shares);
void share_parts_put(struct wbuf *out, const struct share_parts *parts);
/* Also when a part is none of its parts. */
void share_parts_get(struct rbuf *r, struct share_parts *parts);

#endif
