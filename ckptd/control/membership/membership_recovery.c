/* What an earlier incarnation of this daemon, or another one, has planned: that plan holds, and the next one comes after it.
 * What is on record of it is in membership_record.c; here, where nothing is, what the nodes know of it. */
#include "control/membership/membership_private.h"

#include "base/log.h"
#include "control/election/node_record.h"
#include "control/host/coordinator_host.h"

#include <string.h>

/* How long a node that is there may take to say which ranks it has. */
#define SAY_NS (CLOCK_NS_PER_S / 2)

/* Those who have claimed ranks of the plan that was taken for the last one. */
static void leave_behind(struct membership *m)
{
	const struct assignment *c = &m->assignment;
	for (uint32_t r = 0; r < c->world; r++) {
		struct membership_behind *b = c->node[r] != ASSIGNMENT_NOBODY ? &m->behind[c->node[r]] : NULL;
		if (!b || b->n == WIRE_LOCAL_MAX)
			continue;
		b->plan = c->number;
		b->world = c->world;
		b->ranks[b->n++] = r;
	}
}

/* A node that has spoken before, and has no ranks by the plan before this one, would wait for what comes of the plan that it follows. */
static void tell_others(struct membership *m, uint32_t by)
{
	for (uint32_t n = 0; n < m->assignment.nnodes; n++)
		if (n != by && !m->behind[n].n && (m->assignment.nodes[n].offers || m->has_ranks[n]))
			membership_tell_plan(m, n, false);
}

/* A node that joins does so by an older plan, or by none, and with ranks that may be others' in this one. So no participant counts
 * before its node has taken it by the plan that holds. Where all ranks are here they are what they were. */
void membership_make_room(struct membership *m, uint32_t world, uint32_t by)
{
	struct err err = {{0}};
	struct coord_view v = host_view(m->control, m->job);
	if (m->spread && (v.world != world || v.attending != world)) {
		host_invalidate_plan(m->control, m->job, m->assignment.number);
		tell_others(m, by);
	}
	if (v.world != world && host_remake(m->control, m->job, world, m->spread, &err))
		log_error("job %s: %s", m->job, err.text);
}

uint64_t membership_return_patience(const struct membership *m)
{
	uint64_t patience = membership_patience(m), soon = clock_deadline(SAY_NS);
	return node_records_settled(m->control) ? min_u64(patience, soon) : patience;
}

bool membership_nobody_returns(const struct membership *m)
{
	const struct assignment *c = &m->assignment;
	for (uint32_t r = 0; r < c->world; r++) {
		uint32_t home = c->home[r];
		if (home == ASSIGNMENT_NOBODY || (c->nodes[home].awaited && !node_record_is_gone(m->control, home)))
			return false;
	}
	return m->spread;
}

/* Another life of this daemon, or another node, has planned, or got further than the one that we know of. */
static void adopt(struct membership *m, uint32_t plan, uint32_t world, uint32_t by)
{
	log_info("job %s: plan %u, of an earlier life, holds: %u ranks", m->job, plan, world);
	leave_behind(m);
	assignment_adopt(&m->assignment, plan, world);
	m->wait_ns = m->word_ns = m->spread ? membership_return_patience(m) : 0;
	m->gone = m->spread; /* who does not come back was lost, for all that is known here */
	m->parted = m->adopted = true;
	m->untold = false;
	membership_make_room(m, world, by);
}

/* The host is made anew for that, and what its nodes have under way is lost. */
static bool takes_apart(const struct membership *m, uint32_t world)
{
	return host_view(m->control, m->job).world != world && host_busy(m->control, m->job);
}

/* A node without ranks knows of the plan, too, but may be the first that heard of it: the others may come with the one before it. If all
 * of these have entered an epoch without that node, their job has gone on, and holds under a number that comes after what the node knows.
 * It takes part in the next plan. The same goes for a save that they have under way in a world of another size, once it has ended. */
void membership_hear_of_plan(struct membership *m, uint32_t node, const struct peer_capacity *said)
{
	if (membership_take_record(m, node, said->plan))
		return;
	if (said->plan > m->latest) {
		m->latest = said->plan;
		m->of = 0;
	}
	if (said->plan == m->latest && said->world)
		m->of = said->world;
	bool newer = said->plan > m->assignment.number && said->world && (said->n || !said->processes);
	if (newer && !m->assignment.nodes[node].has && membership_at_work(m))
		membership_renumber(m);
	else if (newer && !takes_apart(m, said->world))
		adopt(m, said->plan, said->world, node);
}

/* Nobody who had ranks has come: what they had in memory others may hold, for a world of that size. */
bool membership_gathered(struct membership *m)
{
	if (m->latest <= m->assignment.number || !m->of)
		return membership_replan(m);
	adopt(m, m->latest, m->of, ASSIGNMENT_NOBODY);
	return true;
}

/* What it follows was planned by an earlier incarnation of this daemon, or by another coordinator, which nobody could say who came before it. */
void membership_tell_apart(struct membership *m, uint32_t node)
{
	enum assignment_state state = assignment_state(&m->assignment);
	if (!m->quiescing && !m->assignment.nodes[node].has && m->assignment.world && state != ASSIGNMENT_BROKEN)
		membership_renumber(m);
}

/* ---- who is behind ----------------------------------------------------------------------------------------------- */

/* That plan may have been told to others only: this node may have the same ranks in it, and all that they had in memory. */
void membership_hear_behind(struct membership *m, uint32_t node, const struct peer_capacity *said)
{
	struct membership_behind *b = &m->behind[node];
	bool known = said->plan + 1 == m->assignment.number;
	if (m->untold)
		return; /* it is told with the others */
	membership_settle(m, node, said);
	if (!said->processes)
		return;
	if (!said->n || !known || !m->adopted || !assignment_unclaimed(&m->assignment)) {
		membership_tell_plan(m, node, known && said->n); /* it may have lost who it had */
		return;
	}
	*b = (struct membership_behind){.plan = said->plan, .world = said->world, .n = said->n};
	memcpy(b->ranks, said->ranks, said->n * sizeof(b->ranks[0]));
}

/* What nobody has claimed who knows of the plan. What somebody had, and has lost, is not taken up again. */
static void take_up(struct membership *m, uint32_t node)
{
	struct assignment *c = &m->assignment;
	const struct membership_behind *b = &m->behind[node];
	uint32_t ranks[WIRE_LOCAL_MAX], n = 0;
	if (b->plan + 1 != c->number || b->world != c->world || c->nodes[node].has || c->nodes[node].offers < b->n)
		return;
	for (uint32_t i = 0; i < b->n; i++)
		if (b->ranks[i] < c->world && c->home[b->ranks[i]] == ASSIGNMENT_NOBODY)
			ranks[n++] = b->ranks[i];
	assignment_claim(c, node, ranks, n);
	for (uint32_t i = 0; i < n; i++)
		c->was[ranks[i]] = ranks[i];
	if (m->quiescing && !m->rescuing) /* what it was asked, or has said, was by the plan before */
		membership_quiesce(m, node);
}

void membership_tell_behind(struct membership *m)
{
	if (assignment_unclaimed(&m->assignment) && clock_now() < m->wait_ns)
		return;
	for (uint32_t n = 0; n < m->assignment.nnodes; n++) {
		bool joined = m->behind[n].joined;
		m->behind[n].joined = false;
		if (!m->behind[n].n) {
			if (joined && membership_leaves_out(m, n))
				membership_tell_plan(m, n, true);
			continue;
		}
		take_up(m, n);
		membership_tell_plan(m, n, m->behind[n].plan + 1 == m->assignment.number);
	}
}
