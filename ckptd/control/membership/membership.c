#include "control/membership/membership_private.h"

#include "base/log.h"
#include "checkpoint/room.h"
#include "cluster/room.h"
#include "control/election/hand_over.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How long nodes may take to say what they have in memory; the store is read for that, too. */
#define SPILL_NS (20 * CLOCK_NS_PER_S)
/* More than can be coordinated (control/host/coordinator_host.c): others may wait for their nodes. */
enum { MEMBERSHIPS_MAX = 512 };

/* ---- life ------------------------------------------------------------------------------------------------------ */

struct membership *membership_find(const struct control *control, const char *job)
{
	struct membership *m = control->memberships;
	while (m && strcmp(m->job, job) != 0)
		m = m->next;
	return m;
}

static void membership_free(struct membership *m)
{
	assignment_free(&m->assignment);
	free(m->left);
	free(m->launcher_lost);
	free(m->has_ranks);
	free(m->moves);
	free(m->unquiet);
	free(m->drained);
	free(m->departs);
	free(m->behind);
	plan_record_free(&m->record);
	asked_record_free(&m->recalled);
	free(m);
}

uint64_t membership_patience(const struct membership *m)
{
	struct policy policy;
	sources_fill(m->control->runtime->sources, SCOPE_JOB, m->job, &policy);
	return clock_deadline(policy.node_wait_ms * CLOCK_NS_PER_MS);
}

static unsigned count(const struct control *control)
{
	unsigned n = 0;
	for (const struct membership *m = control->memberships; m; m = m->next)
		n++;
	return n;
}

int membership_new(struct control *control, const char *job, bool spread, const struct peer_capacity *first,
		   struct membership **out, struct err *err)
{
	uint32_t nnodes = spread ? roster_room(control->peers->roster) : 1;
	if (count(control) >= MEMBERSHIPS_MAX)
		return err_set(err, -EBUSY, "job '%s': nodes offer themselves to %d jobs here already", job,
			       MEMBERSHIPS_MAX);
	struct membership *m = calloc(1, sizeof(*m));
	if (!m)
		return err_set(err, -ENOMEM, "no memory for job '%s'", job);
	*m = (struct membership){.control = control, .spread = spread};
	snprintf(m->job, sizeof(m->job), "%s", job);
	m->left = calloc(nnodes, sizeof(*m->left));
	m->launcher_lost = calloc(nnodes, sizeof(*m->launcher_lost));
	m->has_ranks = calloc(nnodes, sizeof(*m->has_ranks));
	m->moves = calloc(nnodes, sizeof(*m->moves));
	m->unquiet = calloc(nnodes, sizeof(*m->unquiet));
	m->drained = calloc(nnodes, sizeof(*m->drained));
	m->departs = calloc(nnodes, sizeof(*m->departs));
	m->behind = calloc(nnodes, sizeof(*m->behind));
	if (!m->left || !m->launcher_lost || !m->has_ranks || !m->moves || !m->unquiet || !m->drained || !m->departs ||
	    !m->behind || assignment_init(&m->assignment, nnodes, first->want, first->least)) {
		membership_free(m);
		return err_set(err, -ENOMEM, "no memory for job '%s'", job);
	}
	int rc = spread ? membership_recall(m, err) : 0;
	if (rc || membership_is_over(control, job, first->plan)) {
		membership_free(m);
		return rc;
	}
	m->assignment.number = membership_past(control, job).plan;
	m->wait_ns = m->miss_ns = spread ? membership_patience(m) : 0;
	m->next = control->memberships;
	control->memberships = m;
	for (uint32_t n = 0; spread && n < control->peers->roster->n; n++)
		if (roster_has(control->peers->roster, n))
			memberships_weigh(control, n);
	*out = m;
	return 0;
}

void membership_remove(struct control *control, const char *job)
{
	for (struct membership **at = &control->memberships; *at; at = &(*at)->next) {
		struct membership *m = *at;
		if (strcmp(m->job, job) != 0)
			continue;
		*at = m->next;
		membership_free(m);
		return;
	}
}

