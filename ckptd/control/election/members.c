#include "control/election/members.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/quoted.h"
#include "base/repeat.h"
#include "cluster/room.h"
#include "control/control.h"
#include "control/election/node_record.h"
#include "control/host/coordinator_host.h"
#include "control/membership/membership.h"
#include "registry/room.h"
#include "replication/room.h"
#include "runtime/room.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLUSTER "cluster/"
#define NEXT "cluster-next"
#define RETRY_NS (CLOCK_NS_PER_S / 4)
#define AGAIN_NS (2 * CLOCK_NS_PER_S)
/* Another one of our name may have ended: its lease goes on for so many times its length, at most, as far as is known. */
enum { LEASES = 2 };

struct members {
	struct control *control;
	struct member self; /* its number counts when it is known */
	bool joined;
	bool asked;                     /* a transaction is on its way */
	bool left_out;                  /* somebody: there was no room */
	uint64_t again_ns;              /* then they are tried again */
	uint64_t retry_ns, patience_ns; /* 0: nobody has our name */
	int rc;                         /* not 0: we are out */
	char why[WIRE_TEXT_MAX];        /* that, or what is waited for */
	struct repeat wrong, full;
};

static void key_of(const char *prefix, const char *name, char key[REGISTRY_KEY_MAX])
{
	snprintf(key, REGISTRY_KEY_MAX, "%s%s", prefix, name);
}

/* ---- the roster ------------------------------------------------------------------------------------------------ */

static bool same(const struct roster_node *a, const struct roster_node *b)
{
	return a->port == b->port && !strcmp(a->host, b->host) && !strcmp(a->rack, b->rack) &&
	       !strcmp(a->switch_name, b->switch_name) && a->incarnation == b->incarnation;
}

static void tell_net(struct control *control, unsigned node)
{
	struct err err;
	if (control->peers->net && node != control->peers->self && net_member(control->peers->net, node, &err))
		log_warn("node %s cannot be reached: %s", control->peers->roster->nodes[node].name, err.text);
}

static void say(const struct control *control, const struct roster_node *was, const struct roster_node *is)
{
	char from[ROSTER_TEXT_MAX], to[ROSTER_TEXT_MAX];
	roster_print(is, to, sizeof(to));
	if (!control->peers->net)
		return;
	if (!was->port)
		log_info("node %s joins the cluster at %s", is->name, to);
	else if (strcmp(roster_print(was, from, sizeof(from)), to) != 0)
		log_info("node %s is at %s now, was at %s", is->name, to, from);
}

/* What was begun with as many nodes as there were then has room for so many. */
static unsigned room(const struct control *control)
{
	unsigned hosts = hosts_room(control), worlds = memberships_room(control);
	return hosts < worlds ? hosts : worlds;
}

static void forget(struct members *m, unsigned node)
{
	struct control *control = m->control;
	struct roster_node gone = {.port = 0};
	snprintf(gone.name, sizeof(gone.name), "%s", control->peers->roster->nodes[node].name);
	log_info("node %s was removed from the cluster", gone.name);
	roster_put(control->peers->roster, node, &gone);
	tell_net(control, node);
}

/* It was removed and has joined anew, and what was heard is only that. */
static void forget_former(struct members *m, const struct member *is)
{
	int former = roster_find(m->control->peers->roster, is->node.name);
	if (former >= 0 && (uint32_t)former != is->number)
		forget(m, (unsigned)former);
}

static void put(struct members *m, const struct member *is)
{
	struct control *control = m->control;
	struct roster_node was = {.port = 0};
	bool ours = !strcmp(is->node.name, m->self.node.name);
	if (ours && m->joined && is->number != control->peers->self)
		return; /* another daemon's: members_tick() ends this one */
	forget_former(m, is);
	if (is->number < control->peers->roster->n)
		was = control->peers->roster->nodes[is->number];
	if (is->number >= room(control)) {
		if (repeat_due(&m->full, is->node.name, clock_now()))
			log_warn("node %s is not taken in before a job has ended: too many have come since it began",
				 is->node.name);
		m->left_out = true;
		return;
	}
	if (*was.name && strcmp(was.name, is->node.name) != 0) {
		log_warn("the registry gives number %u to node %s, and to node %s before: the later one is not "
			 "believed",
			 is->number, is->node.name, was.name);
		return;
	}
	if (ours)
		control->peers->self = m->self.number = is->number;
	if (was.port && same(&was, &is->node))
		return;
	say(control, &was, &is->node);
	roster_put(control->peers->roster, is->number, &is->node);
	tell_net(control, is->number);
}

