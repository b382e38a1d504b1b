#include "control/membership_private.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "cluster/roster.h"
#include "control/coordinator_host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How long nodes may take to say what they have in memory; the store is read for that, too. */
#define RESCUE_NS (20 * CLOCK_NS_PER_S)

/* ---- life ------------------------------------------------------------------------------------------------------ */

struct muster *muster_find(const struct daemon *daemon, const char *job)
{
	struct muster *m = daemon->musters;
	while (m && strcmp(m->job, job) != 0)
		m = m->next;
	return m;
}

static void muster_free(struct muster *m)
{
	crew_free(&m->crew);
	free(m->left);
	free(m->bereft);
	free(m->seated);
	free(m->unquiet);
	free(m->drained);
	free(m->departs);
	free(m->behind);
	free(m);
}

uint64_t muster_patience(const struct muster *m)
{
	struct policy policy;
	sources_fill(m->daemon->sources, SCOPE_JOB, m->job, &policy);
	return clock_deadline(policy.node_wait_ms * CLOCK_NS_PER_MS);
}

static struct muster *muster_new(struct daemon *daemon, const char *job, bool spread, const struct peer_crew *first)
{
	uint32_t nnodes = spread ? daemon->roster->n : 1;
	struct muster *m = calloc(1, sizeof(*m));
	if (!m)
		return NULL;
	*m = (struct muster){.daemon = daemon, .spread = spread};
	snprintf(m->job, sizeof(m->job), "%s", job);
	m->left = calloc(nnodes, sizeof(*m->left));
	m->bereft = calloc(nnodes, sizeof(*m->bereft));
	m->seated = calloc(nnodes, sizeof(*m->seated));
	m->unquiet = calloc(nnodes, sizeof(*m->unquiet));
	m->drained = calloc(nnodes, sizeof(*m->drained));
	m->departs = calloc(nnodes, sizeof(*m->departs));
	m->behind = calloc(nnodes, sizeof(*m->behind));
	if (!m->left || !m->bereft || !m->seated || !m->unquiet || !m->drained || !m->departs || !m->behind ||
	    crew_init(&m->crew, nnodes, first->want, first->least)) {
		muster_free(m);
		return NULL;
	}
	m->crew.number = muster_past(daemon, job).plan;
	m->wait_ns = m->miss_ns = spread ? muster_patience(m) : 0;
	m->next = daemon->musters;
	daemon->musters = m;
	return m;
}

void muster_remove(struct daemon *daemon, const char *job)
{
	for (struct muster **at = &daemon->musters; *at; at = &(*at)->next) {
		struct muster *m = *at;
		if (strcmp(m->job, job) != 0)
			continue;
		*at = m->next;
		muster_free(m);
		return;
	}
}

void muster_over(struct daemon *daemon, const char *job)
{
	const struct muster *m = muster_find(daemon, job);
	if (m)
		muster_past_note(daemon, job, (struct muster_end){m->crew.number + 1, chair_view(daemon, job).epoch});
	muster_remove(daemon, job);
}

void musters_free(struct daemon *daemon)
{
	muster_past_free(daemon);
	while (daemon->musters)
		muster_remove(daemon, daemon->musters->job);
}

/* ---- settling ---------------------------------------------------------------------------------------------------- */

static bool all_quiet(const struct muster *m)
{
	for (uint32_t n = 0; n < m->crew.nnodes; n++)
		if (m->unquiet[n])
			return false;
	return !chair_busy(m->daemon, m->job);
}

/* What is newest in memory cannot be written, and all of it is still there: another world would begin without it. */
static bool refused(struct muster *m)
{
	if (!m->rc || m->gone)
		return false;
	if (crew_state(&m->crew) == CREW_BROKEN)
		muster_turn_all_away(m, m->rc, m->text);
	else
		muster_stick(m, MUSTER_PROBE_NS, m->text);
	chair_release(m->daemon, m->job);
	muster_quiet(m);
	return true;
}

void muster_settle(struct muster *m, uint32_t node)
{
	m->unquiet[node] = (m->crew.nodes[node].has || m->bereft[node]) && !m->left[node];
	if (m->unquiet[node])
		muster_order(m, node, &(struct peer_order){.type = PEER_SETTLE, .number = m->crew.number});
}

static void order_settle(struct muster *m)
{
	for (uint32_t n = 0; n < m->crew.nnodes; n++)
		muster_settle(m, n);
}

