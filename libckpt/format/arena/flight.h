/* Flight record, as others read it: where a rank is, by its own word. The daemon shows and judges it, the launcher blames by it. */
#ifndef CKPT_FORMAT_FLIGHT_H
#define CKPT_FORMAT_FLIGHT_H

#include "format/arena/arena.h"

#include <stdbool.h>

enum { FLIGHT_OP_MAX = 16 };

struct flight_view {
	uint64_t beat_ns; /* 0: it has given no heartbeat */
	uint64_t step;
	uint32_t phase; /* ckpt_phase of the public header, or any other number */
	bool in_collective;
	uint64_t collective;      /* of the one that it is in, or was in last: its sequence number */
	uint64_t bytes, since_ns; /* since_ns 0: it has told of none */
	char op[FLIGHT_OP_MAX];   /* its name: printable */
	uint32_t dtype;           /* enum dtype of its elements; 0: not known */
};

/* A copy. While the rank writes it may be a mixture: of two collectives, never of two memories. */
void flight_look(const struct arena_head *head, struct flight_view *view);

struct flight_waited {
	uint64_t ns;   /* in collectives until now, the one that it is in included */
	uint64_t left; /* collectives */
};

/* In all, since the arena is there. While the rank lives neither goes down. */
struct flight_waited flight_waited(const struct arena_head *head, uint64_t now);

#endif
