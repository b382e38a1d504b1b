/* Repeat: a sentence that stays true for long, and is found again and again, is logged when it is new. Then it is logged
 * less and less often: after 2 seconds, 4, 8, at last every 10 minutes. */
#ifndef CKPT_BASE_REPEAT_H
#define CKPT_BASE_REPEAT_H

#include <stdbool.h>
#include <stdint.h>

/* Zeroed: nothing was said. */
struct repeat {
	uint64_t text; /* a hash of what was said last */
	uint64_t next_ns, gap_ns;
};

/* It is to be logged now. */
bool repeat_due(struct repeat *r, const char *text, uint64_t now);

#endif
