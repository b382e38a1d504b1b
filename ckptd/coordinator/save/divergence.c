#include "coordinator/save/divergence.h"

#include "base/bytes.h"
#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMED_MAX = 8 };

struct coord_divergence {
	struct step_id id;
	struct peer_replica_digest *of; /* what was told */
	uint32_t n, cap;
	struct peer_compare ask; /* count 0: nothing is asked */
	uint64_t asked_ns;
	uint32_t answered; /* ranks of the nodes that have answered it */
	uint8_t *heard;    /* by node: it has */
	bool told[PEER_COMPARE_PARTS], differs[PEER_COMPARE_PARTS];
	uint64_t sums[PEER_COMPARE_PARTS];
	struct peer_sum *ranks; /* room for the world */
	uint32_t nranks;
	char name[NAME_TENSOR_MAX];
};

void coord_divergence_free(struct coord_divergence *v)
{
	if (!v)
		return;
	free(v->of);
	free(v->heard);
	free(v->ranks);
	free(v);
}

/* ---- what is told ------------------------------------------------------------------------------------------------ */

static int by_set(const void *a, const void *b)
{
	const struct peer_replica_digest *x = a, *y = b;
	if (x->set != y->set)
		return x->set < y->set ? -1 : 1;
	return x->sum < y->sum ? -1 : x->sum > y->sum;
}

static void compact(struct coord_divergence *v)
{
	uint32_t n = 0;
	if (v->n)
		qsort(v->of, v->n, sizeof(*v->of), by_set);
	for (uint32_t i = 0; i < v->n; i++)
		if (!n || by_set(&v->of[n - 1], &v->of[i]))
			v->of[n++] = v->of[i];
	v->n = n;
}

/* One that tells again is compacted away. */
static int make_room(struct coord_divergence *v, uint32_t n)
{
	if (v->n + n <= v->cap)
		return 0;
	compact(v);
	if (v->n + n <= v->cap / 2)
		return 0;
	if (v->n > REPLICA_DIGESTS_MAX)
		return -E2BIG;
	uint32_t cap = 2 * (v->n + n);
	struct peer_replica_digest *of = realloc(v->of, cap * sizeof(*of));
	if (!of)
		return -ENOMEM;
	v->of = of;
	v->cap = cap;
	return 0;
}

static struct coord_divergence *make(const struct coord *c)
{
	struct coord_divergence *v = calloc(1, sizeof(*v));
	if (!v)
		return NULL;
	v->heard = calloc(c->nnodes, 1);
	if (v->heard)
		return v;
	free(v);
	return NULL;
}

int coord_divergence_add(const struct coord *c, struct coord_divergence **v,
			 const struct peer_replica_digests *replica_digests)
{
	if (!*v)
		*v = make(c);
	int rc = *v ? make_room(*v, replica_digests->n) : -ENOMEM;
	if (rc)
		return rc;
	(*v)->id = replica_digests->id;
	memcpy((*v)->of + (*v)->n, replica_digests->of, replica_digests->n * sizeof(replica_digests->of[0]));
	(*v)->n += replica_digests->n;
	return 0;
}