static void drop(struct members *m, const char *name)
{
	struct control *control = m->control;
	int node = roster_find(control->peers->roster, name);
	bool ours = node >= 0 && (unsigned)node == control->peers->self;
	if (node >= 0 && !(ours && m->joined)) /* else members_tick() ends this daemon */
		forget(m, (unsigned)node);
}

static void take(struct members *m, const struct registry_record *record)
{
	struct member is;
	struct err err = {{0}};
	const char *name = record->key + strlen(CLUSTER);
	if (!member_decode(name, record->value, record->len, &is, &err))
		put(m, &is);
	else if (repeat_due(&m->wrong, err.text, clock_now()))
		log_warn("the registry's record %s is not believed: %s", record->key, err.text);
}

bool members_record(struct control *control, const struct registry_record *record, bool gone)
{
	struct members *m = control->members;
	if (strncmp(record->key, CLUSTER, strlen(CLUSTER)) != 0)
		return false;
	if (m && gone)
		drop(m, record->key + strlen(CLUSTER));
	else if (m)
		take(m, record);
	return true;
}

/* Those for whom there was no room. */
static void take_again(struct members *m)
{
	struct registry_record record;
	const void *at = NULL;
	m->left_out = false;
	while (registry_next(m->control->registry, CLUSTER, &at, &record))
		take(m, &record);
}

/* ---- our own place --------------------------------------------------------------------------------------------- */

/* What stands of us. Revisions are 0 where a record does not stand. */
struct standing {
	uint64_t member, there, next; /* revisions */
	bool ours;                    /* nodes/NAME is under our lease */
	bool known;                   /* cluster/NAME can be read: is */
	struct member is;
	char at[ROSTER_HOST_MAX + 16]; /* what nodes/NAME says */
	uint32_t number;               /* that a new name is given */
};

static struct standing look(const struct members *m, const char *name)
{
	const struct registry *registry = m->control->registry;
	struct standing s = {.member = 0};
	struct registry_record record;
	char key[REGISTRY_KEY_MAX], text[16] = "";
	key_of(CLUSTER, name, key);
	if (registry_get(registry, key, &record)) {
		s.member = record.changed;
		s.known = !member_decode(name, record.value, record.len, &s.is, NULL);
	}
	key_of(NODE_RECORDS, name, key);
	if (registry_get(registry, key, &record)) {
		s.there = record.changed;
		s.ours = record.ours;
		snprintf(s.at, sizeof(s.at), "%.*s", (int)record.len, (const char *)record.value);
	}
	if (registry_get(registry, NEXT, &record)) {
		s.next = record.changed;
		snprintf(text, sizeof(text), "%.*s", (int)record.len, (const char *)record.value);
		s.number = (uint32_t)strtoul(text, NULL, 10);
	}
	return s;
}

