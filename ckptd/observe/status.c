#include "observe/status.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "checkpoint/room.h"
#include "cluster/room.h"
#include "control/room.h"
#include "coordinator/room.h"
#include "faults/room.h"
#include "format/arena/flight.h"
#include "format/tensor/dtype.h"
#include "job/room.h"
#include "observe/health.h"
#include "observe/http.h"
#include "observe/interval_json.h"
#include "observe/loss_json.h"
#include "observe/observe.h"
#include "replication/room.h"
#include "restore/room.h"
#include "runtime/room.h"
#include "store/disk/disk.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

static const char *const phases[] = {"idle",       "forward", "backward", "optimizer",
				     "collective", "save",    "restore",  "data"};

/* Counts per bucket, of those that are not empty: {"le_ms":…,"count":…}; the last one has no bound. */
static json_t *histogram_json(const struct histogram *h)
{
	json_t *buckets = json_array();
	for (unsigned i = 0; i <= HISTOGRAM_BOUNDS; i++)
		if (h->buckets[i])
			json_array_append_new(buckets, json_pack("{s:o, s:I}", "le_ms",
								 i < HISTOGRAM_BOUNDS
									 ? plain_json_ms(true, histogram_bound_ns(i))
									 : json_null(),
								 "count", (json_int_t)h->buckets[i]));
	return json_pack("{s:I, s:o, s:o, s:o, s:o}", "count", (json_int_t)h->count, "mean_ms",
			 h->count ? plain_json_ms(true, h->sum_ns / h->count) : json_null(), "p50_ms",
			 h->count ? plain_json_ms(true, histogram_quantile_ns(h, 0.5)) : json_null(), "p99_ms",
			 h->count ? plain_json_ms(true, histogram_quantile_ns(h, 0.99)) : json_null(), "buckets",
			 buckets);
}

static json_t *pace_json(const struct pace *pace)
{
	json_t *j = histogram_json(&pace->steps), *recent = json_array();
	for (uint32_t i = 0; i < pace->nrecent; i++) {
		uint32_t at = (pace->at + PACE_RECENT - pace->nrecent + i) % PACE_RECENT;
		json_array_append_new(recent, json_real(pace->recent_us[at] / 1e3));
	}
	json_object_set_new(j, "recent_ms", recent);
	json_object_set_new(j, "median_ms", pace->nrecent ? json_real(pace_median_us(pace) / 1e3) : json_null());
	return j;
}

/* What it waits for the daemon with, or null. */
static json_t *waits_json(const struct rank *rank)
{
	return rank->registering.seq ? json_string("register")
	       : rank->joining.seq   ? json_string("join")
	       : rank->restoring.seq ? json_string("restore")
				     : json_null();
}

/* A rank goes on while the document is written: what it has done since then is of now. */
static uint64_t age(uint64_t since, uint64_t now)
{
	return since < now ? now - since : 0;
}

/* The one that it is in, or was in last; null: it tells of none. */
static json_t *collective_json(const struct flight_view *is, uint64_t now)
{
	if (!is->since_ns)
		return json_null();
	json_t *dtype = is->dtype ? json_string(dtype_name((enum dtype)is->dtype)) : json_null();
	return json_pack("{s:s, s:I, s:I, s:o, s:b, s:o}", "op", is->op, "number", (json_int_t)is->collective, "bytes",
			 (json_int_t)is->bytes, "dtype", dtype, "in", is->in_collective, "entered_ms",
			 plain_json_ms(true, age(is->since_ns, now)));
}

/* How it compares with the others of the job; null: it is not compared with them. */
static json_t *straggler_json(const struct rank *rank)
{
	const struct straggler_rank *is = &rank->job->stragglers.ranks[rank->index];
	if (!is->compared)
		return json_null();
	return json_pack("{s:b, s:f, s:f, s:f}", "is", is->late, "own", is->own, "ratio", is->ratio, "cost", is->cost);
}

