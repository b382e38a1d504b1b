#include "base/log.h"
#include "checkpoint/room.h"
#include "cluster/room.h"
#include "control/control.h"
#include "control/membership/membership_private.h"
#include "control/record/epoch_record.h"
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
	if (!m->spread || epochs_are_kept(m->control))
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

int membership_departs_all_the_same(const char *job, const char *name, struct err *err)
{
	return err_set(err, -ECANCELED,
		       "node %s is not drained any more, and has no ranks of job '%s' all the same: its launcher was "
		       "told to end",
		       name, job);
}

/* A node that was removed from the cluster is so no more, and has another number if it comes back. */
static bool is_drained(const struct membership *m, uint32_t node)
{
	return m->drained[node] == DRAIN_YES && (!m->spread || roster_has(m->control->peers->roster, node));
}

static uint32_t count_drained(const struct membership *m)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < m->assignment.nnodes; i++)
		n += is_drained(m, i);
	return n;
}

/* 0: it is on record; -EINPROGRESS: it will be. */
static int put_on_record(struct membership *m, uint32_t node, enum drain to, struct err *err)
{
	const char *job = m->job;
	if (m->record.number) /* what is drained by it is not known to be so, and stays on record */
		return err_set(err, -EAGAIN, "job '%s': no node that follows its last plan has come yet: ask again",
			       job);
	if (m->drained[node] == to && !m->asked)
		return 0;
	if (m->asked && (m->asked_node != node || m->asked != to))
		return err_set(err, -EAGAIN, "job '%s': what was asked of node %s is not on record yet: ask again", job,
			       membership_name_of(m, m->asked_node));
	if (!host_has(m->control, job))
		return err_set(err, -EAGAIN, "job '%s' has no ranks on any node yet: ask again when it has", job);
	if (to == DRAIN_YES && count_drained(m) >= ASKED_DRAINED_MAX)
		return err_set(err, -EBUSY, "job '%s': %d nodes are drained already", job, ASKED_DRAINED_MAX);
	if (m->asked)
		return -EINPROGRESS;
	m->asked = to;
	m->asked_node = node;
	m->asks++;
	host_record(m->control, job);
	return m->asked ? -EINPROGRESS : 0;
}

static int drain(struct membership *m, uint32_t node, const char *name, struct err *err)
{
	enum drain before = m->drained[node];
	m->drained[node] = DRAIN_YES;
	weigh(m, node);
	int rc = m->assignment.nodes[node].has ? check(m, name, err) : 0;
	bool kept = epochs_are_kept(m->control);
	if (rc || kept) {
		m->drained[node] = before;
		weigh(m, node);
	} else {
		tell(m, node);
	}
	return !rc && kept ? put_on_record(m, node, DRAIN_YES, err) : rc;
}

static int undrain(struct membership *m, uint32_t node, const char *name, struct err *err)
{
	if (epochs_are_kept(m->control)) {
		int rc = put_on_record(m, node, DRAIN_NO, err);
		if (rc)
			return rc;
	} else {
		m->drained[node] = DRAIN_NO;
		weigh(m, node);
		tell(m, node);
	}
	return m->departs[node] ? membership_departs_all_the_same(m->job, name, err) : 0;
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

/* ---- the record -------------------------------------------------------------------------------------------------- */

uint32_t membership_asks(const struct control *control, const char *job)
{
	const struct membership *m = membership_find(control, job);
	return m ? m->asks : 0;
}

int membership_asked(const struct control *control, const char *job, struct asked_record *asked)
{
	const struct membership *m = membership_find(control, job);
	int rc = 0;
	*asked = (struct asked_record){0};
	if (!m || !m->spread)
		return -ENOENT;
	if (m->record.number) /* nobody who follows that plan has come yet */
		return asked_record_copy(&m->recalled, asked);
	for (uint32_t n = 0; !rc && n < m->assignment.nnodes; n++) {
		bool is = m->asked && n == m->asked_node ? m->asked == DRAIN_YES : is_drained(m, n);
		rc = is ? asked_record_drain(asked, membership_name_of(m, n)) : 0;
	}
	if (rc)
		asked_record_free(asked);
	return rc;
}

void membership_asked_recorded(struct control *control, const char *job, uint32_t asks)
{
	struct membership *m = membership_find(control, job);
	if (!m || !m->asked || asks != m->asks)
		return;
	m->drained[m->asked_node] = m->asked;
	m->asked = DRAIN_UNKNOWN;
	weigh(m, m->asked_node);
	loop_soon(control->runtime->loop, 1);
}

void membership_drains_recall(struct membership *m)
{
	for (uint32_t i = 0; i < m->recalled.ndrained; i++) {
		const char *name = m->recalled.drained[i];
		int node = roster_find(m->control->peers->roster, name);
		if (node < 0 || (uint32_t)node >= m->assignment.nnodes)
			continue; /* it was removed */
		log_info("job %s: node %s is drained, as is on record", m->job, name);
		m->drained[node] = DRAIN_YES;
		weigh(m, (uint32_t)node);
	}
}

/* ---- what is known of it ----------------------------------------------------------------------------------------- */

/* A node that is not there, or has not said what it has, may have ranks all the same. */
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
	is->departs = m->departs[node];
	is->waits = m->asked && m->asked_node == (uint32_t)node;
	is->stuck = m->stuck;
	if (!is->ranks && in_doubt(m))
		return err_set(err, -EBUSY,
			       "the world of job '%s' is being found out anew: what node %s has is not known", m->job,
			       name);
	return 0;
}