/* Saves that have failed with the node are out of the way first. */
static void rescue(struct muster *m)
{
	struct coord_view v = chair_view(m->daemon, m->job);
	if (chair_busy(m->daemon, m->job) || (m->again && v.rescued))
		m->rescue_ns = clock_deadline(RESCUE_NS); /* nobody looks yet */
	if (v.epoch && !v.rescued) {
		if (!chair_busy(m->daemon, m->job))
			chair_rescue(m->daemon, m->job, clock_now() >= m->rescue_ns);
		return;
	}
	if (v.epoch && m->again) {
		m->again = false;
		chair_rescue(m->daemon, m->job, false);
		return;
	}
	if (v.epoch)
		snprintf(m->lost, sizeof(m->lost), "%s", v.not_rescued);
	m->rescuing = false;
	order_settle(m);
}

/* Also a second time, when what has ended was without the node that is lost now. */
static void begin_rescue(struct muster *m)
{
	if (!m->spread || m->daemon->root < 0)
		return;
	m->again = m->rescuing || chair_view(m->daemon, m->job).rescued;
	m->rescuing = true;
	m->rescue_ns = clock_deadline(RESCUE_NS);
}

static bool go_on(struct muster *m)
{
	enum crew_state state = crew_state(&m->crew);
	if (m->rescuing)
		rescue(m);
	if (m->rescuing || !all_quiet(m) || refused(m))
		return true;
	if (state == CREW_BROKEN || state == CREW_CHANGEABLE)
		return muster_replan(m);
	chair_release(m->daemon, m->job); /* all are there again */
	muster_quiet(m);
	return true;
}

static void settle(struct muster *m, const char *why)
{
	m->settling = true;
	m->pause = PAUSE_NONE;
	m->rc = 0;
	log_info("job %s: its %u ranks are about to become %u%s: nobody enters an epoch before what is in memory is "
		 "safe",
		 m->job, m->crew.world, crew_next_world(&m->crew),
		 crew_next_world(&m->crew) == m->crew.world ? ", on other nodes" : "");
	chair_hold(m->daemon, m->job, why);
	struct coord_view v = chair_view(m->daemon, m->job);
	if (m->gone && v.attending < v.world)
		begin_rescue(m);
	if (!m->rescuing)
		order_settle(m);
}

/* ---- when ------------------------------------------------------------------------------------------------------ */

static void end(struct muster *m)
{
	struct peer_order o = {.type = PEER_STOP, .word.epoch = chair_view(m->daemon, m->job).epoch};
	if (m->ending || !o.word.epoch)
		return;
	m->ending = true;
	log_warn("job %s: nodes are to be let go, and fewer than %u ranks would be left: it is asked to end", m->job,
		 m->crew.least);
	for (uint32_t n = 0; n < m->crew.nnodes; n++)
		if (m->crew.nodes[n].has)
			muster_order(m, n, &o);
}

/* A rank is lost for good. What is in memory goes on where the ranks of each node stay together; else through storage, if there is any. */
static bool mend(struct muster *m)
{
	uint32_t next = crew_next_world(&m->crew);
	bool moves = next == m->crew.world, early = clock_now() < m->wait_ns;
	if (early && crew_unclaimed(&m->crew))
		return true;
	bool alike = chair_view(m->daemon, m->job).alike;
	if (moves && m->daemon->root >= 0 && alike && !crew_keeps(&m->crew)) {
		settle(m, "ranks move to other nodes");
		return true;
	}
	if (moves && !muster_parts(m))
		return muster_replan(m);
	if (early)
		return true;
	if (moves) {
		muster_lose(m);
		return muster_replan(m);
	}
	if (next >= m->crew.least) {
		settle(m, "the world changes");
	} else if (!m->starving) {
		log_warn("job %s: %u ranks could go on, and it needs %u: it waits for nodes", m->job, next,
			 m->crew.least);
		m->starving = true;
	}
	return true;
}

