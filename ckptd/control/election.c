#include "control/election.h"

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/repeat.h"
#include "cluster/room.h"
#include "control/control.h"
#include "control/coordinator_host.h"
#include "control/cut_off.h"
#include "control/members.h"
#include "control/membership.h"
#include "control/node_record.h"
#include "control/set_aside.h"
#include "format/files/marks.h"
#include "job/room.h"
#include "registry/room.h"
#include "replication/room.h"
#include "runtime/room.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RETRY_NS (CLOCK_NS_PER_S / 2)
/* How long a daemon keeps the record of a job that has ended: who comes late is told so. */
#define KEEP_NS (600 * CLOCK_NS_PER_S)

#define JOBS "jobs/"
#define COORDINATOR "/coordinator"
#define EPOCH "/epoch"

struct job_record {
	struct list link;
	char job[NAME_JOB_MAX];
	uint32_t node; /* NO_NODE: nobody */
	uint64_t term;
	bool asked; /* a transaction on its record is on its way */
	uint64_t retry_ns, idle_ns;
	uint64_t shy_ns;   /* it has given way: others come first until then */
	uint64_t given_up; /* the term in which it has: no more of that */
	uint64_t recorded; /* the revision in which we changed its epoch last, which the mirror may not show yet */
	struct cut_off cut_off;
	struct repeat unknown;
};

struct election {
	struct control *control;
	struct election_events events;
	struct list jobs; /* struct job_record */
	char away[WIRE_TEXT_MAX];
	struct repeat refused;
};

/* ---- what is known --------------------------------------------------------------------------------------------- */

static struct job_record *find(const struct control *control, const char *job)
{
	if (!control->election)
		return NULL;
	list_for(it, &control->election->jobs) {
		struct job_record *r = list_entry(it, struct job_record, link);
		if (!strcmp(r->job, job))
			return r;
	}
	return NULL;
}

static struct job_record *get(struct election *e, const char *job)
{
	struct job_record *r = find(e->control, job);
	if (r || !(r = calloc(1, sizeof(*r))))
		return r;
	snprintf(r->job, sizeof(r->job), "%s", job);
	r->node = NO_NODE;
	list_push(&e->jobs, &r->link);
	return r;
}

uint32_t coordinator_of(const struct control *control, const char *job)
{
	if (!control->peers->roster)
		return NO_NODE;
	if (!control->runtime->config.registry)
		return FIRST_NODE;
	const struct job_record *r = find(control, job);
	bool lapsed = r && r->node == control->peers->self && registry_lease_until(control->registry) <= clock_now();
	return r && !lapsed ? r->node : NO_NODE;
}

uint64_t coordinator_term(const struct control *control, const char *job)
{
	const struct job_record *r = find(control, job);
	return r ? r->term : 0;
}

bool host_here(const struct control *control, const char *job)
{
	return !control->peers->roster || coordinator_of(control, job) == control->peers->self;
}

bool coordinator_in_reach(const struct control *control, const char *job)
{
	uint32_t node = coordinator_of(control, job);
	return host_here(control, job) ||
	       (node != NO_NODE && control->peers->net && net_is_up(control->peers->net, node));
}

const char *coordinator_text(const struct control *control, const char *job, char *text, size_t size)
{
	uint32_t node = coordinator_of(control, job);
	if (node != NO_NODE)
		snprintf(text, size, "node %s, which coordinates it, cannot be reached",
			 control->peers->roster->nodes[node].name);
	else if (control->election && control->election->away[0])
		snprintf(text, size, "no node coordinates it, and the registry is away (%s)", control->election->away);
	else
		snprintf(text, size, "no node coordinates it yet");
	return text;
}

bool election_believes(const struct control *control, const char *job, uint32_t node, uint64_t term)
{
	return coordinator_of(control, job) == node && coordinator_term(control, job) == term;
}

static void key_of(const char *job, const char *what, char key[REGISTRY_KEY_MAX])
{
	snprintf(key, REGISTRY_KEY_MAX, JOBS "%s%s", job, what);
}

