/* What an earlier life of this daemon has planned, as far as the nodes know it: that plan holds, and the next one comes after it. */
#include "muster_private.h"

#include "base/log.h"
#include "chair.h"

/* Another life of this daemon has planned, or got further than the one that we know of. */
static void adopt(struct muster *m, uint32_t plan, uint32_t world)
{
	struct err err = {{0}};
	log_info("job %s: plan %u, of an earlier life, holds: %u ranks", m->job, plan, world);
	crew_adopt(&m->crew, plan, world);
	m->wait_ns = m->spread ? muster_patience(m) : 0;
	m->gone = m->spread; /* who does not come back was lost, for all that is known here */
	m->parted = true;
	if (chair_view(m->daemon, m->job).world != world && chair_remake(m->daemon, m->job, world, m->spread, &err))
		log_error("job %s: %s", m->job, err.text);
}

/* The chair is made anew for that, and what its nodes have under way is lost. */
static bool takes_apart(const struct muster *m, uint32_t world)
{
	return chair_view(m->daemon, m->job).world != world && chair_busy(m->daemon, m->job);
}

/* Who has no rank knows of the plan, too, but may be the first who heard of it: the others may come with the one before it. While these have
 * a save under way in a world of another size their job is at work, and is not taken apart: who knows more takes part in the next plan. */
void muster_hear_of_plan(struct muster *m, const struct peer_crew *said)
{
	if (said->plan > m->latest) {
		m->latest = said->plan;
		m->of = 0;
	}
	if (said->plan == m->latest && said->world)
		m->of = said->world;
	bool newer = said->plan > m->crew.number && said->world && (said->n || !said->processes);
	if (newer && !takes_apart(m, said->world))
		adopt(m, said->plan, said->world);
}

/* Nobody who had ranks has come: what they had in memory others may hold, for a world of that size. */
bool muster_gathered(struct muster *m)
{
	if (m->latest <= m->crew.number || !m->of)
		return muster_replan(m);
	adopt(m, m->latest, m->of);
	return true;
}

/* What it follows was planned by an earlier life of this daemon, which nobody could say who came before it. */
void muster_tell_apart(struct muster *m, uint32_t node)
{
	enum crew_state state = crew_state(&m->crew);
	if (!m->settling && !m->crew.nodes[node].has && m->crew.world && state != CREW_BROKEN)
		muster_renumber(m);
}
