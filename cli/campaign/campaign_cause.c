/* Faults of a campaign are caused, each by itself or several together, and looked at until it is known what became of them. */
#include "campaign/campaign_run.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "campaign/campaign_hosts.h"
#include "frame/progress.h"

#include <poll.h>
#include <stdio.h>

#define ASK_NS (5 * CLOCK_NS_PER_S)
enum { LOST_MAX = WIRE_REASON_MAX + 8, NEXT_MAX = 128 };

/* One of them. */
struct caused {
	size_t index, first; /* of the file's faults; first: of those that came together */
	const struct campaign_fault *fault;
	uint32_t node; /* where it hits */
	struct fault_request q;
	struct fault_result result;
	char socket[PATH_MAX], name[NAME_NODE_MAX];
	uint32_t spikes;        /* that its node had named before */
	uint64_t drained_until; /* 0: the node is not drained, or has ranks yet */
	uint64_t cut_until;     /* it has broken the network until then; 0: it has not, or no more */
	uint64_t from, wall_ns; /* when it was caused */
	double ms;              /* until it was known what became of it */
};

struct group {
	struct caused one[CAMPAIGN_TOGETHER_MAX];
	size_t n;
	uint32_t lost;             /* nodes that are killed */
	struct campaign_view view; /* before it, where a node is lost */
	struct err unseen;         /* why there is none; "": there is one */
};

/* ---- it begins ----------------------------------------------------------------------------------------------------- */

static bool is_cut(const struct group *g)
{
	return campaign_cuts(g->one[0].fault->entry);
}

static bool is_drain(const struct caused *one)
{
	return one->fault->entry->kind == FAULT_DRAIN;
}

static bool is_spike(const struct caused *one)
{
	return one->fault->entry->kind == FAULT_LOSS_SPIKE;
}

static uint64_t longest_cut(const struct group *g, uint64_t ms_of(const struct campaign_fault *f))
{
	uint64_t ms = 0;
	for (size_t i = 0; i < g->n; i++)
		if (campaign_cuts(g->one[i].fault->entry))
			ms = max_u64(ms, ms_of(g->one[i].fault));
	return ms;
}

static uint64_t lasts_ms(const struct campaign_fault *f)
{
	return f->for_ms;
}

/* It has until then to be caused, or to be seen; what comes with a broken network is perhaps seen only after that. */
static void set_deadline(const struct group *g, struct caused *one)
{
	uint64_t cut_ms = longest_cut(g, lasts_ms);
	uint64_t drain_ms = is_drain(one) ? one->fault->entry->expected_ms : 0;
	one->q.deadline = clock_deadline(
		(one->fault->entry->fires_ms + one->fault->for_ms + cut_ms + drain_ms) * CLOCK_NS_PER_MS + 2 * ASK_NS);
}

static void add(struct campaign *c, struct group *g, size_t index, size_t first)
{
	struct caused *one = &g->one[g->n++];
	const struct campaign_fault *f = &c->file.faults[index];
	*one = (struct caused){.index = index,
			       .first = first,
			       .fault = f,
			       .q = {.entry = f->entry,
				     .job = "campaign",
				     .step = UINT64_MAX,
				     .rank = f->rank,
				     .for_ms = f->for_ms,
				     .seed = c->file.seed + index}};
	g->lost += campaign_loses_node(f->entry);
}

/* The processes of all ranks are known: a number that is none would be somebody else's, or of many. */
static int see_whole(struct campaign *c, struct campaign_view *v, struct err *err)
{
	uint64_t deadline = clock_deadline(ASK_NS);
	int rc = campaign_watch(c, v, err);
	while (!rc && !campaign_is_whole(c, v) && clock_now() < deadline) {
		poll(NULL, 0, CAMPAIGN_LOOK_MS);
		rc = campaign_watch(c, v, err);
	}
	return rc || campaign_is_whole(c, v) ? rc : err_set(err, -EAGAIN, "the job is not at work on all nodes");
}

/* A rank is where it is now. What needs ranks hits the next node that has some. */
static uint32_t node_of(const struct campaign *c, const struct group *g, const struct campaign_fault *f)
{
	bool needs_ranks = f->entry->target == FAULT_AT_STORE || f->entry->kind == FAULT_DRAIN;
	if (!campaign_is_elastic(c))
		return f->node;
	if (f->entry->target == FAULT_AT_RANK)
		return g->view.nodes[f->rank];
	for (uint32_t k = 0; needs_ranks && k < c->nnodes; k++)
		if (campaign_has_ranks(&g->view, (f->node + k) % c->nnodes))
			return (f->node + k) % c->nnodes;
	return f->node;
}

