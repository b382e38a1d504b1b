#include "campaign/campaign_run.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "faults/fault_request.h"
#include "frame/order.h"
#include "frame/progress.h"

#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define ASK_NS (5 * CLOCK_NS_PER_S)
#define READY_NS (180 * CLOCK_NS_PER_S) /* until the job is at work (again) */
#define END_NS (300 * CLOCK_NS_PER_S)
#define ENDLESS 1000000000u

char *campaign_path(const struct campaign *c, const char *name, char dst[PATH_MAX])
{
	snprintf(dst, PATH_MAX, "%s/%s", c->folder, name);
	return dst;
}

char *campaign_node_path(const struct campaign *c, uint32_t node, const char *name, char dst[PATH_MAX])
{
	if (c->file.nodes == 1)
		return campaign_path(c, name, dst);
	snprintf(dst, PATH_MAX, "%s/node-%u.%s", c->folder, node, name);
	return dst;
}

/* ---- what the daemons say ------------------------------------------------------------------------------------------ */

/* The job, put together from what the daemons of its nodes say. */
struct view {
	bool runs; /* on each node, in the same epoch, with a process for each rank */
	uint64_t epoch;
	uint32_t ranks;
	uint64_t steps[CAMPAIGN_RANKS_MAX];
	pid_t pids[CAMPAIGN_RANKS_MAX];
	struct step_id replicated; /* the newest */
};

static void view_ranks(const struct campaign *c, const json_t *job, struct view *v)
{
	const char *state = json_string_value(json_object_get(job, "state"));
	uint64_t epoch = (uint64_t)json_integer_value(json_object_get(job, "epoch"));
	const json_t *rank;
	size_t i;
	v->runs &= state && !strcmp(state, "running") && (!v->ranks || v->epoch == epoch);
	v->epoch = epoch;
	struct step_id replicated = order_id(json_object_get(json_object_get(job, "saves"), "replicated"));
	if (step_compare(replicated, v->replicated) > 0)
		v->replicated = replicated;
	json_array_foreach(json_object_get(job, "ranks"), i, rank)
	{
		uint64_t number = (uint64_t)json_integer_value(json_object_get(rank, "rank"));
		json_int_t pid = json_integer_value(json_object_get(rank, "pid"));
		v->runs &= number < c->file.ranks && pid > 0 && pid <= INT_MAX;
		v->ranks++;
		if (number >= c->file.ranks)
			continue;
		v->steps[number] = (uint64_t)json_integer_value(json_object_get(rank, "step"));
		v->pids[number] = (pid_t)pid;
	}
}

static bool is_whole(const struct campaign *c, const struct view *v)
{
	return v->runs && v->ranks == c->file.ranks;
}

/* The steps of the last look at which another epoch was seen. */
struct progress_seen {
	uint64_t epoch, steps[CAMPAIGN_RANKS_MAX];
	bool any;
};

/* Each rank has made a step since then: none hangs, and none is about to be lost. */
static bool at_work(const struct campaign *c, const struct view *v, struct progress_seen *seen)
{
	bool fresh = !seen->any || seen->epoch != v->epoch, forward = true;
	if (!is_whole(c, v))
		return false;
	for (uint32_t i = 0; i < v->ranks; i++)
		forward &= v->steps[i] > seen->steps[i];
	if (fresh)
		memcpy(seen->steps, v->steps, sizeof(seen->steps));
	seen->any = true;
	seen->epoch = v->epoch;
	return !fresh && forward;
}

static int note_saved(struct campaign *c, const char *level, struct step_id id, struct err *err)
{
	return journal_put(&c->journal,
			   json_pack("{s:s, s:I, s:I, s:I}", "event", level, "step", (json_int_t)id.step, "epoch",
				     (json_int_t)id.epoch, "wall_ns", (json_int_t)clock_wall()),
			   err);
}

/* Notes what has become durable. */
static int note_durable(struct campaign *c, const json_t *job, struct err *err)
{
	struct step_id id = order_id(json_object_get(json_object_get(job, "saves"), "durable"));
	if (!id.epoch || step_compare(id, c->durable) <= 0)
		return 0;
	c->durable = id;
	return note_saved(c, "durable", id, err);
}

/* Whether the node's daemon answers: the journal has each change. */
static int note_daemon(struct campaign *c, uint32_t node, bool answers, struct err *err)
{
	if (c->nodes[node].answers == answers)
		return 0;
	c->nodes[node].answers = answers;
	return journal_put(&c->journal,
			   json_pack("{s:s, s:i, s:b, s:I}", "event", "daemon", "node", (int)node, "answers", answers,
				     "wall_ns", (json_int_t)clock_wall()),
			   err);
}

