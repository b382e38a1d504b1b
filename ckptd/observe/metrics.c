#include "observe/metrics.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "checkpoint/room.h"
#include "cluster/room.h"
#include "control/room.h"
#include "format/document/json_out.h"
#include "job/room.h"
#include "observe/health.h"
#include "observe/observe.h"
#include "replication/room.h"
#include "runtime/room.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- the format ------------------------------------------------------------------------------------------------ */

/* One label or two of a sample. A rank is a number, all else is text. */
struct labels {
	const char *name[2], *value[2];
	int rank; /* -1: none */
};

static const struct labels no_labels = {.rank = -1};

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

static struct labels and (struct labels l, const char *name, const char *value)
{
	unsigned at = l.name[0] ? 1 : 0;
	l.name[at] = name;
	l.value[at] = value;
	return l;
}

static void put_value(struct wbuf *out, const char *text)
{
	wbuf_u8(out, '"');
	for (; *text; text++) {
		if (*text == '\n') {
			jout_raw(out, "\\n");
			continue;
		}
		if (*text == '"' || *text == '\\')
			wbuf_u8(out, '\\');
		wbuf_u8(out, (uint8_t)*text);
	}
	wbuf_u8(out, '"');
}

static void put_labels(struct wbuf *out, struct labels l, const char *le)
{
	const char *before = "{";
	for (unsigned i = 0; i < 2 && l.name[i]; i++, before = ",") {
		jout_raw(out, before);
		jout_raw(out, l.name[i]);
		jout_raw(out, "=");
		put_value(out, l.value[i]);
	}
	char text[32];
	if (l.rank >= 0) {
		snprintf(text, sizeof(text), "%srank=\"%d\"", before, l.rank);
		jout_raw(out, text);
		before = ",";
	}
	if (le) {
		snprintf(text, sizeof(text), "%sle=\"%s\"", before, le);
		jout_raw(out, text);
		before = ",";
	}
	if (*before == ',')
		jout_raw(out, "}");
}

static void family(struct wbuf *out, const char *name, const char *type, const char *help)
{
	jout_raw(out, "# HELP ");
	jout_raw(out, name);
	jout_raw(out, " ");
	jout_raw(out, help);
	jout_raw(out, "\n# TYPE ");
	jout_raw(out, name);
	jout_raw(out, " ");
	jout_raw(out, type);
	jout_raw(out, "\n");
}

/* What stands before a value. */
static void put_name(struct wbuf *out, const char *name, const char *part, struct labels l, const char *le)
{
	jout_raw(out, name);
	jout_raw(out, part);
	put_labels(out, l, le);
	jout_raw(out, " ");
}

static void sample_part(struct wbuf *out, const char *name, const char *part, struct labels l, const char *le,
			uint64_t value)
{
	put_name(out, name, part, l, le);
	jout_u64(out, value);
	jout_raw(out, "\n");
}

static void sample(struct wbuf *out, const char *name, struct labels l, uint64_t value)
{
	sample_part(out, name, "", l, NULL, value);
}

static void seconds_part(struct wbuf *out, const char *name, const char *part, struct labels l, uint64_t ns)
{
	char text[40];
	snprintf(text, sizeof(text), "%" PRIu64 ".%09" PRIu64 "\n", (uint64_t)(ns / CLOCK_NS_PER_S),
		 (uint64_t)(ns % CLOCK_NS_PER_S));
	put_name(out, name, part, l, NULL);
	jout_raw(out, text);
}

static void sample_seconds(struct wbuf *out, const char *name, struct labels l, uint64_t ns)
{
	seconds_part(out, name, "", l, ns);
}

static void sample_histogram(struct wbuf *out, const char *name, struct labels l, const struct histogram *h)
{
	uint64_t below = 0;
	for (unsigned i = 0; i < HISTOGRAM_BOUNDS; i++) {
		char le[32];
		snprintf(le, sizeof(le), "%g", (double)histogram_bound_ns(i) / 1e9);
		below += h->buckets[i];
		sample_part(out, name, "_bucket", l, le, below);
	}
	sample_part(out, name, "_bucket", l, "+Inf", h->count);
	seconds_part(out, name, "_sum", l, h->sum_ns);
	sample_part(out, name, "_count", l, NULL, h->count);
}

/* ---- of the daemon --------------------------------------------------------------------------------------------- */

