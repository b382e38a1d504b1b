#include "cluster/roster.h"
#include "replication/placement.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t next(uint64_t *seed, uint64_t n)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return (*seed >> 33) % n;
}

struct cluster {
	struct roster roster;
	bool *alive;
	unsigned nalive;
};

/* racks == 0: no labels. */
static void cluster_new(struct cluster *c, unsigned n, unsigned switches, unsigned racks, uint64_t *seed)
{
	*c = (struct cluster){.roster = {.nodes = calloc(n, sizeof(*c->roster.nodes)), .n = n},
			      .alive = calloc(n, sizeof(bool)),
			      .nalive = n};
	for (unsigned i = 0; i < n; i++) {
		struct roster_node *node = &c->roster.nodes[i];
		unsigned s = switches ? (unsigned)next(seed, switches) : 0;
		snprintf(node->name, sizeof(node->name), "n%u", i);
		if (switches)
			snprintf(node->switch_name, sizeof(node->switch_name), "s%u", s);
		if (racks)
			snprintf(node->rack, sizeof(node->rack), "r%u.%u", s, (unsigned)next(seed, racks));
		c->alive[i] = true;
	}
}

static void cluster_free(struct cluster *c)
{
	free(c->roster.nodes);
	free(c->alive);
}

static bool holds(const struct placement *p, unsigned owner, unsigned holder)
{
	for (unsigned k = 0; k < p->copies; k++)
		if (p->holders[owner * p->copies + k] == holder)
			return true;
	return false;
}

/* Everybody has as many holders as there can be, all different, alive and not itself; nobody holds more than one too many. */
static void check(const struct cluster *c, const struct placement *p, unsigned most)
{
	unsigned *load = calloc(p->n, sizeof(*load));
	unsigned wanted = p->copies < c->nalive - 1 ? p->copies : c->nalive - 1;
	for (unsigned i = 0; i < p->n; i++) {
		unsigned found = 0;
		for (unsigned k = 0; k < p->copies; k++) {
			unsigned h = p->holders[i * p->copies + k];
			if (h == PLACEMENT_NOBODY)
				continue;
			cr_assert(h < p->n && c->alive[h] && h != i, "holder %u of %u", h, i);
			for (unsigned j = 0; j < k; j++)
				cr_assert_neq(p->holders[i * p->copies + j], h, "%u holds %u twice", h, i);
			load[h]++;
			found++;
		}
		cr_assert_eq(found, c->alive[i] ? wanted : 0, "node %u has %u holders of %u, %u alive", i, found,
			     wanted, c->nalive);
	}
	for (unsigned i = 0; i < p->n; i++)
		cr_assert_leq(load[i], most, "node %u holds %u of %u nodes, %u copies", i, load[i], c->nalive,
			      p->copies);
	free(load);
}

static unsigned in_domain(const struct cluster *c, unsigned node, enum placement_distance within)
{
	unsigned n = 0;
	for (unsigned i = 0; i < c->roster.n; i++)
		n += c->alive[i] && (i == node || placement_distance(&c->roster, i, node) < within);
	return n;
}

Test(placement, two_nodes_hold_each_other)
{
	uint64_t seed = 1;
	struct cluster c;
	struct placement p;
	cluster_new(&c, 2, 0, 0, &seed);
	cr_assert_eq(placement_make(&c.roster, c.alive, 2, &p), 0);
	cr_expect_eq(p.holders[0], 1);
	cr_expect_eq(p.holders[1], PLACEMENT_NOBODY);
	cr_expect_eq(p.holders[2], 0);
	placement_free(&p);
	c.alive[0] = false;
	c.nalive = 1;
	cr_assert_eq(placement_make(&c.roster, c.alive, 1, &p), 0);
	cr_expect_eq(p.holders[0], PLACEMENT_NOBODY);
	cr_expect_eq(p.holders[1], PLACEMENT_NOBODY);
	placement_free(&p);
	cluster_free(&c);
}

Test(placement, everybody_holds_as_much_as_he_gives_and_one_more_at_most)
{
	uint64_t seed = 2;
	int rounds = getenv("CKPT_NIGHTLY") ? 2000 : 400;
	for (int round = 0; round < rounds; round++) {
		struct cluster c;
		struct placement p;
		unsigned n = 2 + (unsigned)next(&seed, 40), copies = 1 + (unsigned)next(&seed, PLACEMENT_COPIES_MAX);
		cluster_new(&c, n, (unsigned)next(&seed, 5), (unsigned)next(&seed, 5), &seed);
		for (unsigned i = 0; i < n && c.nalive > 2; i++)
			if (next(&seed, 4) == 0) {
				c.alive[i] = false;
				c.nalive--;
			}
		cr_assert_eq(placement_make(&c.roster, c.alive, copies, &p), 0);
		check(&c, &p, copies + 1);
		placement_free(&p);
		cluster_free(&c);
	}
}

