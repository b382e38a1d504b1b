#include "base/bytes.h"
#include "format/tensor/digest.h"
#include "store/read/plan.h"

#include <stdlib.h>

static uint64_t want_bytes(const struct want *want)
{
	return region_volume(&want->shape, &want->region) * dtype_size(want->dtype);
}

static bool digested_when_read(const struct restore_plan *plan, size_t want)
{
	return !plan->wants[want].leaves || plan->whole[want];
}

/* The leaves of the destination among which a leaf of the piece is spread out: both are packed in the same order. false: it has nothing
 * for it. */
static bool spread_over(const struct restore_plan *plan, const struct plan_link *link, uint32_t leaf, uint64_t *first,
			uint64_t *last)
{
	const struct want *want = &plan->wants[link->want];
	uint64_t in_leaf = LEAF_SIZE / dtype_size(want->dtype), from = leaf * in_leaf;
	struct overlap o;
	struct region_run run;
	overlap_init(&o, &want->shape, saved_region(&plan->saved, (struct saved_piece){link->file, link->piece}),
		     &want->region);
	overlap_seek(&o, from);
	if (!overlap_next(&o, &run) || run.src >= from + in_leaf)
		return false;
	*first = run.dst / in_leaf;
	overlap_seek(&o, from + in_leaf);
	o.next--; /* the last element of the leaf that is in both */
	overlap_next(&o, &run);
	*last = run.dst / in_leaf;
	return true;
}

static void count(struct restore_plan *plan, const struct plan_link *link)
{
	_Atomic uint32_t *left = plan->left[link->want];
	uint64_t first, last;
	for (uint32_t leaf = link->first; left && leaf < link->end; leaf++)
		if (spread_over(plan, link, leaf, &first, &last))
			for (uint64_t l = first; l <= last; l++)
				atomic_fetch_add_explicit(&left[l], 1, memory_order_relaxed);
}

static void is_there(const struct restore_plan *plan, const struct restore_options *opts, size_t index, uint64_t leaf)
{
	const struct want *want = &plan->wants[index];
	uint64_t from = leaf * LEAF_SIZE, bytes = min_u64(want_bytes(want) - from, LEAF_SIZE);
	want->leaves[leaf] = digest_leaf((const uint8_t *)want->data + from, bytes);
	if (opts->arrived)
		opts->arrived(opts->arg, index, leaf, 1);
}

int want_leaves_begin(struct restore_plan *plan, const struct restore_options *opts)
{
	plan->left = calloc(plan->nwants + 1, sizeof(*plan->left));
	if (!plan->left)
		return -ENOMEM;
	for (size_t i = 0; i < plan->nwants; i++) {
		if (digested_when_read(plan, i))
			continue;
		plan->left[i] = calloc(leaf_count(want_bytes(&plan->wants[i])) + 1, sizeof(**plan->left));
		if (!plan->left[i])
			return -ENOMEM;
	}
	for (size_t l = 0; l < plan->nlinks; l++)
		count(plan, &plan->links[l]);
	/* Of what was not saved, and is optional, stays what is there. */
	for (size_t i = 0; i < plan->nwants; i++)
		for (uint64_t leaf = 0; plan->left[i] && leaf < leaf_count(want_bytes(&plan->wants[i])); leaf++)
			if (!atomic_load_explicit(&plan->left[i][leaf], memory_order_relaxed))
				is_there(plan, opts, i, leaf);
	return 0;
}

void want_leaves_copied(const struct restore_plan *plan, const struct restore_options *opts,
			const struct plan_link *link, uint32_t leaf)
{
	_Atomic uint32_t *left = plan->left[link->want];
	uint64_t first, last;
	if (!left || !spread_over(plan, link, leaf, &first, &last))
		return;
	for (uint64_t l = first; l <= last; l++)
		if (atomic_fetch_sub(&left[l], 1) == 1)
			is_there(plan, opts, link->want, l);
}

void want_leaves_end(struct restore_plan *plan)
{
	for (size_t i = 0; plan->left && i < plan->nwants; i++)
		free(plan->left[i]);
	free(plan->left);
	plan->left = NULL;
}