static void gauge(struct wbuf *out, const char *name, const char *help, uint64_t value)
{
	family(out, name, "gauge", help);
	sample(out, name, no_labels, value);
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
	family(out, "ckpt_health_finding", "gauge",
	       "1 for each finding of /healthz; job_name is empty when it is of the daemon.");
	for (unsigned i = 0; i < n; i++)
		sample(out, "ckpt_health_finding",
		       and(and(no_labels, "code", health_code_name(found[i].code)), "job_name", found[i].job), 1);
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
	family(out, "ckpt_node_up", "gauge", "1: there is a session with that node.");
	for (unsigned i = 0; i < observe->peers->roster->n; i++)
		if (roster_has(observe->peers->roster, i) && i != observe->peers->self)
			sample(out, "ckpt_node_up", and(no_labels, "node", observe->peers->roster->nodes[i].name),
			       net_is_up(observe->peers->net, i));
	for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
		family(out, counters[i].name, "counter", counters[i].help);
		sample(out, counters[i].name, no_labels, counters[i].value);
	}
}

static void put_registry(struct observe *observe, struct wbuf *out)
{
	struct election_view v;
	if (!election_look(observe->control, &v))
		return;
	gauge(out, "ckpt_registry_synced", "1: the registry is followed; 0: it is away.", v.synced);
	gauge(out, "ckpt_registry_coordinated_jobs", "Jobs that this node coordinates.", v.coordinates);
	family(out, "ckpt_registry_transactions_total", "counter", "Asked of the registry.");
	sample(out, "ckpt_registry_transactions_total", no_labels, v.transactions);
	family(out, "ckpt_registry_outages_total", "counter", "Times that the registry was away.");
	sample(out, "ckpt_registry_outages_total", no_labels, v.outages);
}

