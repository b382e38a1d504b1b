/* Jobs that have ended in this incarnation of the daemon, or by what is on record, and their last plans. A node that was cut off when its job ended, or has not been told before the
 * coordinator was lost, offers its processes: it is told, and the next job of that name is not taken for the one that is over. */
#include "control/membership/membership_private.h"

#include "control/control.h"
#include "control/host/coordinator_host.h"
#include "control/membership/membership.h"
#include "control/record/epoch_record.h"
#include "replication/room.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAST_MAX = 256 };

struct membership_past {
	struct membership_past *next;
	char job[NAME_JOB_MAX];
	struct membership_end end;
};

static struct membership_past *take(struct control *control, const char *job)
{
	for (struct membership_past **at = &control->past_memberships; *at; at = &(*at)->next) {
		struct membership_past *past = *at;
		if (strcmp(past->job, job) != 0)
			continue;
		*at = past->next;
		return past;
	}
	return NULL;
}

/* The newest are kept. */
static void bound(struct control *control)
{
	struct membership_past **at = &control->past_memberships;
	for (unsigned n = 0; *at && n < PAST_MAX; n++)
		at = &(*at)->next;
	while (*at) {
		struct membership_past *past = *at;
		*at = past->next;
		free(past);
	}
}

void membership_past_note(struct control *control, const char *job, struct membership_end end)
{
	struct membership_past *past = take(control, job);
	if (!past && !(past = calloc(1, sizeof(*past))))
		return; /* who comes late waits for the others in vain */
	snprintf(past->job, sizeof(past->job), "%s", job);
	past->end = end;
	past->next = control->past_memberships;
	control->past_memberships = past;
	bound(control);
}

struct membership_end membership_past(const struct control *control, const char *job)
{
	const struct membership_past *past = control->past_memberships;
	while (past && strcmp(past->job, job) != 0)
		past = past->next;
	return past ? past->end : (struct membership_end){0};
}

void membership_past_recall(struct control *control, const char *job, const struct begun *last)
{
	if (last->ended && last->ended >= membership_past(control, job).plan)
		membership_past_note(control, job,
				     (struct membership_end){.plan = last->ended + 1,
							     .epoch = last->id.epoch,
							     .unserved = true,
							     .finished = last->finished == last->ended});
}

void membership_past_forget(struct control *control, const char *job)
{
	free(take(control, job));
}

void membership_past_free(struct control *control)
{
	while (control->past_memberships) {
		struct membership_past *past = control->past_memberships;
		control->past_memberships = past->next;
		free(past);
	}
}

/* Unless the next job of that name has begun: it has a place for everybody. */
bool membership_is_over(const struct control *control, const char *job, uint32_t plan)
{
	const struct membership *m = membership_find(control, job);
	return plan && plan <= membership_past(control, job).plan && !(m && m->assignment.world);
}

void membership_tell_over(struct control *control, uint32_t node, bool spread, const struct peer_report *r)
{
	struct membership_end end = membership_past(control, r->job);
	struct peer_order idle = {.type = PEER_PLAN, .plan = {.number = end.plan, .world = r->assignment.world}};
	struct peer_order over = {.type = PEER_END,
				  .word = {.epoch = end.epoch,
					   .flag = end.unserved || host_has(control, r->job),
					   .rc = end.finished ? 0 : -EOWNERDEAD}};
	bool at_work = r->assignment.n && r->assignment.world;
	uint32_t at = spread ? node : control->peers->self;
	memcpy(idle.job, r->job, sizeof(idle.job));
	memcpy(over.job, r->job, sizeof(over.job));
	if (at_work && r->assignment.plan < end.plan)
		host_order(control, spread, at, &idle);
	else
		host_order(control, spread, at, &over);
}

/* What this incarnation of the daemon has not seen is on record. */
static struct membership_end past_on_record(struct control *control, const char *job)
{
	struct err err = {{0}};
	struct begun last;
	struct membership_end end = membership_past(control, job);
	if (end.plan || epochs_last(control, job, &last, &err))
		return end;
	membership_past_recall(control, job, &last);
	begun_free(&last);
	return membership_past(control, job);
}

bool membership_tells_gone(struct control *control, uint32_t node, const struct peer_report *r)
{
	const struct peer_node_join *m = &r->node_join;
	if (!m->gone || !m->known || host_view(control, r->job).attending || membership_find(control, r->job))
		return false;
	struct membership_end end = past_on_record(control, r->job);
	struct peer_order over = {.type = PEER_END, .word = {.epoch = end.epoch, .flag = true}};
	if (!end.finished || m->known > end.epoch || m->plan > end.plan)
		return false;
	memcpy(over.job, r->job, sizeof(over.job));
	host_order(control, true, node, &over);
	return true;
}
