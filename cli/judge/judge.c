#include "judge/judge.h"

#include "base/bytes.h"
#include "base/cleanup.h"
#include "journal/journal.h"
#include "judge/hangs.h"
#include "judge/intact.h"
#include "judge/losses.h"
#include "store/read/repo.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { JUDGE_DURABLE, JUDGE_INTACT, JUDGE_RESTORED, JUDGE_PARAMETERS, JUDGE_HANGS, JUDGE_LEFT, JUDGE_LOSSES };
static const char *const names[JUDGE_INVARIANTS] = {"durable", "intact", "restored", "parameters",
						    "hangs",   "left",   "losses"};

#define BACK_NS 60000000000ull /* a fault that makes training go back does so within this time */

struct durable {
	struct step_id id;
	uint64_t wall_ns;
	bool copied; /* else it is on storage */
	uint64_t
		until_ns; /* copied: when all nodes were started again, and the memory of all was new; 0: they were not */
};

struct judge {
	const char *folder;
	struct invariant *out;
	struct durable *durables;
	size_t ndurables, room;
	uint64_t *backs; /* when faults were caused after which training itself goes back */
	size_t nbacks, room_backs;
	struct damages damages;
	struct campaign_losses losses;
	struct campaign_hangs hangs;
	char params[32], calm[32];
	uint32_t nodes, each;                 /* each: ranks of a node; 0: they move */
	uint64_t last_ns;                     /* of the journal */
	int64_t ahead_ns[CAMPAIGN_NODES_MAX]; /* time of day of each node, of the journal's */
	uint32_t node;                        /* whose span log is read */
	bool ended;
};

/* What each node has of its own: "spans", or "node-1.spans" where there are several. */
static void path_of(const struct judge *j, uint32_t node, const char *name, char dst[PATH_MAX])
{
	if (j->nodes > 1)
		snprintf(dst, PATH_MAX, "%s/node-%u.%s", j->folder, node, name);
	else
		snprintf(dst, PATH_MAX, "%s/%s", j->folder, name);
}

/* ---- the journal --------------------------------------------------------------------------------------------------- */

static bool is(const json_t *line, const char *key, const char *text)
{
	const char *value = json_string_value(json_object_get(line, key));
	return value && !strcmp(value, text);
}

static int take_durable(struct judge *j, const json_t *line)
{
	void *more = journal_grown(j->durables, j->ndurables, &j->room, sizeof(*j->durables));
	if (!more)
		return -ENOMEM;
	j->durables = more;
	j->durables[j->ndurables++] = (struct durable){
		.id = {.step = journal_number(line, "step"), .epoch = (uint32_t)journal_number(line, "epoch")},
		.wall_ns = journal_number(line, "wall_ns"),
		.copied = journal_is(line, "replicated")};
	return 0;
}

static void end_copies(struct judge *j, uint64_t wall_ns)
{
	for (size_t i = 0; i < j->ndurables; i++)
		if (j->durables[i].copied && !j->durables[i].until_ns)
			j->durables[i].until_ns = wall_ns;
}

static int take_host(struct judge *j, const json_t *line)
{
	uint64_t node = journal_number(line, "node");
	if (node < CAMPAIGN_NODES_MAX)
		j->ahead_ns[node] = json_integer_value(json_object_get(line, "ahead_ns"));
	return 0;
}

static void take_left(struct judge *j, const json_t *line)
{
	const char *text = json_string_value(json_object_get(line, "text"));
	invariant_broken(&j->out[JUDGE_LEFT], "%s", text ? text : "a network namespace is left behind");
}

static int take_fault(struct judge *j, const json_t *line)
{
	if (!is(line, "outcome", "fired"))
		return 0;
	if (damages_take(&j->damages, line))
		return -ENOMEM;
	if (!is(line, "kind", "nan") && !is(line, "kind", "flip"))
		return 0;
	void *more = journal_grown(j->backs, j->nbacks, &j->room_backs, sizeof(*j->backs));
	if (!more)
		return -ENOMEM;
	j->backs = more;
	j->backs[j->nbacks++] = journal_number(line, "wall_ns");
	return 0;
}

static void take_begin(struct judge *j, const json_t *line)
{
	bool moves = journal_number(line, "spares") || journal_number(line, "min_ranks");
	j->nodes = journal_nodes(line);
	j->each = moves ? 0 : (uint32_t)journal_number(line, "ranks") / j->nodes;
}