/* The job of such a key. False: it is of something else. */
static bool job_of(const char *key, const char *what, char job[NAME_JOB_MAX])
{
	size_t len = strlen(key), head = strlen(JOBS), tail = strlen(what);
	if (strncmp(key, JOBS, head) != 0 || len <= head + tail || strcmp(key + len - tail, what) != 0 ||
	    len - head - tail >= NAME_JOB_MAX)
		return false;
	snprintf(job, NAME_JOB_MAX, "%.*s", (int)(len - head - tail), key + head);
	return !name_check("job", job, NAME_JOB_MAX, NULL);
}

/* ---- who ------------------------------------------------------------------------------------------------------- */

static void set_node(struct election *e, struct job_record *r, uint32_t node, uint64_t term)
{
	struct control *control = e->control;
	if (r->node == node && (r->term == term || node == NO_NODE))
		return;
	if (r->node == control->peers->self)
		host_depose(control, r->job);
	r->node = node;
	if (node != NO_NODE)
		r->term = term;
	r->idle_ns = 0;
	if (node == control->peers->self)
		log_info("job %s: this node coordinates it, term %lu", r->job, (unsigned long)term);
	else if (node != NO_NODE)
		log_info("job %s: node %s coordinates it, term %lu", r->job, control->peers->roster->nodes[node].name,
			 (unsigned long)term);
	else
		log_info("job %s: no node coordinates it any more", r->job);
	e->events.moved(control->dispatch, r->job);
}

/* A name that is not in our roster, or ours and about to end: under another lease than we have, of an earlier life of this daemon, or given up. */
static uint32_t node_of(struct election *e, struct job_record *r, const struct registry_record *record)
{
	char name[NAME_NODE_MAX];
	snprintf(name, sizeof(name), "%.*s", (int)record->len, (const char *)record->value);
	int node = roster_find(e->control->peers->roster, name);
	if (node < 0 && repeat_due(&r->unknown, name, clock_now()))
		log_warn("job %s: the registry names node %s as its coordinator, which is not in the roster", r->job,
			 name);
	bool ends = !record->ours || record->created == r->given_up;
	if (node < 0 || ((unsigned)node == e->control->peers->self && ends))
		return NO_NODE;
	return (uint32_t)node;
}

static void on_record(void *arg, const struct registry_record *record, bool gone)
{
	struct election *e = arg;
	char job[NAME_JOB_MAX];
	if (members_record(e->control, record, gone) || set_aside_record(e->control, record, gone))
		return;
	struct job_record *r = job_of(record->key, COORDINATOR, job) ? get(e, job) : NULL;
	if (r)
		set_node(e, r, gone ? NO_NODE : node_of(e, r, record), gone ? 0 : record->created);
}

static void depose_all(struct election *e)
{
	list_for(it, &e->jobs) {
		struct job_record *r = list_entry(it, struct job_record, link);
		if (r->node == e->control->peers->self)
			set_node(e, r, NO_NODE, 0);
	}
}

/* ---- the registry ---------------------------------------------------------------------------------------------- */

static void on_synced(void *arg)
{
	struct election *e = arg;
	log_info("the registry is followed");
	e->away[0] = '\0';
}

static void on_away(void *arg, const char *why)
{
	struct election *e = arg;
	snprintf(e->away, sizeof(e->away), "%s", why);
	log_warn("the registry is away: %s. Training and saves to memory go on; who coordinates a job stays so for as "
		 "long "
		 "as its lease stands",
		 why);
}

static void on_leased(void *arg)
{
	(void)arg;
	log_debug("the registry has given a lease");
}

static void on_lapsed(void *arg)
{
	struct election *e = arg;
	log_warn("the lease of this node in the registry was not renewed in time: it coordinates nothing any more");
	depose_all(e);
}

int election_prefix(const struct control *control, char out[ELECTION_PREFIX_MAX], struct err *err)
{
	const char *url = control->runtime->config.registry;
	_Static_assert((int)REGISTRY_PREFIX_MAX <= (int)ELECTION_PREFIX_MAX, "a prefix fits");
	*out = 0;
	return url ? registry_prefix(url, out, err) : 0;
}

