#include "store/read/plan.h"

#include "base/bytes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first problem is told in words, the others are counted. */
struct problems {
	struct err *err;
	int rc;
	uint64_t more;
};

static void __attribute__((format(printf, 3, 4))) problem(struct problems *p, int rc, const char *fmt, ...)
{
	if (p->rc) {
		p->more++;
		return;
	}
	p->rc = rc;
	if (!p->err)
		return;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(p->err->text, sizeof(p->err->text), fmt, ap);
	va_end(ap);
}

static int problems_finish(const struct problems *p)
{
	char more[64];
	if (p->err && p->more) {
		int n = snprintf(more, sizeof(more), " (and %llu more problems)", (unsigned long long)p->more);
		size_t len = strlen(p->err->text), room = sizeof(p->err->text) - 1 - (size_t)n;
		memcpy(p->err->text + (len < room ? len : room), more, (size_t)n + 1);
	}
	return p->rc;
}

/* Whether the want is one that can be searched for. */
static bool check_want(const struct restore_plan *plan, const struct saved_tensor *tensor, const struct want *want,
		       struct problems *problems)
{
	char dir[NAME_DIR_MAX], a[160], b[160];
	name_dir(plan->ck->ref.id, dir);
	if (!tensor->meta) {
		if (!want->optional)
			problem(problems, -EINVAL, "tensor %s, which rank %u wants, is not in checkpoint %s of job %s",
				want->tensor, want->owner, dir, plan->ck->ref.job);
		return false;
	}
	if (want->dtype != tensor->meta->dtype || !shape_equal(&want->shape, &tensor->meta->shape)) {
		problem(problems, -EINVAL, "tensor %s: rank %u wants %s %s, checkpoint %s has %s %s", want->tensor,
			want->owner, dtype_name(want->dtype), shape_text(&want->shape, a, sizeof(a)), dir,
			dtype_name(tensor->meta->dtype), shape_text(&tensor->meta->shape, b, sizeof(b)));
		return false;
	}
	struct err err;
	int rc = region_check(&want->shape, &want->region, &err);
	if (rc < 0)
		problem(problems, rc, "tensor %s, wanted by rank %u: %s", want->tensor, want->owner, err.text);
	return rc == 0;
}

