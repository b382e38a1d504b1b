/* The next plan of a job whose world changes: its host is made for it, and all nodes are told. */
#include "control/membership/membership_private.h"

#include "base/cleanup.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "checkpoint/room.h"
#include "cluster/room.h"
#include "control/control.h"
#include "control/host/coordinator_host.h"
#include "replication/room.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Between two tries to make a host. */
#define MAKE_NS CLOCK_NS_PER_S

/* ---- orders ---------------------------------------------------------------------------------------------------- */

const char *membership_name_of(const struct membership *m, uint32_t node)
{
	return m->spread ? m->control->peers->roster->nodes[node].name : "this one";
}

void membership_order(const struct membership *m, uint32_t node, struct peer_order *o)
{
	memcpy(o->job, m->job, sizeof(o->job));
	host_order(m->control, m->spread, m->spread ? node : m->control->peers->self, o);
}

void membership_turn_away(const struct membership *m, uint32_t node, int rc, const char *text)
{
	struct peer_order o = {.type = PEER_REJECT, .word = {.rc = rc, .flag = true}};
	snprintf(o.word.text, sizeof(o.word.text), "%s", text);
	membership_order(m, node, &o);
}

void membership_turn_all_away(const struct membership *m, int rc, const char *text)
{
	log_error("job %s: %s", m->job, text);
	for (uint32_t n = 0; n < m->assignment.nnodes; n++)
		if (m->assignment.nodes[n].offers)
			membership_turn_away(m, n, rc, text);
}

/* known: the node follows the plan before this one, and knows its processes by the ranks of that. */
void membership_tell_plan(const struct membership *m, uint32_t node, bool known)
{
	const struct assignment *c = &m->assignment;
	struct peer_order o = {.type = PEER_PLAN, .plan = {.number = c->number, .world = c->world}};
	for (uint32_t r = 0; r < c->world && o.plan.n < WIRE_LOCAL_MAX; r++) {
		if (c->node[r] != node)
			continue;
		o.plan.ranks[o.plan.n] = r;
		o.plan.was[o.plan.n++] = known ? c->was[r] : WIRE_NEW_PROCESS;
	}
	m->has_ranks[node] = o.plan.n;
	m->launcher_lost[node] = false;
	m->behind[node].n = 0;
	membership_order(m, node, &o);
}

/* ---- the next plan --------------------------------------------------------------------------------------------- */

void membership_quiet(struct membership *m)
{
	m->quiescing = m->rescuing = m->again = m->occasion = false;
	m->rc = 0;
}

/* Also those whose launcher is gone: what they had is not theirs any more, and they are not to join with it. */
static void tell_all(struct membership *m)
{
	m->twice = false;
	for (uint32_t n = 0; n < m->assignment.nnodes; n++) {
		if (m->moves[n])
			host_moves(m->control, m->job, n, m->assignment.number);
		m->moves[n] = false;
		if (!m->assignment.nodes[n].offers && !m->has_ranks[n])
			continue;
		failpoint("plan.tell", NULL);
		membership_tell_plan(m, n, true);
	}
}

/* Where all is on one node its launcher knows the plan, and outlives this daemon. */
static void announce(struct membership *m)
{
	if (!m->spread)
		tell_all(m);
	else if (m->untold)
		host_record(m->control, m->job);
}

void membership_recorded(struct control *control, const char *job, uint32_t number)
{
	struct membership *m = membership_find(control, job);
	if (!m || !m->untold || number != m->assignment.number)
		return;
	m->untold = m->unmade = false;
	tell_all(m);
}

void membership_renumber(struct membership *m)
{
	struct assignment *c = &m->assignment;
	uint32_t known = m->latest > c->number ? m->latest : c->number;
	log_warn("job %s: a plan %u was also made by an earlier life of this daemon, or by another node: the one that "
		 "holds, plan %u, is plan %u from now on",
		 m->job, known, c->number, known + 1);
	c->number = known + 1;
	for (uint32_t r = 0; r < c->world; r++)
		c->was[r] = r;
	m->untold = m->spread;
	announce(m);
}

static void describe(const struct membership *m, uint32_t before)
{
	const struct assignment *c = &m->assignment;
	if (!before)
		log_info("job %s: plan %u: %u ranks", m->job, c->number, c->world);
	else if (before != c->world)
		log_warn("job %s: plan %u: world size changes from %u to %u", m->job, c->number, before, c->world);
	else
		log_warn("job %s: plan %u: %u ranks, some of them in another place", m->job, c->number, c->world);
	for (uint32_t n = 0; m->spread && n < c->nnodes; n++)
		if (c->nodes[n].has)
			log_info("job %s: plan %u: %u ranks on node %s", m->job, c->number, c->nodes[n].has,
				 membership_name_of(m, n));
}

