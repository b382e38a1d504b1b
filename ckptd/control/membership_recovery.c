/* What an earlier life of this daemon has planned, as far as the nodes know it: that plan holds, and the next one comes after it. */
#include "control/membership_private.h"

#include "base/log.h"
#include "control/coordinator_host.h"

#include <string.h>

/* Those who have claimed ranks of the plan that was taken for the last one. */
static void leave_behind(struct muster *m)
{
	const struct crew *c = &m->crew;
	for (uint32_t r = 0; r < c->world; r++) {
		struct muster_behind *b = c->node[r] != CREW_NOBODY ? &m->behind[c->node[r]] : NULL;
		if (!b || b->n == WIRE_LOCAL_MAX)
			continue;
		b->plan = c->number;
		b->world = c->world;
		b->ranks[b->n++] = r;
	}
}

/* Who has spoken before, and has no ranks by the plan before this one, would wait for what comes of the one that he follows. */
static void tell_others(struct muster *m, uint32_t by)
{
	for (uint32_t n = 0; n < m->crew.nnodes; n++)
		if (n != by && !m->behind[n].n && (m->crew.nodes[n].offers || m->seated[n]))
			muster_tell_plan(m, n, false);
}

/* Whoever attends does so by an older plan, or by none, and with ranks that may be others' in this one: nobody's seat counts before he has taken it
 * by the plan that holds. Where all ranks are here they are who they were. */
static void make_room(struct muster *m, uint32_t world, uint32_t by)
{
	struct err err = {{0}};
	struct coord_view v = chair_view(m->daemon, m->job);
	if (m->spread && (v.world != world || v.attending != world)) {
		chair_vacate(m->daemon, m->job, m->crew.number);
		tell_others(m, by);
	}
	if (v.world != world && chair_remake(m->daemon, m->job, world, m->spread, &err))
		log_error("job %s: %s", m->job, err.text);
}

/* Another life of this daemon has planned, or got further than the one that we know of. */
static void adopt(struct muster *m, uint32_t plan, uint32_t world, uint32_t by)
{
	log_info("job %s: plan %u, of an earlier life, holds: %u ranks", m->job, plan, world);
	leave_behind(m);
	crew_adopt(&m->crew, plan, world);
	m->wait_ns = m->spread ? muster_patience(m) : 0;
	m->gone = m->spread; /* who does not come back was lost, for all that is known here */
	m->parted = true;
	make_room(m, world, by);
}

/* The chair is made anew for that, and what its nodes have under way is lost. */
static bool takes_apart(const struct muster *m, uint32_t world)
{
	return chair_view(m->daemon, m->job).world != world && chair_busy(m->daemon, m->job);
}

/* Who has no rank knows of the plan, too, but may be the first who heard of it: the others may come with the one before it. Where all of these
 * have entered an epoch without him their job has gone on, and holds under a number that comes after what he knows; he takes part in the next
 * plan. The same goes for a save that they have under way in a world of another size, once it has ended. */
void muster_hear_of_plan(struct muster *m, uint32_t node, const struct peer_crew *said)
{
	if (said->plan > m->latest) {
		m->latest = said->plan;
		m->of = 0;
	}
	if (said->plan == m->latest && said->world)
		m->of = said->world;
	bool newer = said->plan > m->crew.number && said->world && (said->n || !said->processes);
	if (newer && !m->crew.nodes[node].has && muster_at_work(m))
		muster_renumber(m);
	else if (newer && !takes_apart(m, said->world))
		adopt(m, said->plan, said->world, node);
}

/* Nobody who had ranks has come: what they had in memory others may hold, for a world of that size. */
bool muster_gathered(struct muster *m)
{
	if (m->latest <= m->crew.number || !m->of)
		return muster_replan(m);
	adopt(m, m->latest, m->of, CREW_NOBODY);
	return true;
}

/* What it follows was planned by an earlier life of this daemon, which nobody could say who came before it. */
void muster_tell_apart(struct muster *m, uint32_t node)
{
	enum crew_state state = crew_state(&m->crew);
	if (!m->settling && !m->crew.nodes[node].has && m->crew.world && state != CREW_BROKEN)
		muster_renumber(m);
}

/* ---- who is behind ----------------------------------------------------------------------------------------------- */

/* That plan may have been told to others only: this node may have the same ranks in it, and all that they had in memory. */
void muster_hear_behind(struct muster *m, uint32_t node, const struct peer_crew *said)
{
	struct muster_behind *b = &m->behind[node];
	bool known = said->plan + 1 == m->crew.number;
	if (!said->n || !known || !crew_unclaimed(&m->crew)) {
		muster_tell_plan(m, node, known);
		return;
	}
	*b = (struct muster_behind){.plan = said->plan, .world = said->world, .n = said->n};
	memcpy(b->ranks, said->ranks, said->n * sizeof(b->ranks[0]));
}

/* What nobody has claimed who knows of the plan. What somebody had, and has lost, is not taken up again. */
static void take_up(struct muster *m, uint32_t node)
{
	struct crew *c = &m->crew;
	const struct muster_behind *b = &m->behind[node];
	uint32_t ranks[WIRE_LOCAL_MAX], n = 0;
	if (b->plan + 1 != c->number || b->world != c->world || c->nodes[node].has || c->nodes[node].offers < b->n)
		return;
	for (uint32_t i = 0; i < b->n; i++)
		if (b->ranks[i] < c->world && c->home[b->ranks[i]] == CREW_NOBODY)
			ranks[n++] = b->ranks[i];
	crew_claim(c, node, ranks, n);
	for (uint32_t i = 0; i < n; i++)
		c->was[ranks[i]] = ranks[i];
	if (m->settling && !m->rescuing) /* what it was asked, or has said, was by the plan before */
		muster_settle(m, node);
}

void muster_tell_behind(struct muster *m)
{
	if (crew_unclaimed(&m->crew) && clock_now() < m->wait_ns)
		return;
	for (uint32_t n = 0; n < m->crew.nnodes; n++) {
		if (!m->behind[n].n)
			continue;
		take_up(m, n);
		muster_tell_plan(m, n, m->behind[n].plan + 1 == m->crew.number);
	}
}
