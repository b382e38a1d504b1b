/* The arenas that the launcher holds, so that they outlive the daemon. Their heads are mapped read-only: the flight record tells at
 * which step a rank is and whether its process has come to work. What stands there is the word of the ranks. */
#ifndef CKPT_CLI_LAUNCH_HELD_H
#define CKPT_CLI_LAUNCH_HELD_H

#include "base/err.h"
#include "format/arena/flight.h"
#include "format/message/wire.h"

#include <stdbool.h>

struct held {
	int fd; /* -1: none */
	uint32_t rank;
	uint64_t size;
	const struct arena_head *head; /* ARENA_HEAD bytes */
	/* the last epoch that was entered with it before it was held here: by those of another launcher */
	uint32_t before;
};

struct held_all {
	struct held list[WIRE_LOCAL_MAX]; /* in no order */
	uint32_t count;
};

void held_init(struct held_all *all);
void held_free(struct held_all *all);
/* Takes over fd in any case; replaces what was held for the rank. -EBADMSG: it is no arena (of that size, sealed), or one too many. */
int held_take(struct held_all *all, const struct wire_arena_of *m, int fd, struct err *err);

/* NULL: none. */
const struct held *held_find(const struct held_all *all, uint32_t rank);

/* Until when no heartbeat is to be expected of the rank, says its daemon (ckptd/job/apart.h); 0: it says nothing. */
uint64_t held_apart(const struct held_all *all, uint32_t rank);
/* What the daemon says of the epoch that ranks here have entered. judged: all ranks stand still, and it has been looked
 * into who is to blame. named: somebody is, perhaps on another node: the rank that all wait for. */
bool held_judged(const struct held_all *all);
bool held_named(const struct held_all *all, uint32_t *rank);
/* False: no arena, or no heartbeat in it. */
bool held_look(const struct held_all *all, uint32_t rank, struct flight_view *view);
/* Whether the process that was started then has come to work: it has given a heartbeat or begun a save. */
bool held_at_work(const struct held_all *all, uint32_t rank, uint64_t started_ns);
/* The last epoch that the rank has entered; 0: none. Of all of them: the newest. */
uint32_t held_entered(const struct held_all *all, uint32_t rank);
uint32_t held_newest_entered(const struct held_all *all);
/* The epoch that the daemon told, or a later one that a rank has entered since this launcher holds its arena; 0: no arena is held. */
uint32_t held_epoch_known(const struct held_all *all, uint32_t told);
/* Whether any of them has been in the job: it has entered an epoch or, by a library that does not tell, come to work.
 * Until then it sees no wish. */
bool held_any_joined(const struct held_all *all);
/* Whether it has begun a save since. */
bool held_saves(const struct held_all *all, uint32_t rank, uint64_t since_ns);
/* The newest step that any rank is at; false: none is known. */
bool held_newest_step(const struct held_all *all, uint64_t *step);

#endif
