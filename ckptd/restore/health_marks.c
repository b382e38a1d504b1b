#include "restore/health_marks.h"

#include "arena/memory.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "daemon.h"
#include "job/job.h"
#include "runtime/workers.h"
#include "save/saves.h"
#include "store/read/repo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The worker's own copy: it touches nothing of the job, which stays as long as it writes. */
struct verdict_work {
	struct work work;
	struct verdicts *verdicts;
	const char *store;
	struct verdict verdict;
	bool old;
	int rc;
	struct err err;
};

void verdicts_init(struct verdicts *verdicts, struct job *job)
{
	*verdicts = (struct verdicts){.job = job};
}

static struct verdict_said *find(struct verdicts *v, struct step_id id)
{
	for (unsigned i = 0; i < VERDICTS_MAX; i++)
		if (v->said[i].is.id.epoch && !step_compare(v->said[i].is.id, id))
			return &v->said[i];
	return NULL;
}

const struct verdict_said *verdicts_find(const struct verdicts *verdicts, struct step_id id)
{
	return find((struct verdicts *)verdicts, id);
}

bool verdicts_idle(const struct verdicts *verdicts)
{
	bool due = false;
	for (unsigned i = 0; i < VERDICTS_MAX; i++)
		due |= verdicts->said[i].due;
	return !verdicts->writing && !due;
}

/* ---- writing --------------------------------------------------------------------------------------------------- */

static void pump(struct verdicts *v);

static void run(struct work *work)
{
	struct verdict_work *w = list_entry(work, struct verdict_work, work);
	struct repo repo;
	w->rc = repo_open(w->store, &repo, &w->err);
	if (w->rc)
		return;
	w->rc = failpoint("verdict.write", NULL);
	if (!w->rc)
		w->rc = checkpoint_put_verdict(&repo, &w->verdict, w->old, &w->err);
	repo_close(&repo);
}

/* Another may have been said meanwhile. */
static bool says(const struct verdict_said *said, bool unhealthy, const char *reason)
{
	return said && said->is.unhealthy == unhealthy && !strcmp(said->is.reason, reason);
}

static void show(struct verdicts *v, const struct verdict_said *said)
{
	const struct job *job = v->job;
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (job->ranks[r].mem)
			verdict_keep(&job->ranks[r].mem->head->verdicts[said - v->said], &said->is);
}

/* -ENOENT: it is not committed, and tried again when it is. -EEXIST: what was said to others later stands there. */
static void note(struct verdicts *v, const struct verdict_work *w)
{
	struct verdict_said *said = find(v, w->verdict.id);
	if (!says(said, w->verdict.unhealthy, w->verdict.reason))
		return;
	said->written = !w->rc;
	said->failed = w->rc && w->rc != -ENOENT;
	if (w->rc != -EEXIST || !said->old)
		return;
	*said = (struct verdict_said){0};
	show(v, said);
}

static void done(struct work *work)
{
	struct verdict_work *w = list_entry(work, struct verdict_work, work);
	struct verdicts *v = w->verdicts;
	const struct verdict *said = &w->verdict;
	v->writing = false;
	note(v, w);
	if (!w->rc)
		log_info("job %s: step %lu epoch %u is marked %s%s%s", said->job, (unsigned long)said->id.step,
			 said->id.epoch, said->unhealthy ? "unhealthy" : "healthy", said->reason[0] ? ": " : "",
			 said->reason);
	else if (w->rc == -EEXIST)
		log_info("job %s: %s of step %lu epoch %u is newer than what was known here", said->job, NAME_VERDICT,
			 (unsigned long)said->id.step, said->id.epoch);
	else if (w->rc != -ENOENT)
		log_warn("job %s: cannot write %s of step %lu epoch %u: %s", said->job, NAME_VERDICT,
			 (unsigned long)said->id.step, said->id.epoch, w->err.text[0] ? w->err.text : err_name(w->rc));
	free(w);
	pump(v);
}

static void start(struct verdicts *v, struct verdict_said *said)
{
	struct daemon *daemon = v->job->daemon;
	struct verdict_work *w = calloc(1, sizeof(*w));
	said->due = false;
	if (!w) {
		said->failed = true;
		log_warn("job %s: no memory to write a verdict", v->job->name);
		return;
	}
	w->work = (struct work){.run = run, .done = done};
	w->verdicts = v;
	w->store = daemon->config.store;
	w->old = said->old;
	w->verdict =
		(struct verdict){.id = said->is.id, .given_at = said->is.given_at, .unhealthy = said->is.unhealthy};
	memcpy(w->verdict.job, v->job->name, sizeof(w->verdict.job));
	memcpy(w->verdict.reason, said->is.reason, sizeof(said->is.reason));
	v->writing = true;
	v->at = said->is.id;
	pool_submit(daemon->pool, &w->work);
}

static void pump(struct verdicts *v)
{
	for (unsigned i = 0; i < VERDICTS_MAX && !v->writing; i++)
		if (v->said[i].due)
			start(v, &v->said[i]);
}

