#include "vote.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clones.h"
#include "digest_mix.h"

enum { BATCH = 256 }; /* tensors whose digests travel together */
_Static_assert(BATCH * sizeof(uint64_t) <= RING_SMALL_BYTES, "");

HOT uint64_t vote_digest(const float *from, size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++) {
		uint32_t bits;

		memcpy(&bits, from + i, sizeof(bits));
		sum += digest_mix(bits, i);
	}
	return sum;
}

/* A rank whose digest more than half of the ranks share, or -1. all[r * stride] is rank r's. */
static int majority(const uint64_t *all, size_t stride, int world)
{
	for (int r = 0; r < world; r++) {
		int same = 0;

		for (int other = 0; other < world; other++)
			same += all[(size_t)other * stride] == all[(size_t)r * stride];
		if (2 * same > world)
			return r;
	}
	return -1;
}

static void name(struct crew *c, const struct tensor *tensor, const uint64_t *all, size_t stride)
{
	int right = majority(all, stride, c->world), used = 0;

	used = snprintf(c->why, sizeof(c->why), "vote: %s is not the same on all ranks: ", tensor->name);
	if (right < 0) {
		snprintf(c->why + used, sizeof(c->why) - (size_t)used, "no %s of the %d ranks agree, so none is named",
			 c->world == 2 ? "majority" : "more than half", c->world);
		return;
	}
	for (int r = 0; r < c->world && used < (int)sizeof(c->why) - 40; r++)
		if (all[(size_t)r * stride] != all[(size_t)right * stride])
			used += snprintf(c->why + used, sizeof(c->why) - (size_t)used, "rank %d ", r);
	snprintf(c->why + used, sizeof(c->why) - (size_t)used, "deviates from the others");
}

static bool equal(const uint64_t *all, size_t stride, int world)
{
	for (int r = 1; r < world; r++)
		if (all[(size_t)r * stride] != all[0])
			return false;
	return true;
}

/* Compares `count` tensors of which these are our digests; all has room for world * count. */
static int compare(struct crew *c, const struct tensor *table, size_t count, const uint64_t *mine, uint64_t *all)
{
	int rc;

	memcpy(all + (size_t)c->rank * count, mine, count * sizeof(*all));
	rc = crew_gather(c, all, count * sizeof(*all));
	for (size_t i = 0; rc == 0 && i < count; i++) {
		if (equal(all + i, count, c->world))
			continue;
		name(c, &table[i], all + i, count);
		rc = -EBADMSG;
	}
	return rc;
}

int vote(struct crew *c, const struct tensor *table, size_t count, const uint64_t *digests)
{
	uint64_t *all = malloc((size_t)c->world * BATCH * sizeof(*all));
	int rc = 0;

	if (!all) {
		snprintf(c->why, sizeof(c->why), "out of memory");
		return -ENOMEM;
	}
	for (size_t i = 0; rc == 0 && i < count; i += BATCH)
		rc = compare(c, table + i, count - i < BATCH ? count - i : BATCH, digests + i, all);
	free(all);
	return rc;
}