static void find_nodes(const struct campaign *c, struct group *g)
{
	for (size_t i = 0; i < g->n; i++) {
		struct caused *one = &g->one[i];
		one->node = node_of(c, g, one->fault);
		one->q.socket = campaign_node_path(c, one->node, "s", one->socket);
	}
}

/* What all nodes said they had copies of must survive one of them. */
static void see_ranks(struct campaign *c, struct group *g)
{
	if (!g->lost && campaign_is_elastic(c))
		(void)see_whole(c, &g->view, &g->unseen);
	else if (g->lost && !see_whole(c, &g->view, &g->unseen) && g->lost == 1 && g->view.replicated.epoch)
		campaign_note_saved(c, "replicated", g->view.replicated, &g->unseen);
}

/* Its daemon loses what is not durable, and is gone with all others when this returns. Then it is lost, whatever was answered. */
static int cut_power(struct caused *one, char text[LOST_MAX], struct err *err)
{
	bool refused = false;
	int rc = fault_begin(&one->q, &one->result, &refused, err);
	snprintf(text, LOST_MAX, "%.*s, and ", WIRE_REASON_MAX, one->result.text);
	return rc;
}

static int lose_node(struct campaign *c, const struct group *g, struct caused *one, struct err *err)
{
	char lost[LOST_MAX] = "";
	uint32_t n = 0, node = one->node;
	pid_t pids[CAMPAIGN_RANKS_MAX];
	for (uint32_t r = 0; r < c->file.ranks; r++)
		if (g->view.nodes[r] == node)
			pids[n++] = g->view.pids[r];
	int cut = one->fault->entry->kind == FAULT_POWER_CUT ? cut_power(one, lost, err) : 0;
	one->result.outcome = FAULT_FIRED;
	snprintf(one->result.text, sizeof(one->result.text), "%s%sall processes of node-%u have died", lost,
		 campaign_cuts(one->fault->entry) ? "behind its cable " : "", node);
	int rc = campaign_kill_node(c, node, pids, n, one->fault->for_ms, err);
	return cut ? cut : rc;
}

/* A copy of the rank's snapshot is on another node, and that one knows. After a loss it comes with a later save. */
static int flip_replica(const struct campaign *c, struct caused *one, struct err *err)
{
	uint64_t deadline = clock_deadline(ASK_NS);
	bool refused = false;
	int rc = -ENOENT;
	while (rc && clock_now() < deadline && !cli_interrupted()) {
		for (uint32_t k = 0; rc && k < c->nnodes; k++)
			if (k != one->node) {
				campaign_node_path(c, k, "s", one->socket);
				rc = fault_begin(&one->q, &one->result, &refused, err);
			}
		if (rc)
			poll(NULL, 0, 20);
	}
	return rc;
}

static int cut(struct campaign *c, struct group *g, struct caused *one, struct err *err)
{
	int rc = campaign_cut(c, one->fault, &one->result, err);
	if (rc)
		return rc;
	one->cut_until = clock_deadline(one->fault->for_ms * CLOCK_NS_PER_MS);
	return campaign_loses_node(one->fault->entry) ? lose_node(c, g, one, err) : 0;
}

/* That the coordinator has taken it is not all: the node is to have no ranks. */
static int drain(struct caused *one, struct err *err)
{
	bool refused = false;
	snprintf(one->name, sizeof(one->name), "node-%u", one->node);
	one->q.node = one->name;
	one->q.for_ms = 0; /* it is taken back here */
	int rc = fault_begin(&one->q, &one->result, &refused, err);
	if (!rc && one->result.outcome == FAULT_FIRED)
		one->result.outcome = FAULT_PENDING;
	return rc;
}

static int spike(struct campaign *c, const struct group *g, struct caused *one, struct err *err)
{
	bool refused = false;
	int rc = g->n == 1 ? campaign_spike_await(c, one->node, err) : 0;
	if (rc)
		return rc;
	set_deadline(g, one);
	one->from = clock_now();
	one->wall_ns = clock_wall();
	one->spikes = c->nodes[one->node].spikes;
	return fault_begin(&one->q, &one->result, &refused, err);
}

static int begin_as(struct campaign *c, struct group *g, struct caused *one, struct err *err)
{
	bool refused = false;
	if (*g->unseen.text && (campaign_is_elastic(c) || campaign_loses_node(one->fault->entry)))
		return err_set(err, -EAGAIN, "%s", g->unseen.text);
	if (campaign_cuts(one->fault->entry))
		return cut(c, g, one, err);
	if (campaign_loses_node(one->fault->entry))
		return lose_node(c, g, one, err);
	if (one->fault->entry->kind == FAULT_FLIP_REPLICA)
		return flip_replica(c, one, err);
	if (is_drain(one))
		return drain(one, err);
	if (is_spike(one))
		return spike(c, g, one, err);
	if (c->hosts.n && one->fault->entry->target == FAULT_AT_DAEMON && one->fault->entry->actor == FAULT_BY_COMMAND)
		return campaign_hosts_fault(c, one->node, &one->q, &one->result, err);
	return fault_begin(&one->q, &one->result, &refused, err);
}

