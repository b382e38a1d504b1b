#include "fleet.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "cluster/member.h"
#include "config/file.h"
#include "control/election/election.h"
#include "control/host/coordinator_host.h"
#include "control/host/outbox.h"
#include "control/membership/membership.h"
#include "coordinator/assignment.h"
#include "dispatch/peer_dispatch.h"
#include "job/rank/prefault.h"
#include "job/spill.h"
#include "net_sim.h"
#include "registry_sim.h"
#include "replication/replication.h"
#include "runtime/loop.h"
#include "runtime/workers.h"
#include "startup.h"
#include "store/disk/disk.h"
#include "upkeep/gc.h"
#include "upkeep/scrub.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct fleet fleet;
struct fleet_sum fleet_sum;
static const char *more_policies;

void fleet_trace(const char *fmt, ...)
{
	static int on = -1;
	va_list ap;
	if (on < 0)
		on = getenv("CKPT_SIM_TRACE") != NULL;
	if (!on)
		return;
	fprintf(stderr, "%10.6f ", (double)clock_now() / 1e9);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}

/* ---- starting -------------------------------------------------------------------------------------------------------- */

static unsigned port_of(const struct fleet_node *n)
{
	return 7000 + n->id + 100 * n->machine;
}

static void configure(struct fleet_node *n)
{
	struct daemon *d = &n->daemon;
	struct err err = {{0}};
	char text[700], registry[64] = "", place[64];
	if (fleet.registry)
		snprintf(registry, sizeof(registry), "registry = etcd://node:%u/sim\nregistry-lease = 2s\n", n->id);
	snprintf(place, sizeof(place), fleet.members ? "node-address = 127.0.0.1:%u\n" : "cluster = sim\n", port_of(n));
	snprintf(text, sizeof(text),
		 "[node]\nname = n%u\n%s%s%shuge-pages = never\ncluster-key = sim\npeer-timeout = 400ms\n"
		 "[job]\nsave-timeout = 3s\njoin-timeout = 4s\nstall-timeout = 20s\nhang-timeout = 0\ncopies = %u\n"
		 "node-wait = %ums\ninterval = %s\n",
		 n->id, fleet.stored ? "store = " FLEET_STORE "\n" : "", registry, place, fleet.copies,
		 fleet.node_wait_ms, n->id % 3 == 2 ? "none" : "auto");
	int rc = sources_new(&d->runtime.sources, &err);
	if (!rc)
		rc = file_parse(d->runtime.sources, "sim", text, strlen(text), &err);
	if (!rc)
		rc = file_parse(d->runtime.sources, "policies", more_policies, strlen(more_policies), &err);
	SIM_CHECK(!rc, "the configuration: %s", err.text);
	d->runtime.first_sources = d->runtime.sources;
	sources_fill(d->runtime.sources, SCOPE_NODE, NULL, &d->runtime.config);
	throttle_init(&d->storage.writes, &d->runtime.config.write_bandwidth);
	meter_init(&d->storage.reads, d->runtime.config.read_bandwidth);
}

static int enroll(struct fleet_node *n, struct err *err)
{
	AUTO_WBUF struct wbuf text = {0};
	char line[80];
	for (unsigned i = 0; i < fleet.n; i++) {
		int len = snprintf(line, sizeof(line), "n%u 127.0.0.1:%u\n", i, 7000 + i);
		wbuf_put(&text, line, (size_t)len);
	}
	n->daemon.peers.self = n->id;
	return roster_parse("sim", (const char *)text.data, text.len, &n->daemon.peers.roster, err);
}

static struct roster_node as_member(const struct fleet_node *n, uint64_t incarnation)
{
	struct roster_node is = {.host = "127.0.0.1", .port = (uint16_t)port_of(n), .incarnation = incarnation};
	snprintf(is.name, sizeof(is.name), "n%u", n->id);
	return is;
}

void fleet_enlist(bool all)
{
	unsigned n = all ? fleet.n : fleet.n - 1;
	char key[64], text[MEMBER_TEXT_MAX];
	for (unsigned i = 0; i < n; i++) {
		struct member m = {.number = i, .node = as_member(&fleet.nodes[i], 1)};
		snprintf(key, sizeof(key), "cluster/n%u", i);
		member_encode(&m, text);
		registry_sim_put(key, text);
		members_give(i);
	}
	snprintf(text, sizeof(text), "%u", n);
	registry_sim_put("cluster-next", text);
}

/* With what is known of the nodes. */
static int open_all(struct fleet_node *n, struct err *err)
{
	struct daemon *d = &n->daemon;
	int rc = startup_store(d, err);
	if (!rc)
		rc = peers_open(&d->dispatch, err);
	n->joining = false;
	n->up = true;
	n->life++;
	return rc;
}