static int add_link(struct restore_plan *plan, struct saved_piece piece, uint32_t want)
{
	if (plan->nlinks == plan->links_cap) {
		size_t cap = plan->links_cap ? plan->links_cap * 2 : 256;
		struct plan_link *grown = realloc(plan->links, cap * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		plan->links = grown;
		plan->links_cap = cap;
	}
	plan->links[plan->nlinks++] = (struct plan_link){.file = piece.file, .piece = piece.piece, .want = want};
	return 0;
}

/* The first element of the region that no hit holds, as packed index. The steps are bounded: this only serves a message. */
static bool first_hole(const struct restore_plan *plan, const struct want *want, const struct saved_hits *hits,
		       uint64_t *hole)
{
	uint64_t at = 0, volume = region_volume(&want->shape, &want->region), steps = 1 << 20;
	for (bool moved = true; moved && at < volume;) {
		moved = false;
		for (size_t i = 0; i < hits->n && steps; i++, steps--) {
			struct overlap o;
			struct region_run run;
			overlap_init(&o, &want->shape, &want->region, saved_region(&plan->saved, hits->hits[i].piece));
			overlap_seek(&o, at);
			if (!overlap_next(&o, &run) || run.src != at)
				continue;
			at += run.count;
			moved = true;
		}
	}
	*hole = at;
	return steps && at < volume;
}

static void tell_hole(const struct restore_plan *plan, const struct want *want, const struct saved_hits *hits,
		      uint64_t covered, struct problems *problems)
{
	char text[160], dir[NAME_DIR_MAX], where[96] = "";
	uint64_t hole, volume = region_volume(&want->shape, &want->region);
	if (!problems->rc && first_hole(plan, want, hits, &hole))
		snprintf(where, sizeof(where), "; the first is number %llu of the region", (unsigned long long)hole);
	name_dir(plan->ck->ref.id, dir);
	problem(problems, -ENODATA,
		"tensor %s: of %s, which rank %u wants, %llu of %llu elements were never saved in checkpoint %s%s",
		want->tensor, region_text(&want->shape, &want->region, text, sizeof(text)), want->owner,
		(unsigned long long)(volume - covered), (unsigned long long)volume, dir, where);
}

static int check_disjoint(const struct restore_plan *plan, const struct want *want, const struct saved_hits *hits,
			  uint64_t *budget, struct problems *problems)
{
	const struct region **regions = malloc((hits->n + 1) * sizeof(*regions));
	if (!regions)
		return -ENOMEM;
	for (size_t i = 0; i < hits->n; i++)
		regions[i] = saved_region(&plan->saved, hits->hits[i].piece);
	size_t pair[2];
	int rc = region_disjoint(&want->shape, regions, hits->n, budget, pair);
	if (rc == 1) {
		char a[128], b[128];
		problem(problems, -EEXIST, "tensor %s was saved twice in part: %s in %s and %s in %s", want->tensor,
			region_text(&want->shape, regions[pair[0]], a, sizeof(a)),
			plan_file(plan, hits->hits[pair[0]].piece.file)->name,
			region_text(&want->shape, regions[pair[1]], b, sizeof(b)),
			plan_file(plan, hits->hits[pair[1]].piece.file)->name);
	} else if (rc == -E2BIG) {
		problem(problems, rc, "tensor %s: its %zu pieces are too entangled to tell whether any was saved twice",
			want->tensor, hits->n);
	}
	free(regions);
	return rc == -ENOMEM ? rc : 0;
}

/* Links the want with the pieces that hold it; they must hold all of it, once. */
static int link_want(struct restore_plan *plan, const struct saved_axis *axis, uint64_t index, struct saved_hits *hits,
		     uint64_t *budget, struct problems *problems)
{
	const struct want *want = &plan->wants[index];
	uint64_t covered = 0, volume = region_volume(&want->shape, &want->region);
	int rc = saved_search(axis, &want->region, hits);
	for (size_t i = 0; rc == 0 && i < hits->n; i++) {
		covered += hits->hits[i].volume;
		rc = add_link(plan, hits->hits[i].piece, (uint32_t)index);
	}
	if (rc == 0 && hits->n > 1)
		rc = check_disjoint(plan, want, hits, budget, problems);
	if (rc == 0 && covered < volume)
		tell_hole(plan, want, hits, covered, problems);
	plan->whole[index] = rc == 0 && hits->n == 1 &&
			     region_equal(&want->shape, &want->region, saved_region(&plan->saved, hits->hits[0].piece));
	plan->useful += volume * dtype_size(want->dtype);
	return rc;
}

static int link_tensor(struct restore_plan *plan, const struct saved_tensor *tensor, struct saved_hits *hits,
		       struct problems *problems)
{
	struct saved_axis axis = {0};
	uint64_t budget = REGION_BUDGET;
	int rc = 0;
	for (uint64_t i = 0; rc == 0 && i < tensor->nwants; i++) {
		uint64_t want = plan->saved.wants[tensor->first_want + i];
		if (!check_want(plan, tensor, &plan->wants[want], problems))
			continue;
		if (!axis.spans)
			rc = saved_axis_make(&plan->saved, tensor, &axis);
		if (rc == 0)
			rc = link_want(plan, &axis, want, hits, &budget, problems);
	}
	saved_axis_free(&axis);
	return rc;
}

static int link_all(struct restore_plan *plan, struct err *err)
{
	struct problems problems = {.err = err};
	struct saved_hits hits = {0};
	int rc = 0;
	for (uint32_t t = 0; rc == 0 && t < plan->saved.ntensors; t++)
		rc = link_tensor(plan, &plan->saved.tensors[t], &hits, &problems);
	free(hits.hits);
	if (rc < 0)
		return err_set(err, rc, "no memory for a plan of %zu copies", plan->nlinks);
	return problems_finish(&problems);
}

static int by_bytes(const void *a, const void *b)
{
	const struct plan_link *x = a, *y = b;
	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	if (x->piece != y->piece)
		return x->piece < y->piece ? -1 : 1;
	return x->want < y->want ? -1 : x->want > y->want;
}

static uint64_t bytes_to_read(const struct restore_plan *plan)
{
	uint64_t bytes = 0;
	struct extent_at at = {0};
	struct extent extent;
	while (extent_next(plan, DISK_CHUNK, &at, &extent))
		bytes += min_u64(extent.len, manifest_stored(plan_file(plan, extent.file)) - extent.offset);
	return bytes;
}

int restore_plan_make(struct checkpoint *ck, const struct want *wants, size_t n, struct restore_plan **out,
		      struct err *err)
{
	struct restore_plan *plan = calloc(1, sizeof(*plan));
	if (!plan)
		return err_set(err, -ENOMEM, "no memory for a plan");
	plan->ck = ck;
	plan->wants = wants;
	plan->nwants = n;
	plan->whole = calloc(n + 1, sizeof(*plan->whole));
	int rc = plan->whole ? saved_make(ck, wants, n, &plan->saved, err)
			     : err_set(err, -ENOMEM, "no memory for a plan of %zu destinations", n);
	if (rc == 0)
		rc = link_all(plan, err);
	if (rc == 0 && plan->nlinks)
		qsort(plan->links, plan->nlinks, sizeof(*plan->links), by_bytes);
	if (rc == 0)
		rc = plan_leaves(plan, err);
	if (rc < 0) {
		restore_plan_free(plan);
		return rc;
	}
	plan->read = bytes_to_read(plan);
	*out = plan;
	return 0;
}

void restore_plan_free(struct restore_plan *plan)
{
	if (!plan)
		return;
	free(plan->needed);
	free(plan->digests);
	free(plan->pieces);
	free(plan->links);
	for (uint32_t f = 0; plan->indexes && f < plan->saved.nfiles; f++)
		packed_index_free(&plan->indexes[f]);
	free(plan->indexes);
	saved_free(&plan->saved);
	free(plan->whole);
	free(plan);
}

void restore_plan_cost(const struct restore_plan *plan, uint64_t *useful, uint64_t *read)
{
	*useful = plan->useful;
	*read = plan->read;
}