static void put_out(struct members *m, int rc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void put_out(struct members *m, int rc, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(m->why, sizeof(m->why), fmt, ap);
	va_end(ap);
	m->rc = rc;
}

/* The mirror tells what has become of it. */
static void asked(void *arg, const struct registry_result *result)
{
	struct members *m = arg;
	m->asked = false;
	m->retry_ns = clock_deadline(result->rc ? RETRY_NS : 0);
	if (result->rc)
		snprintf(m->why, sizeof(m->why), "%s", result->why);
}

/* At the same address: its daemon has ended, or else we could not listen there. */
static bool is_elsewhere(const struct members *m, const struct standing *s)
{
	char here[ROSTER_TEXT_MAX];
	return s->there && !s->ours && strcmp(s->at, node_record_text(&m->self.node, here, sizeof(here))) != 0;
}

static bool wait_for_other(struct members *m, const struct standing *s, uint64_t now)
{
	const char *name = m->self.node.name;
	if (!is_elsewhere(m, s)) {
		m->patience_ns = 0;
		return false;
	}
	if (!m->patience_ns) {
		m->patience_ns = now + LEASES * m->control->runtime->config.registry_lease_ms * CLOCK_NS_PER_MS +
				 2 * CLOCK_NS_PER_S;
		snprintf(m->why, sizeof(m->why), "node %s is in the cluster at %s, perhaps no longer", name, s->at);
		log_info("%s: waiting until its lease has ended", m->why);
	}
	if (now >= m->patience_ns)
		put_out(m, -EEXIST,
			"node %s is in the cluster already, at %s: give this node another name ([node] name), or end "
			"that daemon first",
			name, s->at);
	return true;
}

static void join(struct members *m, const struct standing *s)
{
	char member[REGISTRY_KEY_MAX], there[REGISTRY_KEY_MAX], text[MEMBER_TEXT_MAX], at[ROSTER_TEXT_MAX], next[16];
	const char *name = m->self.node.name;
	bool fresh = !s->known;
	m->self.number = fresh ? s->number : s->is.number;
	if (m->self.number >= ROSTER_MEMBERS_MAX) {
		put_out(m, -E2BIG, "the cluster has had %d nodes by name: begin with another prefix of the registry",
			ROSTER_MEMBERS_MAX);
		return;
	}
	key_of(CLUSTER, name, member);
	key_of(NODE_RECORDS, name, there);
	node_record_text(&m->self.node, at, sizeof(at));
	snprintf(next, sizeof(next), "%" PRIu32, s->number + 1);
	const struct registry_compare were[] = {{.key = there, .revision = s->there},
						{.key = member, .revision = s->member},
						{.key = NEXT, .revision = s->next}};
	const struct registry_change puts[] = {{.key = there, .value = at, .len = strlen(at), .leased = true},
					       {.key = member, .value = text, .len = member_encode(&m->self, text)},
					       {.key = NEXT, .value = next, .len = strlen(next)}};
	m->asked = !registry_commit(m->control->registry, were, fresh ? 3 : 2, puts, fresh ? 3 : 2, asked, m);
	m->retry_ns = clock_deadline(RETRY_NS);
}

/* The lease had ended meanwhile. */
static void be_there(struct members *m, const struct standing *s)
{
	char member[REGISTRY_KEY_MAX], there[REGISTRY_KEY_MAX], at[ROSTER_TEXT_MAX];
	key_of(CLUSTER, m->self.node.name, member);
	key_of(NODE_RECORDS, m->self.node.name, there);
	node_record_text(&m->self.node, at, sizeof(at));
	const struct registry_compare were[] = {{.key = there, .revision = s->there},
						{.key = member, .revision = s->member}};
	const struct registry_change put = {.key = there, .value = at, .len = strlen(at), .leased = true};
	m->asked = !registry_commit(m->control->registry, were, 2, &put, 1, asked, m);
	m->retry_ns = clock_deadline(RETRY_NS);
}

/* Somebody else has our name now, or nobody. */
static bool is_out(struct members *m, const struct standing *s)
{
	const char *name = m->self.node.name;
	char at[ROSTER_TEXT_MAX];
	if (s->known && s->is.node.incarnation == m->self.node.incarnation)
		return false;
	if (s->known)
		put_out(m, -EEXIST, "node %s is another daemon now, at %s: this one ends", name,
			roster_print(&s->is.node, at, sizeof(at)));
	else
		put_out(m, -ENOENT,
			"node %s was removed from the cluster: this daemon ends; started again, it joins anew", name);
	return true;
}

void members_tick(struct control *control)
{
	struct members *m = control->members;
	uint64_t now = clock_now();
	if (!m || m->rc || m->asked || now < m->retry_ns || !registry_is_synced(control->registry))
		return;
	struct standing s = look(m, m->self.node.name);
	bool us = s.known && s.is.node.incarnation == m->self.node.incarnation;
	m->joined = m->joined || (us && s.ours);
	if (m->left_out && now >= m->again_ns) {
		m->again_ns = now + AGAIN_NS;
		take_again(m);
	}
	if (m->joined && is_out(m, &s))
		return;
	m->retry_ns = now + RETRY_NS / 5;
	if (!registry_lease_left(control->registry) || s.ours)
		return;
	if (us && !s.there)
		be_there(m, &s);
	else if (!m->joined && !wait_for_other(m, &s, now))
		join(m, &s);
}

/* ---- for others ------------------------------------------------------------------------------------------------ */

int members_open(struct control *control, const struct roster_node *self, uint64_t since_ms, struct err *err)
{
	struct members *m = calloc(1, sizeof(*m));
	control->peers->roster = roster_new();
	if (!m || !control->peers->roster) {
		free(m);
		return err_set(err, -ENOMEM, "no memory for the nodes of the cluster");
	}
	*m = (struct members){.control = control, .self = {.node = *self, .since_ms = since_ms}};
	snprintf(m->why, sizeof(m->why), "nothing has been heard of the registry yet");
	control->members = m;
	control->peers->self = ROSTER_NODES_MAX; /* nobody */
	return 0;
}

void members_close(struct control *control)
{
	free(control->members);
	control->members = NULL;
}

int members_state(const struct control *control, struct err *err)
{
	const struct members *m = control->members;
	if (!m)
		return 1;
	if (!m->joined || m->rc)
		err_set(err, m->rc, "%s", m->why);
	return m->rc ? m->rc : m->joined;
}

bool members_look(const struct control *control, unsigned node, struct member_view *view)
{
	const struct members *m = control->members;
	if (!m || !roster_has(control->peers->roster, node))
		return false;
	struct standing s = look(m, control->peers->roster->nodes[node].name);
	*view = (struct member_view){.member = s.is, .there = s.there};
	return s.known;
}

struct removal {
	char name[NAME_NODE_MAX];
	void (*done)(void *arg, int rc, const char *why);
	void *arg;
};

static void removed(void *arg, const struct registry_result *result)
{
	struct removal *r = arg;
	char why[WIRE_TEXT_MAX] = "";
	int rc = result->rc ? result->rc : result->applied ? 0 : -EBUSY;
	if (result->rc)
		snprintf(why, sizeof(why), "node %s: %s", r->name, result->why);
	else if (rc)
		snprintf(why, sizeof(why), "node %s has just come back, or was changed: ask again", r->name);
	r->done(r->arg, rc, why);
	free(r);
}

static int may_remove(const struct members *m, const struct standing *s, const char *name, struct err *err)
{
	if (!registry_is_synced(m->control->registry))
		return err_set(err, -ENOTCONN, "the registry is away: ask again when it is back");
	if (!s->member)
		return err_set(err, -ENOENT, "there is no node %s in the cluster", quoted(name).text);
	if (s->there)
		return err_set(err, -EBUSY, "node %s is there, at %s: drain it, end its daemon, and ask again", name,
			       s->at);
	return 0;
}

int members_remove(struct control *control, const char *name, void (*done)(void *arg, int rc, const char *why),
		   void *arg, struct err *err)
{
	struct members *m = control->members;
	char member[REGISTRY_KEY_MAX], there[REGISTRY_KEY_MAX];
	if (!m)
		return err_set(err, -EOPNOTSUPP,
			       "the nodes of this cluster stand in a file, the roster: take node %s out there", name);
	struct standing s = look(m, name);
	int rc = may_remove(m, &s, name, err);
	if (rc)
		return rc;
	struct removal *r = calloc(1, sizeof(*r));
	if (!r)
		return err_set(err, -ENOMEM, "no memory");
	*r = (struct removal){.done = done, .arg = arg};
	snprintf(r->name, sizeof(r->name), "%s", name);
	key_of(CLUSTER, name, member);
	key_of(NODE_RECORDS, name, there);
	const struct registry_compare were[] = {{.key = there, .revision = 0}, {.key = member, .revision = s.member}};
	const struct registry_change gone = {.key = member};
	rc = registry_commit(control->registry, were, 2, &gone, 1, removed, r);
	if (rc)
		free(r);
	return rc ? err_set(err, rc, "the registry takes no more now: %s", err_name(rc)) : 0;
}