int election_open(struct control *control, const struct election_events *events, struct err *err)
{
	const struct config *config = &control->runtime->config;
	if (!config->registry)
		return 0;
	struct election *e = calloc(1, sizeof(*e));
	if (!e)
		return err_set(err, -ENOMEM, "no memory for the registry");
	*e = (struct election){.control = control, .events = *events};
	list_init(&e->jobs);
	const struct registry_config how = {.url = config->registry,
					    .ca = config->registry_ca,
					    .cert = config->registry_cert,
					    .key = config->registry_cert_key,
					    .user = config->registry_user,
					    .password_file = config->registry_password_file,
					    .lease_ns = config->registry_lease_ms * CLOCK_NS_PER_MS,
					    .timeout_ns = config->registry_lease_ms * CLOCK_NS_PER_MS / 2};
	const struct registry_events heard = {.record = on_record,
					      .synced = on_synced,
					      .away = on_away,
					      .leased = on_leased,
					      .lapsed = on_lapsed,
					      .arg = e};
	control->election = e;
	int rc = registry_new(&how, &heard, &control->registry, err);
	if (rc)
		election_close(control);
	return rc;
}

void election_close(struct control *control)
{
	struct election *e = control->election;
	if (e)
		depose_all(e);
	registry_free(control->registry);
	control->registry = NULL;
	control->election = NULL;
	if (!e)
		return;
	list_for_safe(it, &e->jobs)
		free(list_entry(it, struct job_record, link));
	free(e);
}

int election_event_fd(const struct control *control)
{
	return control->registry ? registry_event_fd(control->registry) : -1;
}

void election_poll(struct control *control)
{
	if (control->registry)
		registry_poll(control->registry);
}

/* ---- the campaign ---------------------------------------------------------------------------------------------- */

static void asked(void *arg, const struct registry_result *result)
{
	struct job_record *r = arg;
	r->asked = false;
	r->retry_ns = clock_deadline(RETRY_NS);
	if (result->rc)
		log_debug("job %s: its coordinator's record: %s", r->job, result->why);
}

/* Creates the record, or deletes the one that is ours. */
static void ask(struct election *e, struct job_record *r, uint64_t created, const char *name)
{
	char key[REGISTRY_KEY_MAX];
	key_of(r->job, COORDINATOR, key);
	struct registry_compare was = {.key = key, .created = true, .revision = created};
	struct registry_change change = {.key = key, .value = name, .len = name ? strlen(name) : 0, .leased = name};
	int rc = registry_commit(e->control->registry, &was, 1, &change, 1, asked, r);
	r->asked = !rc;
	if (rc)
		r->retry_ns = clock_deadline(RETRY_NS);
}

static bool in_use(const struct control *control, const struct job_record *r)
{
	const struct job *job = job_find(control->jobs, r->job);
	return (job && job->spread) || host_has(control, r->job) || membership_plan(control, r->job);
}

/* To delete the record may have to be tried again. */
static bool leaves_record(const struct election *e, const struct job_record *r)
{
	char key[REGISTRY_KEY_MAX];
	struct registry_record record;
	key_of(r->job, COORDINATOR, key);
	return r->given_up && registry_get(e->control->registry, key, &record) && record.created == r->given_up;
}

/* First it coordinates no more, then its record goes: when another one is elected, it does not matter how late this node hears of that. Three times
 * the lease: nodes that were cut off see within one that nobody coordinates, and ask. */
static void give_way(struct election *e, struct job_record *r, uint64_t now)
{
	char why[WIRE_TEXT_MAX];
	uint32_t reached = host_view(e->control, r->job).attending;
	if (!cut_off_gives_way(e->control, r->job, r->term, reached, why, sizeof(why)))
		return;
	log_warn("job %s: %s: it gives way to another coordinator", r->job, why);
	r->shy_ns = now + 3 * e->control->runtime->config.registry_lease_ms * CLOCK_NS_PER_MS;
	r->given_up = r->term;
	set_node(e, r, NO_NODE, 0);
	ask(e, r, r->given_up, NULL);
}

static void tend(struct election *e, struct job_record *r, uint64_t now)
{
	struct control *control = e->control;
	bool used = in_use(control, r), ours = r->node == control->peers->self;
	r->idle_ns = used ? 0 : r->idle_ns ? r->idle_ns : now;
	bool vacant = used && r->node == NO_NODE; /* then to be elected comes first */
	bool said = vacant || cut_off_tend(control, r->job, r->node, r->term, &r->cut_off);
	if (r->asked || now < r->retry_ns)
		return;
	bool left = leaves_record(e, r);
	if (left)
		ask(e, r, r->given_up, NULL);
	else if (vacant && now >= r->shy_ns && registry_is_synced(control->registry) &&
		 registry_lease_until(control->registry) > now)
		ask(e, r, 0, control->runtime->config.node);
	else if (ours && !used && now - r->idle_ns > KEEP_NS)
		ask(e, r, r->term, NULL);
	else if (ours && used)
		give_way(e, r, now);
	if (!used && r->node == NO_NODE && !r->asked && said && !left) {
		list_remove(&r->link);
		free(r);
	}
}

