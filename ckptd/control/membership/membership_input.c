/* What a membership hears of nodes: what they offer, follow and have done, and that they are lost. */
#include "control/membership/membership_private.h"

#include "base/log.h"
#include "checkpoint/room.h"
#include "cluster/room.h"
#include "control/election/hand_over.h"
#include "control/lemon/set_aside.h"

#include <stdio.h>
#include <string.h>

/* A plan is of nodes by their names: one that was removed from the cluster and has joined anew has another number. */
static bool is_same(const struct membership *m, uint32_t a, uint32_t b)
{
	return a == b || (m->spread && !strcmp(membership_name_of(m, a), membership_name_of(m, b)));
}

/* It follows another plan of the number of this one, which a coordinator made that nobody could tell of this: some of its ranks are another
 * node's here, whether or not that one is there. Its processes were made for that plan, so none of them counts. */
static bool follows_twin(const struct membership *m, uint32_t node, const struct peer_capacity *said)
{
	const struct assignment *c = &m->assignment;
	bool twin = false;
	for (uint32_t i = 0; i < said->n && said->plan == c->number; i++) {
		uint32_t home = said->ranks[i] < c->world ? c->home[said->ranks[i]] : ASSIGNMENT_NOBODY;
		twin = twin || (home != ASSIGNMENT_NOBODY && !is_same(m, home, node));
	}
	return twin;
}

static void take_offer(struct membership *m, uint32_t node, const struct peer_capacity *said)
{
	struct assignment *c = &m->assignment;
	if (said->want != c->want || said->least != c->least) {
		struct err err;
		err_set(&err, -EINVAL,
			"node %s offers itself to a job of %u to %u ranks, the others to one of %u to %u",
			membership_name_of(m, node), said->least, said->want, c->least, c->want);
		membership_turn_away(m, node, -EINVAL, err.text);
		return;
	}
	membership_hear_of_plan(m, node, said);
	bool had = c->nodes[node].has, sound = assignment_state(c) != ASSIGNMENT_BROKEN;
	bool twice = said->plan == c->number && c->world && said->world && said->world != c->world;
	if (said->plan == c->number && !twice && !follows_twin(m, node, said))
		assignment_claim(c, node, said->ranks, said->n);
	else if (said->plan >= c->number) /* what it had by this one is over, also where that one does not hold */
		assignment_claim(c, node, NULL, 0);
	m->twice = m->twice || twice;
	m->has_ranks[node] = m->has_ranks[node] || said->n;
	if (!said->processes && had && m->spread)
		m->wait_ns = membership_patience(m); /* its launcher may be started again */
	m->launcher_lost[node] = !said->processes && said->plan == c->number && (had || m->launcher_lost[node]);
	if (m->spread) {
		set_aside_said(m->control, node, said->unfit);
		assignment_avoid(c, node, *set_aside_why(m->control, node)); /* it may be new in the roster */
	}
	assignment_offer(c, node, said->processes, said->spare);
	membership_drain_said(m, node, said->drained);
	membership_departs(m, node, said->leaving);
	if (sound && assignment_state(c) == ASSIGNMENT_BROKEN && m->spread && m->control->storage->root < 0)
		m->wait_ns = membership_patience(m); /* a node may come that has room for all ranks of this one */
	m->left[node] = false;
	if (m->quiescing && !m->rescuing && !had) /* it is back: what it has under way is to end in this world, too */
		membership_quiesce(m, node);
	if (said->plan >= c->number)
		m->behind[node].n = 0;
	if (said->plan == c->number && said->n)
		membership_tell_apart(m, node);
	else if (said->plan < c->number && c->world)
		membership_hear_behind(m, node, said);
}

static void take_quiesced(struct membership *m, uint32_t node, const struct peer_quiesced *said)
{
	if (!m->quiescing || said->plan != m->assignment.number)
		return;
	m->unquiet[node] = false;
	if (!said->rc || m->rc)
		return;
	m->rc = said->rc;
	snprintf(m->text, sizeof(m->text), "%s", said->text);
}

/* What is damaged stays so, and its launcher hears of it. */
static void refuse(struct control *control, uint32_t node, const char *job, int rc, const char *why)
{
	struct peer_order o = {.type = PEER_REJECT, .word = {.rc = rc, .flag = true}};
	if (rc != -EBADMSG && rc != -EPROTONOSUPPORT) {
		host_refuse(control, node, job, rc, why);
		return;
	}
	log_error("%s", why);
	snprintf(o.job, sizeof(o.job), "%s", job);
	snprintf(o.word.text, sizeof(o.word.text), "%s", why);
	host_order(control, true, node, &o);
}