static int begin_joining(struct fleet_node *n, struct err *err)
{
	struct roster_node self = as_member(n, ++fleet.incarnations);
	n->joining = true;
	return peers_enter(&n->daemon.dispatch, &self, err);
}

static void go_on_joining(struct fleet_node *n)
{
	struct err err = {{0}};
	struct disk_faults none = {0}, were = disk_sim_faults(&none);
	int rc = peers_join(&n->daemon.dispatch, &err);
	SIM_CHECK(rc >= 0, "node %u does not become a member: %s", n->id, err.text);
	if (rc)
		rc = open_all(n, &err);
	SIM_CHECK(!rc, "the daemon of node %u cannot start: %s", n->id, err.text);
	if (n->up)
		members_joined(n);
	disk_sim_faults(&were);
}

void fleet_start(struct fleet_node *n)
{
	if (n->ending)
		return;
	if (n->joining) {
		go_on_joining(n);
		return;
	}
	struct err err = {{0}};
	struct disk_faults none = {0}, were = disk_sim_faults(&none); /* one that cannot start is restarted */
	struct daemon *d = &n->daemon;
	fleet_trace("node %u: its daemon starts", n->id);
	daemon_init(d);
	d->runtime.started_ns = clock_now();
	list_init(&d->jobs.list);
	list_init(&d->control.hosts);
	outbox_init(&d->control.outbox);
	configure(n);
	int rc = loop_new(&d->runtime.loop, &err);
	if (!rc)
		rc = pool_new(1, &d->runtime.pool, &err);
	d->runtime.reader = d->runtime.pool;
	packing_init(&d->storage.packing, d->runtime.pool);
	if (!rc)
		rc = fleet.members ? begin_joining(n, &err) : enroll(n, &err);
	if (!rc && !fleet.members)
		rc = open_all(n, &err);
	SIM_CHECK(!rc, "the daemon of node %u cannot start: %s", n->id, err.text);
	disk_sim_faults(&were);
}

void fleet_begin(unsigned nodes, bool stored, const char *policies)
{
	memset(&fleet, 0, sizeof(fleet));
	fleet_due_begin();
	more_policies = policies;
	fleet.n = nodes;
	fleet.stored = stored;
	fleet.verified = !strstr(policies, "verify = no");
	fleet.slots = ARENA_SLOTS_MIN;
	fleet.node_wait_ms = 1000;
	for (unsigned i = 0; i < nodes; i++)
		fleet.nodes[i] = (struct fleet_node){.id = i, .number = i};
	for (uint32_t r = 0; r < FLEET_PROCESSES_MAX; r++)
		fleet.ranks[r] = (struct fleet_rank){.id = r, .fd = -1, .slot = -1, .next_step = 1};
	if (stored)
		fleet_watch_store();
}

/* ---- living ---------------------------------------------------------------------------------------------------------- */

bool fleet_now_and_then(bool all)
{
	return all || rng_chance(world_rng(), 50);
}

/* Whose the next lines of the log are, and when they were written as the simulated clock has it. */
void fleet_name_log(const struct fleet_node *n)
{
	static char name[32];
	if (log_get_level() < LOG_INFO)
		return;
	snprintf(name, sizeof(name), "%.6f node %u", (double)clock_now() / 1e9, n->id);
	log_set_name(name);
}

struct job *fleet_job(struct fleet_node *n)
{
	return n->up ? job_find(&n->daemon.jobs, FLEET_JOB) : NULL;
}

static void tick(struct fleet_node *n)
{
	struct daemon *d = &n->daemon;
	struct job *job = fleet_job(n);
	struct err err = {{0}};
	peers_tick(&d->dispatch, clock_now());
	if (peers_out(&d->dispatch, &err) && members_put_out(n, &err))
		return;
	hosts_tick(&d->control, clock_now());
	prefaults_tick(&d->jobs);
	spills_tick(&d->jobs);
	if (job && !job_tick(job))
		fleet_each(r) if (r->home == n->id) r->rank = NULL;
	gc_tick(d->storage.gc);
	scrub_tick(d->storage.scrub);
}

static void need(const struct fleet_node *n, const struct wire_epoch *m)
{
	fleet_each(r) if (r->home == n->id) for (uint32_t i = 0; i < m->nlost; i++) if (m->lost[i] == r->id)
		r->finished = false;
}

static void hear_epoch(struct fleet_node *n)
{
	const void *body;
	uint64_t len;
	uint32_t seq;
	struct wire_epoch m;
	SIM_CHECK(client_take(n->launcher, WIRE_EPOCH, &seq, &body, &len) && !wire_epoch_decode(body, len, &m, NULL),
		  "EPOCH cannot be decoded");
	SIM_CHECK(m.epoch >= n->heard, "the launcher of node %u is told of epoch %u after %u", n->id, m.epoch,
		  n->heard);
	n->heard = m.epoch;
	need(n, &m);
}