void membership_over(struct control *control, const char *job, bool finished)
{
	const struct membership *m = membership_find(control, job);
	struct coord_view v = host_view(control, job);
	if (m)
		membership_past_note(control, job,
				     (struct membership_end){.plan = m->assignment.number + 1,
							     .epoch = v.epoch,
							     .unserved = v.unserved,
							     .finished = finished});
	membership_remove(control, job);
}

void membership_depose(struct control *control, const char *job)
{
	const struct membership *m = membership_find(control, job);
	if (m && m->spread)
		membership_remove(control, job);
}

void memberships_free(struct control *control)
{
	membership_past_free(control);
	while (control->memberships)
		membership_remove(control, control->memberships->job);
}

/* ---- quiescing ---------------------------------------------------------------------------------------------------- */

static bool all_quiet(const struct membership *m)
{
	for (uint32_t n = 0; n < m->assignment.nnodes; n++)
		if (m->unquiet[n])
			return false;
	return !host_busy(m->control, m->job);
}

/* What is newest in memory cannot be written, and all of it is still there: another world would begin without it. */
static bool refused(struct membership *m)
{
	if (!m->rc || m->gone)
		return false;
	if (assignment_state(&m->assignment) == ASSIGNMENT_BROKEN)
		membership_turn_all_away(m, m->rc, m->text);
	else
		membership_stick(m, MEMBERSHIP_PROBE_NS, m->text);
	host_release(m->control, m->job);
	membership_quiet(m);
	return true;
}

void membership_quiesce(struct membership *m, uint32_t node)
{
	m->unquiet[node] = (m->assignment.nodes[node].has || m->launcher_lost[node]) && !m->left[node];
	if (m->unquiet[node])
		membership_order(m, node, &(struct peer_order){.type = PEER_QUIESCE, .number = m->assignment.number});
}

static void order_quiesce(struct membership *m)
{
	for (uint32_t n = 0; n < m->assignment.nnodes; n++)
		membership_quiesce(m, n);
}

/* Saves that have failed with the node are out of the way first. */
static void spill(struct membership *m)
{
	struct coord_view v = host_view(m->control, m->job);
	if (host_busy(m->control, m->job) || (m->again && v.spilled))
		m->spill_ns = clock_deadline(SPILL_NS); /* nobody looks yet */
	if (v.epoch && !v.spilled) {
		if (!host_busy(m->control, m->job))
			host_spill(m->control, m->job, clock_now() >= m->spill_ns);
		return;
	}
	if (v.epoch && m->again) {
		m->again = false;
		host_spill(m->control, m->job, false);
		return;
	}
	if (v.epoch)
		snprintf(m->lost, sizeof(m->lost), "%s", v.not_spilled);
	m->rescuing = false;
	order_quiesce(m);
}

void membership_begin_spill(struct membership *m)
{
	if (!m->spread || m->control->storage->root < 0)
		return;
	m->again = m->rescuing || host_view(m->control, m->job).spilled;
	m->rescuing = true;
	m->spill_ns = clock_deadline(SPILL_NS);
}

static bool go_on(struct membership *m)
{
	enum assignment_state state = assignment_state(&m->assignment);
	if (m->rescuing)
		spill(m);
	if (m->rescuing || !all_quiet(m) || refused(m))
		return true;
	if (state == ASSIGNMENT_BROKEN || state == ASSIGNMENT_CHANGEABLE)
		return membership_replan(m);
	host_release(m->control, m->job); /* all are there again */
	membership_quiet(m);
	return true;
}

static void quiesce(struct membership *m, const char *why)
{
	m->quiescing = true;
	m->pause = PAUSE_NONE;
	m->rc = 0;
	log_info("job %s: its %u ranks are about to become %u%s: nobody enters an epoch before what is in memory is "
		 "safe",
		 m->job, m->assignment.world, assignment_next_world(&m->assignment),
		 assignment_next_world(&m->assignment) == m->assignment.world ? ", on other nodes" : "");
	host_hold(m->control, m->job, why);
	struct coord_view v = host_view(m->control, m->job);
	if (m->gone && v.attending < v.world)
		membership_begin_spill(m);
	if (!m->rescuing)
		order_quiesce(m);
}

