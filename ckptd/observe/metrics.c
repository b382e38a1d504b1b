#include "observe/metrics.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "checkpoint/room.h"
#include "cluster/room.h"
#include "control/room.h"
#include "job/room.h"
#include "observe/health.h"
#include "observe/machine_metrics.h"
#include "observe/metric_text.h"
#include "observe/observe.h"
#include "replication/room.h"
#include "runtime/room.h"

/* ---- whose it is ------------------------------------------------------------------------------------------------ */

/* Not "job", which is Prometheus' own label for what it scrapes. */
static struct labels of_job(const struct job *job)
{
	return (struct labels){.name = {"job_name"}, .value = {job->name}, .rank = -1};
}

static struct labels of_rank(const struct rank *rank)
{
	struct labels l = of_job(rank->job);
	l.rank = (int)rank->id;
	return l;
}

/* ---- of the daemon --------------------------------------------------------------------------------------------- */

static void gauge(struct wbuf *out, const char *name, const char *help, uint64_t value)
{
	metric_family(out, name, "gauge", help);
	metric_sample(out, name, no_labels, value);
}

static void put_health(struct observe *observe, struct wbuf *out)
{
	enum health_severity severity;
	AUTO_FREE struct finding *found = calloc(HEALTH_MAX, sizeof(*found));
	if (!found) {
		out->failed = true;
		return;
	}
	unsigned n = health_find(observe, found, HEALTH_MAX, &severity);
	gauge(out, "ckpt_health_status", "0 ok, 1 degraded, 2 failing.", severity);
	metric_family(out, "ckpt_health_finding", "gauge",
		      "1 for each finding of /healthz; job_name is empty when it is of the daemon.");
	for (unsigned i = 0; i < n; i++)
		metric_sample(out, "ckpt_health_finding",
			      labels_and(labels_and(no_labels, "code", health_code_name(found[i].code)), "job_name",
					 found[i].job),
			      1);
}

static void put_cluster(struct observe *observe, struct wbuf *out)
{
	const struct replica_counts *n = replica_counts(observe->peers->replica);
	const struct {
		const char *name, *help;
		uint64_t value;
	} counters[] = {
		{"ckpt_copies_sent_total", "Copies that other nodes hold.", n->sent},
		{"ckpt_copies_sent_bytes_total", "Sent to other nodes.", n->sent_bytes},
		{"ckpt_copies_send_failed_total", "Copies that a node did not take.", n->send_failed},
		{"ckpt_copies_remade_total", "Made anew since a holder was lost.", n->remade},
		{"ckpt_copies_held_total", "Copies that this node has taken for others.", n->held},
		{"ckpt_copies_refused_total", "Of others, refused here.", n->refused},
		{"ckpt_copies_served_total", "Copies that others have read here.", n->served},
		{"ckpt_copies_fetched_total", "Copies fetched from other nodes.", n->fetched},
		{"ckpt_copies_fetch_failed_total", "Fetches that failed.", n->fetch_failed},
	};
	metric_family(out, "ckpt_node_up", "gauge", "1: there is a session with that node.");
	for (unsigned i = 0; i < observe->peers->roster->n; i++)
		if (roster_has(observe->peers->roster, i) && i != observe->peers->self)
			metric_sample(out, "ckpt_node_up",
				      labels_and(no_labels, "node", observe->peers->roster->nodes[i].name),
				      net_is_up(observe->peers->net, i));
	metric_family(out, "ckpt_node_set_aside", "gauge", "1: other nodes are preferred to that one.");
	for (unsigned i = 0; i < observe->peers->roster->n; i++)
		if (roster_has(observe->peers->roster, i))
			metric_sample(out, "ckpt_node_set_aside",
				      labels_and(no_labels, "node", observe->peers->roster->nodes[i].name),
				      *set_aside_why(observe->control, i) != 0);
	for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
		metric_family(out, counters[i].name, "counter", counters[i].help);
		metric_sample(out, counters[i].name, no_labels, counters[i].value);
	}
}

