#include "coordinator/assignment.h"

#include "base/bytes.h"
#include "base/cleanup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int assignment_init(struct assignment *c, uint32_t nnodes, uint32_t want, uint32_t least)
{
	*c = (struct assignment){.nnodes = nnodes, .want = want, .least = least};
	c->nodes = calloc(nnodes, sizeof(*c->nodes));
	c->node = calloc(want, sizeof(*c->node));
	c->home = calloc(want, sizeof(*c->home));
	c->was = calloc(want, sizeof(*c->was));
	if (c->nodes && c->node && c->home && c->was)
		return 0;
	assignment_free(c);
	return -ENOMEM;
}

void assignment_free(struct assignment *c)
{
	free(c->nodes);
	free(c->node);
	free(c->home);
	free(c->was);
	*c = (struct assignment){0};
}

/* ---- what the nodes say ------------------------------------------------------------------------------------------ */

static void invalidate_plan(struct assignment *c, uint32_t rank)
{
	c->nodes[c->node[rank]].has--;
	c->node[rank] = ASSIGNMENT_NOBODY;
}

void assignment_adopt(struct assignment *c, uint32_t number, uint32_t world)
{
	for (uint32_t n = 0; n < c->nnodes; n++) {
		c->nodes[n].has = 0;
		c->nodes[n].awaited = false;
	}
	for (uint32_t r = 0; r < world; r++) {
		c->node[r] = c->home[r] = ASSIGNMENT_NOBODY;
		c->was[r] = ASSIGNMENT_NEW;
	}
	c->number = number;
	c->world = world;
}

void assignment_recall(struct assignment *c, uint32_t number, uint32_t world, const uint32_t *home, const uint32_t *was)
{
	assignment_adopt(c, number, world);
	memcpy(c->home, home, world * sizeof(*home));
	memcpy(c->was, was, world * sizeof(*was));
	for (uint32_t r = 0; r < world; r++)
		if (home[r] != ASSIGNMENT_NOBODY)
			c->nodes[home[r]].awaited = true;
}

void assignment_take_up(struct assignment *c, uint32_t node)
{
	c->nodes[node].awaited = false;
	for (uint32_t r = 0; r < c->world; r++) {
		if (c->home[r] != node || c->node[r] != ASSIGNMENT_NOBODY)
			continue;
		c->node[r] = node;
		c->nodes[node].has++;
	}
}

static bool named(const uint32_t *ranks, uint32_t n, uint32_t rank)
{
	for (uint32_t i = 0; i < n; i++)
		if (ranks[i] == rank)
			return true;
	return false;
}

void assignment_claim(struct assignment *c, uint32_t node, const uint32_t *ranks, uint32_t n)
{
	c->nodes[node].awaited = false;
	for (uint32_t r = 0; r < c->world; r++)
		if (c->node[r] == node && !named(ranks, n, r))
			invalidate_plan(c, r);
	for (uint32_t i = 0; i < n; i++) {
		if (ranks[i] >= c->world || c->node[ranks[i]] != ASSIGNMENT_NOBODY)
			continue;
		c->node[ranks[i]] = c->home[ranks[i]] = node;
		c->nodes[node].has++;
	}
}

bool assignment_unclaimed(const struct assignment *c)
{
	for (uint32_t r = 0; r < c->world; r++)
		if (c->home[r] == ASSIGNMENT_NOBODY || c->nodes[c->home[r]].awaited)
			return true;
	return false;
}

void assignment_offer(struct assignment *c, uint32_t node, uint32_t processes, bool spare)
{
	struct assignment_node *n = &c->nodes[node];
	n->offers = processes;
	n->spare = spare;
	for (uint32_t r = c->world; n->has > n->offers && r--;)
		if (c->node[r] == node)
			invalidate_plan(c, r);
}

void assignment_leave(struct assignment *c, uint32_t node, bool leaving)
{
	c->nodes[node].leaving = leaving;
}

void assignment_avoid(struct assignment *c, uint32_t node, bool avoided)
{
	c->nodes[node].avoided = avoided;
}

/* Never more than wanted. */
uint32_t assignment_next_world(const struct assignment *c)
{
	uint64_t sum = 0;
	for (uint32_t n = 0; n < c->nnodes && sum < c->want; n++)
		sum += c->nodes[n].leaving ? 0 : c->nodes[n].offers;
	return sum < c->want ? (uint32_t)sum : c->want;
}

static bool somebody_leaves(const struct assignment *c)
{
	for (uint32_t n = 0; n < c->nnodes; n++)
		if (c->nodes[n].leaving && c->nodes[n].has)
			return true;
	return false;
}

