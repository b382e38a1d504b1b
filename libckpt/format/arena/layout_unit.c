#include "format/arena/layout_plan.h"

#include "base/cleanup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A registered piece while its entry is looked at. */
struct held {
	uint64_t first;
	const struct region *region;
	const struct entry *entry;
	uint32_t reg, index, source;
};

/* Room for the largest entry, and the comparisons that may still be made. */
struct scratch {
	struct held *held;
	const struct region **regions;
	uint32_t *owners;
	uint64_t comparisons;
};

enum { TEXT_MAX = 96, ENTRY_TEXT_MAX = 192 };

static int by_name(const void *a, const void *b)
{
	const struct plan_ref *x = a, *y = b;
	int order = strcmp(x->entry->name, y->entry->name);
	return order ? order : x->reg < y->reg ? -1 : x->reg > y->reg;
}

static struct plan_ref *sorted_refs(const struct plan *plan, size_t *n)
{
	*n = 0;
	for (uint32_t i = 0; i < plan->n; i++)
		*n += plan->regs[i]->nentries;
	struct plan_ref *refs = calloc(*n + 1, sizeof(*refs)), *at = refs;
	for (uint32_t i = 0; refs && i < plan->n; i++)
		for (uint32_t e = 0; e < plan->regs[i]->nentries; e++)
			*at++ = (struct plan_ref){.entry = &plan->regs[i]->entries[e], .reg = i, .index = e};
	if (refs)
		qsort(refs, *n, sizeof(*refs), by_name);
	return refs;
}

static char *entry_text(const struct entry *e, char dst[ENTRY_TEXT_MAX])
{
	static const char *const kinds[] = {"?", "tensor", "blob of the job", "blob of the rank"};
	char shape[TEXT_MAX];
	snprintf(dst, ENTRY_TEXT_MAX, "a %s%s %s %s in group %s", e->sized ? "sized " : "",
		 kinds[e->kind <= ENTRY_RANK_BLOB ? e->kind : 0], dtype_name(e->dtype),
		 shape_text(&e->shape, shape, sizeof(shape)), e->group);
	return dst;
}

static int check_alike(const struct plan *plan, const struct plan_ref *a, const struct plan_ref *b, struct err *err)
{
	const struct entry *x = a->entry, *y = b->entry;
	if (x->kind == y->kind && x->sized == y->sized && x->dtype == y->dtype && shape_equal(&x->shape, &y->shape) &&
	    !strcmp(x->group, y->group))
		return 0;
	char x_text[ENTRY_TEXT_MAX], y_text[ENTRY_TEXT_MAX];
	return err_set(err, -EINVAL, "\"%.100s\" is %s on rank %u, but %s on rank %u", x->name, entry_text(x, x_text),
		       plan->regs[a->reg]->rank, entry_text(y, y_text), plan->regs[b->reg]->rank);
}

static bool replicas(const struct entry *a, const struct entry *b)
{
	if (a->kind == ENTRY_JOB_BLOB)
		return true;
	return a->replica[0] && !strcmp(a->replica, b->replica);
}

/* Two pieces have elements in common, but are not replicas of each other. */
static int conflict(const struct plan *plan, const struct held *a, const struct held *b, struct err *err)
{
	const struct shape *shape = &a->entry->shape;
	uint32_t a_rank = plan->regs[a->reg]->rank, b_rank = plan->regs[b->reg]->rank;
	if (a->reg != b->reg && replicas(a->entry, b->entry)) {
		char a_text[TEXT_MAX], b_text[TEXT_MAX];
		return err_set(
			err, -EINVAL,
			"tensor \"%.100s\": replicas of group \"%s\" differ: rank %u has %s, rank %u has %s; register "
			"equal pieces, or different groups",
			a->entry->name, a->entry->replica, a_rank, region_text(shape, a->region, a_text, TEXT_MAX),
			b_rank, region_text(shape, b->region, b_text, TEXT_MAX));
	}
	const struct region *pair[] = {a->region, b->region};
	uint32_t owners[] = {a_rank, b_rank};
	return region_cover(shape, a->entry->name, pair, owners, 2, err);
}

/* By position; equal ones stand in order of rank, so that the first holder is the lowest. */
static int by_position(const void *a, const void *b)
{
	const struct held *x = a, *y = b;
	if (x->first != y->first)
		return x->first < y->first ? -1 : 1;
	if (x->reg != y->reg)
		return x->reg < y->reg ? -1 : 1;
	return x->source < y->source ? -1 : x->source > y->source;
}