static int watch_node(struct campaign *c, uint32_t node, struct view *v, struct err *err)
{
	char sock[PATH_MAX];
	json_t *doc = NULL;
	contact_status(campaign_node_path(c, node, "s", sock), NULL, clock_deadline(ASK_NS), &doc, NULL);
	const json_t *job = json_array_get(json_object_get(doc, "jobs"), 0);
	int rc = note_daemon(c, node, doc != NULL, err);
	if (!rc && job)
		rc = note_durable(c, job, err);
	v->runs &= job != NULL;
	if (job)
		view_ranks(c, job, v);
	json_decref(doc);
	return rc;
}

/* What is new about the job goes to the journal. */
static int watch(struct campaign *c, struct view *v, struct err *err)
{
	int rc = 0;
	*v = (struct view){.runs = true};
	for (uint32_t k = 0; !rc && k < c->nnodes; k++)
		rc = watch_node(c, k, v, err);
	return rc;
}

/* 0: the run goes on; else an exit code. */
static int check_run(struct campaign *c)
{
	struct err err = {""};
	int status = 0, rc = campaign_await(c, 0, &status, &err);
	char text[64];
	if (rc == -ECANCELED) {
		cli_note(c->cli, "stopped; --resume goes on from here");
		campaign_stop(c);
		return EXIT_CANCELLED;
	}
	if (rc == -ETIMEDOUT)
		return EXIT_OK;
	if (rc)
		return cli_fail(c->cli, EXIT_FAILED, "%s", err.text);
	return cli_fail(c->cli, EXIT_FAILED,
			"the job has ended in the middle of the campaign: ckpt run %s; see the logs in %s",
			proc_status_text(text, sizeof(text), status), c->folder);
}

int campaign_await_work(struct campaign *c, struct step_id after)
{
	uint64_t deadline = clock_deadline(READY_NS);
	struct progress_seen seen = {0};
	struct err err = {""};
	for (;;) {
		struct view view;
		int rc = watch(c, &view, &err);
		bool ready = !rc && at_work(c, &view, &seen) && step_compare(c->durable, after) > 0;
		if (rc)
			return cli_fail(c->cli, EXIT_FAILED, "%s", err.text);
		int code = check_run(c);
		if (code || ready)
			return code;
		if (clock_now() >= deadline)
			return cli_fail(c->cli, EXIT_FAILED,
					"the job did not come back to work within 180 s; see the logs in %s",
					c->folder);
		poll(NULL, 0, 20);
	}
}

/* ---- one fault ----------------------------------------------------------------------------------------------------- */

static int note_fault(struct campaign *c, size_t i, const struct fault_result *result, uint64_t wall_ns, double ms)
{
	const struct campaign_fault *f = &c->file.faults[i];
	bool fired = result->outcome == FAULT_FIRED;
	struct err err = {""};
	int rc = journal_put(&c->journal,
			     json_pack("{s:s, s:I, s:s, s:I, s:I, s:s, s:s, s:I, s:I, s:f, s:o}", "event", "fault",
				       "index", (json_int_t)i, "kind", f->entry->name, "rank", (json_int_t)f->rank,
				       "node", (json_int_t)f->node, "cause", f->cause, "outcome",
				       fired ? "fired" : "not-fired", "for_ms", (json_int_t)f->for_ms, "wall_ns",
				       (json_int_t)wall_ns, "ms", ms, "text", json_text(result->text)),
			     &err);
	if (!rc && fired && (f->entry->kind == FAULT_KILL_DAEMON || f->entry->kind == FAULT_KILL_NODE))
		rc = note_daemon(c, f->node, false, &err); /* it may be back before it is asked again */
	if (rc)
		return cli_fail(c->cli, EXIT_FAILED, "%s", err.text);
	c->ended[i] = true;
	c->fired += fired;
	c->not_fired += !fired;
	cli_note(c->cli, "%zu of %zu: %s%s%s: %s", c->fired + c->not_fired, c->file.n, f->entry->name,
		 *f->cause ? ", for " : "", f->cause, result->text);
	return EXIT_OK;
}

static int look_until(struct campaign *c, const struct fault_request *q, struct fault_result *result)
{
	struct err err = {""};
	bool refused = false;
	while (result->outcome == FAULT_PENDING) {
		int code = check_run(c);
		if (code)
			return code;
		if (clock_now() >= q->deadline || fault_look(q, result, &refused, &err)) {
			result->outcome = FAULT_NOT_FIRED;
			if (*err.text)
				snprintf(result->text, sizeof(result->text), "%s", err.text);
		}
		poll(NULL, 0, 10);
	}
	return EXIT_OK;
}

