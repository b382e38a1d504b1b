#include "save/replica_digests.h"

#include "base/bytes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int replica_digests_begin(struct part *part)
{
	const struct witnesses *w = &part->mem->witnesses;
	uint32_t flags = part->mem->head->slots[part->slot].flags;
	if (!(flags & SLOT_WITNESSES) || flags & SLOT_NO_SOURCE_DIGESTS || !w->npieces)
		return 0;
	if (w->nsets > WITNESS_SETS_MAX)
		return -E2BIG;
	part->replica_digests = calloc(w->npieces, sizeof(*part->replica_digests));
	return part->replica_digests ? 1 : -ENOMEM;
}

void replica_digests_fill(struct part *part)
{
	witness_sums(&part->mem->witnesses, memory_leaves(part->mem, part->slot), part->replica_digests);
}

/* ---- sums of sets ------------------------------------------------------------------------------------------------ */

static int by_set(const void *a, const void *b)
{
	const struct peer_replica_digest *x = a, *y = b;
	if (x->set != y->set)
		return x->set < y->set ? -1 : 1;
	return x->sum < y->sum ? -1 : x->sum > y->sum;
}

static uint32_t keep_each_once(struct peer_replica_digest *replica_digests, uint32_t n)
{
	uint32_t kept = 0;
	if (n)
		qsort(replica_digests, n, sizeof(*replica_digests), by_set);
	for (uint32_t i = 0; i < n; i++)
		if (!kept || by_set(&replica_digests[kept - 1], &replica_digests[i]))
			replica_digests[kept++] = replica_digests[i];
	return kept;
}

int replica_digests_list(const struct snapshot *s, struct peer_replica_digest **out, uint32_t *n)
{
	uint32_t all = 0;
	for (uint32_t r = 0; r < s->nparts; r++)
		all += s->parts[r].replica_digests ? s->parts[r].mem->witnesses.nsets : 0;
	struct peer_replica_digest *replica_digests = calloc((size_t)all + 1, sizeof(*replica_digests));
	if (!replica_digests)
		return -ENOMEM;
	all = 0;
	for (uint32_t r = 0; r < s->nparts; r++) {
		const uint64_t *sums = s->parts[r].replica_digests;
		const struct witnesses *w = &s->parts[r].mem->witnesses;
		for (uint32_t i = 0; sums && i < w->nsets; i++) {
			const struct witness_set *set = &w->sets[i];
			replica_digests[all++] =
				(struct peer_replica_digest){set->id, witness_sum(sums + set->first, set->n), set->n};
		}
	}
	*n = keep_each_once(replica_digests, all);
	*out = replica_digests;
	return 0;
}

/* ---- details ----------------------------------------------------------------------------------------------------- */

/* NULL: the rank does not hold it, or is not compared. */
static const struct witness_set *find(const struct part *part, const struct peer_compare *ask)
{
	const struct witnesses *w = &part->mem->witnesses;
	for (uint32_t i = 0; part->replica_digests && i < w->nsets; i++) {
		const struct witness_set *set = &w->sets[i];
		if (set->id == ask->set)
			return ask->first < set->n && ask->count <= set->n - ask->first ? set : NULL;
	}
	return NULL;
}

static void add_part(struct peer_compared *out, uint32_t part, uint64_t sum)
{
	uint32_t same = 0;
	for (uint32_t i = 0; i < out->n; i++) {
		if (out->of[i].of == part && out->of[i].sum == sum)
			return;
		same += out->of[i].of == part;
	}
	if (same < 2) /* that they differ is all there is to tell */
		out->of[out->n++] = (struct peer_sum){part, sum};
}

static void tell_parts(const struct peer_compare *ask, const uint64_t *sums, struct peer_compared *out)
{
	uint32_t width = peer_compare_part(ask);
	for (uint32_t at = 0; at < ask->count; at += width)
		add_part(out, at / width, witness_sum(sums + at, (uint32_t)min_u64(width, ask->count - at)));
}

static void tell_rank(const struct part *part, const struct witness_set *set, struct peer_compared *out)
{
	const struct witnesses *w = &part->mem->witnesses;
	const struct registration *reg = &part->mem->table->reg;
	uint32_t at = set->first + out->ask.first;
	out->of[out->n++] = (struct peer_sum){reg->rank, part->replica_digests[at]};
	snprintf(out->name, sizeof(out->name), "%s", reg->entries[w->pieces[at].entry].name);
}

void replica_digests_tell(const struct snapshot *s, const struct peer_compare *ask, struct peer_compared *out)
{
	*out = (struct peer_compared){.ask = *ask};
	for (uint32_t r = 0; r < s->nparts && r < PEER_COMPARED_MAX; r++) {
		const struct part *part = &s->parts[r];
		const struct witness_set *set = part->mem ? find(part, ask) : NULL;
		if (set && ask->count == 1)
			tell_rank(part, set, out);
		else if (set)
			tell_parts(ask, part->replica_digests + set->first + ask->first, out);
	}
}
