/* Shares: who writes what the ranks of several nodes hold alike. What a node's ranks hold together of one replica group (or of the blobs of
 * the job) in one group of tensors is a share; its files hold nothing else (layout.h). Of the nodes whose share is the same, those that
 * have it in the same pieces as the first of them write a part of its files each, and the others none of it.
 *
 * Shares that have something in common without being the same are written by each of these nodes, and such a checkpoint is not committed
 * (ckptd/checkpoint/directory_compare.c): what a replica group has in a group of tensors is to be on all of its nodes.
 *
 * Encoding: u32 n, then of each u64 what, cut; of parts u32 part, parts. */
#ifndef CKPT_FORMAT_SHARES_H
#define CKPT_FORMAT_SHARES_H

#include "format/arena/layout.h"

enum { SHARES_MAX = 16 }; /* of a node; what is beyond is taken for one with the last */

struct held_share {
	uint64_t what; /* the registered pieces, whatever their order and whoever captures them */
	uint64_t cut; /* how they stand in files; the same for equal pieces in the same order, whatever the ranks are */
};

/* In the order in which the files of a node begin them. */
struct shares {
	uint32_t n;
	struct held_share of[SHARES_MAX];
};

/* Of the files of each share, counted over the node's ranks, those whose number divided by `parts` leaves `part`; parts 0: none. */
struct share_parts {
	uint32_t n; /* 0: all that there is */
	struct share_part {
		uint32_t part, parts;
	} of[SHARES_MAX];
};

/* Numbers shares: to be asked of all files of a node, in order. Zeroed at first. */
struct share_numbers {
	uint32_t n;
	uint64_t of[SHARES_MAX];
};
uint32_t share_number(struct share_numbers *numbers, uint64_t share);

/* `layouts` and `regs` by rank. 0 or -ENOMEM. */
int shares_make(const struct layout *const *layouts, const struct registration *const *regs, uint32_t n,
		struct shares *out);
/* parts[i] is that of the node with shares[i]. 0 or -ENOMEM. */
int shares_assign(const struct shares *const *shares, struct share_parts *const *parts, uint32_t n);

void shares_put(struct wbuf *out, const struct shares *shares);
void shares_get(struct rbuf *r, struct shares *shares);
void share_parts_put(struct wbuf *out, const struct share_parts *parts);
/* Also when a part is none of its parts. */
void share_parts_get(struct rbuf *r, struct share_parts *parts);

#endif
