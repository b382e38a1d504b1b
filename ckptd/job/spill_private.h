/* Private to spill*.c. */
#ifndef CKPTD_JOB_SPILL_PRIVATE_H
#define CKPTD_JOB_SPILL_PRIVATE_H

#include "job/spill.h"

#include "checkpoint/room.h"
#include "config/sources.h"
#include "runtime/room.h"

enum spill_state { SPILL_GATHERING = 1, SPILL_CHECKING, SPILL_GATHERED, SPILL_WRITING };

struct spill {
	struct spill *next;
	struct jobs *jobs;
	char job[NAME_JOB_MAX];
	struct peer_spill order; /* that began it */
	enum spill_state state;
	bool abandoned;  /* it ends when nothing of it runs */
	uint32_t at;     /* the first of ranks[] that does not stand here; nranks: all do */
	bool fetching;   /* of ranks[at] */
	uint32_t tried;  /* holders of it */
	uint64_t own;    /* bits: it stands in the arena of a rank of this node */
	uint64_t spoilt; /* bits: what stood here first was damaged */
	uint32_t nranks;
	uint32_t ids[WIRE_LOCAL_MAX];
	struct node_part_rank ranks[WIRE_LOCAL_MAX]; /* those with memory stand here, and are pinned */
	uint64_t *leaves[WIRE_LOCAL_MAX];            /* their digests: a rank could change those in its arena */
	struct node_part *commit;
	struct policy policy;
	struct bucket bucket; /* of its limit of writes */
	struct work work;
	int checked;
	uint32_t bad; /* -EBADMSG: of ranks[] */
	struct err err;
};

_Static_assert(WIRE_LOCAL_MAX <= 64, "a bit for each rank");

/* Says so, before anything was written, and frees it. */
void spill_refuse(struct spill *r, int rc, const char *text);
void spill_say(const struct spill *r, struct peer_spilled *m);
/* Of ranks[i], if it stands here. */
void spill_unpin(struct spill *r, uint32_t i);

/* job/spill_gather.c. False: more ranks than a node can have. */
bool spill_take_ids(struct spill *r);
/* Ends with what is said of it, or with a refusal. */
void spill_gather(struct spill *r);

#endif