static json_t *rank_json(const struct rank *rank, uint64_t now)
{
	json_t *j = json_pack("{s:i, s:s, s:i, s:b, s:o}", "rank", (int)rank->id, "state", rank_state_name(rank->state),
			      "pid", rank->pid > 0 ? (int)rank->pid : 0, "hung", rank->hung, "waits", waits_json(rank));
	if (!j || !rank->mem)
		return j;
	json_object_set_new(j, "steps", pace_json(&rank->pace));
	struct flight_view is;
	flight_look(rank->mem->head, &is);
	json_object_set_new(j, "arena_bytes", json_integer((json_int_t)rank->mem->size));
	json_object_set_new(j, "page_bytes", json_integer((json_int_t)memory_page_bytes(rank->mem)));
	json_object_set_new(j, "step", json_integer((json_int_t)is.step));
	json_object_set_new(j, "phase",
			    json_string(is.phase < sizeof(phases) / sizeof(phases[0]) ? phases[is.phase] : "?"));
	json_object_set_new(j, "beat_age_ms",
			    is.beat_ns ? json_integer((json_int_t)(age(is.beat_ns, now) / 1000000)) : json_null());
	json_object_set_new(j, "collective", collective_json(&is, now));
	json_object_set_new(j, "straggler", straggler_json(rank));
	json_object_set_new(j, "loss", loss_json_rank(rank));
	return j;
}

static json_t *snapshot_json(const struct snapshot *s)
{
	int rc = snapshot_error(s);
	return json_pack("{s:I, s:i, s:s, s:b, s:b, s:b, s:o}", "step", (json_int_t)s->id.step, "epoch",
			 (int)s->id.epoch, "state", snapshot_state_name(s->state), "in_memory", snapshot_in_memory(s),
			 "to_storage", snapshot_to_storage(s), "stays", s->stays, "error",
			 rc ? plain_json_text(s->err.text) : json_null());
}

/* By what was lost, since this daemon saw the job. */
static json_t *losses_json(const struct recovery_log *all)
{
	uint64_t now = clock_now();
	json_t *kinds = json_object();
	for (uint32_t kind = LOST_RANK; kind < LOST_KINDS; kind++) {
		uint64_t n = recoveries_losses_of(all, (enum lost_kind)kind);
		json_object_set_new(kinds, lost_kind_name((enum lost_kind)kind),
				    json_pack("{s:I, s:o}", "count", (json_int_t)n, "between_s",
					      n ? json_real(recoveries_between(all, n, now)) : json_null()));
	}
	return json_pack("{s:f, s:o}", "observed_s", (double)(now - all->since_ns) / 1e9, "kinds", kinds);
}

static json_t *recoveries_json(const struct job *job)
{
	const struct restore *r = &job->restore;
	const struct recovery_log *all = &job->recovery_log;
	json_t *recent = json_array(),
	       *j = json_pack("{s:i, s:o, s:o}", "count", (int)r->count, "recent", recent, "losses", losses_json(all));
	for (uint32_t i = 0; i < all->n; i++)
		json_array_append_new(recent, recovery_json(job->peers->roster, recoveries_at(all, i)));
	if (j && r->count)
		json_object_set_new(j, "last",
				    json_pack("{s:I, s:i, s:s, s:f, s:o}", "step", (json_int_t)r->last.step, "epoch",
					      (int)r->last.epoch, "source", source_name(r->last_source), "ms",
					      (double)r->last_ns / 1e6, "passed_over", plain_json_text(r->why)));
	return j;
}

static json_t *save_json(const struct save_record *r)
{
	return json_pack("{s:I, s:i, s:I, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:o}", "step",
			 (json_int_t)r->id.step, "epoch", (int)r->id.epoch, "begun_ns", (json_int_t)r->begun_wall_ns,
			 "target", r->to_storage ? "storage" : "memory", "level", level_name(r->level), "captured_ms",
			 plain_json_ms(r->level >= LEVEL_CAPTURED, r->captured_ns), "replicated_ms",
			 plain_json_ms(r->replicated_ns != 0, r->replicated_ns), "durable_ms",
			 plain_json_ms(r->level >= LEVEL_DURABLE, r->durable_ns), "verified_ms",
			 plain_json_ms(r->level >= LEVEL_VERIFIED, r->verified_ns), "write_ms",
			 plain_json_ms(r->level >= LEVEL_DURABLE, r->write_ns), "captured_bytes",
			 (json_int_t)r->captured_bytes, "written_bytes", (json_int_t)r->written_bytes, "error",
			 r->rc ? plain_json_text(r->error) : json_null());
}

