#include "status.h"

#include "base/clock.h"
#include "daemon.h"
#include "job.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static const char *const phases[] = {"idle",       "forward", "backward", "optimizer",
				     "collective", "save",    "restore",  "data"};

/* Sentences can be cut in the middle of a character, and paths are any bytes: JSON takes UTF-8 only. */
static json_t *text_json(const char *text)
{
	json_t *j = json_string(text);
	if (j)
		return j;
	char plain[PATH_MAX];
	snprintf(plain, sizeof(plain), "%s", text);
	for (char *p = plain; *p; p++)
		if (*p & 0x80)
			*p = '?';
	return json_string(plain);
}

static json_t *rank_json(const struct rank *rank, uint64_t now)
{
	json_t *j = json_pack("{s:i, s:s, s:i, s:b}", "rank", (int)rank->id, "state", rank_state_name(rank->state),
			      "pid", (int)rank->pid, "hung", rank->hung);
	if (!j || !rank->mem)
		return j;
	struct arena_flight *flight = &rank->mem->head->flight;
	uint64_t beat = atomic_load(&flight->beat_ns);
	uint32_t phase = atomic_load(&flight->phase);
	json_object_set_new(j, "arena_bytes", json_integer((json_int_t)rank->mem->size));
	json_object_set_new(j, "page_bytes", json_integer((json_int_t)memory_page_bytes(rank->mem)));
	json_object_set_new(j, "step", json_integer((json_int_t)atomic_load(&flight->step)));
	json_object_set_new(j, "phase", json_string(phase < sizeof(phases) / sizeof(phases[0]) ? phases[phase] : "?"));
	json_object_set_new(j, "beat_age_ms",
			    beat && beat <= now ? json_integer((json_int_t)((now - beat) / 1000000)) : json_null());
	return j;
}

static json_t *snapshot_json(const struct snapshot *s)
{
	int rc = s->rc ? s->rc : s->storage_rc;
	return json_pack("{s:I, s:i, s:s, s:b, s:o}", "step", (json_int_t)s->id.step, "epoch", (int)s->id.epoch,
			 "state", snapshot_state_name(s->state), "in_memory", snapshot_in_memory(s), "error",
			 rc ? text_json(s->err.text) : json_null());
}

static json_t *recoveries_json(const struct job *job)
{
	static const char *const sources[] = {"none", "memory", "peer", "storage"};
	const struct recover *r = &job->recover;
	json_t *j = json_pack("{s:i}", "count", (int)r->count);
	if (j && r->count)
		json_object_set_new(j, "last",
				    json_pack("{s:I, s:i, s:s, s:f, s:o}", "step", (json_int_t)r->last.step, "epoch",
					      (int)r->last.epoch, "source", sources[r->last_source & 3], "ms",
					      (double)r->last_ns / 1e6, "passed_over", text_json(r->why)));
	return j;
}

static const char *job_state(const struct job *job)
{
	if (job->dormant_ns)
		return "dormant";
	for (uint32_t r = 0; r < job->world; r++)
		if (job->ranks[r].state != RANK_JOINED)
			return job->fresh ? "forming" : "gathering";
	return job->recover.state == RECOVER_IDLE ? "running" : "restoring";
}

/* What is in effect, as it could stand in a file. */
static json_t *setting_json(const struct setting *setting, const void *base)
{
	char text[SETTING_TEXT_MAX];
	struct value value = value_load(setting, base);
	return text_json(value_print(setting, &value, text, sizeof(text)));
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
static json_t *config_json(const struct daemon *d)
{
	struct policy policy;
	json_t *list = json_array();
	sources_fill(d->sources, SCOPE_JOB, NULL, &policy);
	for (const struct setting *s = settings; s->key; s++) {
		const void *base = s->scope == SCOPE_NODE ? (const void *)&d->config : &policy;
		char from[SETTING_TEXT_MAX];
		given_from(sources_find(d->sources, s, NULL), from, sizeof(from));
		json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:o}", "section", scope_name(s->scope), "key",
						      s->key, "value", setting_json(s, base), "from", text_json(from)));
	}
	return list;
}

static json_t *job_json(struct job *job, uint64_t now)
{
	json_t *ranks = json_array(), *snapshots = json_array();
	for (uint32_t r = 0; r < job->world; r++)
		json_array_append_new(ranks, rank_json(&job->ranks[r], now));
	list_for(node, &job->saves.snapshots)
		json_array_append_new(snapshots, snapshot_json(list_entry(node, struct snapshot, link)));
	return json_pack("{s:s, s:i, s:i, s:s, s:b, s:o, s:o, s:I, s:I, s:I, s:o, s:o}", "name", job->name, "world",
			 (int)job->world, "epoch", (int)job->epoch, "state", job_state(job), "stopping", job->stop,
			 "ranks", ranks, "snapshots", snapshots, "committed", (json_int_t)job->saves.committed,
			 "failed", (json_int_t)job->saves.failed, "verified", (json_int_t)job->saves.verified,
			 "recoveries", recoveries_json(job), "policy", policy_json(&job->policy));
}

static json_t *daemon_json(struct daemon *d)
{
	uint64_t now = clock_now();
	json_t *jobs = json_array();
	list_for(node, &d->jobs)
		json_array_append_new(jobs, job_json(list_entry(node, struct job, link), now));
	return json_pack("{s:i, s:s, s:s, s:f, s:o, s:{s:I, s:I}, s:o, s:o}", "schema", 1, "node", d->config.node,
			 "version", CKPT_VERSION, "uptime_s", (double)(now - d->started_ns) / 1e9, "store",
			 d->config.store ? text_json(d->config.store) : json_null(), "memory", "used",
			 (json_int_t)d->memory_used, "limit", (json_int_t)d->config.memory_limit, "jobs", jobs,
			 "config", config_json(d));
}

int status_encode(struct daemon *daemon, struct wbuf *out)
{
	json_t *j = daemon_json(daemon);
	char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;
	json_decref(j);
	if (!text)
		return -ENOMEM;
	wbuf_put(out, text, strlen(text));
	free(text);
	return wbuf_finish(out);
}
