/* Transitions: which state of a machine may follow which. A machine changes its state in one place, which asks here first. */
#ifndef CKPT_TRANSITIONS_H
#define CKPT_TRANSITIONS_H

#include <stdint.h>

struct transitions {
	const char *machine;      /* its name, for the message */
	const char *const *names; /* [n], of the states, from 0 on */
	const uint32_t *next;     /* [n]: of each state those that may follow, a bit for each */
	uint32_t n;
};

/* Ends the program if `to` may not follow `from`, with a line that names both: it would go on in a state that nobody has
 * thought of. Never of what others say: that is refused before it changes a state. */
void transitions_check(const struct transitions *t, uint32_t from, uint32_t to);
/* "?" of what is no state. */
const char *transitions_name(const struct transitions *t, uint32_t state);

#endif