bool muster_advance(struct muster *m)
{
	muster_tell_behind(m);
	enum crew_state state = crew_state(&m->crew);
	m->crew.whole = m->daemon->root < 0 && chair_view(m->daemon, m->job).alike;
	if (m->settling)
		return go_on(m);
	if (state != CREW_CHANGEABLE) {
		muster_unpause(m);
		muster_unstick(m);
	}
	switch (state) {
	case CREW_WAITING:
		return clock_now() < m->wait_ns || muster_gathered(m);
	case CREW_READY:
		return muster_gathered(m);
	case CREW_CHANGEABLE:
		if (muster_unfit(m))
			return true;
		if (m->occasion)
			settle(m, "the world changes");
		else
			muster_pause(m);
		return true;
	case CREW_ENDING:
		end(m);
		return true;
	case CREW_BROKEN:
		return mend(m);
	default:
		return true;
	}
}

bool muster_at_work(const struct muster *m)
{
	struct coord_view v = chair_view(m->daemon, m->job);
	enum crew_state state = crew_state(&m->crew);
	return !m->settling && (state == CREW_SOUND || state == CREW_CHANGEABLE) && v.epoch && v.entered == v.epoch &&
	       v.attending == v.world;
}

/* A node whose ranks had finished cannot take them up again, and those that are left need them. */
static void see_epoch(struct muster *m)
{
	uint32_t epoch = chair_view(m->daemon, m->job).epoch;
	bool raised = m->epoch && epoch > m->epoch;
	m->epoch = epoch;
	/* Whoever was lost is back, and nothing hangs on what it had in memory any more. */
	m->gone = m->gone && !muster_at_work(m);
	if (raised)
		m->occasion = false;
	for (uint32_t n = 0; raised && n < m->crew.nnodes; n++) {
		if (m->left[n])
			crew_offer(&m->crew, n, 0, false);
		m->left[n] = false;
	}
}

static bool anybody(const struct muster *m)
{
	for (uint32_t n = 0; n < m->crew.nnodes; n++)
		if (m->crew.nodes[n].offers && !m->left[n])
			return true;
	return m->crew.world && clock_now() < m->wait_ns;
}

/* Nobody has what memory had of it, and those who wait are too few to begin it again. */
static bool abandoned(const struct muster *m, bool gone)
{
	bool starves = crew_next_world(&m->crew) < m->crew.least && clock_now() >= m->wait_ns;
	return m->deserted && (gone || starves) && !chair_view(m->daemon, m->job).attending;
}

void musters_tick(struct daemon *daemon)
{
	struct muster *m = daemon->musters, *next;
	for (; m; m = next) {
		next = m->next;
		see_epoch(m);
		bool gone = !anybody(m);
		if (gone && !chair_has(daemon, m->job))
			muster_remove(daemon, m->job);
		else if (abandoned(m, gone))
			chair_abandon(daemon, m->job);
		else
			muster_advance(m);
	}
}

/* ---- what is heard --------------------------------------------------------------------------------------------- */

static void take_offer(struct muster *m, uint32_t node, const struct peer_crew *said)
{
	struct crew *c = &m->crew;
	if (said->want != c->want || said->least != c->least) {
		struct err err;
		err_set(&err, -EINVAL,
			"node %s offers itself to a job of %u to %u ranks, the others to one of %u to %u",
			muster_name_of(m, node), said->least, said->want, c->least, c->want);
		muster_turn_away(m, node, -EINVAL, err.text);
		return;
	}
	muster_hear_of_plan(m, node, said);
	bool had = c->nodes[node].has, sound = crew_state(c) != CREW_BROKEN;
	if (said->plan == c->number)
		crew_claim(c, node, said->ranks, said->n);
	else if (said->plan > c->number) /* what it had by this one is over, also where that one does not hold */
		crew_claim(c, node, NULL, 0);
	m->seated[node] = m->seated[node] || said->n;
	if (!said->processes && had && m->spread)
		m->wait_ns = muster_patience(m); /* its launcher may be started again */
	m->bereft[node] = !said->processes && said->plan == c->number && (had || m->bereft[node]);
	crew_offer(c, node, said->processes, said->spare);
	muster_drain_said(m, node, said->drained);
	muster_departs(m, node, said->leaving);
	if (sound && crew_state(c) == CREW_BROKEN && m->spread && m->daemon->root < 0)
		m->wait_ns = muster_patience(m); /* a node may come that has room for all ranks of this one */
	m->left[node] = false;
	if (m->settling && !m->rescuing && !had) /* it is back: what it has under way is to end in this world, too */
		muster_settle(m, node);
	if (said->plan >= c->number)
		m->behind[node].n = 0;
	if (said->plan == c->number && said->n)
		muster_tell_apart(m, node);
	else if (said->plan < c->number && said->processes && c->world)
		muster_hear_behind(m, node, said);
}

