/* A fleet to which nothing happens any more: all comes to train, and a save as far as it can. */
#include "base/clock.h"
#include "fleet.h"
#include "net_sim.h"

/* In some seeds as real ones are, in others so early that few sessions have a connection: on so few nodes all are neighbours, so nobody looks
 * after anybody there. */
void fleet_park(uint64_t seed)
{
	static const uint64_t ms[] = {0, 30, 300, 30, 300};
	unsigned kind = seed / 8 % 5;
	net_sim_park(ms[kind] * CLOCK_NS_PER_MS, kind >= 3);
}

#define SETTLED_NS (60 * CLOCK_NS_PER_S)

void fleet_mend(void)
{
	net_sim_faults(&(struct net_faults){0});
	disk_sim_faults(&(struct disk_faults){0});
	members_mend();
	registry_mend();
	for (unsigned n = 0; n < fleet.n; n++)
		fleet.nodes[n].frozen_ns = 0;
	for (unsigned a = 0; a < FLEET_NUMBERS; a++) /* also of those that a node has yet to be given */
		for (unsigned b = 0; b < FLEET_NUMBERS; b++)
			net_sim_cut(a, b, false);
	if (fleet.elastic)
		elastic_mend();
	fleet.quiescing = true;
	fleet.pace_ns = 300 * CLOCK_NS_PER_MS;
}

static bool turn_of_all(struct fleet_node *n)
{
	bool busy = false;
	if (!n->up && !n->away)
		fleet_start(n);
	fleet_launch(n);
	launcher_turn(n);
	if (fleet.elastic)
		elastic_turn(n);
	for (int k = 0; k < 4; k++)
		busy |= fleet_turn(n, true);
	return busy;
}

static void round_of_all(void)
{
	bool busy = false;
	for (unsigned i = 0; i < fleet.n; i++)
		busy |= turn_of_all(&fleet.nodes[i]);
	fleet_each(r)
	{
		if (r->alive)
			fleet_step(r);
		else if (!fleet.elastic && !r->finished)
			fleet_connect(r);
		busy |= r->slot >= 0;
	}
	clock_advance(busy ? CLOCK_NS_PER_MS : 20 * CLOCK_NS_PER_MS);
	fleet_check();
}

static unsigned nodes_there(void)
{
	unsigned n = 0;
	for (unsigned i = 0; i < fleet.n; i++)
		n += fleet.nodes[i].up;
	return n;
}

/* Begun without faults, and as far as it can come. */
static bool saved(uint64_t after)
{
	if (fleet.elastic && fleet_entered_world() != fleet_expected_world())
		return false;
	for (unsigned i = fleet.nsaves; i-- > 0;) {
		const struct fleet_save *s = &fleet.saves[i];
		if (s->id.step <= after || s->id.epoch != fleet.told)
			continue;
		if (s->level >= (fleet.stored ? LEVEL_DURABLE : LEVEL_CAPTURED) &&
		    (!fleet.copies || nodes_there() < 2 || s->replicated || fleet_copied(s->id)))
			return true;
	}
	return false;
}

/* A daemon that was told to end takes its time, and is started after that. */
static bool all_there(void)
{
	for (unsigned i = 0; i < fleet.n; i++)
		if (!fleet.nodes[i].up && !fleet.nodes[i].away)
			return false;
	return true;
}

void fleet_settle(const char *after)
{
	uint64_t end = clock_now() + SETTLED_NS, step = fleet.last_step;
	while (!(all_there() && saved(step) && fleet_decided()) && !fleet.stopped && clock_now() < end)
		round_of_all();
	if (!saved(step) && !fleet.stopped)
		fleet_tell();
	SIM_CHECK(fleet.stopped || fleet_decided(), "a rank is not told what is due within a minute after %s", after);
	SIM_CHECK(saved(step) || fleet.stopped, "nothing is saved within a minute after %s, in a world of %u of %u",
		  after, fleet_entered_world(), fleet_expected_world());
}

void fleet_go_on(uint64_t rounds)
{
	while (rounds--)
		round_of_all();
}
