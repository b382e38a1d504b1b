/* Plan record: which node has which ranks of a job whose world may change, and who they were before. It is a part of the
 * record of the job's epoch (files/marks.h):
 *
 *   "plan":{"number","world","ranks":[[NODE,COUNT,WAS],…]}
 *
 * In the order of ranks: a node, how many ranks from here on are its, and which rank the process of the first had by the
 * plan before; the others follow it. Without WAS new processes are started for them. */
#ifndef CKPT_FORMAT_PLAN_RECORD_H
#define CKPT_FORMAT_PLAN_RECORD_H

#include "base/bytes.h"
#include "format/document/json_in.h"
#include "format/tensor/names.h"

enum {
	PLAN_NUMBER_MAX = INT32_MAX,
	PLAN_FOLLOWED_MAX = PLAN_NUMBER_MAX / 2, /* that somebody can say to follow: the next ones come after it */
};
#define PLAN_NEW UINT32_MAX

struct plan_run {
	char node[NAME_NODE_MAX];
	uint32_t n;
	uint32_t was; /* of its first rank; PLAN_NEW: none of them was there */
};

struct plan_record {
	uint32_t number; /* 0: there is no plan */
	uint32_t world;
	uint32_t nruns;
	struct plan_run *runs; /* owned */
};

/* Another rank at the end of the world: on the node, and it was that one. 0 or -ENOMEM. */
int plan_record_add(struct plan_record *plan, const char *node, uint32_t was);
/* 0 or -ENOMEM, then *copy is empty. */
int plan_record_copy(const struct plan_record *plan, struct plan_record *copy);
void plan_record_free(struct plan_record *plan);

void plan_record_put(struct wbuf *out, const struct plan_record *plan);
/* The value that stands here; what no coordinator can have planned is a failure of `in`. The plan is to be freed in any case. */
void plan_record_read(struct jin *in, struct plan_record *plan);

#endif