/* What the newest save of each level is, and how long saves take to reach it. */
static json_t *level_json(struct step_id id, uint64_t wall_ns, const struct histogram *h)
{
	json_t *j = histogram_json(h);
	json_object_set_new(j, "step", wall_ns ? json_integer((json_int_t)id.step) : json_null());
	json_object_set_new(j, "epoch", wall_ns ? json_integer((json_int_t)id.epoch) : json_null());
	json_object_set_new(j, "at_ns", wall_ns ? json_integer((json_int_t)wall_ns) : json_null());
	return j;
}

static json_t *saves_json(const struct save_stats *m)
{
	json_t *recent = json_array();
	for (uint32_t i = 0; i < m->nsaves; i++)
		json_array_append_new(recent, save_json(&m->saves[i]));
	return json_pack("{s:o, s:o, s:o, s:o, s:I, s:I, s:o, s:o}", "captured",
			 level_json(m->captured_id, m->captured_wall_ns, &m->captured), "replicated",
			 level_json(m->replicated_id, m->replicated_wall_ns, &m->replicated), "durable",
			 level_json(m->durable_id, m->durable_wall_ns, &m->durable), "verified",
			 level_json(m->verified_id, m->verified_wall_ns, &m->verified), "captured_bytes",
			 (json_int_t)m->captured_bytes, "written_bytes", (json_int_t)m->written_bytes, "write_ms",
			 plain_json_ms(true, m->write_ns), "recent", recent);
}

static const char *job_state(const struct job *job)
{
	if (job->dormant_ns)
		return "dormant";
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (job->ranks[r].state != RANK_JOINED)
			return job->fresh ? "forming" : "gathering";
	return job->restore.state == RESTORE_IDLE ? "running" : "restoring";
}

/* What is in effect, as it could stand in a file. */
static json_t *setting_json(const struct setting *setting, const void *base)
{
	char text[SETTING_TEXT_MAX];
	struct value value = value_load(setting, base);
	return plain_json_text(value_print(setting, &value, text, sizeof(text)));
}

static json_t *policy_json(const struct policy *policy)
{
	json_t *j = json_object();
	for (const struct setting *s = settings; s->key; s++)
		if (s->scope == SCOPE_JOB)
			json_object_set_new(j, s->key, setting_json(s, policy));
	return j;
}

/* The node, and what a job without a section of its own gets. */
static json_t *config_json(const struct observe *observe)
{
	struct policy policy;
	json_t *list = json_array();
	sources_fill(observe->runtime->sources, SCOPE_JOB, NULL, &policy);
	for (const struct setting *s = settings; s->key; s++) {
		if (s->scope == SCOPE_USER)
			continue; /* of the system service, which is another process */
		const void *base = s->scope == SCOPE_NODE ? (const void *)&observe->runtime->config : &policy;
		char from[SETTING_TEXT_MAX];
		given_from(sources_find(observe->runtime->sources, s, NULL), from, sizeof(from));
		json_array_append_new(list,
				      json_pack("{s:s, s:s, s:o, s:o}", "section", scope_name(s->scope), "key", s->key,
						"value", setting_json(s, base), "from", plain_json_text(from)));
	}
	return list;
}

static json_t *halt_json(const struct job *job)
{
	if (job->stop || !job->halt.later.kind)
		return json_null();
	if (job->halt.later.kind == COMMAND_HALT_AFTER)
		return json_pack("{s:s}", "when", "after-next");
	return json_pack("{s:s, s:I, s:I}", "when", "before", "before_ns", (json_int_t)job->halt.later.before_ns,
			 "need_ns", (json_int_t)halt_need(job));
}

static void count_holder(json_t *holders, const char *node)
{
	json_t *is = json_object_get(holders, node);
	json_object_set_new(holders, node, json_integer(json_integer_value(is) + 1));
}