void election_tick(struct control *control)
{
	struct election *e = control->election;
	uint64_t now = clock_now();
	if (!e)
		return;
	if (registry_lease_until(control->registry) <= now)
		depose_all(e);
	list_for(it, &control->jobs->list) {
		const struct job *job = list_entry(it, struct job, link);
		if (job->spread)
			get(e, job->name); /* without memory: at the next tick */
	}
	list_for_safe(it, &e->jobs)
		tend(e, list_entry(it, struct job_record, link), now);
	if (control->members)
		members_tick(control);
	else
		node_record_tick(control);
}

/* ---- epochs ---------------------------------------------------------------------------------------------------- */

int election_last_begun(const struct control *control, const char *job, struct begun *begun, struct err *err)
{
	char key[REGISTRY_KEY_MAX];
	struct registry_record record;
	*begun = (struct begun){.id = {0}};
	key_of(job, EPOCH, key);
	if (!control->registry || !registry_get(control->registry, key, &record))
		return 0;
	int rc = begun_decode(record.value, record.len, begun, err);
	return rc ? err_prefix(err, rc, "%s in the registry", key) : 0;
}

struct epoch_call {
	struct control *control;
	char job[NAME_JOB_MAX];
	void (*done)(void *arg, int rc, const char *why);
	void *arg;
};

static void epoch_recorded(void *arg, const struct registry_result *result)
{
	struct epoch_call *call = arg;
	struct job_record *r = find(call->control, call->job);
	if (r && !result->rc) /* where it was not: the mirror will show why */
		r->recorded = result->applied ? result->revision : 0;
	if (result->rc)
		call->done(call->arg, result->rc, result->why);
	else if (!result->applied)
		call->done(call->arg, -ESTALE,
			   "another node coordinates the job, or what was asked before has come late");
	else
		call->done(call->arg, 0, "");
	free(call);
}

/* What nobody has answered for may be applied at any time later: then it is not to take the place of what was decided since. */
static uint64_t epoch_changed(const struct control *control, const char *job, const char *key)
{
	const struct job_record *r = find(control, job);
	struct registry_record record;
	uint64_t seen = registry_get(control->registry, key, &record) ? record.changed : 0;
	return r && r->recorded > seen ? r->recorded : seen;
}

int election_record_epoch(struct control *control, const char *job, const void *text, size_t len,
			  void (*done)(void *arg, int rc, const char *why), void *arg)
{
	char epoch[REGISTRY_KEY_MAX], coordinator[REGISTRY_KEY_MAX];
	struct epoch_call *call = calloc(1, sizeof(*call));
	if (!call)
		return -ENOMEM;
	*call = (struct epoch_call){.control = control, .done = done, .arg = arg};
	snprintf(call->job, sizeof(call->job), "%s", job);
	key_of(job, EPOCH, epoch);
	key_of(job, COORDINATOR, coordinator);
	const struct registry_compare was[] = {
		{.key = coordinator, .created = true, .revision = coordinator_term(control, job)},
		{.key = epoch, .revision = epoch_changed(control, job, epoch)}};
	struct registry_change put = {.key = epoch, .value = text, .len = len};
	int rc = registry_commit(control->registry, was, 2, &put, 1, epoch_recorded, call);
	if (rc)
		free(call);
	return rc;
}

bool election_look(const struct control *control, struct election_view *view)
{
	const struct election *e = control->election;
	uint64_t now = clock_now(), until = e ? registry_lease_until(control->registry) : 0;
	*view = (struct election_view){.away = ""};
	if (!e)
		return false;
	view->synced = registry_is_synced(control->registry);
	view->away = e->away;
	view->transactions = registry_counts(control->registry).transactions;
	view->outages = registry_counts(control->registry).outages;
	view->lease_left_ns = until > now ? until - now : 0;
	list_for(it, &e->jobs)
		view->coordinates += list_entry(it, struct job_record, link)->node == control->peers->self;
	return true;
}
