#include "launcher/launch_budget.h"

#include "base/bytes.h"
#include "base/clock.h"

#define PAUSE_FIRST_NS (100 * CLOCK_NS_PER_MS)
#define PAUSE_MOST_NS (5 * CLOCK_NS_PER_S)

bool budget_take(struct budget *budget, uint64_t now)
{
	if (!budget->max)
		return false;
	uint64_t *slot = &budget->at[budget->spent % budget->max];
	/* The slot holds the oldest of the last `max`: it must have left the window. */
	if (budget->spent >= budget->max && (!budget->window_ns || now - *slot < budget->window_ns))
		return false;
	*slot = now;
	budget->spent++;
	return true;
}

void budget_give_back(struct budget *budget)
{
	budget->spent--;
	/* What it took the place of had left the window. */
	budget->at[budget->spent % budget->max] -= budget->window_ns;
}

bool loss_covers(const struct loss *loss, uint64_t started_ns, uint32_t entered)
{
	return started_ns < loss->since_ns && entered <= loss->epoch;
}

void loss_begin(struct loss *loss, uint32_t epoch, uint64_t now)
{
	*loss = (struct loss){.since_ns = now, .epoch = epoch};
}

bool loss_is_elsewhere(struct loss *loss, uint32_t epoch, uint64_t now)
{
	/* Nobody has entered another one since: what has ended here already follows from it. */
	if (!loss->since_ns || loss->epoch != epoch)
		loss_begin(loss, epoch, now);
	bool counted = loss->counted;
	loss->elsewhere = true;
	loss->counted = loss->owed = false;
	return counted;
}

bool streak_failed(struct streak *streak, uint64_t now, uint64_t *pause_ns)
{
	unsigned doublings = streak->count < 10 ? streak->count : 10;
	*pause_ns = min_u64(PAUSE_FIRST_NS << doublings, PAUSE_MOST_NS);
	streak->at[streak->count % STREAK_MAX] = now;
	streak->count++;
	return streak->count < STREAK_MAX || now - streak->at[streak->count % STREAK_MAX] > STREAK_NS;
}

void streak_ended(struct streak *streak)
{
	streak->count = 0;
}