static bool differs(struct coord_divergence *v)
{
	if (!v)
		return false;
	compact(v);
	for (uint32_t i = 1; i < v->n; i++) {
		if (v->of[i].set != v->of[i - 1].set)
			continue;
		v->ask = (struct peer_compare){.id = v->id, .set = v->of[i].set, .count = v->of[i].pieces};
		return true;
	}
	return false;
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

static void ask_all(struct coord *c, struct coord_divergence *v)
{
	struct peer_order ask = {.type = PEER_COMPARE, .compare = v->ask};
	memset(v->heard, 0, c->nnodes);
	v->asked_ns = clock_now();
	v->answered = v->nranks = 0;
	memset(v->told, 0, sizeof(v->told));
	memset(v->differs, 0, sizeof(v->differs));
	for (uint32_t n = 0; n < c->nnodes; n++)
		if (c->nodes[n].ranks)
			coord_order(c, n, &ask);
}

int coord_divergence_trust(struct coord *c, struct coord_divergence *v, struct step_id id, char text[WIRE_TEXT_MAX])
{
	bool follows = c->deviated.epoch == id.epoch && id.step > c->deviated.step;
	if (differs(v)) {
		if (!follows)
			c->deviated = id;
		ask_all(c, v);
		return -EAGAIN;
	}
	if (!follows)
		return 0;
	snprintf(text, WIRE_TEXT_MAX, "it comes after step %lu, in which replicas differed: go back to an earlier one",
		 (unsigned long)c->deviated.step);
	return -EUCLEAN;
}

bool coord_divergence_overdue(const struct coord *c, const struct coord_divergence *v, uint64_t ns, uint32_t *node)
{
	if (!v || !v->ask.count || clock_now() - v->asked_ns < ns)
		return false;
	*node = COORD_NOBODY;
	coord_each(c, n) if (!v->heard[n])
	{
		*node = n;
		break;
	}
	return true;
}

static bool same(const struct peer_compare *a, const struct peer_compare *b)
{
	return a->set == b->set && a->first == b->first && a->count == b->count;
}

static void note_part(struct coord_divergence *v, const struct peer_sum *part)
{
	if (part->of >= PEER_COMPARE_PARTS)
		return;
	if (v->told[part->of] && v->sums[part->of] != part->sum)
		v->differs[part->of] = true;
	v->told[part->of] = true;
	v->sums[part->of] = part->sum;
}

static int note(const struct coord *c, struct coord_divergence *v, const struct peer_compared *m)
{
	if (m->ask.count == 1 && !v->ranks)
		v->ranks = calloc(c->world, sizeof(*v->ranks));
	if (m->ask.count == 1 && !v->ranks)
		return -ENOMEM;
	for (uint32_t i = 0; i < m->n; i++) {
		if (m->ask.count > 1)
			note_part(v, &m->of[i]);
		else if (v->nranks < c->world)
			v->ranks[v->nranks++] = m->of[i];
	}
	if (m->n && m->ask.count == 1)
		memcpy(v->name, m->name, sizeof(v->name));
	return 0;
}

/* False: all parts are alike. */
static bool narrow(struct coord_divergence *v)
{
	uint32_t part = 0, width = peer_compare_part(&v->ask), end = v->ask.first + v->ask.count;
	while (part < PEER_COMPARE_PARTS && !v->differs[part])
		part++;
	uint64_t first = v->ask.first + (uint64_t)part * width;
	if (part == PEER_COMPARE_PARTS || first >= end)
		return false;
	v->ask.first = (uint32_t)first;
	v->ask.count = (uint32_t)min_u64(width, end - first);
	return true;
}

int coord_divergence_heard(struct coord *c, struct coord_divergence *v, uint32_t node, const struct peer_compared *m,
			   char text[WIRE_TEXT_MAX])
{
	if (!v->ask.count || !same(&v->ask, &m->ask) || v->heard[node])
		return 0;
	v->heard[node] = true;
	v->answered += c->nodes[node].ranks;
	if (note(c, v, m)) {
		snprintf(text, WIRE_TEXT_MAX, "replicas differ, and there is no memory to tell where");
		return -ENOMEM;
	}
	if (v->answered != c->world)
		return 0;
	if (v->ask.count == 1) {
		coord_divergence_result(v->ranks, v->nranks, v->name, text);
		return -EUCLEAN;
	}
	if (!narrow(v)) { /* an arena was written to since */
		snprintf(text, WIRE_TEXT_MAX, "replicas differ, and no longer where they did");
		return -EUCLEAN;
	}
	ask_all(c, v);
	return 0;
}

/* ---- the finding ------------------------------------------------------------------------------------------------- */

static int by_sum(const void *a, const void *b)
{
	const struct peer_sum *x = a, *y = b;
	if (x->sum != y->sum)
		return x->sum < y->sum ? -1 : 1;
	return x->of < y->of ? -1 : x->of > y->of;
}

/* The most ranks that agree; *first is the first of them. */
static uint32_t largest(const struct peer_sum *ranks, uint32_t n, uint32_t *first)
{
	uint32_t most = 0;
	for (uint32_t from = 0, i = 1; i <= n; i++) {
		if (i < n && ranks[i].sum == ranks[from].sum)
			continue;
		if (i - from > most) {
			most = i - from;
			*first = from;
		}
		from = i;
	}
	return most;
}

static int by_rank(const void *a, const void *b)
{
	const struct peer_sum *x = a, *y = b;
	return x->of < y->of ? -1 : x->of > y->of;
}

static void name_ranks(struct peer_sum *ranks, uint32_t n, char *text, size_t size)
{
	int at = snprintf(text, size, n == 1 ? "rank" : "ranks");
	qsort(ranks, n, sizeof(*ranks), by_rank);
	for (uint32_t i = 0; i < n && i < NAMED_MAX; i++)
		at += snprintf(text + at, size - (size_t)at, "%s %u", !i ? "" : i + 1 == n ? " and" : ",", ranks[i].of);
	if (n > NAMED_MAX)
		snprintf(text + at, size - (size_t)at, " and %u others", n - NAMED_MAX);
}

void coord_divergence_result(struct peer_sum *ranks, uint32_t n, const char *tensor, char text[WIRE_TEXT_MAX])
{
	char who[160];
	uint32_t first = 0;
	qsort(ranks, n, sizeof(*ranks), by_sum);
	uint32_t most = largest(ranks, n, &first);
	if (most == n) { /* an arena was written to since */
		snprintf(text, WIRE_TEXT_MAX, "replicas differed in %.200s, and no longer do", tensor);
		return;
	}
	if (n < 3) {
		snprintf(text, WIRE_TEXT_MAX,
			 "replicas differ in %.200s: %u ranks hold it, and no majority says which is right", tensor, n);
		return;
	}
	if (2 * (uint64_t)most <= n) {
		snprintf(text, WIRE_TEXT_MAX,
			 "replicas differ in %.200s: no more than half of the %u ranks that hold it agree, so none is "
			 "named",
			 tensor, n);
		return;
	}
	memmove(ranks + first, ranks + first + most, (n - first - most) * sizeof(*ranks));
	name_ranks(ranks, n - most, who, sizeof(who));
	snprintf(text, WIRE_TEXT_MAX, "replicas differ: %s deviate%s from the others in %.200s", who,
		 n - most == 1 ? "s" : "", tensor);
}