/* What was saved in an epoch without a name in a store is in memory alone. */
static bool may_be_stored(const struct verdicts *v, struct step_id id)
{
	return v->job->daemon->config.store && id.epoch <= EPOCH_MAX;
}

static void want(struct verdicts *v, struct verdict_said *said)
{
	said->due = may_be_stored(v, said->is.id);
	pump(v);
}

void verdicts_durable(struct verdicts *verdicts, struct step_id id)
{
	for (unsigned i = 0; i < VERDICTS_MAX; i++) {
		struct verdict_said *said = &verdicts->said[i];
		if (!step_compare(said->is.id, id) || said->failed)
			said->due = may_be_stored(verdicts, said->is.id);
	}
	pump(verdicts);
}

/* ---- keeping --------------------------------------------------------------------------------------------------- */

/* It is written, or of a checkpoint that is not here (any more), so that it is read from storage only. */
static bool may_go(const struct verdicts *v, const struct verdict_said *said)
{
	return said->written || !saves_find(&v->job->saves, said->is.id);
}

/* The oldest that may go, else the oldest. */
static struct verdict_said *least(struct verdicts *v)
{
	struct verdict_said *oldest = v->said;
	bool goes = may_go(v, oldest);
	for (unsigned i = 1; i < VERDICTS_MAX; i++) {
		struct verdict_said *said = &v->said[i];
		bool may = may_go(v, said);
		if (may == goes ? said->is.given_at >= oldest->is.given_at : goes)
			continue;
		oldest = said;
		goes = may;
	}
	if (!goes)
		log_warn("job %s: %d newer verdicts are to be kept: that of step %lu epoch %u is forgotten, and not "
			 "written",
			 v->job->name, VERDICTS_MAX, (unsigned long)oldest->is.id.step, oldest->is.id.epoch);
	return oldest;
}

/* In place of what was said before of the same, or of another. */
static struct verdict_said *place(struct verdicts *v, struct step_id id)
{
	struct verdict_said *at = find(v, id);
	for (unsigned i = 0; i < VERDICTS_MAX && !at; i++)
		at = v->said[i].is.id.epoch ? NULL : &v->said[i];
	return at ? at : least(v);
}

void verdicts_keep(const struct verdicts *verdicts, struct memory *mem)
{
	for (unsigned i = 0; i < VERDICTS_MAX; i++)
		verdict_keep(&mem->head->verdicts[i], &verdicts->said[i].is);
}

static void put(struct verdicts *v, const struct verdict_kept *is, bool old)
{
	struct verdict_said *said = place(v, is->id);
	*said = (struct verdict_said){.is = *is, .old = old};
	v->last = max_u64(v->last, is->given_at);
	show(v, said);
	want(v, said);
}

/* All of it is read before anything is written: it gets other places where its own are taken. */
void verdicts_return(struct verdicts *verdicts, struct memory *mem)
{
	struct verdict_kept back[VERDICTS_MAX];
	unsigned n = 0;
	for (unsigned i = 0; i < VERDICTS_MAX; i++)
		n += verdict_recall(&mem->head->verdicts[i], &back[n]);
	for (unsigned i = 0; i < n; i++) {
		const struct verdict_said *known = find(verdicts, back[i].id);
		if (!known || known->is.given_at < back[i].given_at)
			put(verdicts, &back[i], true);
	}
	verdicts_keep(verdicts, mem);
}

/* Both are kept: a rank that has not heard of the other one may yet speak of the first. */
void verdicts_follow(struct verdicts *verdicts, struct step_id from, struct step_id to)
{
	const struct verdict_said *said = find(verdicts, from);
	if (!said || find(verdicts, to))
		return;
	struct verdict_kept is = said->is;
	is.id = to;
	put(verdicts, &is, true);
}

/* ---- taking ---------------------------------------------------------------------------------------------------- */

/* All ranks may say the same, and again. */
static void take(struct verdicts *v, const struct wire_mark *m)
{
	struct verdict_said *said = find(v, m->id);
	bool known = says(said, m->unhealthy, m->reason) && !said->old;
	if (known && (said->written || (v->writing && !step_compare(v->at, m->id))))
		return;
	if (known) {
		want(v, said);
		return;
	}
	struct verdict_kept is = {
		.id = m->id, .unhealthy = m->unhealthy, .given_at = max_u64(clock_wall(), v->last + 1)};
	memcpy(is.reason, m->reason, sizeof(is.reason));
	put(v, &is, false);
}

void verdicts_take(struct rank *rank, uint32_t seq, const struct wire_mark *m)
{
	AUTO_WBUF struct wbuf body = {0};
	struct job *job = rank->job;
	if (rank->state != RANK_JOINED || m->epoch != job->epoch || m->id.epoch > job->epoch) {
		client_error(rank->client, seq, -ESTALE, "the job is in epoch %u: join first", job->epoch);
		return;
	}
	take(&job->verdicts, m);
	client_send(rank->client, WIRE_MARK, seq, &body, NULL, 0);
}