/* Avoidable: the nodes elsewhere have room for twice what they give. */
Test(placement, one_copy_is_in_another_domain_wherever_that_can_be)
{
	uint64_t seed = 3;
	unsigned near = 0, far = 0;
	for (int round = 0; round < 2000; round++) {
		struct cluster c;
		struct placement p;
		bool switches = next(&seed, 2);
		cluster_new(&c, 2 + (unsigned)next(&seed, 40), switches ? 2 + (unsigned)next(&seed, 6) : 0,
			    switches ? 0 : 2 + (unsigned)next(&seed, 6), &seed);
		cr_assert_eq(placement_make(&c.roster, c.alive, 1, &p), 0);
		for (unsigned i = 0; i < p.n; i++) {
			enum placement_distance want = switches ? PLACEMENT_SWITCH : PLACEMENT_RACK;
			unsigned inside = in_domain(&c, i, want), outside = p.n - inside;
			if (placement_distance(&c.roster, i, p.holders[i]) >= want) {
				far++;
				continue;
			}
			near++;
			cr_assert_gt(inside, 2 * outside, "node %u of %u stands with its copy, %u are elsewhere", i,
				     p.n, outside);
		}
		placement_free(&p);
		cluster_free(&c);
	}
	cr_expect(near && far, "%u near, %u far", near, far);
}

Test(placement, several_copies_spread_over_equal_domains)
{
	uint64_t seed = 4;
	for (unsigned copies = 2; copies <= PLACEMENT_COPIES_MAX; copies++) {
		struct cluster c;
		struct placement p;
		unsigned racks = copies * (copies + 1), together = 0;
		cluster_new(&c, racks * 6, 0, 1, &seed);
		for (unsigned i = 0; i < c.roster.n; i++)
			snprintf(c.roster.nodes[i].rack, ROSTER_LABEL_MAX, "r%u", i % racks);
		cr_assert_eq(placement_make(&c.roster, c.alive, copies, &p), 0);
		check(&c, &p, copies + 1);
		for (unsigned i = 0; i < p.n; i++)
			for (unsigned a = 0; a < copies; a++)
				for (unsigned b = a; b < copies; b++) {
					unsigned other = b == a ? i : p.holders[i * copies + b];
					together += placement_distance(&c.roster, other, p.holders[i * copies + a]) ==
						    PLACEMENT_NODE;
				}
		cr_expect_eq(together, 0, "%u pairs of %u copies stand together", together, copies);
		placement_free(&p);
		cluster_free(&c);
	}
}

/* Lets one node go and looks who has to move: those that it held, and a few who make room. */
static unsigned moved_by_loss(struct cluster *c, unsigned copies, const struct placement *before, unsigned lost)
{
	struct placement after;
	unsigned moved = 0;
	c->alive[lost] = false;
	c->nalive--;
	cr_assert_eq(placement_make(&c->roster, c->alive, copies, &after), 0);
	check(c, &after, copies + 1);
	for (unsigned i = 0; i < after.n; i++)
		for (unsigned k = 0; i != lost && k < copies; k++) {
			unsigned h = after.holders[i * copies + k];
			moved += h != PLACEMENT_NOBODY && !holds(before, i, h);
		}
	placement_free(&after);
	c->alive[lost] = true;
	c->nalive++;
	return moved;
}

Test(placement, a_loss_moves_what_it_must_and_little_else)
{
	uint64_t seed = 5;
	for (unsigned copies = 1; copies <= 2; copies++) {
		unsigned long moved = 0, losses = 0, needed = 0, worst = 0;
		for (int round = 0; round < 30; round++) {
			struct cluster c;
			struct placement p;
			cluster_new(&c, 8 + (unsigned)next(&seed, 120), (unsigned)next(&seed, 3),
				    (unsigned)next(&seed, 9), &seed);
			cr_assert_eq(placement_make(&c.roster, c.alive, copies, &p), 0);
			for (int k = 0; k < 10; k++) {
				unsigned lost = (unsigned)next(&seed, p.n);
				unsigned m = moved_by_loss(&c, copies, &p, lost);
				for (unsigned i = 0; i < p.n; i++)
					needed += holds(&p, i, lost);
				moved += m;
				worst = m > worst ? m : worst;
				losses++;
			}
			placement_free(&p);
			cluster_free(&c);
		}
		printf("%u copies: %lu losses move %.2f copies each, of which %.2f must; at most %lu\n", copies, losses,
		       (double)moved / (double)losses, (double)needed / (double)losses, worst);
		cr_expect_leq(moved, 3 * needed);
		cr_expect_leq(worst, 24);
	}
}

Test(placement, a_node_at_the_end_of_the_roster_moves_few)
{
	uint64_t seed = 6;
	struct cluster c;
	struct placement small, large;
	unsigned moved = 0;
	cluster_new(&c, 101, 0, 5, &seed);
	c.roster.n = 100;
	cr_assert_eq(placement_make(&c.roster, c.alive, 1, &small), 0);
	c.roster.n = 101;
	cr_assert_eq(placement_make(&c.roster, c.alive, 1, &large), 0);
	for (unsigned i = 0; i < 100; i++)
		moved += small.holders[i] != large.holders[i];
	cr_expect_leq(moved, 12, "%u moved", moved);
	placement_free(&small);
	placement_free(&large);
	cluster_free(&c);
}
