#include "coordinator/tables.h"

#include "base/cleanup.h"
#include "base/quoted.h"
#include "format/tensor/digest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct known {
	struct tensor_head head;
	uint32_t rank; /* that knows it so */
};

struct tables_comparison {
	uint64_t set;    /* of the digests */
	uint32_t *ranks; /* one of each */
	uint32_t n, at;
	uint32_t next; /* entry of the table of ranks[at] that is asked for */
	bool asked;
	struct known *found;
	size_t nfound, room;
	/* A tensor that two ranks know in two ways: 0: none. Both say in words how. */
	uint64_t disputed;
	uint32_t sides[2], heard;
	struct peer_tensors *said; /* of the first of them */
	int rc;                    /* that they do contradict each other */
	struct err err;
};

int tables_init(struct tables *t, uint32_t world)
{
	*t = (struct tables){.world = world, .of = calloc(world, sizeof(*t->of))};
	return t->of ? 0 : -ENOMEM;
}

static void stop(struct tables *t)
{
	if (t->now) {
		free(t->now->ranks);
		free(t->now->found);
		free(t->now->said);
	}
	free(t->now);
	t->now = NULL;
}

void tables_free(struct tables *t)
{
	stop(t);
	free(t->of);
}

void tables_ready(struct tables *t, uint32_t rank, uint64_t digest)
{
	stop(t);
	t->of[rank] = digest;
}

/* ---- which ------------------------------------------------------------------------------------------------------- */

static int by_digest(const void *a, const void *b, void *of)
{
	const uint32_t *x = a, *y = b;
	const uint64_t *digests = of;
	if (digests[*x] != digests[*y])
		return digests[*x] < digests[*y] ? -1 : 1;
	return *x < *y ? -1 : *x > *y;
}

static bool all_alike(const struct tables *t)
{
	for (uint32_t r = 1; r < t->world; r++)
		if (t->of[r] != t->of[0])
			return false;
	return true;
}

static int begin(struct tables *t)
{
	AUTO_FREE uint64_t *digests = calloc(t->world, sizeof(*digests));
	struct tables_comparison *c = t->now = calloc(1, sizeof(*c));
	if (c)
		c->ranks = calloc(t->world, sizeof(*c->ranks));
	if (!c || !c->ranks || !digests) {
		stop(t);
		return -ENOMEM;
	}
	for (uint32_t r = 0; r < t->world; r++)
		c->ranks[r] = r;
	qsort_r(c->ranks, t->world, sizeof(*c->ranks), by_digest, t->of);
	for (uint32_t i = 0; i < t->world; i++) {
		uint64_t digest = t->of[c->ranks[i]];
		if (i && digest == digests[c->n - 1])
			continue;
		digests[c->n] = digest;
		c->ranks[c->n++] = c->ranks[i];
	}
	c->set = digest_bytes(digests, c->n * sizeof(*digests)).low;
	return 0;
}

/* ---- what they list ---------------------------------------------------------------------------------------------- */