static void take_settled(struct muster *m, uint32_t node, const struct peer_settled *said)
{
	if (!m->settling || said->plan != m->crew.number)
		return;
	m->unquiet[node] = false;
	if (!said->rc || m->rc)
		return;
	m->rc = said->rc;
	snprintf(m->text, sizeof(m->text), "%s", said->text);
}

void muster_report(struct daemon *daemon, uint32_t node, bool spread, const struct peer_report *r)
{
	struct muster *m = muster_find(daemon, r->job);
	uint32_t at = spread ? node : 0;
	if (!m && r->type == PEER_CREW && muster_is_over(daemon, r))
		muster_tell_over(daemon, node, spread, r);
	else if (!m && r->type == PEER_CREW && r->crew.processes)
		m = muster_new(daemon, r->job, spread, &r->crew);
	if (!m)
		return; /* nobody needs it, or there is no memory: the next report tries again */
	if (m->spread != spread)
		return; /* a job of that name on one node alone is not this one */
	if (r->type == PEER_CREW)
		take_offer(m, at, &r->crew);
	else if (r->type == PEER_PAUSED)
		muster_paused(m, at, r);
	else
		take_settled(m, at, &r->settled);
	muster_advance(m);
}

bool muster_left(struct daemon *daemon, const char *job, uint32_t node)
{
	struct muster *m = muster_find(daemon, job);
	bool others = false;
	if (!m)
		return false;
	node = m->spread ? node : 0;
	m->left[node] = true;
	m->unquiet[node] = m->bereft[node] = false; /* it has nothing any more that could be waited for */
	for (uint32_t n = 0; n < m->crew.nnodes; n++)
		others = others || (m->crew.nodes[n].has && !m->left[n]);
	return others;
}

bool muster_deserted(struct daemon *daemon, const char *job, uint32_t node, bool last)
{
	struct muster *m = muster_find(daemon, job);
	if (!m)
		return false;
	node = m->spread ? node : 0;
	m->unquiet[node] = m->bereft[node] = m->seated[node] = false;
	m->deserted = m->deserted || last;
	return true;
}

void musters_node_down(struct daemon *daemon, uint32_t node)
{
	for (struct muster *m = daemon->musters; m; m = m->next) {
		if (!m->spread)
			continue;
		m->miss_ns = muster_patience(m);
		if (m->crew.nodes[node].has || m->bereft[node]) {
			m->wait_ns = muster_patience(m);
			m->gone = true;
			if (m->settling)
				begin_rescue(m);
		}
		crew_offer(&m->crew, node, 0, m->crew.nodes[node].spare);
		muster_departs(m, node, false);
		m->unquiet[node] = m->seated[node] = m->bereft[node] = false;
		m->behind[node].n = 0;
	}
}

bool muster_gives_up(const struct daemon *daemon, const char *job)
{
	const struct muster *m = muster_find(daemon, job);
	return m && clock_now() >= m->miss_ns;
}

int muster_attends(struct daemon *daemon, const char *job, uint32_t node, uint32_t nranks, struct err *err)
{
	struct muster *m = muster_find(daemon, job);
	if (!m)
		return 0;
	node = m->spread ? node : 0;
	uint32_t planned = crew_home(&m->crew, node);
	if (planned && planned != nranks && !crew_unclaimed(&m->crew))
		return err_set(err, -EINVAL, "job '%s': node %s comes with %u ranks, and has %u by plan %u", job,
			       muster_name_of(m, node), nranks, planned, m->crew.number);
	m->seated[node] = true;
	m->deserted = false;
	muster_tell_apart(m, node);
	return 0;
}

bool muster_parted(const struct daemon *daemon, const char *job)
{
	const struct muster *m = muster_find(daemon, job);
	return m && m->parted;
}

uint32_t muster_plan(const struct daemon *daemon, const char *job)
{
	const struct muster *m = muster_find(daemon, job);
	return m ? m->crew.number : 0;
}

bool muster_next(const struct daemon *daemon, const struct muster **at, struct muster_view *view)
{
	*at = *at ? (*at)->next : daemon->musters;
	if (*at)
		*view = (struct muster_view){(*at)->job, &(*at)->crew, (*at)->spread, (*at)->settling, (*at)->stuck};
	return *at;
}
