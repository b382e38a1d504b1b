/* The making of a layout, between layout.c (whole), layout_unit.c (what is held, by whom), layout_split.c (who captures
 * what) and layout_place.c (where it stands). */
#ifndef CKPT_FORMAT_LAYOUT_PLAN_H
#define CKPT_FORMAT_LAYOUT_PLAN_H

#include "format/arena/layout.h"

/* One entry of one rank. `reg` counts ranks in increasing order, whatever order the caller has. */
struct plan_ref {
	const struct entry *entry;
	uint32_t reg, index;
};

/* One rank that holds a unit, and where it registered it. */
struct plan_holder {
	uint32_t reg, entry, source;
};

/* A registered piece, once for all its replicas. */
struct plan_unit {
	const struct entry *entry; /* of the first holder; the others' says the same */
	const struct region *region;
	uint64_t bytes;
	size_t holder; /* index of the first in plan.holders; they stand in order of reg */
	uint32_t nholders;
};

/* What one rank captures. */
struct plan_choice {
	const struct entry *entry;
	uint64_t first; /* row-major index of its first element */
	struct region region;
	uint32_t index, source; /* of the entry in its registration, of the piece in the entry */
};

struct plan {
	uint32_t n;
	const struct registration **regs; /* by rank */
	size_t npieces;                   /* of all ranks: bounds holders, units and choices */
	struct plan_holder *holders;
	struct plan_unit *units; /* by name and position */
	size_t nholders, nunits;
	struct plan_choice **choices; /* of each rank; room for one per registered piece */
	uint32_t *nchoices;
	uint64_t ntensors, nfiles, manifest_bytes; /* what the node's manifest comes to, at most (layout_manifest.c) */
};

/* layout_manifest.c: what the manifest of the node needs is added up; `check` refuses, in time, what could not be written. */
void plan_count_tensor(struct plan *plan, const struct entry *entry);
void plan_count_files(struct plan *plan, const struct registration *reg, const struct layout *layout);
int plan_check_manifest(const struct plan *plan, struct err *err);
/* layout_unit.c: fills holders and units, checks that ranks agree and what they hold together. */
int plan_units(struct plan *plan, bool job_complete, struct err *err);
/* layout_split.c: fills choices. 0 or -ENOMEM. */
int plan_split(struct plan *plan);
/* layout_place.c: makes the layout out of the choices of rank `reg`, which it sorts. */
int plan_place(struct plan *plan, uint32_t reg, uint64_t file_max, struct layout *layout, struct err *err);
/* Other ranks have the same. */
bool plan_replicated(const struct entry *e);
/* They may stand in one file, if they are of one group. */
bool plan_same_share(const struct entry *a, const struct entry *b);
/* The order of pieces in a slot, strict for different pieces of a registration. <0, 0, >0. */
int plan_order(const struct plan_choice *a, const struct plan_choice *b);
/* Derives offsets, sizes and leaves of a layout whose files have group, part and npieces, and whose pieces have entry and
 * region, from those. -EOVERFLOW above 2^62 bytes, -EINVAL when the files' pieces are not all pieces. */
int layout_derive(struct layout *layout, const struct registration *reg);

#endif
