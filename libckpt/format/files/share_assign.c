/* Who writes what (shares.h). */
#include "format/files/share_numbers.h"

#include "base/cleanup.h"

#include <stdlib.h>

struct claim {
	struct held_share share;
	uint32_t node, at; /* shares[node].of[at] */
};

static int by_share(const void *a, const void *b)
{
	const struct claim *x = a, *y = b;
	if (x->share.what != y->share.what)
		return x->share.what < y->share.what ? -1 : 1;
	return x->node < y->node ? -1 : x->node > y->node;
}

/* By files: claims[0..n) are of one share. */
static void share_out_files(const struct claim *claims, size_t n, struct share_parts *const *parts)
{
	uint32_t writers = 0, part = 0;
	for (size_t i = 0; i < n; i++)
		writers += claims[i].share.cut == claims[0].share.cut;
	for (size_t i = 0; i < n; i++) {
		bool writes = claims[i].share.cut == claims[0].share.cut;
		parts[claims[i].node]->of[claims[i].at] = (struct share_part){
			.part = writes ? part : 0,
			.parts = writes ? writers : 0,
		};
		part += writes;
	}
}

/* By bytes. *turn: the first to write, so that small shares are not all written by the same node. */
static void share_out(const struct claim *claims, size_t n, struct share_parts *const *parts, uint64_t part_min,
		      uint64_t *turn)
{
	uint64_t most = claims[0].share.bytes / part_min;
	uint32_t writers = (uint32_t)(most > n ? n : most ? most : 1);
	for (size_t i = 0; i < n; i++) {
		uint32_t part = (uint32_t)((i + n - *turn % n) % n);
		bool writes = part < writers;
		parts[claims[i].node]->of[claims[i].at] =
			(struct share_part){.part = writes ? part : 0, .parts = writes ? writers : 0};
	}
	*turn += writers;
}

static size_t count_claims(const struct shares *const *shares, uint32_t n)
{
	size_t sum = 0;
	for (uint32_t i = 0; i < n; i++)
		sum += shares[i]->n;
	return sum;
}

/* Of the shares of each node that `not` does not have. */
static size_t fill_claims(const struct shares *const *shares, uint32_t n, const uint32_t * not, struct claim *claims)
{
	size_t m = 0;
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < shares[i]->n; k++)
			if (!not || !(not [i] & 1u << k))
				claims[m++] = (struct claim){.share = shares[i]->of[k], .node = i, .at = k};
	return m;
}

/* ---- which are mixed ---------------------------------------------------------------------------------------------- */

static int by_key(const void *a, const void *b)
{
	const struct claim *x = a, *y = b;
	if (x->share.key != y->share.key)
		return x->share.key < y->share.key ? -1 : 1;
	return by_share(a, b);
}

/* claims[0..n) are of one key, by what. */
static void mark(const struct claim *claims, size_t n, bool all, uint32_t *mixed, uint32_t *first)
{
	if (!all && claims[0].share.what == claims[n - 1].share.what)
		return;
	for (size_t i = 0; i < n; i++) {
		mixed[claims[i].node] |= 1u << claims[i].at;
		if (!i || claims[i].share.what != claims[i - 1].share.what)
			first[claims[i].node] |= 1u << claims[i].at;
	}
}

/* A share of several keys may have something in common with any other, unless it is the same on all nodes. claims: by key. */
static bool any_may_be_mixed(const struct claim *claims, size_t n, uint32_t nodes)
{
	size_t several = 0;
	while (several < n && !claims[several].share.key)
		several++;
	return several && (several < nodes || claims[0].share.what != claims[several - 1].share.what);
}

int shares_mixed(const struct shares *const *shares, uint32_t n, uint32_t *mixed, uint32_t *first)
{
	AUTO_FREE struct claim *claims = calloc(count_claims(shares, n) + 1, sizeof(*claims));
	if (!claims)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		mixed[i] = first[i] = 0;
	size_t m = fill_claims(shares, n, NULL, claims);
	qsort(claims, m, sizeof(*claims), by_key);
	bool all = any_may_be_mixed(claims, m, n);
	for (size_t i = 0, end; i < m; i = end) {
		for (end = i + 1; end < m && claims[end].share.key == claims[i].share.key;)
			end++;
		mark(claims + i, end - i, all, mixed, first);
	}
	return 0;
}

/* ---- who writes those that are not -------------------------------------------------------------------------------- */

int shares_assign(const struct shares *const *shares, const uint32_t *mixed, struct share_parts *const *parts,
		  uint32_t n, uint64_t part_min)
{
	uint64_t turn = 0;
	AUTO_FREE struct claim *claims = calloc(count_claims(shares, n) + 1, sizeof(*claims));
	if (!claims)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		*parts[i] = (struct share_parts){.n = shares[i]->n};
		for (uint32_t k = 0; k < shares[i]->n; k++)
			parts[i]->of[k].parts = mixed[i] & 1u << k ? SHARE_MIXED : 0;
	}
	size_t m = fill_claims(shares, n, mixed, claims);
	qsort(claims, m, sizeof(*claims), by_share);
	for (size_t i = 0, end; i < m; i = end) {
		for (end = i + 1; end < m && claims[end].share.what == claims[i].share.what;)
			end++;
		if (claims[i].share.bytes)
			share_out(claims + i, end - i, parts, part_min, &turn);
		else
			share_out_files(claims + i, end - i, parts);
	}
	return 0;
}
