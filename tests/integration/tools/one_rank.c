#include "one_rank.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

int64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 * ONE_RANK_MS + t.tv_nsec;
}

void sleep_until(int64_t ns)
{
	struct timespec t = {.tv_sec = ns / (1000 * ONE_RANK_MS), .tv_nsec = ns % (1000 * ONE_RANK_MS)};
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

int one_rank(const char *usage, bool called_well, void (*train)(ckpt *s, const void *arg), const void *arg)
{
	static uint8_t state[16];
	char why[256];
	ckpt *s;
	int name = (int)strcspn(usage, " ");
	if (!called_well || ckpt_open(NULL, &s, why, sizeof(why))) {
		fprintf(stderr, "%.*s: %s\n", name, usage, called_well ? why : usage);
		return 1;
	}
	int rc = ckpt_register_blob(s, "state", CKPT_SCOPE_RANK, state, sizeof(state));
	if (!rc)
		rc = ckpt_join(s, NULL, 0, NULL, -1);
	if (rc)
		fprintf(stderr, "%.*s: %s\n", name, usage, ckpt_error(s));
	else
		train(s, arg);
	ckpt_close(s);
	return rc != 0;
}
