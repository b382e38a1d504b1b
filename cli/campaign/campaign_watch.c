/* What the daemons of a campaign say of its job, and until when it is waited for. */
#include "campaign/campaign_run.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "campaign/campaign_hosts.h"
#include "frame/contact.h"
#include "frame/order.h"
#include "frame/progress.h"

#include <poll.h>
#include <string.h>

#define ASK_NS (5 * CLOCK_NS_PER_S)
#define READY_NS (FAULT_AT_WORK_MS * CLOCK_NS_PER_MS)

bool campaign_is_elastic(const struct campaign *c)
{
	return c->disturbed && c->file.min_ranks;
}

/* A node that has none says nothing of where the others are. */
static void view_ranks(const struct campaign *c, uint32_t node, const json_t *job, struct campaign_view *v)
{
	if (campaign_is_elastic(c) && !json_array_size(json_object_get(job, "ranks")))
		return;
	const char *state = json_string_value(json_object_get(job, "state"));
	uint64_t epoch = (uint64_t)json_integer_value(json_object_get(job, "epoch"));
	const json_t *rank;
	size_t i;
	v->runs &= state && !strcmp(state, "running") && (!v->ranks || v->epoch == epoch);
	v->epoch = epoch;
	v->world = (uint32_t)json_integer_value(json_object_get(job, "world"));
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
		v->seen |= 1ull << number;
		v->nodes[number] = node;
		v->steps[number] = (uint64_t)json_integer_value(json_object_get(rank, "step"));
		v->pids[number] = (pid_t)pid;
	}
}

bool campaign_is_whole(const struct campaign *c, const struct campaign_view *v)
{
	bool all_there = !campaign_is_elastic(c) || v->offers == c->nnodes;
	return campaign_trains(v) && v->ranks == c->file.ranks && all_there;
}

/* Each rank once: while one moves, two nodes may have it, or none. */
bool campaign_trains(const struct campaign_view *v)
{
	uint64_t all = v->world < 64 ? (1ull << v->world) - 1 : UINT64_MAX;
	return v->runs && v->ranks && v->ranks == v->world && v->seen == all;
}

bool campaign_has_ranks(const struct campaign_view *v, uint32_t node)
{
	for (uint32_t r = 0; r < CAMPAIGN_RANKS_MAX; r++)
		if (v->seen >> r & 1 && v->nodes[r] == node)
			return true;
	return false;
}

/* The steps of the last look at which another epoch was seen. */
struct progress_seen {
	uint64_t epoch, steps[CAMPAIGN_RANKS_MAX];
	bool any;
};

/* Each rank has made a step since then: none hangs, and none is about to be lost. */
static bool at_work(const struct campaign *c, const struct campaign_view *v, struct progress_seen *seen)
{
	bool fresh = !seen->any || seen->epoch != v->epoch, forward = true;
	if (!campaign_is_whole(c, v))
		return false;
	for (uint32_t i = 0; i < v->ranks; i++)
		forward &= v->steps[i] > seen->steps[i];
	if (fresh)
		memcpy(seen->steps, v->steps, sizeof(seen->steps));
	seen->any = true;
	seen->epoch = v->epoch;
	return !fresh && forward;
}

int campaign_note_saved(struct campaign *c, const char *level, struct step_id id, struct err *err)
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
	return campaign_note_saved(c, "durable", id, err);
}

int campaign_note_daemon(struct campaign *c, uint32_t node, bool answers, struct err *err)
{
	if (c->nodes[node].answers == answers)
		return 0;
	c->nodes[node].answers = answers;
	return journal_put(&c->journal,
			   json_pack("{s:s, s:i, s:b, s:I}", "event", "daemon", "node", (int)node, "answers", answers,
				     "wall_ns", (json_int_t)clock_wall()),
			   err);
}

/* Whom the node's daemon says all wait for, when that is new: who it is, and for how long there had been no heartbeat when the daemon said so. */
static int note_standstill(struct campaign *c, uint32_t node, const json_t *standstill, struct err *err)
{
	int64_t *waited = &c->nodes[node].waited_for;
	const json_t *rank = json_object_get(standstill, "rank");
	int64_t now = !json_is_object(standstill) ? 0 : json_is_integer(rank) ? json_integer_value(rank) + 1 : -1;
	bool news = now && now != *waited;
	*waited = now;
	if (!news)
		return 0;
	return journal_put(&c->journal,
			   json_pack("{s:s, s:i, s:O, s:f, s:I}", "event", "standstill", "node", (int)node, "rank",
				     rank, "after_ms", json_number_value(json_object_get(standstill, "after_ms")),
				     "wall_ns", (json_int_t)clock_wall()),
			   err);
}

/* Whoever coordinates the job knows. */
static void view_offers(const json_t *doc, struct campaign_view *v)
{
	const json_t *world = json_array_get(json_object_get(doc, "worlds"), 0), *node;
	uint32_t offers = 0;
	size_t i;
	json_array_foreach(json_object_get(world, "nodes"), i, node) offers +=
		json_integer_value(json_object_get(node, "processes")) > 0;
	v->offers = offers > v->offers ? offers : v->offers;
}

