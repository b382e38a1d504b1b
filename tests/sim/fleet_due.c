/* Ranks ask which steps are saved (libckpt/client/save/due.c), some ahead of the others and some behind them. Whoever is told is told the same. */
#include "base/clock.h"
#include "fleet.h"
#include "format/arena/schedule.h"

enum { LEAD = 40, KNOWN = 2048 };

/* Those that any rank has read, in the order in which that was seen. */
static struct schedule known[KNOWN];
static unsigned nknown;
static uint64_t asks;

void fleet_due_begin(void)
{
	nknown = 0;
	asks = 0;
}

static const struct schedule *find(uint32_t epoch, uint32_t number)
{
	for (unsigned i = nknown; i-- > 0;)
		if (known[i].epoch == epoch && known[i].number == number)
			return &known[i];
	return NULL;
}

/* Steps of one are steps of no other: a rank that is told of another one at the same step would be told otherwise. */
static bool overlaps(const struct schedule *s)
{
	for (unsigned i = 0; i < nknown; i++)
		if (known[i].epoch == s->epoch && s->from < known[i].until && known[i].from < s->until)
			return true;
	return false;
}

static bool is_same(const struct schedule *a, const struct schedule *b)
{
	return a->from == b->from && a->until == b->until && a->wanted == b->wanted &&
	       a->memory_from == b->memory_from && a->memory_every == b->memory_every &&
	       a->storage_from == b->storage_from && a->storage_every == b->storage_every;
}

static void compare(const struct fleet_rank *r, const struct schedule *s)
{
	const struct schedule *before = find(s->epoch, s->number);
	if (before) {
		SIM_CHECK(is_same(before, s), "rank %u reads schedule %u of epoch %u from step %lu on, others from %lu",
			  r->id, s->number, s->epoch, (unsigned long)s->from, (unsigned long)before->from);
		return;
	}
	SIM_CHECK(!overlaps(s), "rank %u: schedule %u of epoch %u has steps %lu to %lu, which another one has, too",
		  r->id, s->number, s->epoch, (unsigned long)s->from, (unsigned long)s->until);
	SIM_CHECK(nknown < KNOWN, "too many schedules");
	known[nknown++] = *s;
	fleet_sum.schedules++;
}

/* It asks at every turn, for steps that it comes to later. */
void fleet_ask(const struct fleet_rank *r)
{
	struct arena_head *head = r->mem->head;
	uint64_t step = r->next_step + ++asks * 7919 % LEAD;
	struct schedule s;
	if (!fleet.asks || atomic_load(&head->epoch) != r->epoch)
		return;
	schedule_ask(head, r->epoch, step, clock_now());
	if (!schedule_find(head, r->epoch, step, &s))
		compare(r, &s);
}

bool fleet_decided(void)
{
	struct schedule s;
	if (!fleet.asks)
		return true;
	fleet_each(r)
	{
		if (r->alive && r->joined && r->restored && atomic_load(&r->mem->head->epoch) == r->epoch &&
		    schedule_find(r->mem->head, r->epoch, r->next_step, &s) == -EAGAIN)
			return false;
	}
	return true;
}
