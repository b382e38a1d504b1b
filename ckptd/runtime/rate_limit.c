#include "runtime/rate_limit.h"

#include "base/bytes.h"
#include "store/disk/disk.h"

#include <errno.h>
#include <time.h>

/* A piece is this part of a second's worth: small against the burst, and few enough that asking costs nothing. */
enum { PIECES_PER_S = 32 };

#define METER_SLICE (100 * CLOCK_NS_PER_MS)

/* ---- one bucket -------------------------------------------------------------------------------------------------- */

static bool may_go(const struct bucket *b, uint64_t now)
{
	return !*b->rate || b->paid_ns <= now;
}

static void charge(struct bucket *b, uint64_t now, uint64_t bytes)
{
	if (!*b->rate) {
		b->paid_ns = now;
		return;
	}
	/* Time that nobody used is kept up to the burst. Rates are at most 2^50, bytes at most a piece: no overflow in 128 bits. */
	uint64_t cost = (uint64_t)((unsigned __int128)bytes * CLOCK_NS_PER_S / *b->rate);
	b->paid_ns = max_u64(b->paid_ns, now > THROTTLE_BURST ? now - THROTTLE_BURST : 0) + cost;
}

/* ---- writes ------------------------------------------------------------------------------------------------------ */

void throttle_init(struct throttle *t, const uint64_t *rate)
{
	*t = (struct throttle){.node = {.rate = rate}};
	list_init(&t->waiting);
}

bool throttle_limited(const struct throttle *t, const struct bucket *job)
{
	return !t->open && (*t->node.rate || *job->rate);
}

static uint64_t piece(const struct throttle *t, const struct bucket *job, uint64_t left)
{
	if (!throttle_limited(t, job))
		return left;
	uint64_t rate = *t->node.rate ? *t->node.rate : *job->rate;
	if (*job->rate)
		rate = min_u64(rate, *job->rate);
	return min_u64(left, max_u64(rate / PIECES_PER_S / DISK_ALIGN * DISK_ALIGN, DISK_ALIGN));
}

static bool try_turn(struct throttle *t, struct turn *turn)
{
	uint64_t now = clock_now();
	if (turn->bytes && !t->open && !(may_go(&t->node, now) && may_go(turn->job, now)))
		return false;
	turn->bytes = piece(t, turn->job, turn->bytes);
	charge(&t->node, now, turn->bytes);
	charge(turn->job, now, turn->bytes);
	list_remove(&turn->link);
	turn->go(turn);
	return true;
}

static bool pump_once(struct throttle *t)
{
	bool any = false;
	list_for_safe(node, &t->waiting)
		any |= try_turn(t, list_entry(node, struct turn, link));
	return any;
}

void throttle_pump(struct throttle *t)
{
	t->pumping = true;
	while (pump_once(t))
		;
	t->pumping = false;
}

/* Behind those who wait: it overtakes only whom their job's limit holds. */
void throttle_ask(struct throttle *t, struct turn *turn)
{
	list_push(&t->waiting, &turn->link);
	if (!t->pumping)
		throttle_pump(t);
}

bool throttle_waiting(const struct throttle *t)
{
	return !list_empty(&t->waiting);
}

void throttle_open(struct throttle *t)
{
	t->open = true;
	throttle_pump(t);
}

/* ---- reads ------------------------------------------------------------------------------------------------------- */

void meter_init(struct meter *m, uint64_t rate)
{
	*m = (struct meter){.lock = PTHREAD_MUTEX_INITIALIZER, .rate = rate};
	m->node.rate = &m->rate;
}

void meter_set(struct meter *m, uint64_t rate)
{
	pthread_mutex_lock(&m->lock);
	m->rate = rate;
	m->node.paid_ns = clock_now(); /* a debt at the old rate would be waited for at the old rate */
	pthread_mutex_unlock(&m->lock);
}

void meter_open(struct meter *m)
{
	atomic_store(&m->open, true);
}

static uint64_t paid_at(struct meter *m, const struct bucket *job)
{
	pthread_mutex_lock(&m->lock);
	uint64_t node = m->rate ? m->node.paid_ns : 0;
	pthread_mutex_unlock(&m->lock);
	return max_u64(node, *job->rate ? job->paid_ns : 0);
}

static void sleep_until(uint64_t ns)
{
	struct timespec at = {.tv_sec = (time_t)(ns / CLOCK_NS_PER_S), .tv_nsec = (long)(ns % CLOCK_NS_PER_S)};
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
		;
}

void meter_wait(struct meter *m, struct bucket *job, uint64_t bytes)
{
	uint64_t now = clock_now(), paid;
	pthread_mutex_lock(&m->lock);
	charge(&m->node, now, bytes);
	pthread_mutex_unlock(&m->lock);
	charge(job, now, bytes);
	while (!atomic_load(&m->open) && (paid = paid_at(m, job)) > (now = clock_now()))
		sleep_until(min_u64(paid, now + METER_SLICE));
}

void meter_hold(struct meter *m, const _Atomic int *still, uint64_t ns)
{
	uint64_t now = clock_now(), end = now + ns;
	for (int was = *still; !atomic_load(&m->open) && *still == was && now < end; now = clock_now())
		sleep_until(min_u64(end, now + METER_SLICE));
}
