#include "cluster/link/neighbours.h"

#include "cluster/link/liveness.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 2048 };

static bool there[MANY];

static bool is_there(const void *arg, unsigned node)
{
	(void)arg;
	return there[node];
}

/* All of so many are there. */
static void gather(unsigned n)
{
	for (unsigned i = 0; i < MANY; i++)
		there[i] = i < n;
}

static bool looks_after(unsigned n, unsigned self, unsigned node)
{
	unsigned found[NEIGHBOURS];
	neighbours_find(n, self, is_there, NULL, found);
	return found[0] == node || found[1] == node;
}

static unsigned watchers(unsigned n, unsigned node)
{
	unsigned count = 0;
	for (unsigned i = 0; i < n; i++)
		count += there[i] && i != node && looks_after(n, i, node);
	return count;
}

Test(neighbours, each_node_is_looked_after_by_two_others)
{
	const unsigned sizes[] = {3, 4, 5, 16, 64, 200};
	for (unsigned s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		gather(sizes[s]);
		for (unsigned i = 0; i < sizes[s]; i++)
			cr_expect_eq(watchers(sizes[s], i), 2, "node %u of %u", i, sizes[s]);
	}
}

Test(neighbours, one_of_two_looks_after_the_other_and_one_alone_after_nobody)
{
	unsigned found[NEIGHBOURS];
	gather(2);
	cr_expect_eq(watchers(2, 0), 1);
	gather(1);
	neighbours_find(1, 0, is_there, NULL, found);
	cr_expect(found[0] == NEIGHBOUR_NONE && found[1] == NEIGHBOUR_NONE);
}

Test(neighbours, those_that_are_lost_are_passed_over)
{
	gather(64);
	for (unsigned lost = 0; lost < 60; lost++) {
		there[(lost * 37) % 64] = false;
		for (unsigned i = 0; i < 64; i++)
			if (there[i])
				cr_assert_eq(watchers(64, i), 2, "node %u when %u are lost", i, lost + 1);
	}
}

/* Rosters list rack after rack. */
Test(neighbours, a_rack_that_is_lost_is_seen_from_outside)
{
	enum { RACK = 16, N = 128 };
	unsigned seen = 0;
	gather(N);
	for (unsigned rack = 0; rack < N / RACK; rack++)
		for (unsigned i = rack * RACK; i < (rack + 1) * RACK; i++)
			for (unsigned w = 0; w < N; w++)
				if (w / RACK != rack && looks_after(N, w, i)) {
					seen++;
					break;
				}
	cr_expect_geq(seen, N * 9 / 10, "%u of %d", seen, N);
}

/* ---- a whole cluster: what nodes say to each other, and whom they lose ------------------------------------------------ */

#define MS CLOCK_NS_PER_MS
#define LIMIT (1000 * MS)
#define STEP (5 * MS)

enum { TICK_MS = 20 };

/* What a says gets to b at once, unless one of them is dead or that direction is cut. */
struct mesh {
	unsigned n;
	uint64_t now, said;
	struct liveness *ends; /* n × n: of a with b */
	bool *there, *cut;     /* the same: whether a has a session with b; of a to b */
	bool *dead;            /* n */
};

static unsigned at(const struct mesh *m, unsigned a, unsigned b)
{
	return a * m->n + b;
}

struct view {
	const struct mesh *m;
	unsigned of;
};

static bool has_session(const void *arg, unsigned node)
{
	const struct view *v = arg;
	return v->m->there[at(v->m, v->of, node)];
}

static void look_round(struct mesh *m, unsigned a)
{
	unsigned found[NEIGHBOURS];
	neighbours_find(m->n, a, has_session, &(struct view){m, a}, found);
	for (unsigned b = 0; b < m->n; b++)
		liveness_watch(&m->ends[at(m, a, b)], b == found[0] || b == found[1]);
}

static struct mesh make_mesh(unsigned n)
{
	size_t pairs = (size_t)n * n;
	struct mesh m = {.n = n,
			 .now = 5000 * MS,
			 .ends = calloc(pairs, sizeof(*m.ends)),
			 .there = calloc(pairs, 1),
			 .cut = calloc(pairs, 1),
			 .dead = calloc(n, 1)};
	cr_assert(m.ends && m.there && m.cut && m.dead);
	for (unsigned a = 0; a < n; a++)
		for (unsigned b = 0; b < n; b++) {
			m.there[at(&m, a, b)] = a != b;
			liveness_begin(&m.ends[at(&m, a, b)], LIMIT, TICK_MS * MS, m.now);
		}
	for (unsigned a = 0; a < n; a++)
		look_round(&m, a);
	return m;
}

static void free_mesh(struct mesh *m)
{
	free(m->ends);
	free(m->there);
	free(m->cut);
	free(m->dead);
}

/* Whether b hears something of a. */
static bool say(struct mesh *m, unsigned a, unsigned b, bool question)
{
	m->said++;
	if (m->dead[b] || m->cut[at(m, a, b)] || !m->there[at(m, b, a)])
		return false;
	liveness_heard(&m->ends[at(m, b, a)], question, m->now);
	return true;
}

static void ask(struct mesh *m, unsigned a, unsigned b)
{
	if (say(m, a, b, true))
		say(m, b, a, false);
}