/* The pieces of all refs of one entry that have elements; of a tensor without elements the first piece of all. */
static size_t gather(const struct plan_ref *refs, size_t n, struct held *held)
{
	uint64_t volume = 0;
	size_t m = 0;
	shape_volume(&refs->entry->shape, &volume);
	for (size_t i = 0; i < n; i++) {
		const struct entry *e = refs[i].entry;
		for (uint32_t p = 0; p < e->npieces; p++) {
			const struct region *r = &e->pieces[p];
			if (volume ? region_volume(&e->shape, r) != 0 : m == 0)
				held[m++] =
					(struct held){region_first(&e->shape, r), r, e, refs[i].reg, refs[i].index, p};
		}
	}
	qsort(held, m, sizeof(*held), by_position);
	return m;
}

static void add_unit(struct plan *plan, const struct held *held, size_t n)
{
	const struct entry *e = held->entry;
	plan->units[plan->nunits++] = (struct plan_unit){
		.entry = e,
		.region = held->region,
		.bytes = region_volume(&e->shape, held->region) * dtype_size(e->dtype),
		.holder = plan->nholders,
		.nholders = (uint32_t)n,
	};
	for (size_t i = 0; i < n; i++)
		plan->holders[plan->nholders++] = (struct plan_holder){held[i].reg, held[i].index, held[i].source};
}

/* Pieces that begin at the same element are replicas, or overlap. Afterwards held[0..*n) is the first holder of each. */
static int unify(struct plan *plan, struct held *held, size_t *n, struct err *err)
{
	size_t units = 0;
	for (size_t i = 0, end; i < *n; i = end) {
		for (end = i + 1; end < *n && held[end].first == held[i].first; end++) {
			bool same = held[end].reg != held[end - 1].reg && replicas(held[i].entry, held[end].entry) &&
				    region_equal(&held->entry->shape, held[i].region, held[end].region);
			if (!same)
				return conflict(plan, &held[i], &held[end], err);
		}
		add_unit(plan, &held[i], end - i);
		held[units++] = held[i];
	}
	*n = units;
	return 0;
}

/* What the ranks hold together is disjoint, and when the job is complete it is everything. */
static int check_cover(const struct plan *plan, const struct entry *e, const struct held *held, size_t n,
		       bool job_complete, struct scratch *s, struct err *err)
{
	uint64_t covered = 0, volume = 0;
	for (size_t i = 0; i < n; i++) {
		s->regions[i] = held[i].region;
		s->owners[i] = plan->regs[held[i].reg]->rank;
		covered += region_volume(&e->shape, held[i].region);
	}
	size_t pair[2];
	int rc = region_disjoint(&e->shape, s->regions, n, &s->comparisons, pair);
	if (rc > 0)
		return conflict(plan, &held[pair[0]], &held[pair[1]], err);
	if (rc < 0)
		return err_set(err, rc, "\"%.200s\": its %zu pieces can not be checked (%s); register larger ones",
			       e->name, n, err_name(rc));
	shape_volume(&e->shape, &volume);
	if (!job_complete || covered == volume)
		return 0;
	return region_cover(&e->shape, e->name, s->regions, s->owners, n, err);
}

static int one_entry(struct plan *plan, const struct plan_ref *refs, size_t n, bool job_complete, struct scratch *s,
		     struct err *err)
{
	for (size_t i = 1; i < n; i++) {
		int rc = check_alike(plan, &refs[0], &refs[i], err);
		if (rc < 0)
			return rc;
	}
	size_t held = gather(refs, n, s->held);
	int rc = unify(plan, s->held, &held, err);
	return rc < 0 ? rc : check_cover(plan, refs->entry, s->held, held, job_complete, s, err);
}

int plan_units(struct plan *plan, bool job_complete, struct err *err)
{
	size_t n, end;
	AUTO_FREE struct plan_ref *refs = sorted_refs(plan, &n);
	AUTO_FREE struct held *held = calloc(plan->npieces + 1, sizeof(*held));
	AUTO_FREE const struct region **regions = calloc(plan->npieces + 1, sizeof(*regions));
	AUTO_FREE uint32_t *owners = calloc(plan->npieces + 1, sizeof(*owners));
	if (!refs || !held || !regions || !owners)
		return err_set(err, -ENOMEM, "no memory to lay out %zu pieces", plan->npieces);
	struct scratch s = {held, regions, owners, REGION_BUDGET};
	for (size_t i = 0; i < n; i = end) {
		for (end = i + 1; end < n && !strcmp(refs[end].entry->name, refs[i].entry->name);)
			end++;
		int rc = one_entry(plan, &refs[i], end - i, job_complete, &s, err);
		if (rc < 0)
			return rc;
		plan_count_tensor(plan, refs[i].entry);
	}
	return 0;
}
