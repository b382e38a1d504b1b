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
	c->sorted = calloc(nnodes, sizeof(*c->sorted));
	if (c->nodes && c->node && c->home && c->was && c->sorted)
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
	free(c->sorted);
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
		c->nodes[n].has = c->nodes[n].home = 0;
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
	for (uint32_t r = 0; r < world; r++) {
		if (home[r] == ASSIGNMENT_NOBODY)
			continue;
		c->nodes[home[r]].awaited = true;
		c->nodes[home[r]].home++;
	}
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

static void set_home(struct assignment *c, uint32_t rank, uint32_t node)
{
	if (c->home[rank] != ASSIGNMENT_NOBODY)
		c->nodes[c->home[rank]].home--;
	c->home[rank] = node;
	c->nodes[node].home++;
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
		c->node[ranks[i]] = node;
		set_home(c, ranks[i], node);
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

static uint32_t take(struct assignment *c, uint32_t node, uint32_t gap, uint32_t ranks)
{
	uint32_t n = (uint32_t)min_u64(ranks, room(&c->nodes[node]));
	for (uint32_t i = 0; i < n; i++)
		c->node[gap + i] = node;
	c->nodes[node].has += n;
	return n;
}

/* Whose turn it is first, of these who has the most room, of these the first. */
static int by_room(const void *x, const void *y, void *arg)
{
	const struct assignment_node *nodes = arg;
	uint32_t i = *(const uint32_t *)x, k = *(const uint32_t *)y;
	const struct assignment_node *a = &nodes[i], *b = &nodes[k];
	if (turn(a) != turn(b))
		return turn(a) < turn(b) ? -1 : 1;
	if (room(a) != room(b))
		return room(a) > room(b) ? -1 : 1;
	return i < k ? -1 : i > k;
}

/* A gap that is larger than the room of any node whose turn it is: they take all that they can, in this order, until it is not. How many ranks
 * of it have a node then. */
static uint32_t fill_by_many(struct assignment *c, uint32_t gap, uint32_t ranks)
{
	uint32_t n = 0, filled = 0;
	for (uint32_t i = 0; i < c->nnodes; i++)
		if (room(&c->nodes[i]))
			c->sorted[n++] = i;
	qsort_r(c->sorted, n, sizeof(*c->sorted), by_room, c->nodes);
	for (uint32_t i = 0; i < n && room(&c->nodes[c->sorted[i]]) < ranks - filled; i++)
		filled += take(c, c->sorted[i], gap + filled, ranks - filled);
	return filled;
}

/* New processes for the gaps that are left: as many are offered. */
static void fill(struct assignment *c, uint32_t world)
{
	for (uint32_t gap = next_gap(c, 0, world); gap < world; gap = next_gap(c, gap, world)) {
		uint32_t ranks = gap_length(c, gap, world), node = choose(c, ranks), filled = 0;
		if (room(&c->nodes[node]) < ranks)
			filled = fill_by_many(c, gap, ranks);
		if (filled < ranks)
			take(c, choose(c, ranks - filled), gap + filled, ranks - filled);
	}
}

/* ---- ranks that stay together -------------------------------------------------------------------------------------- */

uint32_t assignment_home(const struct assignment *c, uint32_t node)
{
	return c->nodes[node].home;
}

static void count_lost(struct assignment *c)
{
	for (uint32_t n = 0; n < c->nnodes; n++)
		c->nodes[n].lost = 0;
	for (uint32_t r = 0; r < c->world; r++)
		if (c->home[r] != ASSIGNMENT_NOBODY && c->node[r] == ASSIGNMENT_NOBODY)
			c->nodes[c->home[r]].lost++;
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
	c->nodes[home].lost = 0;
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
static bool is_replaced(const struct assignment *c, uint32_t node)
{
	const struct assignment_node *n = &c->nodes[node];
	uint32_t to = n->avoided && n->lost == n->home ? choose_for_all(c, n->home) : ASSIGNMENT_NOBODY;
	return to != ASSIGNMENT_NOBODY && !c->nodes[to].avoided;
}

/* In a world that keeps its size. Those that have the room themselves come first: nobody else is to get it. */
static void keep_together(struct assignment *c)
{
	uint32_t to;
	count_lost(c);
	for (uint32_t i = 0; i < c->nnodes; i++) {
		const struct assignment_node *n = &c->nodes[i];
		if (n->lost && room(n) >= n->lost && !is_replaced(c, i))
			move_home(c, i, i);
	}
	for (uint32_t i = 0; i < c->nnodes; i++) {
		const struct assignment_node *n = &c->nodes[i];
		if (!n->lost || (n->lost < n->home && !c->whole) ||
		    (to = choose_for_all(c, n->home)) == ASSIGNMENT_NOBODY)
			continue;
		move_home(c, i, to);
	}
}

static void let_go(struct assignment *c)
{
	for (uint32_t r = 0; r < c->world; r++)
		if (c->node[r] != ASSIGNMENT_NOBODY && c->nodes[c->node[r]].leaving)
			invalidate_plan(c, r);
}

/* Each rank has a node, which is its home now. */
static void settle(struct assignment *c)
{
	memcpy(c->home, c->node, c->world * sizeof(*c->home));
	for (uint32_t n = 0; n < c->nnodes; n++) {
		c->nodes[n].awaited = false;
		c->nodes[n].home = c->nodes[n].has;
	}
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
	c->world = world;
	settle(c);
	c->number++;
	return 0;
}

/* to, from: by node, where all of its ranks went, and whose came there. */
static bool same_company(const struct assignment *before, const struct assignment *after, uint32_t *to, uint32_t *from)
{
	for (uint32_t n = 0; n < before->nnodes; n++)
		to[n] = from[n] = ASSIGNMENT_NOBODY;
	for (uint32_t r = 0; r < before->world; r++) {
		uint32_t home = before->home[r], is = after->node[r];
		if (home == ASSIGNMENT_NOBODY || (to[home] != ASSIGNMENT_NOBODY && to[home] != is) ||
		    (from[is] != ASSIGNMENT_NOBODY && from[is] != home))
			return false;
		to[home] = is;
		from[is] = home;
	}
	return true;
}

bool assignment_keeps(const struct assignment *c)
{
	struct assignment after;
	AUTO_FREE uint32_t *to = calloc(c->nnodes, sizeof(*to)), *from = calloc(c->nnodes, sizeof(*from));
	if (!c->world || !to || !from || assignment_init(&after, c->nnodes, c->want, c->least))
		return false;
	memcpy(after.nodes, c->nodes, c->nnodes * sizeof(*c->nodes));
	memcpy(after.node, c->node, c->world * sizeof(*c->node));
	memcpy(after.home, c->home, c->world * sizeof(*c->home));
	after.world = c->world;
	after.whole = c->whole;
	bool keeps = !assignment_plan(&after) && after.world == c->world && same_company(c, &after, to, from);
	assignment_free(&after);
	return keeps;
}
