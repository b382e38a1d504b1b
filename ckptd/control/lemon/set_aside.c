#include "control/lemon/set_aside_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/quoted.h"
#include "cluster/room.h"
#include "control/control.h"
#include "control/membership/membership.h"
#include "machine/room.h"
#include "replication/room.h"
#include "runtime/room.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Who begins a job again after so long has begun another one of its name. */
#define GONE_ON_NS (600 * CLOCK_NS_PER_S)

struct set_aside *set_aside_find(const struct control *control, const char *name)
{
	struct set_aside *s = control->set_aside;
	while (s && strcmp(s->lemon.name, name) != 0)
		s = s->next;
	return s;
}

struct set_aside *set_aside_get(struct control *control, const char *name)
{
	struct set_aside *s = set_aside_find(control, name);
	if (s || !(s = calloc(1, sizeof(*s))))
		return s;
	*s = (struct set_aside){.next = control->set_aside};
	snprintf(s->lemon.name, sizeof(s->lemon.name), "%s", name);
	control->set_aside = s;
	return s;
}

void set_aside_free(struct control *control)
{
	set_aside_close(control);
	for (struct set_aside *s; (s = control->set_aside);) {
		control->set_aside = s->next;
		free(s);
	}
}

static const char *why(const struct set_aside *s)
{
	return s->lemon.since_ns ? s->lemon.reason : s->unfit;
}

void set_aside_changed(struct control *control, const struct set_aside *s)
{
	int node = roster_find(control->peers->roster, s->lemon.name);
	if (node >= 0)
		memberships_weigh(control, (uint32_t)node);
}

/* Of itself a node knows it first. */
const char *set_aside_why(const struct control *control, uint32_t node)
{
	const struct set_aside *s = set_aside_find(control, control->peers->roster->nodes[node].name);
	if (s && *why(s))
		return why(s);
	return node == control->peers->self ? machine_unfit(control->runtime->machine) : "";
}

const char *set_aside_lemon(const struct control *control, uint32_t node)
{
	const struct set_aside *s = set_aside_find(control, control->peers->roster->nodes[node].name);
	return s && s->lemon.since_ns ? s->lemon.reason : "";
}

/* ---- what is wrong with it --------------------------------------------------------------------------------------- */

void set_aside_said(struct control *control, uint32_t node, const char *unfit)
{
	const char *name = control->peers->roster->nodes[node].name;
	struct set_aside *s = *unfit ? set_aside_get(control, name) : set_aside_find(control, name);
	if (!s || !strcmp(s->unfit, unfit))
		return;
	if (!*s->unfit)
		log_warn("node %s is set aside, others are preferred to it: %s", name, unfit);
	else if (!*unfit)
		log_info("node %s is no longer set aside for that: %s", name, s->unfit);
	snprintf(s->unfit, sizeof(s->unfit), "%s", unfit);
	set_aside_changed(control, s);
}

/* ---- how often it fails ------------------------------------------------------------------------------------------ */

static void judge(struct control *control, struct set_aside *s, uint64_t now)
{
	const struct config *config = &control->runtime->config;
	uint64_t window = config->lemon_window_ms * CLOCK_NS_PER_MS, sum = 0;
	uint32_t count = lemon_count(&s->lemon, now, window), nodes = 0;
	for (const struct set_aside *o = control->set_aside; o; o = o->next)
		sum += o == s ? 0 : lemon_count(&o->lemon, now, window);
	for (unsigned n = 0; n < control->peers->roster->n; n++)
		nodes += roster_has(control->peers->roster, n);
	if (s->lemon.since_ns || !lemon_is(count, (uint32_t)config->lemon_failures, sum, nodes - 1))
		return;
	lemon_set_aside(&s->lemon, now, count, window);
	log_warn("node %s is set aside, others are preferred to it: %s. If it is sound again: ckpt nodes clear %s",
		 s->lemon.name, s->lemon.reason, s->lemon.name);
}

void set_aside_suspect(struct control *control, uint32_t node, const char *job, const char *reason)
{
	struct set_aside *s = set_aside_get(control, control->peers->roster->nodes[node].name);
	if (!s)
		return;
	s->suspect.at_ns = clock_wall();
	s->suspected_ns = clock_now();
	snprintf(s->suspect.job, sizeof(s->suspect.job), "%s", job);
	snprintf(s->suspect.why, sizeof(s->suspect.why), "%s", reason);
}

static void count(struct control *control, struct set_aside *s)
{
	uint64_t now = clock_wall(), since = s->suspect.at_ns;
	s->suspect.at_ns = 0;
	if (clock_now() - s->suspected_ns > GONE_ON_NS)
		return;
	lemon_add(&s->lemon, since, s->suspect.job, s->suspect.why);
	judge(control, s, now);
	set_aside_changed(control, s);
	s->dirty = true;
}

void set_aside_gone_on(struct control *control, const char *job)
{
	for (struct set_aside *s = control->set_aside; s; s = s->next)
		if (s->suspect.at_ns && !strcmp(s->suspect.job, job))
			count(control, s);
}

void set_aside_ended(struct control *control, const char *job)
{
	for (struct set_aside *s = control->set_aside; s; s = s->next)
		if (!strcmp(s->suspect.job, job))
			s->suspect.at_ns = 0;
}

/* ---- its record ------------------------------------------------------------------------------------------------ */

void set_aside_forget(struct control *control, struct set_aside *s)
{
	struct lemon none = {.n = 0};
	memcpy(none.name, s->lemon.name, sizeof(none.name));
	if (s->lemon.since_ns)
		log_info("node %s is no longer set aside for its failures", s->lemon.name);
	s->lemon = none;
	s->suspect.at_ns = 0;
	s->cleared = s->asked;
	s->dirty = false;
	set_aside_changed(control, s);
}

void set_aside_tick(struct control *control, uint64_t now)
{
	(control->registry ? set_aside_tick_records : set_aside_tick_file)(control, now);
}

int set_aside_clear(struct control *control, const char *name, void (*done)(void *arg, int rc, const char *why),
		    void *arg, struct err *err)
{
	const struct peers *peers = control->peers;
	struct set_aside *s = set_aside_find(control, name);
	if (!peers->roster)
		return err_set(err, -EOPNOTSUPP, "the daemon of this node is in no cluster");
	if (!control->registry && peers->self != roster_first(peers->roster))
		return err_set(err, -EREMOTE, "node %s counts the failures of all nodes: ask its ckptd",
			       peers->roster->nodes[roster_first(peers->roster)].name);
	if (roster_find(peers->roster, name) < 0 && !s)
		return err_set(err, -ENOENT, "there is no node %s in the cluster", quoted(name).text);
	if (!s || !s->lemon.n)
		return err_set(err, -ENOENT, "node %s has not failed%s%s", name,
			       s && *s->unfit ? "; it is set aside: " : "", s ? s->unfit : "");
	return (control->registry ? set_aside_clear_record : set_aside_clear_file)(control, s, done, arg, err);
}