static void put_registry(struct observe *observe, struct wbuf *out)
{
	struct election_view v;
	if (!election_look(observe->control, &v))
		return;
	gauge(out, "ckpt_registry_synced", "1: the registry is followed; 0: it is away.", v.synced);
	gauge(out, "ckpt_registry_coordinated_jobs", "Jobs that this node coordinates.", v.coordinates);
	metric_family(out, "ckpt_hand_overs_total", "counter",
		      "Jobs handed over to another coordinator, since the way to a node was cut.");
	metric_sample(out, "ckpt_hand_overs_total", no_labels, v.hand_overs);
	metric_family(out, "ckpt_registry_transactions_total", "counter", "Asked of the registry.");
	metric_sample(out, "ckpt_registry_transactions_total", no_labels, v.transactions);
	metric_family(out, "ckpt_registry_outages_total", "counter", "Times that the registry was away.");
	metric_sample(out, "ckpt_registry_outages_total", no_labels, v.outages);
}

static void put_daemon(struct observe *observe, struct wbuf *out)
{
	struct space_view space = space_get(observe->storage->space);
	metric_family(out, "ckpt_build_info", "gauge", "The release, and the name of the node.");
	metric_sample(out, "ckpt_build_info",
		      labels_and(labels_and(no_labels, "version", CKPT_VERSION), "node", observe->runtime->config.node),
		      1);
	metric_family(out, "ckpt_uptime_seconds", "gauge", "Since the daemon was started.");
	metric_seconds(out, "ckpt_uptime_seconds", no_labels, clock_now() - observe->runtime->started_ns);
	gauge(out, "ckpt_memory_used_bytes", "Of the arenas of all jobs.", observe->runtime->memory.arenas);
	gauge(out, "ckpt_memory_tables_bytes", "Counted towards the limit for what is registered.",
	      observe->runtime->memory.tables);
	gauge(out, "ckpt_memory_copies_bytes", "Of what is held for ranks of other nodes.",
	      observe->runtime->memory.copies);
	gauge(out, "ckpt_memory_limit_bytes", "The ceiling of these together.", observe->runtime->config.memory_limit);
	if (space.known) {
		gauge(out, "ckpt_store_free_bytes", "Of the store's file system, for this user.", space.free_bytes);
		gauge(out, "ckpt_store_size_bytes", "Of the store's file system.", space.total_bytes);
	}
	if (observe->peers->replica)
		put_cluster(observe, out);
	machine_metrics(observe->runtime->machine, out);
	put_registry(observe, out);
	put_health(observe, out);
}

/* ---- of the jobs ----------------------------------------------------------------------------------------------- */

#define EACH_JOB(observe, job)                                                                                         \
	for (struct list *node_ = (observe)->jobs->list.next; node_ != &(observe)->jobs->list; node_ = node_->next)    \
		for (const struct job *job = list_entry(node_, struct job, link); job; job = NULL)

/* A number of each job; ns: it is shown in seconds. */
struct job_metric {
	const char *name, *type, *help;
	uint64_t (*of)(const struct job *job);
	bool ns;
};

static uint64_t ranks_joined(const struct job *job)
{
	uint64_t n = 0;
	for (uint32_t r = 0; r < job->nlocal; r++)
		n += job->ranks[r].state == RANK_JOINED;
	return n;
}

#define OF(name, expression)                                                                                           \
	static uint64_t name(const struct job *job)                                                                    \
	{                                                                                                              \
		return expression;                                                                                     \
	}