/* Spares are for later, as long as the others may still come. In place of one that is there and is avoided a spare does. */
static bool complete(const struct assignment *c)
{
	uint64_t others = 0, spares = 0, avoided = 0;
	for (uint32_t i = 0; i < c->nnodes; i++) {
		const struct assignment_node *n = &c->nodes[i];
		uint64_t offers = n->leaving ? 0 : n->offers;
		if (n->avoided)
			avoided += n->spare ? 0 : offers;
		else
			*(n->spare ? &spares : &others) += offers;
	}
	return others + min_u64(spares, avoided) >= c->want;
}

enum assignment_state assignment_state(const struct assignment *c)
{
	uint32_t there = assignment_next_world(c);
	if (!c->world)
		return complete(c) ? ASSIGNMENT_READY : ASSIGNMENT_WAITING;
	for (uint32_t r = 0; r < c->world; r++)
		if (c->node[r] == ASSIGNMENT_NOBODY)
			return ASSIGNMENT_BROKEN;
	if (somebody_leaves(c))
		return there < c->least ? ASSIGNMENT_ENDING : ASSIGNMENT_CHANGEABLE;
	return there > c->world ? ASSIGNMENT_CHANGEABLE : ASSIGNMENT_SOUND;
}

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

static uint32_t next_gap(const struct assignment *c, uint32_t from, uint32_t world)
{
	while (from < world && c->node[from] != ASSIGNMENT_NOBODY)
		from++;
	return from;
}

/* Processes go on where they are; those beyond the new end go into the gaps, of which there are enough: no more processes have ranks than
 * the new world has. */
static void keep(struct assignment *c, uint32_t world)
{
	for (uint32_t r = 0; r < world; r++) {
		if (r >= c->world)
			c->node[r] = ASSIGNMENT_NOBODY;
		c->was[r] = c->node[r] == ASSIGNMENT_NOBODY ? ASSIGNMENT_NEW : r;
	}
	uint32_t gap = 0;
	for (uint32_t r = world; r < c->world; r++) {
		if (c->node[r] == ASSIGNMENT_NOBODY)
			continue;
		gap = next_gap(c, gap, world);
		c->node[gap] = c->node[r];
		c->was[gap] = r;
	}
}

static uint32_t room(const struct assignment_node *n)
{
	return n->leaving ? 0 : n->offers - n->has;
}

/* A spare that has been taken is as good as any. */
static bool spared(const struct assignment_node *n)
{
	return n->spare && !n->has;
}

/* In this order nodes are asked to take ranks. */
static unsigned turn(const struct assignment_node *n)
{
	return n->avoided ? 2 : spared(n);
}

/* Whether `a` is better than `b` for so many neighbouring ranks: whose turn it is, then who can take all of them and has the least room for it,
 * then who can take the most. */
static bool better(const struct assignment_node *a, const struct assignment_node *b, uint32_t ranks)
{
	if (turn(a) != turn(b))
		return turn(a) < turn(b);
	bool whole = room(a) >= ranks;
	if (whole != (room(b) >= ranks))
		return whole;
	return whole ? room(a) < room(b) : room(a) > room(b);
}

static uint32_t choose(const struct assignment *c, uint32_t ranks)
{
	uint32_t best = ASSIGNMENT_NOBODY;
	for (uint32_t n = 0; n < c->nnodes; n++)
		if (room(&c->nodes[n]) && (best == ASSIGNMENT_NOBODY || better(&c->nodes[n], &c->nodes[best], ranks)))
			best = n;
	return best;
}

static uint32_t gap_length(const struct assignment *c, uint32_t gap, uint32_t world)
{
	uint32_t end = gap;
	while (end < world && c->node[end] == ASSIGNMENT_NOBODY)
		end++;
	return end - gap;
}

/* New processes for the gaps that are left: as many are offered. */
static void fill(struct assignment *c, uint32_t world)
{
	for (uint32_t gap = next_gap(c, 0, world); gap < world; gap = next_gap(c, gap, world)) {
		uint32_t ranks = gap_length(c, gap, world), node = choose(c, ranks);
		for (uint32_t i = 0; i < ranks && room(&c->nodes[node]); i++) {
			c->node[gap + i] = node;
			c->nodes[node].has++;
		}
	}
}

/* ---- ranks that stay together -------------------------------------------------------------------------------------- */

/* Ranks whose home that is; lost: of them those without a process. */
static uint32_t ranks_of(const struct assignment *c, uint32_t home, uint32_t *lost)
{
	uint32_t n = 0;
	*lost = 0;
	for (uint32_t r = 0; r < c->world; r++) {
		n += c->home[r] == home;
		*lost += c->home[r] == home && c->node[r] == ASSIGNMENT_NOBODY;
	}
	return n;
}

