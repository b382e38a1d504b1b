#include "format/arena/flight.h"

#include "format/tensor/dtype.h"

static void copy_op(char dst[FLIGHT_OP_MAX], const char *src)
{
	for (size_t i = 0; i < FLIGHT_OP_MAX; i++) {
		char c = src[i];
		dst[i] = !c || (c > ' ' && c <= '~') ? c : '?';
	}
	dst[FLIGHT_OP_MAX - 1] = '\0';
}

static uint8_t dtype_in(uint64_t typed, uint64_t collective)
{
	uint8_t dtype = (uint8_t)typed;
	return typed == arena_typed(collective, dtype) && dtype < DTYPE_END ? dtype : 0;
}

void flight_look(const struct arena_head *head, struct flight_view *view)
{
	const struct arena_flight *flight = &head->flight;
	view->beat_ns = atomic_load_explicit(&flight->beat_ns, memory_order_acquire);
	view->step = atomic_load(&flight->step);
	view->phase = atomic_load(&flight->phase);
	view->in_collective = atomic_load(&flight->in_collective) != 0;
	view->collective = atomic_load(&flight->coll_seq);
	view->bytes = atomic_load(&flight->coll_bytes);
	view->since_ns = atomic_load(&flight->coll_since_ns);
	copy_op(view->op, flight->coll_op);
	view->dtype = dtype_in(atomic_load(&head->typed), view->collective);
}

enum { TRIES = 8 }; /* a rank can have died in the middle */

struct flight_waited flight_waited(const struct arena_head *head, uint64_t now)
{
	struct flight_waited all = {0};
	for (int i = 0; i < TRIES; i++) {
		uint64_t seq = atomic_load_explicit(&head->waited.seq, memory_order_acquire);
		all = (struct flight_waited){.ns = atomic_load(&head->waited.ns), .left = seq / 2};
		bool in = atomic_load(&head->flight.in_collective) != 0;
		uint64_t since = atomic_load(&head->flight.coll_since_ns);
		if (in && since <= now)
			all.ns += now - since;
		if (!(seq & 1) && atomic_load(&head->waited.seq) == seq)
			break;
	}
	return all;
}