OF(world, job->world)
OF(epoch, job->epoch)
OF(standstill, job->standstill.is)
OF(stragglers, straggler_watch_late(&job->stragglers))
OF(ncaptured, job->save_stats.ncaptured)
OF(nreplicated, job->save_stats.nreplicated)
OF(ncommitted, job->saves.committed)
OF(nverified, job->saves.verified)
OF(captured_bytes, job->save_stats.captured_bytes)
OF(written_bytes, job->save_stats.written_bytes)
OF(write_ns, job->save_stats.write_ns)
OF(captured_at, job->save_stats.captured_wall_ns)
OF(replicated_at, job->save_stats.replicated_wall_ns)
OF(durable_at, job->save_stats.durable_wall_ns)
OF(verified_at, job->save_stats.verified_wall_ns)
OF(captured_step, job->save_stats.captured_id.step)
OF(replicated_step, job->save_stats.replicated_id.step)
OF(durable_step, job->save_stats.durable_id.step)
OF(verified_step, job->save_stats.verified_id.step)
#undef OF

static const struct job_metric job_metrics[] = {
	{"ckpt_job_ranks", "gauge", "World size.", world, false},
	{"ckpt_job_ranks_joined", "gauge", "Ranks that take part in the epoch.", ranks_joined, false},
	{"ckpt_job_epoch", "gauge", "The epoch; it rises with each loss.", epoch, false},
	{"ckpt_job_standstill", "gauge", "1: no rank of the job has given a heartbeat for far longer than a step.",
	 standstill, false},
	{"ckpt_job_stragglers", "gauge", "Ranks and nodes of the job that are late again and again, wherever they are.",
	 stragglers, false},
	{"ckpt_saves_captured_total", "counter", "Saves that were complete in memory on every rank.", ncaptured, false},
	{"ckpt_saves_replicated_total", "counter", "Saves of which other nodes held copies for every rank.",
	 nreplicated, false},
	{"ckpt_saves_durable_total", "counter", "Saves that were committed on storage.", ncommitted, false},
	{"ckpt_saves_verified_total", "counter", "Saves that were read back from storage and matched.", nverified,
	 false},
	{"ckpt_captured_bytes_total", "counter", "Captured into memory.", captured_bytes, false},
	{"ckpt_written_bytes_total", "counter", "Written to storage by commits that succeeded.", written_bytes, false},
	{"ckpt_write_seconds_total", "counter",
	 "Spent on these commits, from their start until durable, but for waits for what was still captured.", write_ns,
	 true},
	{"ckpt_last_captured_timestamp_seconds", "gauge", "When a save was last captured; 0: never.", captured_at,
	 true},
	{"ckpt_last_replicated_timestamp_seconds", "gauge", "When a save was last replicated; 0: never.", replicated_at,
	 true},
	{"ckpt_last_durable_timestamp_seconds", "gauge", "When a save was last durable; 0: never.", durable_at, true},
	{"ckpt_last_verified_timestamp_seconds", "gauge", "When a save was last verified; 0: never.", verified_at,
	 true},
	{"ckpt_last_captured_step", "gauge", "The step of that save.", captured_step, false},
	{"ckpt_last_replicated_step", "gauge", "The step of that save.", replicated_step, false},
	{"ckpt_last_durable_step", "gauge", "The step of that save.", durable_step, false},
	{"ckpt_last_verified_step", "gauge", "The step of that save.", verified_step, false},
};

static void put_numbers(struct observe *observe, struct wbuf *out)
{
	for (size_t i = 0; i < sizeof(job_metrics) / sizeof(job_metrics[0]); i++) {
		const struct job_metric *m = &job_metrics[i];
		metric_family(out, m->name, m->type, m->help);
		EACH_JOB(observe, job)(m->ns ? metric_seconds : metric_sample)(out, m->name, of_job(job), m->of(job));
	}
	metric_family(out, "ckpt_saves_failed_total", "counter",
		      "Saves that did not get as far as was asked, by reason.");
	EACH_JOB(observe, job)
	for (int why = 0; why < SAVE_FAILURE_END; why++)
		metric_sample(out, "ckpt_saves_failed_total",
			      labels_and(of_job(job), "reason", save_failure_name((enum save_failure)why)),
			      job->save_stats.failed[why]);
}

static double every_of(const struct job_interval *i, const struct interval_tier *t, uint64_t every)
{
	(void)i, (void)t;
	return (double)every;
}

