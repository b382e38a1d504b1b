#include "report/report_match.h"

#include "base/bytes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SIGN_NS                                                                                                        \
	(1 * CLOCK_NS_PER_S) /* so long after the fault's outcome was known it may be seen that the daemon is away */
#define UNDER_WAY_NS (1 * CLOCK_NS_PER_S) /* so long before the fault a save that fails may have begun */

/* The step that the fault's text names: "…of step 88 of epoch 4 flipped", "…rank 1's step 92 of epoch 5…". */
static bool step_of(const struct report_fault *f, unsigned long *step, unsigned *epoch)
{
	const char *at = strstr(f->text, "step ");
	return at && sscanf(at, "step %lu of epoch %u", step, epoch) == 2;
}

/* What a restore passed over says which step that was; without it it is the step that was restored in the end. */
static bool passed_over(const struct report_recovery *one, unsigned long step, unsigned epoch)
{
	char name[64];
	snprintf(name, sizeof(name), "step %lu epoch %u:", step, epoch);
	return strstr(one->passed_over, name) ||
	       (one->step == step && *one->passed_over && !strstr(one->passed_over, " epoch "));
}

static void look_at_restores(struct report *r, struct report_fault *f, unsigned long step, unsigned epoch)
{
	size_t i = REPORT_SINCE(r->recoveries, struct report_recovery, seen, f->at);
	for (size_t to = i + LOOK_BACK; i < r->recoveries.n && i < to; i++)
		if (!r->recoveries.at[i].start && passed_over(&r->recoveries.at[i], step, epoch)) {
			report_found(f, "restore", r->recoveries.at[i].back, r->recoveries.at[i].passed_over);
			return;
		}
}

/* Its own save may have been under way: what is on storage is read back. */
static void look_at_readers(struct report *r, struct report_fault *f)
{
	unsigned long step;
	unsigned epoch;
	if (!step_of(f, &step, &epoch))
		return;
	size_t i = REPORT_SINCE(r->saves, struct report_save, begun, f->at);
	for (size_t n = 0; i-- > 0 && n < LOOK_BACK; n++) {
		const struct report_save *s = &r->saves.at[i];
		if (s->step == step && s->epoch == epoch && strstr(s->error, "reading back")) {
			report_found(f, "daemon", 0, s->error);
			return;
		}
	}
	look_at_restores(r, f, step, epoch);
}

/* With the first save that is durable then, from the i-th on. */
static void back_with(const struct report *r, struct report_fault *f, size_t i, uint64_t then)
{
	while (i < r->saves.n && (!r->saves.at[i].durable || r->saves.at[i].durable < then))
		i++;
	if (i == r->saves.n)
		return;
	f->back = r->saves.at[i].durable;
	f->end = REPORT_RECOVERED;
}

/* The first save that fails as the fault makes it, and the first behind it that does not. One that began before the fault and was under
 * way may have failed, too. */
static void look_at_saves(struct report *r, struct report_fault *f)
{
	size_t i = REPORT_SINCE(r->saves, struct report_save, begun, f->at - min_u64(f->at, UNDER_WAY_NS));
	const char *why = err_name(f->entry->kind == FAULT_DISK_FULL        ? -ENOSPC
				   : f->entry->kind == FAULT_DISK_READ_ONLY ? -EROFS
									    : -EIO);
	while (i < r->saves.n && r->saves.at[i].begun < f->at + SOON_NS && !strstr(r->saves.at[i].error, why))
		i++;
	if (i == r->saves.n || r->saves.at[i].begun >= f->at + SOON_NS)
		return;
	report_found(f, "daemon", report_outcome_at(f), r->saves.at[i].error);
	back_with(r, f, i, f->found);
}

/* Nobody says that it takes long. */
static void look_at_later_saves(struct report *r, struct report_fault *f)
{
	size_t i = REPORT_SINCE(r->saves, struct report_save, begun, f->at - min_u64(f->at, UNDER_WAY_NS));
	back_with(r, f, i, report_outcome_at(f));
}

uint64_t report_next_sign(const struct report *r, size_t i)
{
	for (size_t next = i + 1; next < r->daemon.n; next++)
		if (r->daemon.at[next].node == r->daemon.at[i].node)
			return r->daemon.at[next].at;
	return 0;
}

/* Nobody notes when the daemon's end is found: the launcher sees it at once. */
static void look_at_daemon(struct report *r, struct report_fault *f)
{
	size_t i = REPORT_SINCE(r->daemon, struct report_sign, at, f->at);
	while (i < r->daemon.n && r->daemon.at[i].node != f->node)
		i++;
	if (i >= r->daemon.n || r->daemon.at[i].answers || r->daemon.at[i].at > report_outcome_at(f) + SIGN_NS)
		return; /* it was stopped for so short a time that nobody saw it */
	uint64_t back = report_next_sign(r, i);
	f->found_by = "launcher";
	f->end = REPORT_FOUND;
	if (back) {
		f->back = max_u64(f->back, back);
		f->end = REPORT_RECOVERED;
	}
}

static void look_at_lateness(struct report *r, struct report_fault *f)
{
	size_t i = REPORT_SINCE(r->slow, struct report_sign, at, f->at);
	char text[64];
	for (size_t to = i + LOOK_BACK; i < r->slow.n && i < to; i++)
		if (r->slow.at[i].rank == f->rank) {
			snprintf(text, sizeof(text), "rank %u is slow", f->rank);
			report_found(f, "trainer", r->slow.at[i].at, text);
			return;
		}
}

/* The campaign waits for it before the outcome is known. */
static void look_at_losses(struct report *r, struct report_fault *f)
{
	size_t i = REPORT_SINCE(r->spikes, struct report_sign, at, f->at);
	char text[64];
	if (i >= r->spikes.n || r->spikes.at[i].at > report_outcome_at(f) + SIGN_NS)
		return;
	snprintf(text, sizeof(text), "the daemon of node-%u names a spike of the loss", r->spikes.at[i].node);
	report_found(f, "daemon", r->spikes.at[i].at, text);
}

/* Nothing was lost: what was sent again arrived. */
static void look_at_network(struct report_fault *f)
{
	if (f->end != REPORT_UNSEEN)
		return;
	f->back = report_outcome_at(f);
	f->end = REPORT_RECOVERED;
}

void report_look_at_signs(struct report *r, struct report_fault *f)
{
	enum trace trace = report_trace_of(f);
	if (trace == BY_READING)
		look_at_readers(r, f);
	else if (trace == BY_SAVE)
		look_at_saves(r, f);
	else if (trace == BY_WAITING)
		look_at_later_saves(r, f);
	else if (trace == BY_DAEMON)
		look_at_daemon(r, f);
	else if (trace == BY_LATENESS)
		look_at_lateness(r, f);
	else if (trace == BY_MONITOR)
		look_at_losses(r, f);
	else if (trace == BY_NETWORK)
		look_at_network(f);
	else if (trace != BY_NOTHING && f->end == REPORT_UNSEEN && f->overtaken)
		f->end = REPORT_OVERTAKEN;
}
