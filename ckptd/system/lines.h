/* Lines: what a worker logs, treated as the word of its user: cut into lines, cleaned, counted. A user who writes without
 * end loses only their own lines. */
#ifndef CKPTD_SYSTEM_LINES_H
#define CKPTD_SYSTEM_LINES_H

#include "base/log.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LINES_BYTES = 1024, LINES_BURST = 200, LINES_PER_S = 50 };

struct lines {
	char text[LINES_BYTES];
	size_t len;
	uint64_t paid_ns; /* ledger_pace */
	uint64_t lost;    /* since the last one that went through */
};

/* Takes over what was read; calls say(arg, level, text) for each line that may pass. */
typedef void lines_fn(void *arg, enum log_level level, const char *text);
void lines_feed(struct lines *lines, const char *data, size_t len, uint64_t now, lines_fn *say, void *arg);

#endif
