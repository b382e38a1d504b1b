/* What is on record of the plan of a job: read by the daemon that begins to coordinate it, and written before anybody is told of the next one. */
#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "cluster/room.h"
#include "control/membership/membership_private.h"
#include "control/record/epoch_record.h"

#include <stdlib.h>

/* ---- the next one ------------------------------------------------------------------------------------------------ */

static bool is_known(const struct assignment *c)
{
	for (uint32_t r = 0; r < c->world; r++)
		if (c->home[r] == ASSIGNMENT_NOBODY)
			return false;
	return true;
}

int membership_plan_record(const struct control *control, const char *job, struct plan_record *plan)
{
	const struct membership *m = membership_find(control, job);
	int rc = 0;
	*plan = (struct plan_record){0};
	if (!m || !m->assignment.number)
		return 0;
	const struct assignment *c = &m->assignment;
	plan->number = c->number;
	for (uint32_t r = 0; !rc && is_known(c) && r < c->world; r++)
		rc = plan_record_add(plan, membership_name_of(m, c->home[r]),
				     c->was[r] == ASSIGNMENT_NEW ? PLAN_NEW : c->was[r]);
	if (rc)
		plan_record_free(plan);
	return rc;
}

/* ---- the last one ------------------------------------------------------------------------------------------------ */

int membership_recall(struct membership *m, struct err *err)
{
	struct begun last;
	int rc = epochs_last(m->control, m->job, &last, err);
	if (rc)
		return err_prefix(err, rc, "job '%s': its last plan cannot be read", m->job);
	membership_past_recall(m->control, m->job, &last);
	if (last.ended && last.ended >= last.plan.number) { /* what it says is over */
		m->latest = last.ended;
		begun_free(&last);
		return 0;
	}
	m->latest = last.plan.number;
	m->record = last.plan;
	m->recalled = last.asked;
	return 0;
}

/* By rank: whose it is in our roster, and who it was. */
static void read_runs(const struct membership *m, uint32_t *home, uint32_t *was)
{
	uint32_t rank = 0;
	for (uint32_t i = 0; i < m->record.nruns; i++) {
		const struct plan_run *run = &m->record.runs[i];
		int node = roster_find(m->control->peers->roster, run->node);
		bool ours = node >= 0 && (uint32_t)node < m->assignment.nnodes;
		for (uint32_t k = 0; k < run->n; k++, rank++) {
			home[rank] = ours ? (uint32_t)node : ASSIGNMENT_NOBODY;
			was[rank] = run->was == PLAN_NEW ? ASSIGNMENT_NEW : run->was + k;
		}
	}
}

/* Who has spoken before follows no plan: what it had by this one is lost. */
static void hear_earlier(struct membership *m, uint32_t by)
{
	for (uint32_t n = 0; n < m->assignment.nnodes; n++)
		if (n != by && m->assignment.nodes[n].offers)
			assignment_claim(&m->assignment, n, NULL, 0);
}

bool membership_leaves_out(const struct membership *m, uint32_t node)
{
	const struct assignment_node *n = &m->assignment.nodes[node];
	return !m->untold && m->assignment.world && !n->awaited && !n->has && !assignment_home(&m->assignment, node);
}

/* Who had ranks by an older plan may hold in memory all that is left of them, and have no launcher that would ask: it keeps that for others as soon as it hears that they are its no more. */
static void tell_left_out(struct membership *m)
{
	const struct peers *peers = m->control->peers;
	for (uint32_t n = 0; n < m->assignment.nnodes && n < peers->roster->n; n++)
		if (!m->assignment.nodes[n].awaited && (n == peers->self || net_is_up(peers->net, n)))
			membership_tell_plan(m, n, true);
}

void membership_joins_by(struct control *control, const char *job, uint32_t node, uint32_t plan)
{
	struct membership *m = membership_find(control, job);
	if (!m || !m->spread || !plan || plan >= m->assignment.number)
		return;
	if (assignment_unclaimed(&m->assignment) || m->untold)
		m->behind[node].joined = true; /* it does not say so again */
	else if (membership_leaves_out(m, node))
		membership_tell_plan(m, node, true);
}

/* Who is given no ranks by the next plan is told so, also if it has not spoken until then: its launcher may be gone. */
static void suppose_ranks(struct membership *m)
{
	for (uint32_t n = 0; n < m->assignment.nnodes; n++)
		m->has_ranks[n] = m->has_ranks[n] || m->assignment.nodes[n].awaited;
}

bool membership_take_record(struct membership *m, uint32_t node, uint32_t plan)
{
	const struct plan_record *p = &m->record;
	bool holds = p->number && plan && plan <= p->number && p->world && p->world <= m->assignment.want;
	if (m->assignment.world || !holds)
		return false;
	AUTO_FREE uint32_t *home = calloc(p->world, sizeof(*home)), *was = calloc(p->world, sizeof(*was));
	if (!home || !was) {
		log_error("job %s: no memory for plan %u", m->job, p->number);
		return false;
	}
	log_info("job %s: plan %u, which is on record, holds: %u ranks", m->job, p->number, p->world);
	read_runs(m, home, was);
	assignment_recall(&m->assignment, p->number, p->world, home, was);
	hear_earlier(m, node);
	tell_left_out(m);
	membership_drains_recall(m);
	plan_record_free(&m->record);
	asked_record_free(&m->recalled);
	m->wait_ns = m->word_ns = membership_return_patience(m);
	m->gone = m->parted = true; /* who does not come back was lost, for all that is known here */
	membership_make_room(m, m->assignment.world, node);
	suppose_ranks(m);
	return true;
}

void membership_settle(struct membership *m, uint32_t node, const struct peer_capacity *said)
{
	struct assignment *c = &m->assignment;
	if (!c->nodes[node].awaited)
		return;
	if (said->processes < assignment_home(c, node)) {
		assignment_claim(c, node, NULL, 0);
		return;
	}
	assignment_take_up(c, node);
	if (m->quiescing && !m->rescuing) /* what it was asked, or has said, was by the plan before */
		membership_quiesce(m, node);
}