static int by_head(const void *a, const void *b)
{
	const struct known *x = a, *y = b;
	if (x->head.name != y->head.name)
		return x->head.name < y->head.name ? -1 : 1;
	if (x->head.is != y->head.is)
		return x->head.is < y->head.is ? -1 : 1;
	return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* Each tensor once; or the first that is known in two ways. */
static void settle(struct tables_comparison *c)
{
	size_t n = 0;
	if (c->nfound)
		qsort(c->found, c->nfound, sizeof(*c->found), by_head);
	for (size_t i = 0; i < c->nfound; i++) {
		const struct known *is = &c->found[i], *last = n ? &c->found[n - 1] : NULL;
		if (!last || last->head.name != is->head.name) {
			c->found[n++] = *is;
		} else if (last->head.is != is->head.is) {
			c->disputed = is->head.name;
			c->sides[last->rank > is->rank] = last->rank;
			c->sides[last->rank < is->rank] = is->rank;
			return;
		}
	}
	c->nfound = n;
}

/* False: nothing more is compared. */
static bool make_room(struct tables_comparison *c, uint32_t n)
{
	if (c->nfound + n > c->room)
		settle(c);
	size_t room = c->room;
	while (c->nfound + n > room / 2)
		room = room ? room * 2 : PEER_TENSORS_LISTED;
	if (c->disputed || c->nfound + n <= c->room / 2)
		return !c->disputed;
	void *grown = room <= TABLES_HEADS_MAX * 2ull ? reallocarray(c->found, room, sizeof(*c->found)) : NULL;
	if (!grown)
		return false;
	c->found = grown;
	c->room = room;
	return true;
}

static void hear_list(struct tables_comparison *c, const struct peer_tensors *said)
{
	bool goes_on = make_room(c, said->n);
	for (uint32_t i = 0; goes_on && i < said->n; i++)
		c->found[c->nfound++] = (struct known){tensor_heads_get(said->heads, i), said->ask.rank};
	c->next = said->next;
	if (!goes_on)
		c->at = c->n;
	else if (!c->next)
		c->at++;
	if (c->at == c->n && !c->disputed)
		settle(c);
}

/* ---- what two dispute -------------------------------------------------------------------------------------------- */

/* Two names with one hash are no contradiction: no more is compared then, which happens to nobody. */
static void judge(struct tables_comparison *c, const struct peer_tensors *a, const struct peer_tensors *b)
{
	c->disputed = 0;
	c->at = c->n;
	if (!*a->name || strcmp(a->name, b->name) || !strcmp(a->text, b->text))
		return;
	c->rc = err_set(&c->err, -EINVAL,
			"tensor %s is %s on rank %u, and %s on rank %u: register it alike on all ranks",
			quoted(a->name).text, a->text, a->ask.rank, b->text, b->ask.rank);
}

static void hear_words(struct tables_comparison *c, const struct peer_tensors *said)
{
	if (c->heard++) {
		judge(c, c->said, said);
		return;
	}
	c->said = malloc(sizeof(*c->said));
	if (c->said)
		*c->said = *said;
	else
		c->rc = err_set(&c->err, -ENOMEM, "no memory to compare the tensors of all ranks");
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

static struct peer_tensors_ask asked_now(const struct tables_comparison *c)
{
	if (c->disputed)
		return (struct peer_tensors_ask){.rank = c->sides[c->heard], .name = c->disputed};
	return (struct peer_tensors_ask){.rank = c->ranks[c->at], .first = c->next};
}

static bool is_over(const struct tables_comparison *c)
{
	return c->rc || (c->at == c->n && !c->disputed);
}

bool tables_hear(struct tables *t, const struct peer_tensors *said)
{
	struct tables_comparison *c = t->now;
	if (!c || is_over(c) || !c->asked)
		return false;
	struct peer_tensors_ask ask = asked_now(c);
	if (said->ask.rank != ask.rank || said->ask.first != ask.first || said->ask.name != ask.name ||
	    said->digest != t->of[ask.rank])
		return false;
	c->asked = false;
	if (c->disputed)
		hear_words(c, said);
	else
		hear_list(c, said);
	return true;
}

int tables_compare(struct tables *t, struct peer_tensors_ask *ask, struct err *err)
{
	*ask = (struct peer_tensors_ask){.rank = RANK_MAX};
	if (all_alike(t))
		return 0;
	if (!t->now && begin(t))
		return err_set(err, -ENOMEM, "no memory to compare the tensors of all ranks");
	struct tables_comparison *c = t->now;
	if (c->set != t->agree && !is_over(c)) {
		if (!c->asked)
			*ask = asked_now(c);
		c->asked = true;
		return -EINPROGRESS;
	}
	int rc = c->rc;
	if (rc)
		*err = c->err;
	else
		t->agree = c->set;
	stop(t);
	return rc;
}
