/* Shares: who writes what the ranks of several nodes hold alike. What a node's ranks hold together of one replica group
 * (or of the blobs of the job) in one group of tensors is a share; its files hold nothing else (layout.h). The nodes
 * whose share is the same divide it. Each writes a part of its bytes, in the order of the registered pieces, and only so
 * many nodes write that each part has SHARE_PART_MIN. A boundary between parts is moved to the nearest leaf of the piece
 * it falls in.
 *
 * A share with pieces that are not contiguous is not divided in this way. The nodes that have it in the same files as the
 * first of them write a part of the files each, and the others none of it.
 *
 * Shares of one key that have something in common without being the same are mixed: they are divided piece by piece
 * (share_plan.h). What each node writes of each of its registered pieces is then said in runs: so many pieces, in the
 * order above, and which bytes of each.
 *
 * Encoding: u32 n, then of each u64 what, cut, bytes, key, u32 units; u32 listed, then the units (share_units.h). Of
 * parts u32 n, then u32 part, parts; u32 nruns, then of each u32 units, u64 from, to. */
#ifndef CKPT_FORMAT_SHARES_H
#define CKPT_FORMAT_SHARES_H

#include "format/arena/layout.h"

enum {
	SHARES_MAX = 16, /* of a node; what is beyond is taken for one with the last */
	SHARE_UNITS_MAX =
		32768, /* registered pieces of a node's mixed shares: what it says of them, and is told, fits a message */
	SHARE_RUN_SIZE = 20, /* in messages */
};

/* A file costs its making, its sync and its name in each checkpoint: smaller parts would not be written sooner. */
#define SHARE_PART_MIN (16ull << 20)

struct held_share {
	uint64_t what; /* the registered pieces, whatever their order and whoever captures them */
	uint64_t cut; /* how they stand in files; the same for equal pieces in the same order, whatever the ranks are */
	uint64_t bytes; /* to be divided; 0: it is divided by files */
	uint64_t key;   /* as layout_file.share; 0: it is several */
	uint32_t units; /* registered pieces */
};

/* In the order in which the files of a node begin them. */
struct shares {
	const uint8_t *units; /* of share_units.h; not owned. Decoded: within the message */
	uint32_t listed;      /* bits: of which share the pieces are in `units`, share after share */
	uint32_t n;
	struct held_share of[SHARES_MAX];
};

/* What a node writes of the next `units` registered pieces of a mixed share: these bytes of each. */
struct share_run {
	uint32_t units;
	uint64_t from, to; /* UINT64_MAX: to the end. 0 to 0: nothing */
};

/* Of each share, `part` of `parts` of its bytes; or, where it is divided by files, of its files, counted over the node's
 * ranks, those whose number divided by `parts` leaves `part`. parts 0: none. SHARE_MIXED: what the runs say, which follow
 * each other share after share. */
#define SHARE_MIXED UINT32_MAX
struct share_parts {
	const uint8_t *runs; /* encoded; not owned, unless by share_parts_copy. Decoded: within the message */
	uint32_t nruns;
	uint32_t n; /* 0: all that there is */
	struct share_part {
		uint32_t part, parts;
	} of[SHARES_MAX];
};

/* `layouts` and `regs` by rank. list: bits of the shares of which the pieces are wanted, too, which then stand in
 * *listed, the caller's; if they are more than SHARE_UNITS_MAX, none are. 0 or -ENOMEM. */
int shares_make(const struct layout *const *layouts, const struct registration *const *regs, uint32_t n, uint32_t list,
		struct shares *out, struct wbuf *listed);
/* Registered pieces of those of its shares. */
uint64_t shares_units(const struct shares *shares, uint32_t mask);
/* Which shares of each node are mixed, as bits; and of which of them the node is the first to have exactly this. 0 or
 * -ENOMEM. */
int shares_mixed(const struct shares *const *shares, uint32_t n, uint32_t *mixed, uint32_t *first);
/* parts[i] is that of the node with shares[i], of which the mixed ones are left to share_plan.h; part_min:
 * SHARE_PART_MIN, or smaller in tests. 0 or -ENOMEM. */
int shares_assign(const struct shares *const *shares, const uint32_t *mixed, struct share_parts *const *parts,
		  uint32_t n, uint64_t part_min);
/* out[i]: what of layouts[i] the node writes. Its pieces are pieces of that or contiguous parts of them, and stand for
 * the same places of the slot and the same leaves. Those of a file rise in the slot, and follow each other there unless
 * its share is mixed. The first need not be aligned. A file of which nothing is written is not in it. 0, -ENOMEM, or
 * -EINVAL if the runs are not of these layouts; then every out[i] is empty. Freed with layout_free. */
int shares_take(const struct layout *const *layouts, const struct registration *const *regs, uint32_t n,
		const struct share_parts *parts, struct layout *out);

void shares_put(struct wbuf *out, const struct shares *shares);
void shares_get(struct rbuf *r, struct shares *shares);
void share_parts_put(struct wbuf *out, const struct share_parts *parts);
/* Also when a part is none of its parts. */
void share_parts_get(struct rbuf *r, struct share_parts *parts);
void share_run_put(struct wbuf *out, const struct share_run *run);
struct share_run share_run_get(const uint8_t *runs, uint32_t i);
/* With runs of its own; what *to had is not freed. 0, or -ENOMEM: *to is as it was. */
int share_parts_copy(struct share_parts *to, const struct share_parts *from);
void share_parts_free(struct share_parts *parts); /* of a copy; then it is empty */
bool share_parts_equal(const struct share_parts *a, const struct share_parts *b);

#endif