static double seconds_of(const struct job_interval *i, const struct interval_tier *t, uint64_t every)
{
	(void)t;
	return (double)every * i->measure.step;
}

static double cost_of(const struct job_interval *i, const struct interval_tier *t, uint64_t every)
{
	(void)i, (void)every;
	return t->cost;
}

static double mtbf_of(const struct job_interval *i, const struct interval_tier *t, uint64_t every)
{
	(void)i, (void)every;
	return t->mtbf;
}

/* Of jobs whose ranks ask what is due. */
static const struct {
	const char *name, *help;
	double (*of)(const struct job_interval *i, const struct interval_tier *t, uint64_t every);
} interval_metrics[] = {
	{"ckpt_interval_steps", "A save is due every so many steps, by tier; 0: never.", every_of},
	{"ckpt_interval_seconds", "How long these steps take.", seconds_of},
	{"ckpt_interval_cost_seconds", "What a save keeps training from, as far as the interval follows from it.",
	 cost_of},
	{"ckpt_interval_mtbf_seconds", "The time between failures that the interval follows from.", mtbf_of},
};

static void put_kinds(struct observe *observe, struct wbuf *out)
{
	metric_family(out, "ckpt_losses_by_kind_total", "counter", "The same, by what was lost.");
	EACH_JOB(observe, job)
	for (uint32_t kind = LOST_RANK; kind < LOST_KINDS; kind++)
		metric_sample(out, "ckpt_losses_by_kind_total",
			      labels_and(of_job(job), "kind", lost_kind_name((enum lost_kind)kind)),
			      recoveries_losses_of(&job->recovery_log, (enum lost_kind)kind));
	metric_family(
		out, "ckpt_between_losses_seconds", "gauge",
		"Mean time between losses of the kind, since this daemon saw the job; of kinds that it has seen.");
	EACH_JOB(observe, job)
	for (uint32_t kind = LOST_RANK; kind < LOST_KINDS; kind++) {
		uint64_t n = recoveries_losses_of(&job->recovery_log, (enum lost_kind)kind);
		if (n)
			metric_real(out, "ckpt_between_losses_seconds",
				    labels_and(of_job(job), "kind", lost_kind_name((enum lost_kind)kind)),
				    recoveries_between(&job->recovery_log, n, clock_now()));
	}
}

static void put_intervals(struct observe *observe, struct wbuf *out)
{
	for (size_t m = 0; m < sizeof(interval_metrics) / sizeof(interval_metrics[0]); m++) {
		metric_family(out, interval_metrics[m].name, "gauge", interval_metrics[m].help);
		EACH_JOB(observe, job)
		{
			const struct job_interval *i = &job->interval;
			if (!i->plan.steps)
				continue;
			metric_real(out, interval_metrics[m].name, labels_and(of_job(job), "tier", "memory"),
				    interval_metrics[m].of(i, &i->plan.memory, i->held.memory_every));
			metric_real(out, interval_metrics[m].name, labels_and(of_job(job), "tier", "storage"),
				    interval_metrics[m].of(i, &i->plan.storage, i->held.storage_every));
		}
	}
	metric_family(out, "ckpt_losses_total", "counter",
		      "Restores that followed from a loss, by where the state came from; none: there was nothing to "
		      "restore.");
	EACH_JOB(observe, job)
	for (uint32_t source = 0; source <= WIRE_FROM_STORAGE; source++)
		metric_sample(out, "ckpt_losses_total", labels_and(of_job(job), "source", source_name(source)),
			      recoveries_losses_from(&job->recovery_log, source));
	put_kinds(observe, out);
}

