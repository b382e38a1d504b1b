#include "control/election/election_private.h"

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/repeat.h"
#include "cluster/room.h"
#include "control/control.h"
#include "control/election/cut_off.h"
#include "control/election/heir.h"
#include "control/election/members.h"
#include "control/election/node_record.h"
#include "control/host/coordinator_host.h"
#include "control/lemon/set_aside.h"
#include "control/membership/membership.h"
#include "format/files/marks.h"
#include "job/room.h"
#include "registry/room.h"
#include "replication/room.h"
#include "runtime/room.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RETRY_NS (CLOCK_NS_PER_S / 2)
/* Who coordinates jobs lets others be first, for each of them so long: a daemon looks every 50 ms whether a job has no coordinator. */
#define MODEST_NS (CLOCK_NS_PER_S / 10)
enum { MODEST_JOBS = 4 };
/* How long a daemon keeps the record of a job that has ended: who comes late is told so. */
#define KEEP_NS (600 * CLOCK_NS_PER_S)

/* ---- what is known --------------------------------------------------------------------------------------------- */

static uint64_t lease_of(const struct election *e)
{
	return e->control->runtime->config.registry_lease_ms * CLOCK_NS_PER_MS;
}

struct job_record *election_find(const struct control *control, const char *job)
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
	struct job_record *r = election_find(e->control, job);
	if (r || !(r = calloc(1, sizeof(*r))))
		return r;
	snprintf(r->job, sizeof(r->job), "%s", job);
	r->node = NO_NODE;
	r->vacant_ns = clock_now();
	list_push(&e->jobs, &r->link);
	return r;
}

bool election_believes(const struct control *control, const char *job, uint32_t node, uint64_t term)
{
	return coordinator_of(control, job) == node && coordinator_term(control, job) == term;
}

void election_key(const char *job, const char *what, char key[REGISTRY_KEY_MAX])
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
	else
		r->vacant_ns = clock_now();
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

/* A name that is not in our roster, or ours and about to end: under another lease than we have, of an earlier incarnation of this daemon, or given up. */
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

/* The registry tells of what was before that which a node has told us. */
static bool is_past(const struct job_record *r, uint64_t revision)
{
	return r->told && revision < r->term;
}

static void on_record(void *arg, const struct registry_record *record, bool gone)
{
	struct election *e = arg;
	char job[NAME_JOB_MAX];
	if (members_record(e->control, record, gone) || set_aside_record(e->control, record, gone))
		return;
	struct job_record *r = job_of(record->key, COORDINATOR, job) ? get(e, job) : NULL;
	if (!r || is_past(r, gone ? record->changed : record->created))
		return;
	r->told = false;
	if (gone)
		r->retry_ns = 0;
	set_node(e, r, gone ? NO_NODE : node_of(e, r, record), gone ? 0 : record->created);
}

/* The lease may have ended. While the registry is away from the others, too, nobody but this node can tell them. */
static void depose_all(struct election *e)
{
	list_for(it, &e->jobs) {
		struct job_record *r = list_entry(it, struct job_record, link);
		if (r->node != e->control->peers->self)
			continue;
		host_resign(e->control, r->job);
		set_node(e, r, NO_NODE, 0);
	}
}

/* The record may stand until its lease has ended: what was asked before that comes to nothing, and is asked anew when it has. */
void election_resigned(struct control *control, const char *job)
{
	struct job_record *r = election_find(control, job);
	if (r)
		set_node(control->election, r, NO_NODE, 0);
}

bool election_hears(struct control *control, const char *job, uint32_t node, uint64_t term)
{
	struct job_record *r = election_find(control, job);
	bool ours = node == control->peers->self || coordinator_of(control, job) == control->peers->self;
	if (!r || ours || term <= r->term || registry_is_synced(control->registry))
		return false;
	r->told = true;
	set_node(control->election, r, node, term);
	return true;
}

/* The registry is there again. What it had when it was read may be older than what was told: to take that for true would drop the orders of whoever
 * coordinates until the registry tells of it, and these come once. It gets the time of a lease to come to that term. Then its word counts, which may
 * be what it said before: who has told of a term that it never came to has lied. */
static void ask_registry(struct election *e, struct job_record *r)
{
	char key[REGISTRY_KEY_MAX];
	struct registry_record record;
	if (registry_revision(e->control->registry) < r->term && clock_now() < r->told_ns)
		return;
	r->told = false;
	election_key(r->job, COORDINATOR, key);
	bool stands = registry_get(e->control->registry, key, &record);
	set_node(e, r, stands ? node_of(e, r, &record) : NO_NODE, stands ? record.created : 0);
}

/* ---- the registry ---------------------------------------------------------------------------------------------- */

