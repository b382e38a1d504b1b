/* Silence: for how long another node has said nothing, as far as that proves anything. A node that does not run itself
 * hears nothing either. On a machine that is too busy, or was stopped, all other nodes would be lost at once, although
 * each of them is sound. So of the time between two looks only a bit of the limit counts, and what has come in meanwhile
 * is read before the rest of the limit is over. Pure: the clock is the caller's. */
#ifndef CKPTD_LINK_SILENCE_H
#define CKPTD_LINK_SILENCE_H

#include <stdbool.h>
#include <stdint.h>

struct silence {
	uint64_t limit, each; /* ns: of silence; of it, what a look adds at most */
	uint64_t looked, silent;
};

/* every: ns between two looks, if this node runs as it should. */
void silence_begin(struct silence *s, uint64_t limit, uint64_t every, uint64_t now);
/* A look; true: it has been silent for longer than the limit. */
bool silence_look(struct silence *s, uint64_t now);
/* When the next look is to be, so that nothing of the silence goes uncounted, and it is seen when it reaches `part`, or the limit. */
uint64_t silence_due(const struct silence *s, uint64_t part);

#endif
