#include "format/arena/schedule.h"

#include <errno.h>

enum { SEQLOCK_TRIES = 1000 };

static bool is_due(uint64_t from, uint64_t every, uint64_t step)
{
	return every && step && step >= from && (step - from) % every == 0;
}

unsigned schedule_due(const struct schedule *s, uint64_t step)
{
	if (is_due(s->storage_from, s->storage_every, step))
		return DUE_MEMORY | DUE_STORAGE;
	return is_due(s->memory_from, s->memory_every, step) ? DUE_MEMORY : 0;
}

static bool is_near(uint64_t a, uint64_t b)
{
	return a && b && (a > b ? a - b : b - a) <= a / 8;
}

struct schedule schedule_next(const struct schedule *last, uint32_t epoch, uint64_t step, uint64_t steps,
			      uint64_t memory_every, uint64_t storage_every)
{
	struct schedule s = *last;
	s.epoch = epoch;
	s.number++;
	s.from = last->until;
	uint64_t first = max_u64(s.from, step);
	s.until = first + steps;
	s.wanted = first + (steps - 1) / 2;
	bool begins = !last->number, memory = begins || !is_near(last->memory_every, memory_every);
	bool storage = begins || (last->storage_every != storage_every && !is_near(last->storage_every, storage_every));
	if (memory) {
		s.memory_from = s.from;
		s.memory_every = memory_every;
	}
	if (storage) {
		s.storage_from = s.from;
		s.storage_every = storage_every;
	}
	if (storage && storage_every && !memory) /* that save is in memory, too: the next one is an interval later */
		s.memory_from = s.from;
	return s;
}

/* ---- in the arena ------------------------------------------------------------------------------------------------ */

void schedule_put(struct arena_head *head, const struct schedule *s)
{
	struct arena_schedule *at = &head->schedules[s->number % ARENA_SCHEDULES];
	uint32_t seq = atomic_load(&at->seq) | 1;
	atomic_store(&at->seq, seq);
	atomic_store(&at->epoch, s->epoch);
	atomic_store(&at->number, s->number);
	atomic_store(&at->from, s->from);
	atomic_store(&at->until, s->until);
	atomic_store(&at->wanted, s->wanted);
	atomic_store(&at->memory_from, s->memory_from);
	atomic_store(&at->memory_every, s->memory_every);
	atomic_store(&at->storage_from, s->storage_from);
	atomic_store(&at->storage_every, s->storage_every);
	atomic_store(&at->seq, seq + 1);
}

/* False: it is being written, or was when a daemon died: nobody has read it then. */
static bool read_one(const struct arena_schedule *at, struct schedule *out)
{
	for (int tries = 0; tries < SEQLOCK_TRIES; tries++) {
		uint32_t before = atomic_load_explicit(&at->seq, memory_order_acquire);
		out->epoch = atomic_load_explicit(&at->epoch, memory_order_relaxed);
		out->number = atomic_load_explicit(&at->number, memory_order_relaxed);
		out->from = atomic_load_explicit(&at->from, memory_order_relaxed);
		out->until = atomic_load_explicit(&at->until, memory_order_relaxed);
		out->wanted = atomic_load_explicit(&at->wanted, memory_order_relaxed);
		out->memory_from = atomic_load_explicit(&at->memory_from, memory_order_relaxed);
		out->memory_every = atomic_load_explicit(&at->memory_every, memory_order_relaxed);
		out->storage_from = atomic_load_explicit(&at->storage_from, memory_order_relaxed);
		out->storage_every = atomic_load_explicit(&at->storage_every, memory_order_relaxed);
		atomic_thread_fence(memory_order_acquire);
		if (!(before & 1) && atomic_load_explicit(&at->seq, memory_order_relaxed) == before)
			return true;
	}
	return false;
}