/* The processes of all ranks are known: a number that is none would be somebody else's, or of many. */
static int see_whole(struct campaign *c, struct view *v, struct err *err)
{
	uint64_t deadline = clock_deadline(ASK_NS);
	int rc = watch(c, v, err);
	while (!rc && !is_whole(c, v) && clock_now() < deadline) {
		poll(NULL, 0, 20);
		rc = watch(c, v, err);
	}
	return rc || is_whole(c, v) ? rc : err_set(err, -EAGAIN, "the job is not at work on all nodes");
}

/* What all nodes said they had copies of must survive one of them. */
static int lose_node(struct campaign *c, const struct campaign_fault *f, struct fault_result *result, struct err *err)
{
	uint32_t each = c->file.ranks / c->file.nodes;
	struct view v;
	int rc = see_whole(c, &v, err);
	if (!rc && v.replicated.epoch)
		rc = note_saved(c, "replicated", v.replicated, err);
	if (!rc)
		rc = campaign_kill_node(c, f->node, v.pids + f->node * each, each, f->for_ms, err);
	result->outcome = FAULT_FIRED;
	snprintf(result->text, sizeof(result->text), "all processes of node-%u have died", f->node);
	return rc;
}

/* A copy of the rank's snapshot is on another node, and that one knows. After a loss it comes with a later save. */
static int flip_replica(const struct campaign *c, const struct campaign_fault *f, struct fault_request *q,
			char sock[PATH_MAX], struct fault_result *result, struct err *err)
{
	uint64_t deadline = clock_deadline(ASK_NS);
	bool refused = false;
	int rc = -ENOENT;
	while (rc && clock_now() < deadline && !cli_interrupted()) {
		for (uint32_t k = 0; rc && k < c->nnodes; k++)
			if (k != f->node) {
				campaign_node_path(c, k, "s", sock);
				rc = fault_begin(q, result, &refused, err);
			}
		if (rc)
			poll(NULL, 0, 20);
	}
	return rc;
}

static int begin(struct campaign *c, const struct campaign_fault *f, struct fault_request *q, char sock[PATH_MAX],
		 struct fault_result *result, struct err *err)
{
	bool refused = false;
	q->socket = campaign_node_path(c, f->node, "s", sock);
	if (f->entry->kind == FAULT_KILL_NODE)
		return lose_node(c, f, result, err);
	if (f->entry->kind == FAULT_FLIP_REPLICA)
		return flip_replica(c, f, q, sock, result, err);
	return fault_begin(q, result, &refused, err);
}

int campaign_await_time(struct campaign *c, uint64_t at)
{
	struct err err = {""};
	while (clock_now() < at) {
		struct view view;
		int rc = watch(c, &view, &err), code;
		if (rc)
			return cli_fail(c->cli, EXIT_FAILED, "%s", err.text);
		code = check_run(c);
		if (code)
			return code;
		poll(NULL, 0, (int)min_u64((at - min_u64(at, clock_now())) / CLOCK_NS_PER_MS + 1, 100));
	}
	return EXIT_OK;
}

static int cause(struct campaign *c, size_t i)
{
	const struct campaign_fault *f = &c->file.faults[i];
	char sock[PATH_MAX];
	struct fault_result result = {0};
	struct err err = {""};
	struct fault_request q = {.entry = f->entry,
				  .job = "campaign",
				  .step = UINT64_MAX,
				  .rank = f->rank,
				  .for_ms = f->for_ms,
				  .seed = c->file.seed + i};
	uint64_t from = clock_now(), wall = clock_wall();
	q.deadline = from + (f->entry->fires_ms + f->for_ms) * CLOCK_NS_PER_MS + 2 * ASK_NS;
	int code = EXIT_OK;
	if (f->entry->target == FAULT_AT_NETWORK) {
		code = campaign_cut(c, f, &result, &err);
	} else if (begin(c, f, &q, sock, &result, &err)) {
		result.outcome = FAULT_NOT_FIRED;
		snprintf(result.text, sizeof(result.text), "%s", err.text);
	}
	if (!code)
		code = look_until(c, &q, &result);
	return code ? code : note_fault(c, i, &result, wall, (double)(clock_now() - from) / 1e6);
}

/* ---- the whole ----------------------------------------------------------------------------------------------------- */