/* Which nodes hold copies of what was ordered last, and of how many ranks of this node. *held: how many every rank has. */
static json_t *holders_json(const struct job *job, unsigned *held)
{
	json_t *holders = json_object();
	unsigned nodes[REPLICA_COPIES_MAX], least = REPLICA_COPIES_MAX;
	for (uint32_t r = 0; r < job->nlocal; r++) {
		unsigned n = replica_holders(job->peers->replica, job->name, job->ranks[r].id, job->copies.id, nodes);
		least = n < least ? n : least;
		for (unsigned i = 0; i < n; i++)
			count_holder(holders, job->peers->roster->nodes[nodes[i]].name);
	}
	*held = job->nlocal ? least : 0;
	return holders;
}

static json_t *copies_json(const struct job *job)
{
	const struct copies *c = &job->copies;
	const char *why = job->copying.why.text;
	unsigned held;
	if (!copies_wanted(c))
		return json_null();
	json_t *holders = holders_json(job, &held);
	return json_pack("{s:i, s:o, s:o, s:i, s:o, s:b, s:i, s:o}", "wanted", (int)copies_wanted(c), "step",
			 c->id.epoch ? json_integer((json_int_t)c->id.step) : json_null(), "epoch",
			 c->id.epoch ? json_integer((json_int_t)c->id.epoch) : json_null(), "held", (int)held,
			 "holders", holders, "under_way", (job->copying.todo | job->copying.sending) != 0,
			 "ranks_missing", (int)copying_missing(job), "error",
			 why[0] ? plain_json_text(why) : json_null());
}

static json_t *fault_json(const struct fault_record *f)
{
	bool pending = f->outcome == FAULT_PENDING;
	return json_pack("{s:i, s:s, s:o, s:o, s:I, s:s, s:o, s:o}", "number", (int)f->number, "kind", f->entry->name,
			 "rank", f->entry->target == FAULT_AT_RANK ? json_integer((json_int_t)f->rank) : json_null(),
			 "for_ms", f->for_ms ? json_integer((json_int_t)f->for_ms) : json_null(), "caused_ns",
			 (json_int_t)f->wall_ns, "outcome", fault_outcome_name(f->outcome), "after_ms",
			 plain_json_ms(!pending, f->after_ns), "text", plain_json_text(f->text));
}

static json_t *stragglers_json(const struct straggler_watch *w)
{
	json_t *list = json_array();
	char text[320];
	for (uint32_t i = 0; i < w->nepisodes; i++) {
		const struct straggler_episode *e = &w->episodes[i];
		json_array_append_new(
			list, json_pack("{s:o, s:o, s:I, s:o, s:o, s:f, s:f, s:o, s:o}", "rank",
					e->whole ? json_null() : json_integer(e->rank), "node",
					plain_json_text(e->node), "since_ns", (json_int_t)e->since_wall_ns, "until_ns",
					e->until_wall_ns ? json_integer((json_int_t)e->until_wall_ns) : json_null(),
					"lasted_ms", plain_json_ms(true, e->lasted_ns), "ratio", e->ratio, "cost",
					straggler_cost(e), "cost_ms", plain_json_ms(true, (uint64_t)e->lost_ns), "text",
					plain_json_text(straggler_text(e, text, sizeof(text)))));
	}
	return list;
}

static json_t *standstill_json(const struct job *job, uint64_t now)
{
	const struct standstill *s = &job->standstill;
	if (!s->is)
		return json_null();
	return json_pack("{s:o, s:o, s:o, s:o, s:o}", "for_ms", plain_json_ms(s->since_ns <= now, now - s->since_ns),
			 "after_ms", plain_json_ms(true, s->after_ns), "rank",
			 s->named ? json_integer((json_int_t)s->rank) : json_null(), "node",
			 s->named ? plain_json_text(s->node) : json_null(), "text", plain_json_text(s->text));
}

static json_t *faults_json(const struct faults *faults, const struct job *job)
{
	json_t *list = json_array();
	const struct fault_record *f;
	for (uint32_t i = 0; faults && (f = fault_log_at(faults_log(faults), i)); i++)
		if (!strcmp(f->job, job->name))
			json_array_append_new(list, fault_json(f));
	return list;
}

