#include "muster_private.h"
#include "roster.h"

static int choose(struct daemon *daemon, const char *job, struct muster **out, struct err *err)
{
	struct muster *only = daemon->musters;
	*out = *job ? muster_find(daemon, job) : only && !only->next ? only : NULL;
	if (*out)
		return 0;
	if (!*job && only)
		return err_set(err, -EINVAL, "name the job; several are planned here");
	return err_set(
		err, -ENOENT,
		"no job%s%s%s is planned here: ask the daemon of the first node of the roster, about a job that was "
		"started with --min-ranks or --spare",
		*job ? " '" : "", job, *job ? "'" : "");
}

/* Its ranks would go on from what others hold of them, and nobody does. */
static bool nothing_holds(const struct muster *m)
{
	struct policy policy;
	sources_fill(m->daemon->sources, SCOPE_JOB, m->job, &policy);
	return m->daemon->root < 0 && !policy.copies;
}

int muster_drain(struct daemon *daemon, const char *job, const char *name, bool drained, const char **is,
		 struct err *err)
{
	struct muster *m;
	int rc = choose(daemon, job, &m, err);
	if (rc)
		return rc;
	int node = m->spread ? roster_find(daemon->roster, name) : -ENOENT;
	if (node < 0)
		return err_set(err, -ENOENT, "job '%s' has no node %s", m->job, name);
	struct crew *c = &m->crew;
	bool before = c->nodes[node].leaving;
	crew_leave(c, (uint32_t)node, drained);
	if (drained && c->nodes[node].has && crew_next_world(c) < c->least) {
		uint32_t left = crew_next_world(c);
		crew_leave(c, (uint32_t)node, before);
		return err_set(err, -EBUSY, "without node %s job '%s' would have %u ranks, and it needs %u", name,
			       m->job, left, c->least);
	}
	if (drained && c->nodes[node].has && nothing_holds(m)) {
		crew_leave(c, (uint32_t)node, before);
		return err_set(err, -EINVAL,
			       "job '%s' has no store and makes no copies (copies = 0): what the ranks of node %s have "
			       "would be lost",
			       m->job, name);
	}
	m->drained[node] = drained;
	*is = m->job;
	return 0;
}
