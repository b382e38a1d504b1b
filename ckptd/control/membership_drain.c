#include "checkpoint/room.h"
#include "cluster/room.h"
#include "control/control.h"
#include "control/membership_private.h"
#include "replication/room.h"
#include "runtime/room.h"

#include <stdio.h>

static void weigh(struct membership *m, uint32_t node)
{
	assignment_leave(&m->assignment, node, m->drained[node] == DRAIN_YES || m->departs[node]);
}

static void tell(const struct membership *m, uint32_t node)
{
	bool drained = m->drained[node] == DRAIN_YES;
	struct peer_order o = {.type = PEER_COMMAND, .command.kind = drained ? COMMAND_DRAIN : COMMAND_UNDRAIN};
	snprintf(o.command.node, sizeof(o.command.node), "%s", m->control->peers->roster->nodes[node].name);
	membership_order(m, node, &o);
}

void membership_drain_said(struct membership *m, uint32_t node, bool drained)
{
	if (!m->spread)
		return;
	if (m->drained[node] == DRAIN_UNKNOWN)
		m->drained[node] = drained ? DRAIN_YES : DRAIN_NO;
	else if (drained != (m->drained[node] == DRAIN_YES))
		tell(m, node);
}

void membership_departs(struct membership *m, uint32_t node, bool departs)
{
	m->departs[node] = departs;
	weigh(m, node);
}

static int choose(struct control *control, const char *job, struct membership **out, struct err *err)
{
	struct membership *only = control->memberships;
	*out = *job ? membership_find(control, job) : only && !only->next ? only : NULL;
	if (*out)
		return 0;
	if (!*job && only)
		return err_set(err, -EINVAL, "name the job; several are planned here");
	return err_set(err, -ENOENT,
		       "no job%s%s%s is planned by this cluster: only ranks of a job that was started with --min-ranks "
		       "or --spare "
		       "can go to other nodes",
		       *job ? " '" : "", job, *job ? "'" : "");
}

/* Its ranks would go on from what others hold of them, and nobody does. */
static bool nothing_holds(const struct membership *m)
{
	struct policy policy;
	sources_fill(m->control->runtime->sources, SCOPE_JOB, m->job, &policy);
	return m->control->storage->root < 0 && !policy.copies;
}

static int find_node(const struct membership *m, const char *name, struct err *err)
{
	int node = m->spread ? roster_find(m->control->peers->roster, name) : -ENOENT;
	return node < 0 ? err_set(err, -ENOENT, "job '%s' has no node %s", m->job, name) : node;
}

/* Why its ranks cannot go. */
static int check(const struct membership *m, const char *name, struct err *err)
{
	const struct assignment *c = &m->assignment;
	if (assignment_next_world(c) < c->least)
		return err_set(err, -EBUSY, "without node %s job '%s' would have %u ranks, and it needs %u", name,
			       m->job, assignment_next_world(c), c->least);
	if (nothing_holds(m))
		return err_set(err, -EINVAL,
			       "job '%s' has no store and makes no copies (copies = 0): what the ranks of node %s have "
			       "would be lost",
			       m->job, name);
	if (membership_parts(m))
		return err_set(
			err, -EBUSY,
			"job '%s' has no store, and no node has room for all ranks of node %s: what they have in "
			"memory was divided among them, and would be lost",
			m->job, name);
	return 0;
}

static int drain(struct membership *m, uint32_t node, const char *name, struct err *err)
{
	enum drain before = m->drained[node];
	m->drained[node] = DRAIN_YES;
	weigh(m, node);
	int rc = m->assignment.nodes[node].has ? check(m, name, err) : 0;
	if (rc) {
		m->drained[node] = before;
		weigh(m, node);
	} else {
		tell(m, node);
	}
	return rc;
}

static int undrain(struct membership *m, uint32_t node, const char *name, struct err *err)
{
	m->drained[node] = DRAIN_NO;
	weigh(m, node);
	tell(m, node);
	if (!m->departs[node])
		return 0;
	return err_set(
		err, -ECANCELED,
		"node %s is not drained any more, and has no ranks of job '%s' all the same: its launcher was told "
		"to end",
		name, m->job);
}

int membership_drain(struct control *control, const char *job, const char *name, bool drained, struct err *err)
{
	struct membership *m;
	int rc = choose(control, job, &m, err);
	int node = rc ? rc : find_node(m, name, err);
	if (node < 0)
		return node;
	return drained ? drain(m, (uint32_t)node, name, err) : undrain(m, (uint32_t)node, name, err);
}

/* Who is not there, or has not said what he has, may have ranks all the same. */
static bool in_doubt(const struct membership *m)
{
	return m->quiescing || m->untold || assignment_state(&m->assignment) == ASSIGNMENT_BROKEN;
}

int membership_drained(struct control *control, const char *job, const char *name, struct membership_drained *is,
		       struct err *err)
{
	struct membership *m;
	*is = (struct membership_drained){.stuck = ""};
	snprintf(is->job, sizeof(is->job), "%s", job);
	if (*job && !membership_find(control, job) && membership_past(control, job).plan)
		return 0;
	int rc = choose(control, job, &m, err);
	int node = rc ? rc : find_node(m, name, err);
	if (node < 0)
		return node;
	snprintf(is->job, sizeof(is->job), "%s", m->job);
	is->ranks = m->assignment.nodes[node].has;
	is->asked = m->assignment.nodes[node].leaving;
	is->stuck = m->stuck;
	if (!is->ranks && in_doubt(m))
		return err_set(err, -EBUSY,
			       "the world of job '%s' is being found out anew: what node %s has is not known", m->job,
			       name);
	return 0;
}
