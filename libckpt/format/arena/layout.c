#include "format/arena/layout_plan.h"

#include "base/bytes.h"
#include "base/cleanup.h"
#include "format/tensor/digest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void layout_free(struct layout *layout)
{
	free(layout->files);
	free(layout->pieces);
	*layout = (struct layout){0};
}

static bool file_equal(const struct layout_file *a, const struct layout_file *b)
{
	return !strcmp(a->group, b->group) && a->part == b->part && a->npieces == b->npieces;
}

static bool same_region(const struct region *a, const struct region *b)
{
	return a->kind == b->kind && a->start == b->start && a->count == b->count &&
	       !memcmp(a->offset, b->offset, sizeof(a->offset)) && !memcmp(a->extent, b->extent, sizeof(a->extent));
}

static bool piece_equal(const struct layout_piece *a, const struct layout_piece *b)
{
	return a->entry == b->entry && a->source == b->source && same_region(&a->region, &b->region);
}

/* What decides is what is encoded. */
bool layout_equal(const struct layout *a, const struct layout *b)
{
	bool equal = a->rank == b->rank && a->world == b->world && a->nfiles == b->nfiles && a->npieces == b->npieces;
	for (uint32_t i = 0; equal && i < a->nfiles; i++)
		equal = file_equal(&a->files[i], &b->files[i]);
	for (uint32_t i = 0; equal && i < a->npieces; i++)
		equal = piece_equal(&a->pieces[i], &b->pieces[i]);
	return equal;
}

/* ---- shares ------------------------------------------------------------------------------------------------------ */

bool plan_same_share(const struct entry *a, const struct entry *b)
{
	if (plan_replicated(a) != plan_replicated(b) || (a->kind == ENTRY_JOB_BLOB) != (b->kind == ENTRY_JOB_BLOB))
		return false;
	return a->kind == ENTRY_JOB_BLOB || !strcmp(a->replica, b->replica);
}

uint64_t layout_share_of(const struct entry *e)
{
	char text[NAME_GROUP_MAX + sizeof(e->replica) + 2];
	const char *replica = e->kind == ENTRY_JOB_BLOB ? "" : e->replica; /* which is the name of no replica group */
	if (!plan_replicated(e))
		return 0;
	int len = snprintf(text, sizeof(text), "%s\n%s", e->group, replica);
	return digest_bytes(text, (size_t)len).low | 1;
}

static void plan_free(struct plan *plan)
{
	for (uint32_t i = 0; plan->choices && i < plan->n; i++)
		free(plan->choices[i]);
	free(plan->choices);
	free(plan->nchoices);
	free(plan->holders);
	free(plan->units);
	free(plan->regs);
}

static int by_rank(const void *a, const void *b)
{
	const struct registration *x = *(const struct registration *const *)a;
	const struct registration *y = *(const struct registration *const *)b;
	return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* One rank more than n, so that no allocation is empty. */
static int plan_alloc(struct plan *plan, const struct registration *const *regs, uint32_t n)
{
	plan->n = n;
	plan->regs = calloc((size_t)n + 1, sizeof(*plan->regs));
	plan->choices = calloc((size_t)n + 1, sizeof(*plan->choices));
	plan->nchoices = calloc((size_t)n + 1, sizeof(*plan->nchoices));
	if (!plan->regs || !plan->choices || !plan->nchoices)
		return -ENOMEM;
	if (n) {
		memcpy(plan->regs, regs, n * sizeof(*regs));
		qsort(plan->regs, n, sizeof(*plan->regs), by_rank);
	}
	for (uint32_t i = 0; i < n; i++) {
		size_t npieces = 0;
		for (uint32_t e = 0; e < plan->regs[i]->nentries; e++)
			npieces += plan->regs[i]->entries[e].npieces;
		plan->npieces += npieces;
		plan->choices[i] = calloc(npieces + 1, sizeof(**plan->choices));
		if (!plan->choices[i])
			return -ENOMEM;
	}
	plan->holders = calloc(plan->npieces + 1, sizeof(*plan->holders));
	plan->units = calloc(plan->npieces + 1, sizeof(*plan->units));
	return plan->holders && plan->units ? 0 : -ENOMEM;
}

static int check_ranks(const struct plan *plan, bool job_complete, struct err *err)
{
	for (uint32_t i = 0; i < plan->n; i++) {
		const struct registration *reg = plan->regs[i];
		if (reg->world != plan->regs[0]->world)
			return err_set(err, -EINVAL, "rank %u says that the job has %u ranks, rank %u says %u",
				       plan->regs[0]->rank, plan->regs[0]->world, reg->rank, reg->world);
		if (reg->rank >= reg->world)
			return err_set(err, -EINVAL, "rank %u of %u; ranks count from 0", reg->rank, reg->world);
		if (i && reg->rank == plan->regs[i - 1]->rank)
			return err_set(err, -EINVAL, "rank %u registered twice", reg->rank);
	}
	if (job_complete && (!plan->n || plan->n != plan->regs[0]->world))
		return err_set(err, -EINVAL, "%u ranks registered, not all of the job", plan->n);
	return 0;
}

static int place_all(struct plan *plan, const struct registration *const *regs, uint64_t file_max,
		     struct layout *layouts, struct err *err)
{
	for (uint32_t i = 0; i < plan->n; i++) {
		uint32_t to = 0; /* the caller's index of the i-th rank */
		while (regs[to] != plan->regs[i])
			to++;
		int rc = plan_place(plan, i, file_max, &layouts[to], err);
		if (rc < 0)
			return rc;
		plan_count_files(plan, regs[to], &layouts[to]);
	}
	return plan_check_manifest(plan, err);
}

static int make(struct plan *plan, const struct registration *const *regs, uint32_t n, bool job_complete,
		uint64_t file_max, struct layout *layouts, struct err *err)
{
	int rc = plan_alloc(plan, regs, n);
	if (rc < 0)
		return err_set(err, rc, "no memory to lay out %u ranks", n);
	rc = check_ranks(plan, job_complete, err);
	if (rc == 0)
		rc = plan_units(plan, job_complete, err);
	if (rc < 0)
		return rc;
	rc = plan_split(plan);
	if (rc < 0)
		return err_set(err, rc, "no memory to lay out %zu pieces", plan->npieces);
	return place_all(plan, regs, file_max, layouts, err);
}

int layout_make(const struct registration *const *regs, uint32_t n, bool job_complete, uint64_t file_max,
		struct layout *layouts, struct err *err)
{
	for (uint32_t i = 0; i < n; i++)
		layouts[i] = (struct layout){0};
	struct plan plan = {0};
	int rc = make(&plan, regs, n, job_complete, file_max, layouts, err);
	plan_free(&plan);
	for (uint32_t i = 0; rc < 0 && i < n; i++)
		layout_free(&layouts[i]);
	return rc;
}