/* Times count from here, and from the first fault that is left: what was before it is over. */
static int cause_all(struct campaign *c)
{
	uint64_t begin = clock_now(), first = UINT64_MAX;
	int code = EXIT_OK;
	for (size_t i = 0; !code && i < c->file.n; i++) {
		if (c->ended[i])
			continue;
		if (first == UINT64_MAX)
			first = c->fired + c->not_fired ? c->file.faults[i].at_ms : 0;
		code = campaign_await_time(c, begin + (c->file.faults[i].at_ms - first) * CLOCK_NS_PER_MS);
		if (!code)
			code = campaign_await_work(c, (struct step_id){0});
		if (!code)
			code = cause(c, i);
	}
	return code;
}

static int halt(struct campaign *c, struct err *err)
{
	char sock[PATH_MAX];
	struct wire_command command = {.kind = COMMAND_HALT, .job = "campaign"};
	struct wire_answer answer;
	bool refused;
	return contact_command(campaign_node_path(c, 0, "s", sock), NULL, &command, clock_deadline(ASK_NS), &answer,
			       &refused, err);
}

static int end_job(struct campaign *c)
{
	struct err err = {""};
	uint64_t lasts = 0;
	for (size_t i = 0; i < c->file.n; i++)
		lasts = max_u64(lasts,
				c->file.faults[i].entry->target == FAULT_AT_STORE ? c->file.faults[i].for_ms : 0);
	int status = 0,
	    code = campaign_await_time(c, clock_deadline(lasts * CLOCK_NS_PER_MS)); /* the disk is sound again */
	char text[64], log[PATH_MAX];
	if (!code)
		code = campaign_await_work(c, c->durable);
	if (code)
		return code;
	if (halt(c, &err))
		return cli_fail(c->cli, EXIT_FAILED, "%s", err.text);
	int rc = campaign_await(c, clock_deadline(END_NS), &status, &err);
	if (rc == -ECANCELED)
		return EXIT_CANCELLED;
	if (rc || status)
		return cli_fail(c->cli, EXIT_FAILED, "the job did not end well: ckpt run %s; see the logs in %s",
				rc ? "is still there" : proc_status_text(text, sizeof(text), status), c->folder);
	if (!campaign_final(campaign_node_path(c, 0, c->nnodes > 1 ? "log" : "run.log", log), &c->final_step,
			    c->params))
		return cli_fail(c->cli, EXIT_FAILED, "%s does not say how training ended", log);
	return EXIT_OK;
}

/* When the job was started, was at work, and has ended. */
static int note_time(struct campaign *c, const char *event)
{
	struct err err = {""};
	if (!journal_put(&c->journal, json_pack("{s:s, s:I}", "event", event, "wall_ns", (json_int_t)clock_wall()),
			 &err))
		return EXIT_OK;
	return cli_fail(c->cli, EXIT_FAILED, "%s", err.text);
}

int campaign_disturb(struct campaign *c)
{
	struct err err = {""};
	int code = note_time(c, "started");
	if (code)
		return code;
	if (campaign_note_logs(c, "joined", 0, &err) || campaign_start(c, true, ENDLESS, &err))
		return cli_fail(c->cli, EXIT_FAILED, "%s", err.text);
	code = campaign_await_work(c, (struct step_id){0});
	if (!code)
		code = note_time(c, "at-work");
	if (!code)
		code = cause_all(c);
	if (!code)
		code = end_job(c);
	campaign_stop(c);
	int noted = note_time(c, "stopped");
	return code ? code : noted;
}

int campaign_calm(struct campaign *c)
{
	struct err err = {""};
	int status = 0;
	uint64_t step = 0;
	char log[PATH_MAX];
	if (campaign_start(c, false, c->final_step, &err))
		return cli_fail(c->cli, EXIT_FAILED, "%s", err.text);
	int rc = campaign_await(c, clock_deadline(3600 * CLOCK_NS_PER_S), &status, &err);
	campaign_stop(c);
	if (rc == -ECANCELED)
		return EXIT_CANCELLED;
	if (rc || status || !campaign_final(campaign_path(c, "calm.log", log), &step, c->calm_params) ||
	    step != c->final_step)
		return cli_fail(c->cli, EXIT_FAILED, "the undisturbed run did not end well; see %s/calm.log",
				c->folder);
	return EXIT_OK;
}

bool campaign_final(const char *path, uint64_t *step, char params[32])
{
	char line[512];
	bool found = false;
	FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		const char *at = strstr(line, "final step=");
		found |= at && sscanf(at, "final step=%" SCNu64 " loss=%*s params=%31[0-9a-f]", step, params) == 2;
	}
	if (f)
		fclose(f);
	return found;
}