static void put_histograms(struct observe *observe, struct wbuf *out)
{
	metric_family(out, "ckpt_save_captured_seconds", "histogram", "From begin until captured on every rank.");
	EACH_JOB(observe, job)
	metric_histogram(out, "ckpt_save_captured_seconds", of_job(job), &job->save_stats.captured);
	metric_family(out, "ckpt_save_replicated_seconds", "histogram", "From begin until held by other nodes, too.");
	EACH_JOB(observe, job)
	metric_histogram(out, "ckpt_save_replicated_seconds", of_job(job), &job->save_stats.replicated);
	metric_family(out, "ckpt_save_durable_seconds", "histogram", "From begin until committed on storage.");
	EACH_JOB(observe, job)
	metric_histogram(out, "ckpt_save_durable_seconds", of_job(job), &job->save_stats.durable);
	metric_family(out, "ckpt_save_verified_seconds", "histogram", "From begin until read back and matched.");
	EACH_JOB(observe, job)
	metric_histogram(out, "ckpt_save_verified_seconds", of_job(job), &job->save_stats.verified);
	metric_family(out, "ckpt_recovery_gather_seconds", "histogram",
		      "From a new epoch until all ranks ask for the restore: replacing and joining.");
	EACH_JOB(observe, job)
	metric_histogram(out, "ckpt_recovery_gather_seconds", of_job(job), &job->recovery_log.gather);
	metric_family(
		out, "ckpt_recovery_seconds", "histogram",
		"From the last heartbeat of who was lost, or what is first known, until all ranks have done a new "
		"step.");
	EACH_JOB(observe, job) metric_histogram(out, "ckpt_recovery_seconds", of_job(job), &job->recovery_log.total);
	metric_family(out, "ckpt_restore_seconds", "histogram",
		      "From when all ranks have asked until the daemon has what they restore, by source.");
	EACH_JOB(observe, job)
	for (uint32_t source = WIRE_FROM_MEMORY; source <= WIRE_FROM_STORAGE; source++)
		metric_histogram(out, "ckpt_restore_seconds", labels_and(of_job(job), "source", source_name(source)),
				 &job->recovery_log.restore[source]);
}

/* ---- of the ranks ---------------------------------------------------------------------------------------------- */

static void put_rank_numbers(struct observe *observe, struct wbuf *out)
{
	uint64_t now = clock_now();
	metric_family(out, "ckpt_rank_joined", "gauge", "1: the rank takes part in the epoch.");
	EACH_JOB(observe, job)
	for (uint32_t r = 0; r < job->nlocal; r++)
		metric_sample(out, "ckpt_rank_joined", of_rank(&job->ranks[r]), job->ranks[r].state == RANK_JOINED);
	metric_family(out, "ckpt_rank_hung", "gauge", "1: no heartbeat for the hang timeout.");
	EACH_JOB(observe, job)
	for (uint32_t r = 0; r < job->nlocal; r++)
		metric_sample(out, "ckpt_rank_hung", of_rank(&job->ranks[r]), job->ranks[r].hung);
	metric_family(out, "ckpt_rank_arena_bytes", "gauge", "Of the rank's arena.");
	EACH_JOB(observe, job)
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (job->ranks[r].mem)
			metric_sample(out, "ckpt_rank_arena_bytes", of_rank(&job->ranks[r]), job->ranks[r].mem->size);
	metric_family(out, "ckpt_rank_step", "gauge", "The step of the last heartbeat.");
	EACH_JOB(observe, job)
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (job->ranks[r].mem)
			metric_sample(out, "ckpt_rank_step", of_rank(&job->ranks[r]),
				      atomic_load(&job->ranks[r].mem->head->flight.step));
	metric_family(out, "ckpt_rank_heartbeat_age_seconds", "gauge", "Since the last heartbeat.");
	EACH_JOB(observe, job)
	for (uint32_t r = 0; r < job->nlocal; r++) {
		uint64_t beat = job->ranks[r].mem ? atomic_load(&job->ranks[r].mem->head->flight.beat_ns) : 0;
		if (beat && beat <= now)
			metric_seconds(out, "ckpt_rank_heartbeat_age_seconds", of_rank(&job->ranks[r]), now - beat);
	}
}