static int take_line(void *arg, const json_t *line)
{
	struct judge *j = arg;
	j->last_ns = max_u64(j->last_ns, journal_number(line, "wall_ns"));
	if (campaign_losses_take(&j->losses, line) || campaign_hangs_take(&j->hangs, line))
		return -ENOMEM;
	if (journal_is(line, "begin"))
		take_begin(j, line);
	if (journal_is(line, "host"))
		return take_host(j, line);
	if (journal_is(line, "left"))
		take_left(j, line);
	if (journal_is(line, "durable") || journal_is(line, "replicated"))
		return take_durable(j, line);
	if (journal_is(line, "fault"))
		return take_fault(j, line);
	if (journal_is(line, "started"))
		end_copies(j, journal_number(line, "wall_ns"));
	if (!journal_is(line, "end"))
		return 0;
	const char *params = json_string_value(json_object_get(line, "params")),
		   *calm = json_string_value(json_object_get(line, "calm_params"));
	snprintf(j->params, sizeof(j->params), "%s", params ? params : "");
	snprintf(j->calm, sizeof(j->calm), "%s", calm ? calm : "");
	j->ended = true;
	return 0;
}

/* ---- the store ----------------------------------------------------------------------------------------------------- */

static bool is_there(const struct checkpoint_ref *refs, size_t n, struct step_id id)
{
	for (size_t i = 0; i < n; i++)
		if (refs[i].state == CHECKPOINT_COMMITTED && !step_compare(refs[i].id, id))
			return true;
	return false;
}

static void judge_durable(struct judge *j, const struct checkpoint_ref *refs, size_t n)
{
	struct invariant *v = &j->out[JUDGE_DURABLE];
	for (size_t i = 0; i < j->ndurables; i++) {
		if (j->durables[i].copied)
			continue;
		v->looked_at++;
		if (!is_there(refs, n, j->durables[i].id))
			invariant_broken(v, "step %lu of epoch %u was durable, and is not in the store",
					 (unsigned long)j->durables[i].id.step, j->durables[i].id.epoch);
	}
}

static int judge_store(struct judge *j, struct err *err)
{
	AUTO_FREE struct checkpoint_ref *refs = NULL;
	char path[PATH_MAX];
	struct repo repo;
	size_t n = 0;
	snprintf(path, sizeof(path), "%s/store", j->folder);
	int rc = repo_open(path, &repo, err);
	if (rc)
		return rc;
	rc = repo_scan(&repo, "campaign", &refs, &n, err);
	if (!rc)
		judge_durable(j, refs, n);
	if (!rc)
		rc = campaign_intact(&repo, refs, n, &j->damages, &j->out[JUDGE_INTACT], err);
	repo_close(&repo);
	return rc;
}

/* ---- restored ------------------------------------------------------------------------------------------------------ */

static bool is_stated(const struct judge *j, const json_t *span, uint64_t ended)
{
	if (json_is_string(json_object_get(span, "passed_over")))
		return true;
	for (size_t i = 0; i < j->nbacks; i++)
		if (j->backs[i] < ended && ended - j->backs[i] < BACK_NS)
			return true;
	return false;
}

/* By the time of the journal. */
static uint64_t ended_at(const struct judge *j, const json_t *span)
{
	uint64_t ended = journal_number(span, "ended_ns") - (uint64_t)j->ahead_ns[j->node];
	if (ended > j->last_ns + FAULT_JUMP_NS / 2) /* its daemon's time of day was ahead */
		ended -= FAULT_JUMP_NS;
	return ended;
}

/* What was durable before any part of the recovery had begun counts. */
static void judge_step(struct judge *j, const json_t *span, uint64_t ended)
{
	static const char *const parts[] = {"detect_ns", "decide_ns", "gather_ns", "choose_ns", "fetch_ns"};
	struct invariant *v = &j->out[JUDGE_RESTORED];
	uint64_t took = 0;
	struct step_id id = {.step = journal_number(span, "step"),
			     .epoch = (uint32_t)journal_number(span, "step_epoch")};
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		took += journal_number(span, parts[i]);
	v->looked_at++;
	for (size_t i = 0; i < j->ndurables; i++) {
		const struct durable *d = &j->durables[i];
		if (d->until_ns && d->until_ns < ended)
			continue;
		if (d->wall_ns + took < ended && step_compare(id, d->id) < 0 && !is_stated(j, span, ended))
			invariant_broken(v, "step %lu of epoch %u was restored, although step %lu of epoch %u was %s",
					 (unsigned long)id.step, id.epoch, (unsigned long)d->id.step, d->id.epoch,
					 d->copied ? "replicated" : "durable");
	}
}

