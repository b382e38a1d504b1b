#include "cluster/link/parking.h"

#include "base/bytes.h"
#include "base/clock.h"

void parking_begin(struct parking *p, uint64_t idle, uint64_t now)
{
	*p = (struct parking){.idle = idle, .uses = p->uses, .look_at = PARKING_NEVER};
	parking_use(p, now);
}

void parking_use(struct parking *p, uint64_t now)
{
	p->uses++;
	p->at = max_u64(p->at, now + p->idle);
}

void parking_stay(struct parking *p, uint64_t now)
{
	p->said = p->heard = false;
	p->at = max_u64(p->at, now + PARKING_AGAIN * p->idle);
}

uint64_t parking_due(const struct parking *p)
{
	return p->at + p->idle / PARKING_GRACE;
}

void parking_park(struct parking *p)
{
	*p = (struct parking){
		.parked = true, .idle = p->idle, .uses = p->uses, .at = PARKING_NEVER, .look_at = PARKING_NEVER};
}

void parking_want(struct parking *p, uint64_t limit, uint64_t tick, uint64_t now)
{
	if (p->wanted)
		return;
	p->wanted = true;
	silence_begin(&p->silence, 2 * max_u64(limit, PARKING_CALL_MS * CLOCK_NS_PER_MS), tick, now);
}

bool parking_is_lost(struct parking *p, uint64_t now)
{
	return p->wanted && silence_look(&p->silence, now);
}

void parking_doubt(struct parking *p, uint64_t when)
{
	p->look_at = min_u64(p->look_at, when);
}