/* home: by rank of the world before, whose it was last. */
static void note_moves(struct membership *m, const uint32_t *home, uint32_t before)
{
	const struct assignment *c = &m->assignment;
	for (uint32_t r = 0; r < c->world || r < before; r++) {
		uint32_t was = r < before ? home[r] : ASSIGNMENT_NOBODY;
		uint32_t is = r < c->world ? c->node[r] : ASSIGNMENT_NOBODY;
		bool renamed = is != ASSIGNMENT_NOBODY && c->was[r] != r && c->was[r] != ASSIGNMENT_NEW;
		if (was != ASSIGNMENT_NOBODY && was != is)
			m->moves[was] = true;
		if (is != ASSIGNMENT_NOBODY && (was != is || renamed))
			m->moves[is] = true;
	}
}

/* Of a plan of an earlier incarnation of this daemon, only nodes without ranks may be left. Such a node would take another plan of
 * that number for the one that it follows already. */
static int next_plan(struct membership *m)
{
	uint32_t number = m->assignment.number;
	if (m->latest > number)
		m->assignment.number = m->latest;
	uint32_t before = m->assignment.world;
	AUTO_FREE uint32_t *home = calloc(before + 1, sizeof(*home));
	if (home)
		memcpy(home, m->assignment.home, before * sizeof(*home));
	int rc = home ? assignment_plan(&m->assignment) : -ENOMEM;
	if (rc)
		m->assignment.number = number;
	else
		note_moves(m, home, before);
	return rc;
}

bool membership_parts(const struct membership *m)
{
	const struct assignment *c = &m->assignment;
	return m->control->storage->root < 0 && assignment_next_world(c) == c->world &&
	       host_view(m->control, m->job).alike && !assignment_keeps(c);
}

bool membership_unfit(struct membership *m)
{
	bool was = m->unfit;
	m->unfit = membership_parts(m);
	if (m->unfit)
		membership_stick(m, UINT64_MAX,
				 "there is no store, and no node has room for all ranks of one that is let go");
	else if (was)
		membership_unstick(m);
	return m->unfit;
}

void membership_lose(struct membership *m)
{
	snprintf(m->lost, sizeof(m->lost),
		 "there is no store, and no node has room for all ranks of one that has lost some: what memory has was "
		 "divided among them, and can be cut anew only if all of it is there");
	log_warn("job %s: %s", m->job, m->lost);
}

static void keep_host(struct membership *m)
{
	host_release(m->control, m->job);
	if (m->lost[0])
		host_preface(m->control, m->job, m->lost);
	m->lost[0] = 0;
}

bool membership_make_host(struct membership *m)
{
	struct err err = {{0}};
	if ((!m->unmade && host_has(m->control, m->job)) || clock_now() < m->make_ns)
		return true;
	m->make_ns = clock_deadline(MAKE_NS);
	m->unmade = true;
	int rc = host_remake(m->control, m->job, m->assignment.world, m->spread, &err);
	if (rc == -EINVAL || (rc && !m->spread)) {
		membership_turn_all_away(m, rc, err.text);
		membership_remove(m->control, m->job);
		return false;
	}
	if (rc) {
		if (repeat_due(&m->why_unmade, err.text, clock_now()))
			log_error("job %s: not yet: %s", m->job, err.text);
		return true;
	}
	m->unmade = false;
	host_preface(m->control, m->job, m->lost);
	m->lost[0] = 0;
	return true;
}

/* False: the membership is no more. */
bool membership_replan(struct membership *m)
{
	uint32_t before = m->assignment.world;
	bool quiesced =
		m->quiescing; /* those who are let go wait to enter the next epoch, too: nobody may count them there */
	bool keeps = assignment_keeps(&m->assignment);
	if (next_plan(m))
		return true; /* too few by now */
	membership_quiet(m);
	membership_unstick(m);
	plan_record_free(&m->record);
	asked_record_free(&m->recalled);
	m->gone = m->starving = m->adopted = false;
	m->parted = m->parted || (before && !keeps);
	describe(m, before);
	m->make_ns = 0;
	m->untold = m->spread;
	m->unmade = before != m->assignment.world || quiesced;
	if (!m->unmade)
		keep_host(m);
	else if (!membership_make_host(m))
		return false;
	announce(m);
	return true;
}

void membership_keep_halt(struct control *control, const char *job, const struct coordinator_halt *halt)
{
	struct membership *m = membership_find(control, job);
	if (m)
		m->halt = *halt;
}

void membership_kept_halt(const struct control *control, const char *job, struct coordinator_halt *halt)
{
	const struct membership *m = membership_find(control, job);
	if (m)
		*halt = m->halt;
}

unsigned memberships_room(const struct control *control)
{
	unsigned room = control->peers->roster->max;
	for (const struct membership *m = control->memberships; m; m = m->next)
		if (m->spread && m->assignment.nnodes < room)
			room = m->assignment.nnodes;
	return room;
}