/* The daemon may be back before it is asked again. */
static int begin(struct campaign *c, struct group *g, struct caused *one, struct err *err)
{
	const struct fault_entry *entry = one->fault->entry;
	int rc = begin_as(c, g, one, err);
	if (rc || one->result.outcome != FAULT_FIRED || (!fault_ends_daemon(entry) && !campaign_loses_node(entry)))
		return rc;
	return campaign_note_daemon(c, one->node, false, err);
}

static void begin_one(struct campaign *c, struct group *g, struct caused *one)
{
	struct err err = {""};
	set_deadline(g, one);
	one->from = clock_now();
	one->wall_ns = clock_wall();
	if (begin(c, g, one, &err)) {
		one->result.outcome = FAULT_NOT_FIRED;
		snprintf(one->result.text, sizeof(one->result.text), "%s", err.text);
	}
	if (one->result.outcome != FAULT_PENDING)
		one->ms = (double)(clock_now() - one->from) / 1e6;
}

/* ---- it is looked at ----------------------------------------------------------------------------------------------- */

static int look_as(struct campaign *c, struct caused *one, struct err *err)
{
	bool refused = false;
	if (is_drain(one))
		return campaign_drain_look(c, one->node, one->fault->for_ms, &one->drained_until, &one->result, err);
	return fault_look(&one->q, &one->result, &refused, err);
}

/* What comes next could keep its daemon from naming it. */
static bool is_unnamed(const struct campaign *c, const struct group *g, const struct caused *one)
{
	return g->n == 1 && is_spike(one) && one->result.outcome == FAULT_FIRED &&
	       c->nodes[one->node].spikes == one->spikes && clock_now() < one->q.deadline;
}

static void look(struct campaign *c, struct caused *one)
{
	struct err err = {""}, ignored = {""};
	if (one->result.outcome == FAULT_FIRED)
		return;
	if (clock_now() >= one->q.deadline || look_as(c, one, &err)) {
		one->result.outcome = FAULT_NOT_FIRED;
		if (is_drain(one))
			(void)campaign_undrain(c, one->node, &ignored); /* else the others have too few */
		if (*err.text)
			snprintf(one->result.text, sizeof(one->result.text), "%s", err.text);
	}
	if (is_spike(one) && one->result.outcome == FAULT_FIRED) /* until it is named */
		one->q.deadline = clock_deadline(one->fault->entry->expected_ms * CLOCK_NS_PER_MS);
	if (one->result.outcome != FAULT_PENDING)
		one->ms = (double)(clock_now() - one->from) / 1e6;
}

/* Of a network that is broken nothing is to be looked at before its time is over. */
static bool is_pending(const struct campaign *c, const struct group *g, const struct caused *one)
{
	return (one->result.outcome == FAULT_PENDING && !one->cut_until) || is_unnamed(c, g, one);
}

static bool look_all(struct campaign *c, struct group *g)
{
	bool pending = false;
	for (size_t i = 0; i < g->n; i++) {
		if (is_pending(c, g, &g->one[i]))
			look(c, &g->one[i]);
		pending |= is_pending(c, g, &g->one[i]);
	}
	return pending;
}

/* Until all is known, or until then. Meanwhile the job goes its way: a node that was lost comes back. An exit code. */
static int look_until(struct campaign *c, struct group *g, uint64_t until)
{
	int code = campaign_check_run(c);
	while (!code && look_all(c, g) && clock_now() < until)
		code = campaign_await_time(c, clock_deadline(CAMPAIGN_LOOK_MS * CLOCK_NS_PER_MS));
	return code;
}

/* ---- the network is mended ------------------------------------------------------------------------------------------ */

/* Of those that break it the first that is over. NULL: it is whole. */
static struct caused *next_mended(struct group *g)
{
	struct caused *next = NULL;
	for (size_t i = 0; i < g->n; i++)
		if (g->one[i].cut_until && (!next || g->one[i].cut_until < next->cut_until))
			next = &g->one[i];
	return next;
}

static int mend_one(struct campaign *c, struct group *g, struct caused *one, int code)
{
	if (!code)
		code = look_until(c, g, one->cut_until);
	if (!code)
		code = campaign_await_time(c, one->cut_until);
	one->cut_until = 0;
	campaign_mend(c, one->fault, &one->result);
	return code;
}

/* While a node is drained the job is not whole. */
static int await_drains(struct campaign *c, struct group *g)
{
	int code = EXIT_OK;
	for (size_t i = 0; i < g->n; i++)
		while (!code && is_drain(&g->one[i]) && is_pending(c, g, &g->one[i])) {
			code = campaign_await_time(c, clock_deadline(CAMPAIGN_LOOK_MS * CLOCK_NS_PER_MS));
			look(c, &g->one[i]);
		}
	return code;
}