static int watch_node(struct campaign *c, uint32_t node, struct campaign_view *v, struct err *err)
{
	char sock[PATH_MAX];
	json_t *doc = NULL;
	contact_status(campaign_node_path(c, node, "s", sock), NULL, clock_deadline(ASK_NS), &doc, NULL);
	const json_t *job = json_array_get(json_object_get(doc, "jobs"), 0);
	int rc = campaign_note_daemon(c, node, doc != NULL, err);
	if (!rc && job)
		rc = note_durable(c, job, err);
	if (!rc && job)
		rc = note_standstill(c, node, json_object_get(job, "standstill"), err);
	if (!rc && job)
		rc = campaign_note_losses(c, node, json_object_get(job, "loss"), err);
	v->runs &= job != NULL || campaign_is_elastic(c);
	if (job)
		view_ranks(c, node, job, v);
	view_offers(doc, v);
	json_decref(doc);
	return rc;
}

/* A rank maps its arena before its epoch begins. On a host it is noted there. */
static int note_memory(struct campaign *c, const struct campaign_view *v, struct err *err)
{
	uint64_t hosts = 0;
	int rc = 0;
	for (uint32_t r = 0; !rc && r < CAMPAIGN_RANKS_MAX; r++)
		if (v->pids[r] > 0 && (v->pids[r] != c->noted.pids[r] || v->epoch != c->noted.epoch)) {
			if (c->hosts.n)
				hosts |= 1ull << v->nodes[r];
			else
				rc = left_memory_note(&c->memory, v->pids[r]);
			c->noted.pids[r] = v->pids[r];
		}
	for (uint32_t k = 0; k < c->hosts.n; k++)
		hosts_tell(hosts >> k & 1 ? c->nodes[k].run_in : -1, 'N');
	c->noted.epoch = v->epoch;
	return rc ? err_set(err, rc, "no memory for what ranks have mapped") : 0;
}

int campaign_watch(struct campaign *c, struct campaign_view *v, struct err *err)
{
	int rc = campaign_note_named(c, err);
	*v = (struct campaign_view){.runs = true};
	for (uint32_t k = 0; !rc && k < c->nnodes; k++) {
		rc = watch_node(c, k, v, err);
		if (!rc) /* a daemon that does not answer takes seconds */
			rc = campaign_note_named(c, err);
	}
	return !rc && v->runs ? note_memory(c, v, err) : rc;
}

int campaign_check_run(struct campaign *c)
{
	struct err err = {""};
	int status = 0, rc = campaign_await(c, 0, &status, &err);
	char text[64], who[320];
	if (rc == -ECANCELED) {
		cli_note(c->cli, "stopped; --resume goes on from here");
		campaign_stop(c);
		return EXIT_CANCELLED;
	}
	if (rc == -ETIMEDOUT)
		return EXIT_OK;
	if (rc)
		return cli_fail(c->cli, EXIT_FAILED, "%s", err.text);
	return cli_fail(
		c->cli, EXIT_FAILED, "the job has ended in the middle of the campaign: %s %s; see the logs in %s",
		campaign_hosts_who(c, who, sizeof(who)), proc_status_text(text, sizeof(text), status), c->folder);
}

int campaign_await_work(struct campaign *c, struct step_id after)
{
	uint64_t deadline = clock_deadline(READY_NS);
	struct progress_seen seen = {0};
	struct err err = {""};
	for (;;) {
		struct campaign_view view;
		int rc = campaign_watch(c, &view, &err);
		bool ready = !rc && at_work(c, &view, &seen) && step_compare(c->durable, after) > 0;
		if (rc)
			return cli_fail(c->cli, EXIT_FAILED, "%s", err.text);
		int code = campaign_check_run(c);
		if (code || ready)
			return code;
		if (clock_now() >= deadline)
			return cli_fail(c->cli, EXIT_FAILED,
					"the job did not come back to work within %d s; see the logs in %s",
					FAULT_AT_WORK_MS / 1000, c->folder);
		poll(NULL, 0, CAMPAIGN_LOOK_MS);
	}
}

/* Of the rank that has made the fewest. */
static uint64_t least_steps(const struct campaign_view *v)
{
	uint64_t least = UINT64_MAX;
	for (uint32_t i = 0; i < v->ranks; i++)
		least = min_u64(least, v->steps[i]);
	return least;
}

int campaign_await_steps(struct campaign *c, uint64_t n)
{
	uint64_t deadline = clock_deadline(READY_NS), from = UINT64_MAX, newest = 0;
	struct err err = {""};
	int code = EXIT_OK;
	for (; n && !code; code = campaign_check_run(c)) {
		struct campaign_view view;
		if (campaign_watch(c, &view, &err))
			return cli_fail(c->cli, EXIT_FAILED, "%s", err.text);
		uint64_t now = campaign_is_whole(c, &view) ? least_steps(&view) : 0;
		if (now > newest) {
			newest = now;
			deadline = clock_deadline(READY_NS);
			from = min_u64(from, now);
		}
		if (newest >= n && newest - n >= from)
			return EXIT_OK;
		if (clock_now() >= deadline)
			return cli_fail(c->cli, EXIT_FAILED, "the job made no step for %d s; see the logs in %s",
					FAULT_AT_WORK_MS / 1000, c->folder);
		poll(NULL, 0, CAMPAIGN_LOOK_MS);
	}
	return code;
}

int campaign_await_time(struct campaign *c, uint64_t at)
{
	struct err err = {""};
	while (clock_now() < at) {
		struct campaign_view view;
		int rc = campaign_watch(c, &view, &err), code;
		if (rc)
			return cli_fail(c->cli, EXIT_FAILED, "%s", err.text);
		code = campaign_check_run(c);
		if (code)
			return code;
		poll(NULL, 0, (int)min_u64((at - min_u64(at, clock_now())) / CLOCK_NS_PER_MS + 1, 100));
	}
	return EXIT_OK;
}