struct schedule schedule_newest(const struct arena_head *head, uint32_t epoch)
{
	struct schedule newest = {0}, s;
	for (unsigned i = 0; epoch && i < ARENA_SCHEDULES; i++)
		if (read_one(&head->schedules[i], &s) && s.epoch == epoch && s.number > newest.number)
			newest = s;
	return newest;
}

int schedule_find(const struct arena_head *head, uint32_t epoch, uint64_t step, struct schedule *out)
{
	bool later = false;
	for (unsigned i = 0; i < ARENA_SCHEDULES; i++) {
		if (!read_one(&head->schedules[i], out) || out->epoch != epoch)
			continue;
		if (step >= out->from && step < out->until)
			return 0;
		later |= out->from > step;
	}
	return later ? -ERANGE : -EAGAIN;
}

void schedule_ask(struct arena_head *head, uint32_t epoch, uint64_t step, uint64_t now)
{
	struct arena_asked *a = &head->asked;
	bool anew = atomic_load_explicit(&a->epoch, memory_order_relaxed) != epoch;
	if (!anew && step <= atomic_load_explicit(&a->step, memory_order_relaxed))
		return;
	if (anew)
		atomic_store(&a->epoch, 0);
	atomic_store_explicit(&a->step, step, memory_order_relaxed);
	atomic_store_explicit(&a->ns, now, memory_order_release);
	if (anew)
		atomic_store(&a->epoch, epoch);
}

bool schedule_asked(const struct arena_head *head, uint32_t epoch, uint64_t *step, uint64_t *ns)
{
	const struct arena_asked *a = &head->asked;
	if (!epoch || atomic_load(&a->epoch) != epoch)
		return false;
	*ns = atomic_load(&a->ns);
	*step = atomic_load(&a->step);
	return atomic_load(&a->epoch) == epoch && *step <= STEP_MAX;
}

/* ---- in messages ------------------------------------------------------------------------------------------------- */

void schedule_encode(struct wbuf *out, const struct schedule *s)
{
	wbuf_u32(out, s->epoch);
	wbuf_u32(out, s->number);
	wbuf_u64(out, s->from);
	wbuf_u64(out, s->until);
	wbuf_u64(out, s->wanted);
	wbuf_u64(out, s->memory_from);
	wbuf_u64(out, s->memory_every);
	wbuf_u64(out, s->storage_from);
	wbuf_u64(out, s->storage_every);
}

void schedule_decode(struct rbuf *r, struct schedule *s)
{
	s->epoch = rbuf_u32(r);
	s->number = rbuf_u32(r);
	s->from = rbuf_u64(r);
	s->until = rbuf_u64(r);
	s->wanted = rbuf_u64(r);
	s->memory_from = rbuf_u64(r);
	s->memory_every = rbuf_u64(r);
	s->storage_from = rbuf_u64(r);
	s->storage_every = rbuf_u64(r);
}

int schedule_check(const struct schedule *s, bool may_be_none, struct err *err)
{
	if (!s->number && may_be_none)
		return 0;
	if (!s->number || s->number == UINT32_MAX || !s->epoch ||
	    s->epoch > EPOCH_MAX) /* it is counted on from there */
		return err_set(err, -EBADMSG, "schedule %u of epoch %u", s->number, s->epoch);
	if (s->from > s->wanted || s->wanted >= s->until || s->until > 2 * STEP_MAX + 1)
		return err_set(err, -EBADMSG, "a schedule of steps %llu to %llu, whose next is wanted at %llu",
			       (unsigned long long)s->from, (unsigned long long)s->until,
			       (unsigned long long)s->wanted);
	if (s->memory_from > s->from || s->storage_from > s->from)
		return err_set(err, -EBADMSG, "a schedule of steps from %llu on that begins behind them",
			       (unsigned long long)s->from);
	if (s->memory_every > STEP_MAX || s->storage_every > STEP_MAX)
		return err_set(err, -EBADMSG, "a schedule with an interval of %llu steps",
			       (unsigned long long)max_u64(s->memory_every, s->storage_every));
	return 0;
}
