/* Silence: for how long another node has said nothing, as far as that proves anything. Who does not run himself hears nothing either: on a
 * machine that is too busy, or was stopped, all others would be lost at once, each of them sound. So of the time between two looks no more
 * counts than a bit of the limit, and what has come in meanwhile is read before the rest of it is over. Pure: the clock is the caller's. */
#ifndef CKPTD_LINK_SILENCE_H
#define CKPTD_LINK_SILENCE_H

#include <stdbool.h>
#include <stdint.h>

struct silence {
	uint64_t limit, each; /* ns: of silence; of it, what a look adds at most */
	uint64_t looked, silent;
};

/* every: ns between two looks of who runs as he should. */
void silence_begin(struct silence *s, uint64_t limit, uint64_t every, uint64_t now);
/* A look; true: it has been silent for longer than the limit. */
bool silence_look(struct silence *s, uint64_t now);
/* When the next look is to be, so that nothing of the silence goes uncounted, and it is seen when it reaches `part`, or the limit. */
uint64_t silence_due(const struct silence *s, uint64_t part);

#endif