static json_t *job_json(const struct observe *observe, struct job *job, uint64_t now)
{
	json_t *ranks = json_array(), *snapshots = json_array();
	for (uint32_t r = 0; r < job->nlocal; r++)
		json_array_append_new(ranks, rank_json(&job->ranks[r], now));
	list_for(node, &job->saves.snapshots)
		json_array_append_new(snapshots, snapshot_json(list_entry(node, struct snapshot, link)));
	return json_pack(
		"{s:s, s:i, s:i, s:s, s:b, s:o, s:o, s:o, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
		"name", job->name, "world", (int)job->world, "epoch", (int)job->epoch, "state", job_state(job),
		"stopping", job->stop, "halt", halt_json(job), "ranks", ranks, "snapshots", snapshots, "committed",
		(json_int_t)job->saves.committed, "failed", (json_int_t)job->saves.failed, "verified",
		(json_int_t)job->saves.verified, "saves", saves_json(&job->save_stats), "copies", copies_json(job),
		"recoveries", recoveries_json(job), "faults", faults_json(observe->faults, job), "stragglers",
		stragglers_json(&job->stragglers), "standstill", standstill_json(job, now), "loss", loss_json(job),
		"interval", interval_json(job), "policy", policy_json(&job->policy));
}

static json_t *disk_json(const struct observe *observe)
{
	struct space_view space = space_get(observe->storage->space);
	return json_pack("{s:o, s:o, s:o}", "engine",
			 observe->storage->disk ? json_string(disk_engine(observe->storage->disk)) : json_null(),
			 "free_bytes", space.known ? json_integer((json_int_t)space.free_bytes) : json_null(),
			 "total_bytes", space.known ? json_integer((json_int_t)space.total_bytes) : json_null());
}

static json_t *finding_json(const struct finding *f)
{
	return json_pack("{s:s, s:s, s:o, s:o, s:s}", "code", health_code_name(f->code), "severity",
			 health_severity_name(f->severity), "job", *f->job ? plain_json_text(f->job) : json_null(),
			 "text", plain_json_text(f->text), "remedy", health_remedy(f->code));
}

static json_t *health_of(struct observe *observe)
{
	enum health_severity severity;
	AUTO_FREE struct finding *found = calloc(HEALTH_MAX, sizeof(*found));
	json_t *findings = json_array();
	if (!found)
		return json_null();
	unsigned n = health_find(observe, found, HEALTH_MAX, &severity);
	for (unsigned i = 0; i < n; i++)
		json_array_append_new(findings, finding_json(&found[i]));
	return json_pack("{s:s, s:o}", "status", health_status_name(severity), "findings", findings);
}

static json_t *registry_json(const struct observe *observe)
{
	struct election_view v;
	if (!election_look(observe->control, &v))
		return json_null();
	return json_pack("{s:b, s:o, s:o, s:i}", "synced", v.synced, "away",
			 v.synced || !*v.away ? json_null() : plain_json_text(v.away), "lease_left_ms",
			 plain_json_ms(v.lease_left_ns != 0, v.lease_left_ns), "coordinates", (int)v.coordinates);
}

static const char *node_state(const struct observe *observe, unsigned node, bool there)
{
	if (node == observe->peers->self || net_is_up(observe->peers->net, node))
		return "up";
	return there ? "unreachable" : "away";
}

/* What only the registry knows is null without one. */
static json_t *node_json(const struct observe *observe, unsigned node)
{
	const struct roster_node *n = &observe->peers->roster->nodes[node];
	char address[ROSTER_TEXT_MAX], incarnation[20];
	struct member_view v;
	bool member = members_look(observe->control, node, &v);
	const char *why = set_aside_why(observe->control, node);
	json_t *labels = json_object();
	if (*n->rack)
		json_object_set_new(labels, "rack", json_string(n->rack));
	if (*n->switch_name)
		json_object_set_new(labels, "switch", json_string(n->switch_name));
	snprintf(incarnation, sizeof(incarnation), "%016" PRIx64, v.member.node.incarnation);
	return json_pack(
		"{s:s, s:b, s:b, s:s, s:s, s:o, s:o, s:o, s:o}", "name", n->name, "self", node == observe->peers->self,
		"up", node == observe->peers->self || net_is_up(observe->peers->net, node), "state",
		node_state(observe, node, member && v.there), "address", node_record_text(n, address, sizeof(address)),
		"labels", labels, "incarnation", member ? json_string(incarnation) : json_null(), "since_ns",
		member ? json_integer((json_int_t)(v.member.since_ms * CLOCK_NS_PER_MS)) : json_null(), "set_aside",
		*why ? plain_json_text(why) : json_null());
}

