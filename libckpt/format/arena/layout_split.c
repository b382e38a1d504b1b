#include "format/arena/layout_plan.h"

#include "base/cleanup.h"

#include <stdlib.h>

/* Units that the same ranks hold, in a row, by name and position within. */
static int by_holders(const void *a, const void *b, void *context)
{
	const struct plan *plan = context;
	size_t x = *(const size_t *)a, y = *(const size_t *)b;
	const struct plan_unit *u = &plan->units[x], *v = &plan->units[y];
	if (u->nholders != v->nholders)
		return u->nholders < v->nholders ? -1 : 1;
	for (uint32_t i = 0; i < u->nholders; i++) {
		uint32_t p = plan->holders[u->holder + i].reg, q = plan->holders[v->holder + i].reg;
		if (p != q)
			return p < q ? -1 : 1;
	}
	return x < y ? -1 : x > y;
}

static bool same_holders(const struct plan *plan, const struct plan_unit *u, const struct plan_unit *v)
{
	if (u->nholders != v->nholders)
		return false;
	for (uint32_t i = 0; i < u->nholders; i++)
		if (plan->holders[u->holder + i].reg != plan->holders[v->holder + i].reg)
			return false;
	return true;
}

static uint32_t outermost(const struct plan_unit *u)
{
	uint32_t d = 0;
	while (d + 1 < u->entry->shape.ndim && u->region->extent[d] <= 1)
		d++;
	return d;
}

/* Bytes between two places where the unit may be cut. */
static uint64_t cut_step(const struct plan_unit *u)
{
	if (region_contiguous(&u->entry->shape, u->region, NULL, NULL))
		return LEAF_SIZE;
	return u->bytes / u->region->extent[outermost(u)];
}

/* The place of a cut wished at `at` of a unit: the nearest possible one, so that its error is at most half a step. */
static uint64_t cut_place(const struct plan_unit *u, uint64_t at)
{
	if (at == 0 || at >= u->bytes)
		return at ? u->bytes : 0;
	uint64_t step = cut_step(u);
	return min_u64((at + step / 2) / step * step, u->bytes);
}

/* The elements of bytes [from, to) of a unit; both are places of cuts. */
static struct region cut_out(const struct plan_unit *u, uint64_t from, uint64_t to)
{
	uint64_t start, count;
	if (from == 0 && to == u->bytes)
		return *u->region;
	if (region_contiguous(&u->entry->shape, u->region, &start, &count)) {
		unsigned size = dtype_size(u->entry->dtype);
		return region_flat(start + from / size, (to - from) / size);
	}
	struct region r = *u->region;
	uint32_t d = outermost(u);
	uint64_t step = cut_step(u);
	r.offset[d] += from / step;
	r.extent[d] = (to - from) / step;
	return r;
}

static void choose(struct plan *plan, const struct plan_unit *u, uint32_t holder, struct region region)
{
	const struct plan_holder *h = &plan->holders[u->holder + holder];
	plan->choices[h->reg][plan->nchoices[h->reg]++] = (struct plan_choice){
		.entry = u->entry,
		.first = region_first(&u->entry->shape, &region),
		.region = region,
		.index = h->entry,
		.source = h->source,
	};
}

/* A unit that begins `at` bytes into the `total` of all units of its holders. Only the holders whose share it touches get
 * a part; an empty unit goes to the first. */
static void split_unit(struct plan *plan, const struct plan_unit *u, uint64_t at, uint64_t total)
{
	if (u->bytes == 0 || u->nholders == 1) {
		choose(plan, u, 0, *u->region);
		return;
	}
	uint32_t holder = (uint32_t)((unsigned __int128)at * u->nholders / total);
	for (uint64_t from = 0, to; from < u->bytes; from = to, holder++) {
		uint64_t share_end = (uint64_t)((unsigned __int128)total * (holder + 1) / u->nholders);
		to = share_end > at ? cut_place(u, share_end - at) : 0;
		if (to > from)
			choose(plan, u, holder, cut_out(u, from, to));
	}
}

int plan_split(struct plan *plan)
{
	AUTO_FREE size_t *order = calloc(plan->nunits + 1, sizeof(*order));
	if (!order)
		return -ENOMEM;
	for (size_t i = 0; i < plan->nunits; i++)
		order[i] = i;
	qsort_r(order, plan->nunits, sizeof(*order), by_holders, plan);
	for (size_t i = 0, end; i < plan->nunits; i = end) {
		const struct plan_unit *first = &plan->units[order[i]];
		uint64_t total = 0, at = 0;
		for (end = i; end < plan->nunits && same_holders(plan, first, &plan->units[order[end]]); end++)
			total += plan->units[order[end]].bytes;
		for (size_t k = i; k < end; k++) {
			split_unit(plan, &plan->units[order[k]], at, total);
			at += plan->units[order[k]].bytes;
		}
	}
	return 0;
}