uint32_t assignment_home(const struct assignment *c, uint32_t node)
{
	uint32_t lost;
	return ranks_of(c, node, &lost);
}

static void move_home(struct assignment *c, uint32_t home, uint32_t to)
{
	for (uint32_t r = 0; r < c->world; r++) {
		if (c->home[r] != home)
			continue;
		if (c->node[r] != ASSIGNMENT_NOBODY && home != to)
			invalidate_plan(c, r);
		if (c->node[r] != ASSIGNMENT_NOBODY)
			continue;
		c->node[r] = to;
		c->was[r] = ASSIGNMENT_NEW;
		c->nodes[to].has++;
	}
}

static uint32_t choose_for_all(const struct assignment *c, uint32_t ranks)
{
	uint32_t best = ASSIGNMENT_NOBODY;
	for (uint32_t n = 0; n < c->nnodes; n++) {
		const struct assignment_node *a = &c->nodes[n];
		if (!a->has && room(a) >= ranks && (best == ASSIGNMENT_NOBODY || better(a, &c->nodes[best], ranks)))
			best = n;
	}
	return best;
}

/* It is avoided, has lost all of its ranks, and somebody else has room for them. */
static bool is_replaced(const struct assignment *c, uint32_t node, uint32_t ranks, uint32_t lost)
{
	uint32_t to = c->nodes[node].avoided && lost == ranks ? choose_for_all(c, ranks) : ASSIGNMENT_NOBODY;
	return to != ASSIGNMENT_NOBODY && !c->nodes[to].avoided;
}

/* In a world that keeps its size. Those that have the room themselves come first: nobody else is to get it. */
static void keep_together(struct assignment *c)
{
	uint32_t lost, all, to;
	for (uint32_t n = 0; n < c->nnodes; n++)
		if ((all = ranks_of(c, n, &lost)) && lost && room(&c->nodes[n]) >= lost &&
		    !is_replaced(c, n, all, lost))
			move_home(c, n, n);
	for (uint32_t n = 0; n < c->nnodes; n++) {
		all = ranks_of(c, n, &lost);
		if (!lost || (lost < all && !c->whole) || (to = choose_for_all(c, all)) == ASSIGNMENT_NOBODY)
			continue;
		move_home(c, n, to);
	}
}

static void let_go(struct assignment *c)
{
	for (uint32_t r = 0; r < c->world; r++)
		if (c->node[r] != ASSIGNMENT_NOBODY && c->nodes[c->node[r]].leaving)
			invalidate_plan(c, r);
}

int assignment_plan(struct assignment *c)
{
	uint32_t world = assignment_next_world(c);
	if (world < c->least)
		return -EAGAIN;
	let_go(c);
	bool moves = world == c->world;
	keep(c, world);
	if (moves)
		keep_together(c);
	fill(c, world);
	memcpy(c->home, c->node, world * sizeof(*c->home));
	for (uint32_t n = 0; n < c->nnodes; n++)
		c->nodes[n].awaited = false;
	c->world = world;
	c->number++;
	return 0;
}

/* to: by node, where all of its ranks went. */
static bool same_company(const struct assignment *before, const struct assignment *after, uint32_t *to)
{
	for (uint32_t n = 0; n < before->nnodes; n++)
		to[n] = ASSIGNMENT_NOBODY;
	for (uint32_t r = 0; r < before->world; r++) {
		uint32_t home = before->home[r], is = after->node[r];
		if (home == ASSIGNMENT_NOBODY || (to[home] != ASSIGNMENT_NOBODY && to[home] != is))
			return false;
		to[home] = is;
	}
	for (uint32_t a = 0; a < before->nnodes; a++)
		for (uint32_t b = 0; b < a; b++)
			if (to[a] != ASSIGNMENT_NOBODY && to[a] == to[b])
				return false;
	return true;
}

bool assignment_keeps(const struct assignment *c)
{
	struct assignment after;
	AUTO_FREE uint32_t *to = calloc(c->nnodes, sizeof(*to));
	if (!c->world || !to || assignment_init(&after, c->nnodes, c->want, c->least))
		return false;
	memcpy(after.nodes, c->nodes, c->nnodes * sizeof(*c->nodes));
	memcpy(after.node, c->node, c->world * sizeof(*c->node));
	memcpy(after.home, c->home, c->world * sizeof(*c->home));
	after.world = c->world;
	after.whole = c->whole;
	bool keeps = !assignment_plan(&after) && after.world == c->world && same_company(c, &after, to);
	assignment_free(&after);
	return keeps;
}
