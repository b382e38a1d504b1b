#include "replication/placement.h"

#include "base/cleanup.h"
#include "cluster/room.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Prime, and not below the number of places of a roster: so that every stride visits every place. */
enum { PLACES = 65537, TIERS = 3 };
_Static_assert((int)PLACES >= (int)ROSTER_NODES_MAX, "every node has a place");

struct node {
	uint32_t switch_id, rack_id; /* domains by number */
	bool alive;
	bool crowded; /* of a domain that fills all room elsewhere */
	unsigned load;
	/* The search of the copy that is being placed. */
	unsigned first; /* the first of those that propose to it and are kept, chained by next */
	unsigned next, tier, step, kept_by, taken;
};

struct work {
	const struct roster *roster;
	struct node *nodes;
	unsigned n, alive, copies;
	unsigned switches, racks; /* in which somebody is alive */
	unsigned *holders;
};

/* SplitMix64's finaliser (Steele et al. 2014). */
static uint64_t mix(uint64_t z)
{
	z += 0x9e3779b97f4a7c15ull;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static uint64_t rank_of(unsigned owner, unsigned holder, unsigned copy)
{
	return mix((uint64_t)owner << 40 ^ (uint64_t)holder << 16 ^ copy);
}

/* ---- domains ----------------------------------------------------------------------------------------------------- */

enum placement_distance placement_distance(const struct roster *roster, unsigned a, unsigned b)
{
	const struct roster_node *x = &roster->nodes[a], *y = &roster->nodes[b];
	if (strcmp(x->switch_name, y->switch_name) != 0)
		return PLACEMENT_SWITCH;
	return strcmp(x->rack, y->rack) != 0 ? PLACEMENT_RACK : PLACEMENT_NODE;
}

static int by_label(const void *a, const void *b)
{
	const struct roster_node *x = *(const struct roster_node *const *)a, *y = *(const struct roster_node *const *)b;
	int order = strcmp(x->switch_name, y->switch_name);
	return order ? order : strcmp(x->rack, y->rack);
}

/* Numbers the domains, and marks the crowded ones: of k copies of its nodes all go elsewhere, and so many do not fit well there. */
static int number_domains(struct work *w)
{
	AUTO_FREE const struct roster_node **order = malloc(w->n * sizeof(struct roster_node *));
	AUTO_FREE unsigned *count = calloc(2 * (size_t)w->n, sizeof(*count));
	AUTO_FREE bool *seen = calloc(2 * (size_t)w->n, sizeof(*seen));
	if (!order || !count || !seen)
		return -ENOMEM;
	for (unsigned i = 0; i < w->n; i++)
		order[i] = &w->roster->nodes[i];
	qsort(order, w->n, sizeof(struct roster_node *), by_label);
	uint32_t switch_id = 0, rack_id = w->n;
	for (unsigned i = 0; i < w->n; i++) {
		bool new_switch = i && strcmp(order[i]->switch_name, order[i - 1]->switch_name) != 0;
		switch_id += new_switch;
		rack_id += i && (new_switch || strcmp(order[i]->rack, order[i - 1]->rack) != 0);
		struct node *node = &w->nodes[order[i] - w->roster->nodes];
		node->switch_id = switch_id;
		node->rack_id = rack_id;
		count[switch_id] += node->alive;
		count[rack_id] += node->alive;
	}
	for (unsigned i = 0; i < w->n; i++) {
		struct node *node = &w->nodes[i];
		w->switches += node->alive && !seen[node->switch_id];
		w->racks += node->alive && !seen[node->rack_id];
		if (node->alive)
			seen[node->switch_id] = seen[node->rack_id] = true;
		uint64_t most = count[node->switch_id] < w->alive ? count[node->switch_id] : count[node->rack_id];
		node->crowded = most < w->alive && (w->copies + 1) * most > w->alive;
	}
	return 0;
}

/* ---- one copy ------------------------------------------------------------------------------------------------------ */

/* An owner's order of places: where it begins, and what follows on what. */
struct walk {
	unsigned at, stride;
};

static struct walk walk_from(unsigned owner, unsigned step)
{
	uint64_t h = mix(owner), stride = 1 + (h >> 32) % (PLACES - 1);
	return (struct walk){(unsigned)((h % PLACES + step * stride) % PLACES), (unsigned)stride};
}

static unsigned walk_on(struct walk *walk)
{
	unsigned at = walk->at, next = at + walk->stride;
	walk->at = next < PLACES ? next : next - PLACES;
	return at;
}

/* The tier of a holder for this owner: 0 is the widest; TIERS: impossible. */
static unsigned tier_of(const struct work *w, unsigned owner, unsigned holder, unsigned copy)
{
	if (!w->nodes[holder].alive || holder == owner)
		return TIERS;
	const unsigned *others = w->holders + (size_t)owner * w->copies;
	unsigned tier = 0;
	for (unsigned i = 0; i <= copy; i++) {
		unsigned other = i < copy ? others[i] : owner;
		if (other == PLACEMENT_NOBODY)
			continue;
		if (other == holder)
			return TIERS;
		const struct node *a = &w->nodes[other], *b = &w->nodes[holder];
		unsigned near = a->switch_id != b->switch_id ? 0 : a->rack_id != b->rack_id ? 1 : 2;
		tier = near > tier ? near : tier;
	}
	return tier;
}

static bool stands_before(const struct work *w, const unsigned *set, unsigned n, unsigned tier)
{
	for (unsigned i = 0; i < n; i++)
		if (tier ? w->nodes[set[i]].rack_id == w->nodes[set[n]].rack_id
			 : w->nodes[set[i]].switch_id == w->nodes[set[n]].switch_id)
			return true;
	return false;
}

/* Whether there are domains that neither the owner nor its holders are in: looking through all places for none takes long. */
static bool has_tier(const struct work *w, unsigned owner, unsigned copy, unsigned tier)
{
	unsigned set[PLACEMENT_COPIES_MAX + 1] = {owner}, n = 1, used = 1;
	for (unsigned i = 0; i < copy; i++) {
		set[n] = w->holders[(size_t)owner * w->copies + i];
		if (set[n] != PLACEMENT_NOBODY)
			used += !stands_before(w, set, n++, tier);
	}
	return tier == 2 || used < (tier ? w->racks : w->switches);
}

/* The next holder in the owner's order; PLACEMENT_NOBODY at its end. */
static unsigned next_choice(const struct work *w, unsigned owner, unsigned copy)
{
	struct node *o = &w->nodes[owner];
	for (; o->tier < TIERS; o->tier++, o->step = 0) {
		bool some = o->step || has_tier(w, owner, copy, o->tier);
		struct walk walk = walk_from(owner, o->step);
		while (some && o->step < PLACES) {
			unsigned holder = walk_on(&walk);
			o->step++;
			/* Most places of a small roster are nobody's. */
			if (holder < w->n && tier_of(w, owner, holder, copy) == o->tier)
				return holder;
		}
	}
	return PLACEMENT_NOBODY;
}

static bool ranks_lower(const struct work *w, unsigned a, unsigned b, unsigned holder, unsigned copy)
{
	if (w->nodes[a].crowded != w->nodes[b].crowded)
		return w->nodes[b].crowded;
	return rank_of(a, holder, copy) < rank_of(b, holder, copy);
}

/* Takes the lowest ranked one off a holder's list. */
static unsigned displace(struct work *w, unsigned holder, unsigned copy)
{
	struct node *h = &w->nodes[holder];
	unsigned *lowest = &h->first;
	for (unsigned *at = &h->first; *at != PLACEMENT_NOBODY; at = &w->nodes[*at].next)
		if (ranks_lower(w, *at, *lowest, holder, copy))
			lowest = at;
	unsigned who = *lowest;
	*lowest = w->nodes[who].next;
	w->nodes[who].kept_by = PLACEMENT_NOBODY;
	h->taken--;
	return who;
}

/* Proposes until somebody keeps it; whom it displaces goes on. */
static void propose(struct work *w, unsigned owner, unsigned copy)
{
	while (owner != PLACEMENT_NOBODY) {
		unsigned holder = next_choice(w, owner, copy);
		if (holder == PLACEMENT_NOBODY)
			return;
		struct node *h = &w->nodes[holder];
		w->nodes[owner].next = h->first;
		w->nodes[owner].kept_by = holder;
		h->first = owner;
		h->taken++;
		owner = h->load + h->taken > copy + 2 ? displace(w, holder, copy) : PLACEMENT_NOBODY;
	}
}

/* Where all who would do are full: the least loaded of them, for a copy too many is better than none. */
static unsigned squeeze(const struct work *w, unsigned owner, unsigned copy)
{
	unsigned best = PLACEMENT_NOBODY;
	for (unsigned i = 0; i < w->n; i++)
		if (tier_of(w, owner, i, copy) < TIERS &&
		    (best == PLACEMENT_NOBODY || w->nodes[i].load < w->nodes[best].load))
			best = i;
	return best;
}

static void place_copy(struct work *w, unsigned copy)
{
	for (unsigned i = 0; i < w->n; i++) {
		struct node *node = &w->nodes[i];
		node->first = node->next = node->kept_by = PLACEMENT_NOBODY;
		node->tier = node->step = node->taken = 0;
	}
	for (unsigned i = 0; i < w->n; i++)
		if (w->nodes[i].alive)
			propose(w, i, copy);
	for (unsigned i = 0; i < w->n; i++)
		w->nodes[i].load += w->nodes[i].taken;
	for (unsigned i = 0; i < w->n; i++) {
		unsigned holder = w->nodes[i].kept_by;
		if (w->nodes[i].alive && holder == PLACEMENT_NOBODY &&
		    (holder = squeeze(w, i, copy)) != PLACEMENT_NOBODY)
			w->nodes[holder].load++;
		w->holders[(size_t)i * w->copies + copy] = holder;
	}
}

int placement_make(const struct roster *roster, const bool *alive, unsigned copies, struct placement *out)
{
	*out = (struct placement){.n = roster->n, .copies = copies};
	struct work w = {.roster = roster, .n = roster->n, .copies = copies};
	AUTO_FREE struct node *nodes = calloc(w.n, sizeof(*nodes));
	w.nodes = nodes;
	w.holders = malloc((size_t)w.n * copies * sizeof(*w.holders));
	int rc = nodes && w.holders ? 0 : -ENOMEM;
	for (unsigned i = 0; !rc && i < w.n; i++) {
		nodes[i].alive = alive[i];
		w.alive += alive[i];
	}
	if (!rc)
		rc = number_domains(&w);
	if (rc) {
		free(w.holders);
		return rc;
	}
	memset(w.holders, 0xff, (size_t)w.n * copies * sizeof(*w.holders));
	for (unsigned copy = 0; copy < copies; copy++)
		place_copy(&w, copy);
	out->holders = w.holders;
	return 0;
}

void placement_free(struct placement *p)
{
	free(p->holders);
	*p = (struct placement){0};
}