/* ---- when ------------------------------------------------------------------------------------------------------ */

/* Nodes are to be let go, and there is no room for all ranks elsewhere, as far as this incarnation of the coordinator has heard. A node without ranks says
 * that it is there when it has found the coordinator, which may be after the others. */
static bool may_find_room(const struct membership *m)
{
	return clock_now() < m->word_ns && assignment_next_world(&m->assignment) < m->assignment.world;
}

static void end(struct membership *m)
{
	struct err err = {{0}};
	if (host_ends(m->control, m->job) || !host_view(m->control, m->job).epoch)
		return;
	log_warn("job %s: nodes are to be let go, and fewer than %u ranks would be left: it is asked to end", m->job,
		 m->assignment.least);
	int rc = host_halt(m->control, m->job, &(struct wire_command){.kind = COMMAND_HALT}, &err);
	if (rc && rc != -EINPROGRESS)
		log_warn("%s", err.text);
}

/* By the nodes whose launchers were told to end. One that is drained was so when there was room elsewhere, and stays until there is again: nobody
 * wanted the job to end. */
static bool departures_end_it(const struct membership *m)
{
	uint64_t left = 0;
	for (uint32_t n = 0; n < m->assignment.nnodes; n++)
		left += m->departs[n] ? 0 : m->assignment.nodes[n].offers;
	return left < m->assignment.least;
}

static void lack_room(struct membership *m)
{
	char why[WIRE_TEXT_MAX];
	if (may_find_room(m))
		return;
	if (departures_end_it(m)) {
		end(m);
		return;
	}
	snprintf(why, sizeof(why),
		 "nodes are drained, and fewer than %u ranks would be left: they keep theirs until others have room",
		 m->assignment.least);
	membership_stick(m, UINT64_MAX, why);
	m->cramped = true;
}

static void have_room(struct membership *m)
{
	if (m->cramped)
		membership_unstick(m);
	m->cramped = false;
}

/* A rank is lost for good. What is in memory goes on where the ranks of each node stay together; else through storage, if there is any. */
static bool mend(struct membership *m)
{
	uint32_t next = assignment_next_world(&m->assignment);
	bool moves = next == m->assignment.world, early = clock_now() < m->wait_ns;
	if (early && assignment_unclaimed(&m->assignment) && !(moves && membership_nobody_returns(m)))
		return true;
	bool alike = host_view(m->control, m->job).alike;
	if (moves && m->control->storage->root >= 0 && alike && !assignment_keeps(&m->assignment)) {
		quiesce(m, "ranks move to other nodes");
		return true;
	}
	if (moves && !membership_parts(m))
		return membership_replan(m);
	if (early)
		return true;
	if (moves) {
		membership_lose(m);
		return membership_replan(m);
	}
	if (next >= m->assignment.least) {
		quiesce(m, "the world changes");
	} else if (!m->starving) {
		log_warn("job %s: %u ranks could go on, and it needs %u: it waits for nodes", m->job, next,
			 m->assignment.least);
		m->starving = true;
	}
	return true;
}

