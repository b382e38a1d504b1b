#include "format/files/share_balance.h"

#include "base/bytes.h"
#include "base/cleanup.h"

#include <errno.h>
#include <stdlib.h>

enum { ROUNDS = 64 };
#define WORK_MAX (1u << 25) /* holders of classes that are looked at, in all rounds */

/* A holder of the class that is poured. */
struct cup {
	uint64_t load;
	uint32_t part;
};

struct balancing {
	struct balance_part *parts;
	uint64_t *loads; /* by node */
	struct cup *cups;
	uint64_t part_min;
};

static int by_load(const void *a, const void *b)
{
	const struct cup *x = a, *y = b;
	if (x->load != y->load)
		return x->load < y->load ? -1 : 1;
	return x->part < y->part ? -1 : x->part > y->part;
}

/* The more writers there are, the lower is the level up to which all of them come; and the smaller the part of the last of them. */
static uint32_t count_writers(const struct balancing *b, uint64_t bytes, uint32_t n, uint64_t *level)
{
	uint32_t most = (uint32_t)min_u64(n, max_u64(bytes / b->part_min, 1));
	unsigned __int128 sum = bytes;
	for (uint32_t i = 0; i < most; i++)
		sum += b->cups[i].load;
	for (uint32_t m = most; m; sum -= b->cups[--m].load) {
		*level = (uint64_t)(sum / m);
		if (m == 1 || *level >= b->cups[m - 1].load + b->part_min)
			return m;
	}
	return 0;
}

/* True: somebody writes something else of it than before. */
static bool pour(struct balancing *b, const struct balance_class *c)
{
	bool changed = false;
	uint64_t level = 0, left = c->bytes;
	for (uint32_t i = 0; i < c->n; i++) {
		const struct balance_part *p = &b->parts[c->first + i];
		b->loads[p->node] -= p->bytes;
		b->cups[i] = (struct cup){b->loads[p->node], c->first + i};
	}
	qsort(b->cups, c->n, sizeof(*b->cups), by_load);
	uint32_t writers = count_writers(b, c->bytes, c->n, &level);
	for (uint32_t i = c->n; i-- > 0;) {
		struct balance_part *p = &b->parts[b->cups[i].part];
		uint64_t bytes = i >= writers ? 0 : i ? level - b->cups[i].load : left;
		changed |= p->bytes != bytes;
		p->bytes = bytes;
		left -= bytes;
		b->loads[p->node] += bytes;
	}
	return changed;
}

static int by_choice(const void *a, const void *b, void *classes)
{
	const struct balance_class *all = classes, *x = &all[*(const uint32_t *)a], *y = &all[*(const uint32_t *)b];
	if (x->n != y->n)
		return x->n < y->n ? -1 : 1;
	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return x < y ? -1 : x > y;
}

/* Who has least choice first, and large ones before small ones. */
static void balance(struct balancing *b, const struct balance_class *classes, uint32_t n, uint32_t *order,
		    uint64_t work)
{
	uint64_t rounds = min_u64(ROUNDS, WORK_MAX / (work + 1) + 1);
	bool changed = true;
	for (uint32_t i = 0; i < n; i++)
		order[i] = i;
	qsort_r(order, n, sizeof(*order), by_choice, (void *)classes);
	for (uint64_t r = 0; changed && r < rounds; r++) {
		changed = false;
		for (uint32_t i = 0; i < n; i++)
			changed |= pour(b, &classes[order[i]]);
	}
}

int share_balance(const struct balance_class *classes, uint32_t nclasses, struct balance_part *parts, uint32_t nnodes,
		  uint64_t part_min)
{
	AUTO_FREE uint64_t *loads = calloc(nnodes + 1ull, sizeof(*loads));
	AUTO_FREE uint32_t *order = calloc(nclasses + 1ull, sizeof(*order));
	AUTO_FREE struct cup *cups = calloc(nnodes + 1ull, sizeof(*cups));
	struct balancing b = {.parts = parts, .loads = loads, .cups = cups, .part_min = part_min};
	uint64_t work = 0;
	if (!loads || !order || !cups)
		return -ENOMEM;
	for (uint32_t i = 0; i < nclasses; i++)
		work += classes[i].n;
	balance(&b, classes, nclasses, order, work);
	return 0;
}
