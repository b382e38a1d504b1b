/* One thing that was promised, and whether it has held. */
#ifndef CKPT_CLI_JUDGE_INVARIANT_H
#define CKPT_CLI_JUDGE_INVARIANT_H

#include <stdbool.h>
#include <stddef.h>

enum { INVARIANT_TEXT_MAX = 256, INVARIANT_WHY_MAX = 192 };

struct invariant {
	const char *name;
	bool held;
	size_t looked_at; /* how much there was to judge */
	char text[INVARIANT_TEXT_MAX];
	size_t not_due; /* how much was not judged, since what is promised of it was not due */
	char why[INVARIANT_WHY_MAX];
};

/* It has not held, and why: the first that was broken is told. */
void invariant_broken(struct invariant *v, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
