/* Jobs that have ended in this life of the daemon, and their last plans. A node that was cut off when its job ended comes back and offers its
 * processes: it is told, and the next job of that name is not taken for the one that is over. */
#include "control/membership_private.h"

#include "control/coordinator_host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAST_MAX = 256 };

struct muster_past {
	struct muster_past *next;
	char job[NAME_JOB_MAX];
	struct muster_end end;
};

static struct muster_past *take(struct daemon *daemon, const char *job)
{
	for (struct muster_past **at = &daemon->past_musters; *at; at = &(*at)->next) {
		struct muster_past *past = *at;
		if (strcmp(past->job, job) != 0)
			continue;
		*at = past->next;
		return past;
	}
	return NULL;
}

/* The newest are kept. */
static void bound(struct daemon *daemon)
{
	struct muster_past **at = &daemon->past_musters;
	for (unsigned n = 0; *at && n < PAST_MAX; n++)
		at = &(*at)->next;
	while (*at) {
		struct muster_past *past = *at;
		*at = past->next;
		free(past);
	}
}

void muster_past_note(struct daemon *daemon, const char *job, struct muster_end end)
{
	struct muster_past *past = take(daemon, job);
	if (!past && !(past = calloc(1, sizeof(*past))))
		return; /* who comes late waits for the others in vain, as after a restart of this daemon */
	snprintf(past->job, sizeof(past->job), "%s", job);
	past->end = end;
	past->next = daemon->past_musters;
	daemon->past_musters = past;
	bound(daemon);
}

struct muster_end muster_past(const struct daemon *daemon, const char *job)
{
	const struct muster_past *past = daemon->past_musters;
	while (past && strcmp(past->job, job) != 0)
		past = past->next;
	return past ? past->end : (struct muster_end){0};
}

void muster_past_free(struct daemon *daemon)
{
	while (daemon->past_musters) {
		struct muster_past *past = daemon->past_musters;
		daemon->past_musters = past->next;
		free(past);
	}
}

bool muster_is_over(const struct daemon *daemon, const struct peer_report *r)
{
	return r->crew.plan && r->crew.plan <= muster_past(daemon, r->job).plan && !chair_has(daemon, r->job);
}

void muster_tell_over(struct daemon *daemon, uint32_t node, bool spread, const struct peer_report *r)
{
	struct muster_end end = muster_past(daemon, r->job);
	struct peer_order idle = {.type = PEER_PLAN, .plan = {.number = end.plan, .world = r->crew.world}};
	struct peer_order over = {.type = PEER_END, .word.epoch = end.epoch};
	uint32_t at = spread ? node : daemon->self;
	memcpy(idle.job, r->job, sizeof(idle.job));
	memcpy(over.job, r->job, sizeof(over.job));
	if (r->crew.plan < end.plan)
		chair_order(daemon, spread, at, &idle);
	else
		chair_order(daemon, spread, at, &over);
}