/* Those that broke the network are over when the job is at work again, and the others have their time from then on. */
static void end_cuts(struct group *g)
{
	for (size_t i = 0; i < g->n; i++)
		if (campaign_cuts(g->one[i].fault->entry))
			g->one[i].ms = (double)(clock_now() - g->one[i].from) / 1e6;
		else
			set_deadline(g, &g->one[i]);
}

/* What comes with a broken network is looked at while it is broken, too. Whatever happens here, it is whole at the end. */
static int await_cuts(struct campaign *c, struct group *g)
{
	struct err err = {""};
	int code = EXIT_OK;
	for (struct caused *one; (one = next_mended(g));)
		code = mend_one(c, g, one, code);
	for (size_t i = 0; i < g->n; i++)
		if (is_drain(&g->one[i]))
			set_deadline(g, &g->one[i]);
	if (!code)
		code = await_drains(c, g);
	if (!code)
		code = campaign_await_work(c, (struct step_id){0});
	if (campaign_note_ways(c, "joined", longest_cut(g, campaign_cut_ms), &err) && !code)
		code = cli_fail(c->cli, EXIT_FAILED, "%s", err.text);
	end_cuts(g);
	return code;
}

/* Before the first of them breaks it. */
static int note_cuts(struct campaign *c, const struct group *g)
{
	struct err err = {""};
	if (!is_cut(g) || !campaign_note_ways(c, "cut", longest_cut(g, campaign_cut_ms), &err))
		return EXIT_OK;
	return cli_fail(c->cli, EXIT_FAILED, "%s", err.text);
}

/* ---- it is told ---------------------------------------------------------------------------------------------------- */

/* Behind the last of those that came together, what comes after them. */
static void name_next(const struct campaign *c, size_t after, char *dst, size_t size)
{
	size_t next = after + 1, used = 0;
	*dst = 0;
	if (next >= c->file.n || c->file.faults[next].with)
		return;
	for (size_t n = campaign_file_together(&c->file, next); n && used < size; n--, next++)
		used += (size_t)snprintf(dst + used, size - used, "%s%s",
					 used ? " with " : "; next: ", c->file.faults[next].entry->name);
}

static int note(struct campaign *c, struct caused *one)
{
	const struct campaign_fault *f = one->fault;
	bool fired = one->result.outcome == FAULT_FIRED;
	struct err err = {""};
	char next[NEXT_MAX];
	if (is_spike(one)) /* until it was named */
		one->ms = (double)(clock_now() - one->from) / 1e6;
	int rc = journal_put(&c->journal,
			     json_pack("{s:s, s:I, s:I, s:s, s:I, s:I, s:s, s:s, s:I, s:I, s:f, s:o}", "event", "fault",
				       "index", (json_int_t)one->index, "first", (json_int_t)one->first, "kind",
				       f->entry->name, "rank", (json_int_t)f->rank, "node", (json_int_t)one->node,
				       "cause", f->cause, "outcome", fired ? "fired" : "not-fired", "for_ms",
				       (json_int_t)f->for_ms, "wall_ns", (json_int_t)one->wall_ns, "ms", one->ms,
				       "text", json_text(one->result.text)),
			     &err);
	if (rc)
		return cli_fail(c->cli, EXIT_FAILED, "%s", err.text);
	c->ended[one->index] = true;
	c->fired += fired;
	c->not_fired += !fired;
	name_next(c, one->index, next, sizeof(next));
	cli_note(c->cli, "%zu of %zu: %s%s%s: %s%s", c->fired + c->not_fired, c->file.n, f->entry->name,
		 *f->cause ? ", for " : "", f->cause, one->result.text, next);
	return EXIT_OK;
}

/* ---- the whole ----------------------------------------------------------------------------------------------------- */

int campaign_cause(struct campaign *c, size_t first, size_t n)
{
	struct group g = {.n = 0};
	int code = EXIT_OK;
	for (size_t i = first; i < first + n && g.n < CAMPAIGN_TOGETHER_MAX; i++)
		if (!c->ended[i])
			add(c, &g, i, first);
	see_ranks(c, &g);
	find_nodes(c, &g);
	code = note_cuts(c, &g);
	for (size_t i = 0; !code && i < g.n; i++)
		begin_one(c, &g, &g.one[i]);
	if (!code && is_cut(&g))
		code = await_cuts(c, &g);
	if (!code)
		code = look_until(c, &g, UINT64_MAX);
	for (size_t i = 0; !code && i < g.n; i++)
		code = note(c, &g.one[i]);
	return code;
}