static void hear_plan(struct fleet_node *n)
{
	const void *body;
	uint64_t len;
	uint32_t seq;
	struct wire_plan plan;
	SIM_CHECK(client_take(n->launcher, WIRE_PLAN, &seq, &body, &len) && !wire_plan_decode(body, len, &plan, NULL) &&
			  !plan.number,
		  "a plan in a world that is fixed");
	SIM_CHECK(fleet_finished(n), "node %u is let go, and its ranks have not finished", n->id);
	fleet_end_launcher(n);
}

/* What the launcher is told, in that order: it may be let go, and hear that a rank is lost after that. */
static void hear(struct fleet_node *n)
{
	for (uint16_t type; n->launcher && (type = client_first(n->launcher, WIRE_EPOCH, WIRE_PLAN));)
		(type == WIRE_EPOCH ? hear_epoch : hear_plan)(n);
	if (n->nranks == fleet.world && fleet_finished(n) && !n->ended)
		fleet_end_launcher(n); /* there are no others */
}

bool fleet_turn(struct fleet_node *n, bool all)
{
	int done = 0;
	if (n->ending && clock_now() >= n->frozen_ns)
		return fleet_turn_ending(n, all);
	if (!n->up || clock_now() < n->frozen_ns)
		return false;
	fleet_name_log(n);
	if (n->daemon.storage.disk && fleet_now_and_then(all))
		done += disk_poll(n->daemon.storage.disk, 0);
	if (fleet_now_and_then(all))
		done += pool_poll(n->daemon.runtime.pool);
	if (fleet_now_and_then(all)) {
		done += net_poll(n->daemon.peers.net);
		peers_poll(&n->daemon.dispatch);
	}
	if (n->daemon.control.registry && fleet_now_and_then(all))
		election_poll(&n->daemon.control);
	if (all || rng_chance(world_rng(), 10)) {
		gc_poll(n->daemon.storage.gc);
		scrub_poll(n->daemon.storage.scrub);
	}
	if (fleet_now_and_then(all))
		tick(n);
	outbox_deliver(&n->daemon.control);
	if (fleet.elastic)
		launcher_hear(n);
	else
		hear(n);
	return done > 0;
}

void fleet_launch(struct fleet_node *n)
{
	struct wire_hello hello = {.protocol_min = 1,
				   .protocol_max = 1,
				   .role = ROLE_LAUNCHER,
				   .world = fleet.world,
				   .local_world = n->nranks,
				   .job = FLEET_JOB};
	struct err err = {{0}};
	struct rank *none;
	struct job *job;
	if (fleet.elastic)
		launcher_greet(n);
	if (!n->up || n->launcher || !n->nranks || n->ended)
		return;
	hello.epoch = launcher_epoch(n);
	struct client *client = client_new();
	if (job_hello(&n->daemon.jobs, client, &hello, getpid(), &job, &none, &err)) {
		client_free(client); /* it tries again */
		return;
	}
	fleet_trace("node %u: its launcher is back", n->id);
	n->launcher = client;
	fleet_each(r) if (r->home == n->id && r->fd >= 0) job_return(job, r->id, dup(r->fd), &err);
}

struct fleet_node *fleet_coordinator(void)
{
	for (unsigned i = 0; i < fleet.n; i++)
		if (fleet.nodes[i].up && host_here(&fleet.nodes[i].daemon.control, FLEET_JOB))
			return &fleet.nodes[i];
	return NULL;
}

uint64_t fleet_term(void)
{
	const struct fleet_node *n = fleet_coordinator();
	return !fleet.registry ? fleet.nodes[0].life : n ? coordinator_term(&n->daemon.control, FLEET_JOB) : 0;
}

void fleet_cut(unsigned from, unsigned to, bool cut)
{
	net_sim_cut(fleet.nodes[from].number, fleet.nodes[to].number, cut);
}

bool fleet_connected(void)
{
	for (unsigned a = 0; a < fleet.n; a++)
		for (unsigned b = 0; b < fleet.n; b++) {
			if (fleet.nodes[a].away || fleet.nodes[b].away)
				continue;
			if (!fleet.nodes[a].up ||
			    (a != b && !net_is_up(fleet.nodes[a].daemon.peers.net, fleet.nodes[b].number)))
				return false;
		}
	return true;
}

uint64_t fleet_faults(void)
{
	return fleet.faults + net_sim_counts()->ended + net_sim_counts()->lost +
	       (fleet.elastic ? fleet.deaths + disk_sim_counts()->errors : 0);
}

uint64_t fleet_shocks(void)
{
	return fleet.cuts + net_sim_counts()->lost + disk_sim_counts()->errors;
}