static bool is_over(const struct control *control, const struct peer_report *r)
{
	return r->type == PEER_CAPACITY && membership_is_over(control, r->job, r->assignment.plan);
}

void membership_report(struct control *control, uint32_t node, bool spread, const struct peer_report *r)
{
	struct membership *m = membership_find(control, r->job);
	uint32_t at = spread ? node : 0;
	struct err err = {{0}};
	int rc = 0;
	if (!m && r->type == PEER_CAPACITY && r->assignment.processes && !is_over(control, r))
		rc = membership_new(control, r->job, spread, &r->assignment, &m, &err);
	if (rc)
		refuse(control, node, r->job, rc, err.text);
	if (is_over(control, r)) {
		membership_tell_over(control, node, spread, r);
		return;
	}
	if (!m)
		return; /* nobody needs it */
	if (m->spread != spread)
		return; /* a job of that name on one node alone is not this one */
	if (r->type == PEER_CAPACITY)
		take_offer(m, at, &r->assignment);
	else if (r->type == PEER_PAUSED)
		membership_paused(m, at, r);
	else
		take_quiesced(m, at, &r->quiesced);
	membership_advance(m);
}

bool membership_left(struct control *control, const char *job, uint32_t node)
{
	struct membership *m = membership_find(control, job);
	bool others = false;
	if (!m)
		return false;
	node = m->spread ? node : 0;
	m->left[node] = true;
	m->unquiet[node] = m->launcher_lost[node] = false; /* it has nothing any more that could be waited for */
	for (uint32_t n = 0; n < m->assignment.nnodes; n++)
		others = others || (m->assignment.nodes[n].has && !m->left[n]);
	return others;
}

bool membership_deserted(struct control *control, const char *job, uint32_t node, bool last)
{
	struct membership *m = membership_find(control, job);
	if (!m)
		return false;
	node = m->spread ? node : 0;
	m->unquiet[node] = m->launcher_lost[node] = m->has_ranks[node] = false;
	m->deserted = m->deserted || last;
	return true;
}

void memberships_weigh(struct control *control, uint32_t node)
{
	bool avoided = *set_aside_why(control, node);
	for (struct membership *m = control->memberships; m; m = m->next)
		if (m->spread)
			assignment_avoid(&m->assignment, node, avoided);
}

static void node_down(struct membership *m, uint32_t node)
{
	m->miss_ns = membership_patience(m);
	if (m->assignment.nodes[node].has || m->launcher_lost[node]) {
		m->wait_ns = membership_patience(m);
		m->gone = true;
		if (m->quiescing)
			membership_begin_spill(m);
	}
	assignment_offer(&m->assignment, node, 0, m->assignment.nodes[node].spare);
	membership_departs(m, node, false);
	m->unquiet[node] = m->has_ranks[node] = m->launcher_lost[node] = false;
	m->behind[node].n = 0;
}

void membership_node_down(struct control *control, const char *job, uint32_t node)
{
	struct membership *m = membership_find(control, job);
	if (m && m->spread)
		node_down(m, node);
}

void memberships_node_down(struct control *control, uint32_t node)
{
	set_aside_said(control, node, "");
	for (struct membership *m = control->memberships; m; m = m->next)
		if (m->spread && !hand_over_doubts(control, m->job, node))
			node_down(m, node);
}

bool membership_gives_up(const struct control *control, const char *job)
{
	const struct membership *m = membership_find(control, job);
	return m && clock_now() >= m->miss_ns;
}

int membership_node_joins(struct control *control, const char *job, uint32_t node, uint32_t nranks, struct err *err)
{
	struct membership *m = membership_find(control, job);
	if (!m)
		return 0;
	node = m->spread ? node : 0;
	uint32_t planned = assignment_home(&m->assignment, node);
	if (planned && planned != nranks && !assignment_unclaimed(&m->assignment))
		return err_set(err, -EINVAL, "job '%s': node %s comes with %u ranks, and has %u by plan %u", job,
			       membership_name_of(m, node), nranks, planned, m->assignment.number);
	m->has_ranks[node] = true;
	m->deserted = false;
	membership_tell_apart(m, node);
	return 0;
}