static int judge_recovery(void *arg, const json_t *span)
{
	struct judge *j = arg;
	uint64_t ended = ended_at(j, span);
	if (!is(span, "span", "recovery") || is(span, "state", "refused"))
		return 0;
	if (json_is_integer(json_object_get(span, "step")))
		judge_step(j, span, ended);
	return campaign_hangs_entered(&j->hangs, ended);
}

/* A span log that has become long has an older part. */
static int judge_spans(struct judge *j, uint32_t node, struct err *err)
{
	static const char *const logs[] = {"spans.1", "spans"};
	char path[PATH_MAX];
	int rc = 0;
	for (size_t i = 0; !rc && i < sizeof(logs) / sizeof(logs[0]); i++) {
		path_of(j, node, logs[i], path);
		j->node = node;
		rc = !i && access(path, F_OK) ? 0 : journal_read_spans(path, judge_recovery, j, err);
	}
	return rc;
}

static int judge_restored(struct judge *j, struct err *err)
{
	int rc = 0;
	for (uint32_t k = 0; !rc && k < j->nodes; k++)
		rc = judge_spans(j, k, err);
	return rc;
}

/* ---- the others ---------------------------------------------------------------------------------------------------- */

static void judge_parameters(struct judge *j)
{
	struct invariant *v = &j->out[JUDGE_PARAMETERS];
	v->looked_at = 1;
	if (!*j->params || strcmp(j->params, j->calm) != 0)
		invariant_broken(v, "the job ended with %s, without faults it ends with %s",
				 *j->params ? j->params : "nothing", *j->calm ? j->calm : "nothing");
}

/* Of ranks that move nobody knows whose time of day a line has. */
static int take_train(void *arg, const json_t *line)
{
	struct judge *j = arg;
	uint64_t node = j->each ? journal_number(line, "rank") / j->each : CAMPAIGN_NODES_MAX;
	return campaign_hangs_take_train(&j->hangs, line, node < CAMPAIGN_NODES_MAX ? j->ahead_ns[node] : 0);
}

/* What ranks say of it is theirs to write; a trainer of another make may say nothing. */
static int judge_hangs(struct judge *j, struct err *err)
{
	char path[PATH_MAX];
	snprintf(path, sizeof(path), "%s/train.jsonl", j->folder);
	int rc = access(path, F_OK) ? 0 : journal_read_spans(path, take_train, j, err);
	if (!rc)
		campaign_hangs_judge(&j->hangs, &j->out[JUDGE_HANGS]);
	return rc;
}

/* This process adopts what its children leave. */
static void judge_left(struct judge *j)
{
	struct invariant *v = &j->out[JUDGE_LEFT];
	char path[PATH_MAX];
	v->looked_at = 1;
	siginfo_t info = {.si_pid = 0};
	if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD)
		invariant_broken(v, "a process is left behind");
	for (uint32_t k = 0; k < j->nodes; k++) {
		path_of(j, k, "s", path);
		if (!access(path, F_OK))
			invariant_broken(v, "the socket %s is left behind", path);
	}
}

int campaign_judge(const char *folder, struct invariant out[JUDGE_INVARIANTS], struct err *err)
{
	struct judge j = {.folder = folder, .out = out, .nodes = 1};
	char path[PATH_MAX];
	snprintf(path, sizeof(path), "%s/journal", folder);
	for (int i = 0; i < JUDGE_INVARIANTS; i++)
		out[i] = (struct invariant){.name = names[i], .held = true};
	int rc = journal_read(path, take_line, &j, err);
	if (!rc && !j.ended)
		rc = err_set(err, -ENODATA, "%s: the campaign has not ended", path);
	if (!rc)
		rc = judge_store(&j, err);
	if (!rc)
		rc = judge_restored(&j, err);
	if (!rc)
		rc = judge_hangs(&j, err);
	if (!rc) {
		judge_parameters(&j);
		campaign_losses_judge(&j.losses, &out[JUDGE_LOSSES]);
		judge_left(&j);
	}
	free(j.durables);
	free(j.backs);
	damages_free(&j.damages);
	campaign_losses_free(&j.losses);
	campaign_hangs_free(&j.hangs);
	return rc;
}