static void spread_doubt(struct mesh *m, unsigned a, unsigned of)
{
	for (unsigned b = 0; b < m->n; b++) {
		if (b == of || !m->there[at(m, a, b)])
			continue;
		liveness_ask(&m->ends[at(m, a, b)], m->now);
		if (!say(m, a, b, false))
			continue;
		if (m->there[at(m, b, of)])
			liveness_doubt(&m->ends[at(m, b, of)], a, m->now);
		say(m, b, a, false);
	}
}

static void end_session(struct mesh *m, unsigned a, unsigned b)
{
	m->there[at(m, a, b)] = false;
	look_round(m, a);
	if (m->dead[b] || m->cut[at(m, a, b)])
		return;
	m->there[at(m, b, a)] = false;
	look_round(m, b);
}

static void look(struct mesh *m, unsigned a, unsigned b)
{
	struct liveness *l = &m->ends[at(m, a, b)];
	if (!m->there[at(m, a, b)] || liveness_due(l, m->now) > m->now)
		return;
	enum liveness_does does = liveness_look(l, m->now);
	if (does == LIVENESS_ASK)
		ask(m, a, b);
	else if (does == LIVENESS_DOUBT)
		spread_doubt(m, a, b);
	else if (does == LIVENESS_LOST)
		end_session(m, a, b);
}

static void run(struct mesh *m, uint64_t ns)
{
	for (uint64_t end = m->now + ns; m->now < end; m->now += STEP)
		for (unsigned a = 0; a < m->n; a++)
			for (unsigned b = 0; b < m->n && !m->dead[a]; b++)
				look(m, a, b);
}

static void come_to_rest(struct mesh *m)
{
	run(m, (LIVENESS_USE_S + 1) * CLOCK_NS_PER_S);
	m->said = 0;
}

/* Those that have no session with it any more, of those that live. */
static unsigned who_lost(const struct mesh *m, unsigned node)
{
	unsigned count = 0;
	for (unsigned a = 0; a < m->n; a++)
		count += a != node && !m->dead[a] && !m->there[at(m, a, node)];
	return count;
}

static double said_by_each(unsigned n)
{
	struct mesh m = make_mesh(n);
	come_to_rest(&m);
	run(&m, 5 * CLOCK_NS_PER_S);
	double each = (double)m.said / 5 / n;
	free_mesh(&m);
	return each;
}

Test(neighbours, what_a_node_says_does_not_grow_with_the_cluster)
{
	double few = said_by_each(4), many = said_by_each(96);
	cr_expect_leq(few, NEIGHBOURS * LIVENESS_ASKS * 2.0, "%.1f messages a second", few);
	cr_expect_leq(many, few * 1.05, "%.1f messages a second, with few nodes %.1f", many, few);
}

Test(neighbours, a_node_that_dies_is_lost_to_all_within_the_limit)
{
	struct mesh m = make_mesh(48);
	come_to_rest(&m);
	m.dead[17] = true;
	run(&m, LIMIT / 2);
	cr_expect_eq(who_lost(&m, 17), 0, "nobody is lost that soon");
	run(&m, LIMIT / 2 + 3 * TICK_MS * MS);
	cr_expect_eq(who_lost(&m, 17), 47, "lost to %u", who_lost(&m, 17));
	for (unsigned i = 0; i < m.n; i++)
		cr_expect(i == 17 || !who_lost(&m, i), "node %u is lost to %u", i, who_lost(&m, i));
	free_mesh(&m);
}

Test(neighbours, nodes_that_die_together_are_lost_to_all)
{
	struct mesh m = make_mesh(48);
	come_to_rest(&m);
	for (unsigned i = 8; i < 24; i++)
		m.dead[i] = true;
	run(&m, 2 * LIMIT);
	for (unsigned i = 0; i < m.n; i++)
		cr_expect_eq(who_lost(&m, i), m.dead[i] ? 32u : 0u, "node %u: lost to %u", i, who_lost(&m, i));
	free_mesh(&m);
}

/* One direction between two that look after each other. */
Test(neighbours, a_cut_between_two_is_the_loss_of_neither)
{
	unsigned found[NEIGHBOURS];
	struct mesh m = make_mesh(48);
	come_to_rest(&m);
	gather(48);
	neighbours_find(48, 5, is_there, NULL, found);
	m.cut[at(&m, 5, found[0])] = true;
	run(&m, 10 * LIMIT);
	cr_expect_leq(who_lost(&m, 5), 1);
	cr_expect_leq(who_lost(&m, found[0]), 1);
	cr_expect_eq(who_lost(&m, 5) + who_lost(&m, found[0]), 2, "each is lost to the other");
	for (unsigned i = 0; i < m.n; i++)
		cr_expect(i == 5 || i == found[0] || !who_lost(&m, i), "node %u is lost to %u", i, who_lost(&m, i));
	free_mesh(&m);
}

Test(neighbours, who_is_cut_off_loses_all_others)
{
	struct mesh m = make_mesh(48);
	come_to_rest(&m);
	for (unsigned i = 0; i < m.n; i++)
		m.cut[at(&m, 3, i)] = m.cut[at(&m, i, 3)] = true;
	run(&m, 2 * LIMIT);
	cr_expect_eq(who_lost(&m, 3), 47);
	for (unsigned i = 0; i < m.n; i++)
		cr_expect(!m.there[at(&m, 3, i)], "node %u is not lost to who is cut off", i);
	free_mesh(&m);
}