static void put_daemon(struct observe *observe, struct wbuf *out)
{
	struct space_view space = space_get(observe->storage->space);
	family(out, "ckpt_build_info", "gauge", "The release, and the name of the node.");
	sample(out, "ckpt_build_info",
	       and(and(no_labels, "version", CKPT_VERSION), "node", observe->runtime->config.node), 1);
	family(out, "ckpt_uptime_seconds", "gauge", "Since the daemon was started.");
	sample_seconds(out, "ckpt_uptime_seconds", no_labels, clock_now() - observe->runtime->started_ns);
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
	{"ckpt_saves_captured_total", "counter", "Saves that were complete in memory on every rank.", ncaptured, false},
	{"ckpt_saves_replicated_total", "counter", "Saves of which other nodes held copies for every rank.",
	 nreplicated, false},
	{"ckpt_saves_durable_total", "counter", "Saves that were committed on storage.", ncommitted, false},
	{"ckpt_saves_verified_total", "counter", "Saves that were read back from storage and matched.", nverified,
	 false},
	{"ckpt_captured_bytes_total", "counter", "Captured into memory.", captured_bytes, false},
	{"ckpt_written_bytes_total", "counter", "Written to storage by commits that succeeded.", written_bytes, false},
	{"ckpt_write_seconds_total", "counter", "Spent on these commits, from their start until durable.", write_ns,
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
		family(out, m->name, m->type, m->help);
		EACH_JOB(observe, job)(m->ns ? sample_seconds : sample)(out, m->name, of_job(job), m->of(job));
	}
	family(out, "ckpt_saves_failed_total", "counter", "Saves that did not get as far as was asked, by reason.");
	EACH_JOB(observe, job)
	for (int why = 0; why < SAVE_FAILURE_END; why++)
		sample(out, "ckpt_saves_failed_total",
		       and(of_job(job), "reason", save_failure_name((enum save_failure)why)),
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

static void sample_real(struct wbuf *out, const char *name, struct labels l, double value)
{
	char text[40];
	snprintf(text, sizeof(text), " %.9g\n", value);
	jout_raw(out, name);
	put_labels(out, l, NULL);
	jout_raw(out, text);
}

static void put_intervals(struct observe *observe, struct wbuf *out)
{
	for (size_t m = 0; m < sizeof(interval_metrics) / sizeof(interval_metrics[0]); m++) {
		family(out, interval_metrics[m].name, "gauge", interval_metrics[m].help);
		EACH_JOB(observe, job)
		{
			const struct job_interval *i = &job->interval;
			if (!i->plan.steps)
				continue;
			sample_real(out, interval_metrics[m].name, and(of_job(job), "tier", "memory"),
				    interval_metrics[m].of(i, &i->plan.memory, i->held.memory_every));
			sample_real(out, interval_metrics[m].name, and(of_job(job), "tier", "storage"),
				    interval_metrics[m].of(i, &i->plan.storage, i->held.storage_every));
		}
	}
	family(out, "ckpt_losses_total", "counter",
	       "Restores that followed from a loss, by where the state came from; none: there was nothing to restore.");
	EACH_JOB(observe, job)
	for (uint32_t source = 0; source <= WIRE_FROM_STORAGE; source++)
		sample(out, "ckpt_losses_total", and(of_job(job), "source", source_name(source)),
		       job->recovery_log.losses[source]);
}

static void put_histograms(struct observe *observe, struct wbuf *out)
{
	family(out, "ckpt_save_captured_seconds", "histogram", "From begin until captured on every rank.");
	EACH_JOB(observe, job)
	sample_histogram(out, "ckpt_save_captured_seconds", of_job(job), &job->save_stats.captured);
	family(out, "ckpt_save_replicated_seconds", "histogram", "From begin until held by other nodes, too.");
	EACH_JOB(observe, job)
	sample_histogram(out, "ckpt_save_replicated_seconds", of_job(job), &job->save_stats.replicated);
	family(out, "ckpt_save_durable_seconds", "histogram", "From begin until committed on storage.");
	EACH_JOB(observe, job)
	sample_histogram(out, "ckpt_save_durable_seconds", of_job(job), &job->save_stats.durable);
	family(out, "ckpt_save_verified_seconds", "histogram", "From begin until read back and matched.");
	EACH_JOB(observe, job)
	sample_histogram(out, "ckpt_save_verified_seconds", of_job(job), &job->save_stats.verified);
	family(out, "ckpt_recovery_gather_seconds", "histogram",
	       "From a new epoch until all ranks ask for the restore: replacing and joining.");
	EACH_JOB(observe, job)
	sample_histogram(out, "ckpt_recovery_gather_seconds", of_job(job), &job->recovery_log.gather);
	family(out, "ckpt_recovery_seconds", "histogram",
	       "From the last heartbeat of who was lost, or what is first known, until all ranks have done a new "
	       "step.");
	EACH_JOB(observe, job) sample_histogram(out, "ckpt_recovery_seconds", of_job(job), &job->recovery_log.total);
	family(out, "ckpt_restore_seconds", "histogram",
	       "From when all ranks have asked until the daemon has what they restore, by source.");
	EACH_JOB(observe, job)
	for (uint32_t source = WIRE_FROM_MEMORY; source <= WIRE_FROM_STORAGE; source++)
		sample_histogram(out, "ckpt_restore_seconds", and(of_job(job), "source", source_name(source)),
				 &job->recovery_log.restore[source]);
}

/* ---- of the ranks ---------------------------------------------------------------------------------------------- */

static void put_rank_numbers(struct observe *observe, struct wbuf *out)
{
	uint64_t now = clock_now();
	family(out, "ckpt_rank_joined", "gauge", "1: the rank takes part in the epoch.");
	EACH_JOB(observe, job)
	for (uint32_t r = 0; r < job->nlocal; r++)
		sample(out, "ckpt_rank_joined", of_rank(&job->ranks[r]), job->ranks[r].state == RANK_JOINED);
	family(out, "ckpt_rank_hung", "gauge", "1: no heartbeat for the hang timeout.");
	EACH_JOB(observe, job)
	for (uint32_t r = 0; r < job->nlocal; r++)
		sample(out, "ckpt_rank_hung", of_rank(&job->ranks[r]), job->ranks[r].hung);
	family(out, "ckpt_rank_arena_bytes", "gauge", "Of the rank's arena.");
	EACH_JOB(observe, job)
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (job->ranks[r].mem)
			sample(out, "ckpt_rank_arena_bytes", of_rank(&job->ranks[r]), job->ranks[r].mem->size);
	family(out, "ckpt_rank_step", "gauge", "The step of the last heartbeat.");
	EACH_JOB(observe, job)
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (job->ranks[r].mem)
			sample(out, "ckpt_rank_step", of_rank(&job->ranks[r]),
			       atomic_load(&job->ranks[r].mem->head->flight.step));
	family(out, "ckpt_rank_heartbeat_age_seconds", "gauge", "Since the last heartbeat.");
	EACH_JOB(observe, job)
	for (uint32_t r = 0; r < job->nlocal; r++) {
		uint64_t beat = job->ranks[r].mem ? atomic_load(&job->ranks[r].mem->head->flight.beat_ns) : 0;
		if (beat && beat <= now)
			sample_seconds(out, "ckpt_rank_heartbeat_age_seconds", of_rank(&job->ranks[r]), now - beat);
	}
}

static void put_ranks(struct observe *observe, struct wbuf *out)
{
	put_rank_numbers(observe, out);
	family(out, "ckpt_step_seconds", "histogram", "How long the steps of a rank take, by its heartbeats.");
	EACH_JOB(observe, job)
	for (uint32_t r = 0; r < job->nlocal; r++)
		sample_histogram(out, "ckpt_step_seconds", of_rank(&job->ranks[r]), &job->ranks[r].pace.steps);
}

int metrics_encode(struct observe *observe, struct wbuf *out)
{
	put_daemon(observe, out);
	put_numbers(observe, out);
	put_intervals(observe, out);
	put_histograms(observe, out);
	put_ranks(observe, out);
	return wbuf_finish(out);
}