static void on_synced(void *arg)
{
	struct election *e = arg;
	log_info("the registry is followed");
	e->away[0] = '\0';
	list_for(it, &e->jobs) {
		struct job_record *r = list_entry(it, struct job_record, link);
		r->told_ns = clock_now() + lease_of(e);
		if (r->told)
			ask_registry(e, r);
	}
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

/* Only other nodes hear of it: what goes on here without a coordinator would need workers, which have ended. */
static void resign_all(struct election *e)
{
	list_for(it, &e->jobs) {
		const struct job_record *r = list_entry(it, struct job_record, link);
		if (r->node != e->control->peers->self)
			continue;
		host_resign(e->control, r->job);
		host_depose(e->control, r->job);
	}
}

void election_close(struct control *control)
{
	struct election *e = control->election;
	if (e)
		resign_all(e);
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

/* Creates the record, or deletes the one that is ours. heir: what is written with that about who comes next; NULL: what is written goes. */
static void ask_with(struct election *e, struct job_record *r, uint64_t created, const char *name, const char *heir)
{
	char key[REGISTRY_KEY_MAX], next[REGISTRY_KEY_MAX];
	struct registry_record stands;
	election_key(r->job, COORDINATOR, key);
	heir_key(r->job, next);
	bool both = heir || (name && registry_get(e->control->registry, next, &stands));
	struct registry_compare was = {.key = key, .created = true, .revision = created};
	const struct registry_change change[] = {
		{.key = next, .value = heir, .len = heir ? strlen(heir) : 0, .leased = heir},
		{.key = key, .value = name, .len = name ? strlen(name) : 0, .leased = name}};
	int rc = registry_commit(e->control->registry, &was, 1, change + !both, both ? 2 : 1, asked, r);
	r->asked = !rc;
	if (rc)
		r->retry_ns = clock_deadline(RETRY_NS);
}

static void ask(struct election *e, struct job_record *r, uint64_t created, const char *name)
{
	ask_with(e, r, created, name, NULL);
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
	election_key(r->job, COORDINATOR, key);
	return r->given_up && registry_get(e->control->registry, key, &record) && record.created == r->given_up;
}

/* For so long others come first. An heir has the time of a lease, and then all who follow the registry ask at once. Without one, nodes that were cut off
 * see within a lease that nobody coordinates, and ask. */
static uint64_t shyness(const struct election *e, const char *heir)
{
	return heir ? lease_of(e) + MODEST_JOBS * MODEST_NS : 3 * lease_of(e);
}

/* First it coordinates no more, then its record goes: when another one is elected, it does not matter how late this node hears of that. */
static void resign(struct election *e, struct job_record *r, const char *heir)
{
	r->shy_ns = clock_now() + shyness(e, heir);
	r->given_up = r->term;
	set_node(e, r, NO_NODE, 0);
	ask_with(e, r, r->given_up, NULL, heir);
}

static void give_way(struct election *e, struct job_record *r)
{
	char why[WIRE_TEXT_MAX];
	uint32_t reached = host_view(e->control, r->job).attending;
	if (!cut_off_gives_way(e->control, r->job, r->term, reached, why, sizeof(why)))
		return;
	log_warn("job %s: %s: it gives way to another coordinator", r->job, why);
	resign(e, r, NULL);
}

bool election_may_hand_over(const struct control *control, const char *job)
{
	const struct job_record *r = election_find(control, job);
	return r && !r->asked && r->node == control->peers->self && registry_is_synced(control->registry) &&
	       registry_lease_left(control->registry);
}

void election_hand_over(struct control *control, const char *job, uint32_t node)
{
	char heir[HEIR_MAX];
	struct job_record *r = election_find(control, job);
	heir_text(r->term, control->peers->roster->nodes[node].name, heir);
	resign(control->election, r, heir);
}

static unsigned coordinated_by(const struct election *e, uint32_t node)
{
	unsigned n = 0;
	list_for(it, &e->jobs)
		n += list_entry(it, struct job_record, link)->node == node;
	return n;
}

/* So jobs on the same nodes are not all coordinated by the one that looks first. */
static bool is_modest(const struct control *control, const struct job_record *r, uint64_t now)
{
	unsigned jobs = coordinated_by(control->election, control->peers->self);
	return now - r->vacant_ns < (jobs < MODEST_JOBS ? jobs : MODEST_JOBS) * MODEST_NS;
}

static bool may_ask(const struct control *control, const struct job_record *r, uint64_t now)
{
	enum heir heir = heir_of(control, r->job, r->term, r->vacant_ns);
	return heir == HEIR_SELF || (heir == HEIR_NOBODY && now >= r->shy_ns && !is_modest(control, r, now));
}

static void tend(struct election *e, struct job_record *r, uint64_t now)
{
	struct control *control = e->control;
	if (r->told && registry_is_synced(control->registry))
		ask_registry(e, r);
	bool used = in_use(control, r), ours = r->node == control->peers->self;
	r->idle_ns = used ? 0 : r->idle_ns ? r->idle_ns : now;
	bool vacant = used && r->node == NO_NODE; /* then to be elected comes first */
	bool said = vacant || cut_off_tend(control, r->job, r->node, r->term, &r->cut_off);
	if (r->asked || now < r->retry_ns)
		return;
	bool left = leaves_record(e, r);
	if (left)
		ask(e, r, r->given_up, NULL);
	else if (vacant && may_ask(control, r, now) && registry_is_synced(control->registry) &&
		 registry_lease_left(control->registry))
		ask(e, r, 0, control->runtime->config.node);
	else if (ours && !used && now - r->idle_ns > KEEP_NS)
		ask(e, r, r->term, NULL);
	else if (ours && used)
		give_way(e, r);
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
	if (!registry_lease_left(control->registry))
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

/* ---- what is shown ---------------------------------------------------------------------------------------------- */

bool election_look(const struct control *control, struct election_view *view)
{
	const struct election *e = control->election;
	*view = (struct election_view){.away = ""};
	if (!e)
		return false;
	view->synced = registry_is_synced(control->registry);
	view->away = e->away;
	view->transactions = registry_counts(control->registry).transactions;
	view->outages = registry_counts(control->registry).outages;
	view->hand_overs = control->hand_overs;
	view->lease_left_ns = registry_lease_left(control->registry);
	view->coordinates = coordinated_by(e, control->peers->self);
	return true;
}