bool membership_advance(struct membership *m)
{
	if (hand_over_waits(m->control, m->job))
		return true;
	if (m->untold)
		return membership_make_host(m);
	membership_tell_behind(m);
	enum assignment_state state = assignment_state(&m->assignment);
	m->assignment.whole = m->control->storage->root < 0 && host_view(m->control, m->job).alike;
	if (m->quiescing)
		return go_on(m);
	if (m->twice)
		membership_renumber(m);
	if (state != ASSIGNMENT_CHANGEABLE)
		membership_unpause(m);
	if (state != ASSIGNMENT_ENDING)
		have_room(m);
	if (state != ASSIGNMENT_CHANGEABLE && state != ASSIGNMENT_ENDING)
		membership_unstick(m);
	switch (state) {
	case ASSIGNMENT_WAITING:
		return clock_now() < m->wait_ns || membership_gathered(m);
	case ASSIGNMENT_READY:
		return membership_gathered(m);
	case ASSIGNMENT_CHANGEABLE:
		if (membership_unfit(m) || may_find_room(m))
			return true;
		if (m->occasion)
			quiesce(m, "the world changes");
		else
			membership_pause(m);
		return true;
	case ASSIGNMENT_ENDING:
		lack_room(m);
		return true;
	case ASSIGNMENT_BROKEN:
		return mend(m);
	default:
		return true;
	}
}

bool membership_at_work(const struct membership *m)
{
	struct coord_view v = host_view(m->control, m->job);
	enum assignment_state state = assignment_state(&m->assignment);
	return !m->quiescing && (state == ASSIGNMENT_SOUND || state == ASSIGNMENT_CHANGEABLE) && v.epoch &&
	       v.entered == v.epoch && v.attending == v.world;
}

/* A node whose ranks had finished cannot take them up again, and those that are left need them. */
static void see_epoch(struct membership *m)
{
	uint32_t epoch = host_view(m->control, m->job).epoch;
	bool raised = m->epoch && epoch > m->epoch;
	m->epoch = epoch;
	/* Whoever was lost is back, and nothing hangs on what it had in memory any more. */
	m->gone = m->gone && !membership_at_work(m);
	if (raised)
		m->occasion = false;
	for (uint32_t n = 0; raised && n < m->assignment.nnodes; n++) {
		if (m->left[n])
			assignment_offer(&m->assignment, n, 0, false);
		m->left[n] = false;
	}
}

static bool anybody(const struct membership *m)
{
	for (uint32_t n = 0; n < m->assignment.nnodes; n++)
		if (m->assignment.nodes[n].offers && !m->left[n])
			return true;
	return m->assignment.world && clock_now() < m->wait_ns;
}

/* Nobody has what memory had of it, and those who wait are too few to begin it again. */
static bool abandoned(const struct membership *m, bool gone)
{
	bool starves = assignment_next_world(&m->assignment) < m->assignment.least && clock_now() >= m->wait_ns;
	return m->deserted && (gone || starves) && !host_view(m->control, m->job).attending;
}

/* Nothing is under way but what is on record. */
static bool is_settled(const struct membership *m)
{
	return !m->untold && !m->unmade && !m->rescuing && !m->asked;
}

void memberships_tick(struct control *control)
{
	struct membership *m = control->memberships, *next, *forsaken = NULL;
	for (; m; m = next) {
		next = m->next;
		see_epoch(m);
		bool gone = !anybody(m);
		if (gone && !host_has(control, m->job))
			membership_remove(control, m->job);
		else if (abandoned(m, gone))
			host_abandon(control, m->job);
		else if (membership_advance(m) && gone && is_settled(m) && host_may_go(control, m->job))
			forsaken = m; /* the longest: the newest stand first */
	}
	if (!forsaken)
		return;
	host_let_go(control, forsaken->job);
	membership_remove(control, forsaken->job); /* whoever comes finds its plan on record */
}

/* ---- what is asked of it ---------------------------------------------------------------------------------------- */

bool membership_parted(const struct control *control, const char *job)
{
	const struct membership *m = membership_find(control, job);
	return m && m->parted;
}

uint32_t membership_plan(const struct control *control, const char *job)
{
	const struct membership *m = membership_find(control, job);
	return m ? m->assignment.number : 0;
}

bool membership_next(const struct control *control, const struct membership **at, struct membership_view *view)
{
	*at = *at ? (*at)->next : control->memberships;
	if (*at)
		*view = (struct membership_view){(*at)->job,       &(*at)->assignment, (*at)->spread,
						 (*at)->quiescing, (*at)->untold,      (*at)->stuck};
	return *at;
}
