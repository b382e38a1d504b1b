#include "format/arena/losses.h"

static uint64_t complete(uint64_t number)
{
	return 2 * number + 2;
}

void losses_put(struct arena_losses *losses, const struct loss_said *said)
{
	uint64_t number = atomic_load_explicit(&losses->count, memory_order_relaxed);
	struct arena_loss *place = &losses->ring[number % ARENA_LOSSES];
	atomic_store_explicit(&place->seq, complete(number) - 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	atomic_store_explicit(&place->step, said->step, memory_order_relaxed);
	atomic_store_explicit(&place->epoch, said->epoch, memory_order_relaxed);
	atomic_store_explicit(&place->loss, said->loss, memory_order_relaxed);
	atomic_store_explicit(&place->gradient_norm, said->gradient_norm, memory_order_relaxed);
	atomic_store_explicit(&place->seq, complete(number), memory_order_release);
	atomic_store_explicit(&losses->count, number + 1, memory_order_release);
}

static bool look(const struct arena_losses *losses, uint64_t number, struct loss_said *said)
{
	const struct arena_loss *place = &losses->ring[number % ARENA_LOSSES];
	if (atomic_load_explicit(&place->seq, memory_order_acquire) != complete(number))
		return false;
	said->step = atomic_load_explicit(&place->step, memory_order_relaxed);
	said->epoch = atomic_load_explicit(&place->epoch, memory_order_relaxed);
	said->loss = atomic_load_explicit(&place->loss, memory_order_relaxed);
	said->gradient_norm = atomic_load_explicit(&place->gradient_norm, memory_order_relaxed);
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&place->seq, memory_order_relaxed) == complete(number);
}

bool losses_next(const struct arena_losses *losses, uint64_t *next, struct loss_said *said)
{
	uint64_t count = atomic_load_explicit(&losses->count, memory_order_acquire);
	if (count < *next || count - *next > ARENA_LOSSES) /* another arena, or what was there is overwritten */
		*next = count > ARENA_LOSSES ? count - ARENA_LOSSES : 0;
	for (; *next < count; ++*next)
		if (look(losses, *next, said)) {
			++*next;
			return true;
		}
	return false;
}