/* Of this node as a whole. */
static void put_late_node(struct observe *observe, struct wbuf *out)
{
	metric_family(out, "ckpt_node_straggler", "gauge",
		      "1: the ranks here are late again and again, and those of other nodes wait for them.");
	EACH_JOB(observe, job)
	if (job->spread)
		metric_sample(out, "ckpt_node_straggler", of_job(job), straggler_watch_here(job) != NULL);
	metric_family(out, "ckpt_node_straggler_cost_ratio", "gauge",
		      "Share of the time for which other nodes have waited for this one alone, at most.");
	EACH_JOB(observe, job)
	{
		const struct straggler_episode *e = straggler_watch_here(job);
		if (job->spread)
			metric_real(out, "ckpt_node_straggler_cost_ratio", of_job(job), e ? straggler_cost(e) : 0);
	}
}

static void put_stragglers(struct observe *observe, struct wbuf *out)
{
	metric_family(out, "ckpt_rank_collective_seconds_total", "counter",
		      "In collectives that the rank has left, by its flight record.");
	EACH_JOB(observe, job)
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (job->ranks[r].mem)
			metric_seconds(out, "ckpt_rank_collective_seconds_total", of_rank(&job->ranks[r]),
				       atomic_load(&job->ranks[r].mem->head->waited.ns));
	metric_family(out, "ckpt_rank_straggler", "gauge",
		      "1: the rank is late again and again, and the others wait for it.");
	EACH_JOB(observe, job)
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (job->stragglers.ranks[r].compared)
			metric_sample(out, "ckpt_rank_straggler", of_rank(&job->ranks[r]),
				      job->stragglers.ranks[r].late);
	metric_family(out, "ckpt_rank_straggler_cost_ratio", "gauge",
		      "Share of the time for which the others wait for this rank alone, at most.");
	EACH_JOB(observe, job)
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (job->stragglers.ranks[r].compared)
			metric_real(out, "ckpt_rank_straggler_cost_ratio", of_rank(&job->ranks[r]),
				    job->stragglers.ranks[r].cost);
	put_late_node(observe, out);
}

static void put_loss(struct observe *observe, struct wbuf *out)
{
	metric_family(out, "ckpt_job_loss", "gauge", "Of the last step: the median of the ranks here.");
	EACH_JOB(observe, job)
	if (job->loss.now.steps)
		metric_real(out, "ckpt_job_loss", of_job(job), job->loss.now.value);
	metric_family(out, "ckpt_job_gradient_norm", "gauge", "Of the last step, before gradients are clipped.");
	EACH_JOB(observe, job)
	if (job->loss.now.steps && !(job->loss.now.norm < 0))
		metric_real(out, "ckpt_job_gradient_norm", of_job(job), job->loss.now.norm);
	metric_family(out, "ckpt_loss_troubles_total", "counter",
		      "Times that the loss was no number, or rose as a spike or for good, by kind.");
	EACH_JOB(observe, job)
	for (int kind = LOSS_GOOD + 1; kind < LOSS_TROUBLE_END; kind++)
		metric_sample(out, "ckpt_loss_troubles_total",
			      labels_and(of_job(job), "kind", loss_trouble_name((enum loss_trouble)kind)),
			      job->loss.counts[kind]);
}

static void put_ranks(struct observe *observe, struct wbuf *out)
{
	put_rank_numbers(observe, out);
	put_stragglers(observe, out);
	metric_family(out, "ckpt_step_seconds", "histogram", "How long the steps of a rank take, by its heartbeats.");
	EACH_JOB(observe, job)
	for (uint32_t r = 0; r < job->nlocal; r++)
		metric_histogram(out, "ckpt_step_seconds", of_rank(&job->ranks[r]), &job->ranks[r].pace.steps);
}

int metrics_encode(struct observe *observe, struct wbuf *out)
{
	put_daemon(observe, out);
	put_numbers(observe, out);
	put_intervals(observe, out);
	put_loss(observe, out);
	put_histograms(observe, out);
	put_ranks(observe, out);
	return wbuf_finish(out);
}