static json_t *cluster_json(const struct observe *observe)
{
	json_t *nodes = json_array();
	if (!observe->peers->replica) {
		json_decref(nodes);
		return json_null();
	}
	for (unsigned i = 0; i < observe->peers->roster->n; i++)
		if (roster_has(observe->peers->roster, i))
			json_array_append_new(nodes, node_json(observe, i));
	const struct replica_counts *n = replica_counts(observe->peers->replica);
	return json_pack("{s:o, s:o, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "nodes", nodes, "registry",
			 registry_json(observe), "sealed", setting_seals_copies(&observe->runtime->config), "sent",
			 (json_int_t)n->sent, "sent_bytes", (json_int_t)n->sent_bytes, "send_failed",
			 (json_int_t)n->send_failed, "remade", (json_int_t)n->remade, "held", (json_int_t)n->held,
			 "refused", (json_int_t)n->refused, "served", (json_int_t)n->served, "fetched",
			 (json_int_t)n->fetched, "fetch_failed", (json_int_t)n->fetch_failed);
}

static json_t *assignment_node_json(const struct observe *observe, const struct membership_view *v, uint32_t n)
{
	const struct assignment_node *node = &v->assignment->nodes[n];
	return json_pack("{s:s, s:i, s:i, s:b, s:b}", "node",
			 v->spread ? observe->peers->roster->nodes[n].name : observe->runtime->config.node, "processes",
			 (int)node->offers, "ranks", (int)node->has, "spare", node->spare, "leaving", node->leaving);
}

/* Of the jobs that are coordinated here and whose world may change. */
static json_t *assignments_json(const struct observe *observe)
{
	json_t *assignments = json_array();
	const struct membership *at = NULL;
	struct membership_view v;
	while (membership_next(observe->control, &at, &v)) {
		json_t *nodes = json_array();
		for (uint32_t n = 0; n < v.assignment->nnodes; n++)
			if (v.assignment->nodes[n].offers || v.assignment->nodes[n].leaving)
				json_array_append_new(nodes, assignment_node_json(observe, &v, n));
		json_array_append_new(assignments,
				      json_pack("{s:s, s:i, s:i, s:i, s:i, s:b, s:o, s:o}", "job", v.job, "plan",
						(int)v.assignment->number, "world", (int)v.assignment->world, "want",
						(int)v.assignment->want, "least", (int)v.assignment->least, "changing",
						v.quiescing, "stuck", *v.stuck ? plain_json_text(v.stuck) : json_null(),
						"nodes", nodes));
	}
	return assignments;
}

static json_t *daemon_json(struct observe *observe)
{
	uint64_t now = clock_now();
	json_t *jobs = json_array();
	list_for(node, &observe->jobs->list)
		json_array_append_new(jobs, job_json(observe, list_entry(node, struct job, link), now));
	return json_pack(
		"{s:i, s:s, s:s, s:f, s:I, s:o, s:o, s:{s:I, s:I, s:I}, s:o, s:o, s:o, s:o, s:o, s:o}", "schema", 1,
		"node", observe->runtime->config.node, "version", CKPT_VERSION, "uptime_s",
		(double)(now - observe->runtime->started_ns) / 1e9, "now_ns", (json_int_t)clock_wall(), "store",
		observe->runtime->config.store ? plain_json_text(observe->runtime->config.store) : json_null(), "http",
		observe->http ? json_string(http_address(observe->http)) : json_null(), "memory", "used",
		(json_int_t)observe->runtime->memory.arenas, "copies", (json_int_t)observe->runtime->memory.copies,
		"limit", (json_int_t)observe->runtime->config.memory_limit, "disk", disk_json(observe), "cluster",
		cluster_json(observe), "health", health_of(observe), "jobs", jobs, "worlds", assignments_json(observe),
		"config", config_json(observe));
}

int status_encode(struct observe *observe, struct wbuf *out)
{
	json_t *j = daemon_json(observe);
	char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;
	json_decref(j);
	if (!text)
		return -ENOMEM;
	wbuf_put(out, text, strlen(text));
	free(text);
	return wbuf_finish(out);
}
