/* The next plan of a job whose world changes: its chair is made for it, and all nodes are told. */
#include "control/membership_private.h"

#include "base/log.h"
#include "cluster/roster.h"
#include "control/coordinator_host.h"

#include <stdio.h>
#include <string.h>

/* ---- orders ---------------------------------------------------------------------------------------------------- */

const char *muster_name_of(const struct muster *m, uint32_t node)
{
	return m->spread ? m->daemon->roster->nodes[node].name : "this one";
}

void muster_order(const struct muster *m, uint32_t node, struct peer_order *o)
{
	memcpy(o->job, m->job, sizeof(o->job));
	chair_order(m->daemon, m->spread, m->spread ? node : m->daemon->self, o);
}

void muster_turn_away(const struct muster *m, uint32_t node, int rc, const char *text)
{
	struct peer_order o = {.type = PEER_TURN_AWAY, .word = {.rc = rc, .flag = true}};
	snprintf(o.word.text, sizeof(o.word.text), "%s", text);
	muster_order(m, node, &o);
}

void muster_turn_all_away(const struct muster *m, int rc, const char *text)
{
	log_error("job %s: %s", m->job, text);
	for (uint32_t n = 0; n < m->crew.nnodes; n++)
		if (m->crew.nodes[n].offers)
			muster_turn_away(m, n, rc, text);
}

/* known: the node follows the plan before this one, and knows its processes by the ranks of that. */
void muster_tell_plan(const struct muster *m, uint32_t node, bool known)
{
	const struct crew *c = &m->crew;
	struct peer_order o = {.type = PEER_PLAN, .plan = {.number = c->number, .world = c->world}};
	for (uint32_t r = 0; r < c->world && o.plan.n < WIRE_LOCAL_MAX; r++) {
		if (c->node[r] != node)
			continue;
		o.plan.ranks[o.plan.n] = r;
		o.plan.was[o.plan.n++] = known ? c->was[r] : WIRE_NEW_PROCESS;
	}
	m->seated[node] = o.plan.n;
	m->bereft[node] = false;
	m->behind[node].n = 0;
	muster_order(m, node, &o);
}

/* ---- the next plan --------------------------------------------------------------------------------------------- */

void muster_quiet(struct muster *m)
{
	m->settling = m->rescuing = m->again = m->occasion = false;
	m->rc = 0;
}

/* Also those whose launcher is gone: what they had is not theirs any more, and they are not to attend with it. */
static void tell_all(struct muster *m)
{
	for (uint32_t n = 0; n < m->crew.nnodes; n++)
		if (m->crew.nodes[n].offers || m->seated[n])
			muster_tell_plan(m, n, true);
}

void muster_renumber(struct muster *m)
{
	struct crew *c = &m->crew;
	uint32_t known = m->latest > c->number ? m->latest : c->number;
	log_warn("job %s: a plan %u was also made by an earlier life of this daemon: the one that holds, plan %u, is "
		 "plan %u from now on",
		 m->job, known, c->number, known + 1);
	c->number = known + 1;
	for (uint32_t r = 0; r < c->world; r++)
		c->was[r] = r;
	tell_all(m);
}

static void describe(const struct muster *m, uint32_t before)
{
	const struct crew *c = &m->crew;
	if (!before)
		log_info("job %s: plan %u: %u ranks", m->job, c->number, c->world);
	else if (before != c->world)
		log_warn("job %s: plan %u: world size changes from %u to %u", m->job, c->number, before, c->world);
	else
		log_warn("job %s: plan %u: %u ranks, some of them in another place", m->job, c->number, c->world);
	for (uint32_t n = 0; m->spread && n < c->nnodes; n++)
		if (c->nodes[n].has)
			log_info("job %s: plan %u: %u ranks on node %s", m->job, c->number, c->nodes[n].has,
				 muster_name_of(m, n));
}

/* Who had no rank in a plan of an earlier life of this daemon may be all that is left of it, and would take another one of that number for what
 * he follows already. */
static int next_plan(struct muster *m)
{
	uint32_t number = m->crew.number;
	if (m->latest > number)
		m->crew.number = m->latest;
	int rc = crew_plan(&m->crew);
	if (rc)
		m->crew.number = number;
	return rc;
}

bool muster_parts(const struct muster *m)
{
	const struct crew *c = &m->crew;
	return m->daemon->root < 0 && crew_next_world(c) == c->world && chair_view(m->daemon, m->job).alike &&
	       !crew_keeps(c);
}

bool muster_unfit(struct muster *m)
{
	bool was = m->unfit;
	m->unfit = muster_parts(m);
	if (m->unfit)
		muster_stick(m, UINT64_MAX,
			     "there is no store, and no node has room for all ranks of one that is let go");
	else if (was)
		muster_unstick(m);
	return m->unfit;
}

void muster_lose(struct muster *m)
{
	snprintf(m->lost, sizeof(m->lost),
		 "there is no store, and no node has room for all ranks of one that has lost some: what memory had was "
		 "divided among them");
	log_warn("job %s: %s", m->job, m->lost);
}

/* False: the muster is no more. */
bool muster_replan(struct muster *m)
{
	struct err err = {{0}};
	uint32_t before = m->crew.world;
	bool settled =
		m->settling; /* those who are let go wait to enter the next epoch, too: nobody may count them there */
	bool keeps = crew_keeps(&m->crew);
	int rc = next_plan(m);
	if (rc)
		return true; /* too few by now */
	muster_quiet(m);
	muster_unstick(m);
	m->gone = m->starving = false;
	m->parted = m->parted || (before && !keeps);
	describe(m, before);
	if (before == m->crew.world && !settled)
		chair_release(m->daemon, m->job);
	else
		rc = chair_remake(m->daemon, m->job, m->crew.world, m->spread, &err);
	if (!rc && (settled || before != m->crew.world || m->lost[0]))
		chair_preface(m->daemon, m->job, m->lost);
	m->lost[0] = 0;
	if (rc == -EINVAL || (rc && !m->spread)) {
		muster_turn_all_away(m, rc, err.text);
		muster_remove(m->daemon, m->job);
		return false;
	}
	if (rc) /* the first node that attends has it made */
		log_error("job %s: not yet: %s", m->job, err.text);
	tell_all(m);
	return true;
}

void muster_keep_stop(struct daemon *daemon, const char *job, bool stop)
{
	struct muster *m = muster_find(daemon, job);
	if (m)
		m->stop = stop;
}

bool muster_stops(const struct daemon *daemon, const char *job)
{
	const struct muster *m = muster_find(daemon, job);
	return m && m->stop;
}
