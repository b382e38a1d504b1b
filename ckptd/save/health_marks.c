#include "save/health_marks.h"

#include "arena/room.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "runtime/room.h"
#include "save/saves.h"
#include "store/read/repo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The worker's own copy: it touches nothing of the job, which stays as long as it writes. */
struct mark_work {
	struct work work;
	struct health_marks *health_marks;
	const char *store;
	struct health_mark mark;
	bool old;
	int rc;
	struct err err;
};

void health_marks_init(struct health_marks *marks, const struct marked_job *job)
{
	*marks = (struct health_marks){.job = *job};
}

static struct noted_mark *find(struct health_marks *v, struct step_id id)
{
	for (unsigned i = 0; i < HEALTH_MARKS_MAX; i++)
		if (v->said[i].is.id.epoch && !step_compare(v->said[i].is.id, id))
			return &v->said[i];
	return NULL;
}

const struct noted_mark *health_marks_find(const struct health_marks *marks, struct step_id id)
{
	return find((struct health_marks *)marks, id);
}

bool health_marks_newest(const struct health_marks *marks, const struct rollbacks *back, struct step_id before,
			 struct step_id *id)
{
	*id = (struct step_id){0};
	for (unsigned i = 0; i < HEALTH_MARKS_MAX; i++) {
		const struct kept_mark *m = &marks->said[i].is;
		if (m->id.epoch && !m->unhealthy && step_compare(m->id, before) < 0 && step_compare(m->id, *id) > 0 &&
		    !rollbacks_give_up(back, m->id))
			*id = m->id;
	}
	return id->epoch;
}

bool health_marks_idle(const struct health_marks *marks)
{
	bool due = false;
	for (unsigned i = 0; i < HEALTH_MARKS_MAX; i++)
		due |= marks->said[i].due;
	return !marks->writing && !due;
}

/* ---- writing --------------------------------------------------------------------------------------------------- */

static void pump(struct health_marks *v);

static void run(struct work *work)
{
	struct mark_work *w = list_entry(work, struct mark_work, work);
	struct repo repo;
	w->rc = repo_open(w->store, &repo, &w->err);
	if (w->rc)
		return;
	w->rc = failpoint("mark.write", NULL);
	if (!w->rc)
		w->rc = checkpoint_put_health_mark(&repo, &w->mark, w->old, &w->err);
	repo_close(&repo);
}

/* Another may have been said meanwhile. */
static bool says(const struct noted_mark *said, bool unhealthy, const char *reason)
{
	return said && said->is.unhealthy == unhealthy && !strcmp(said->is.reason, reason);
}

static void show(struct health_marks *v, const struct noted_mark *said)
{
	v->job.show(v->job.arg, (unsigned)(said - v->said), &said->is);
}

/* -ENOENT: it is not committed, and tried again when it is. -EEXIST: what was said to others later stands there. */
static void note(struct health_marks *v, const struct mark_work *w)
{
	struct noted_mark *said = find(v, w->mark.id);
	if (!says(said, w->mark.unhealthy, w->mark.reason))
		return;
	said->written = !w->rc;
	said->failed = w->rc && w->rc != -ENOENT;
	if (w->rc != -EEXIST || !said->old)
		return;
	*said = (struct noted_mark){0};
	show(v, said);
}

static void done(struct work *work)
{
	struct mark_work *w = list_entry(work, struct mark_work, work);
	struct health_marks *v = w->health_marks;
	const struct health_mark *said = &w->mark;
	v->writing = false;
	note(v, w);
	if (!w->rc)
		log_info("job %s: step %lu epoch %u is marked %s%s%s", said->job, (unsigned long)said->id.step,
			 said->id.epoch, said->unhealthy ? "unhealthy" : "healthy", said->reason[0] ? ": " : "",
			 said->reason);
	else if (w->rc == -EEXIST)
		log_info("job %s: %s of step %lu epoch %u is newer than what was known here", said->job,
			 NAME_HEALTH_MARK, (unsigned long)said->id.step, said->id.epoch);
	else if (w->rc != -ENOENT)
		log_warn("job %s: cannot write %s of step %lu epoch %u: %s", said->job, NAME_HEALTH_MARK,
			 (unsigned long)said->id.step, said->id.epoch, w->err.text[0] ? w->err.text : err_name(w->rc));
	free(w);
	pump(v);
}

static void start(struct health_marks *v, struct noted_mark *said)
{
	const struct runtime *runtime = v->job.runtime;
	struct mark_work *w = calloc(1, sizeof(*w));
	said->due = false;
	if (!w) {
		said->failed = true;
		log_warn("job %s: no memory to write a health mark", v->job.name);
		return;
	}
	w->work = (struct work){.run = run, .done = done};
	w->health_marks = v;
	w->store = runtime->config.store;
	w->old = said->old;
	w->mark =
		(struct health_mark){.id = said->is.id, .given_at = said->is.given_at, .unhealthy = said->is.unhealthy};
	snprintf(w->mark.job, sizeof(w->mark.job), "%s", v->job.name);
	memcpy(w->mark.reason, said->is.reason, sizeof(said->is.reason));
	v->writing = true;
	v->at = said->is.id;
	pool_submit(runtime->pool, &w->work);
}

static void pump(struct health_marks *v)
{
	for (unsigned i = 0; i < HEALTH_MARKS_MAX && !v->writing; i++)
		if (v->said[i].due)
			start(v, &v->said[i]);
}

/* What was saved in an epoch without a name in a store is in memory alone. */
static bool may_be_stored(const struct health_marks *v, struct step_id id)
{
	return v->job.runtime->config.store && id.epoch <= EPOCH_MAX;
}

static void want(struct health_marks *v, struct noted_mark *said)
{
	said->due = may_be_stored(v, said->is.id);
	pump(v);
}

void health_marks_durable(struct health_marks *marks, struct step_id id)
{
	for (unsigned i = 0; i < HEALTH_MARKS_MAX; i++) {
		struct noted_mark *said = &marks->said[i];
		if (!step_compare(said->is.id, id) || said->failed)
			said->due = may_be_stored(marks, said->is.id);
	}
	pump(marks);
}

/* ---- keeping --------------------------------------------------------------------------------------------------- */

/* It is written, or of a checkpoint that is not here (any more), so that it is read from storage only. */
static bool may_go(const struct health_marks *v, const struct noted_mark *said)
{
	return said->written || !saves_find(v->job.saves, said->is.id);
}

/* The oldest that may go, else the oldest. */
static struct noted_mark *least(struct health_marks *v)
{
	struct noted_mark *oldest = v->said;
	bool goes = may_go(v, oldest);
	for (unsigned i = 1; i < HEALTH_MARKS_MAX; i++) {
		struct noted_mark *said = &v->said[i];
		bool may = may_go(v, said);
		if (may == goes ? said->is.given_at >= oldest->is.given_at : goes)
			continue;
		oldest = said;
		goes = may;
	}
	if (!goes)
		log_warn(
			"job %s: %d newer health marks are to be kept: that of step %lu epoch %u is forgotten, and not "
			"written",
			v->job.name, HEALTH_MARKS_MAX, (unsigned long)oldest->is.id.step, oldest->is.id.epoch);
	return oldest;
}

/* In place of what was said before of the same, or of another. */
static struct noted_mark *place(struct health_marks *v, struct step_id id)
{
	struct noted_mark *at = find(v, id);
	for (unsigned i = 0; i < HEALTH_MARKS_MAX && !at; i++)
		at = v->said[i].is.id.epoch ? NULL : &v->said[i];
	return at ? at : least(v);
}

void health_marks_keep(const struct health_marks *marks, struct memory *mem)
{
	for (unsigned i = 0; i < HEALTH_MARKS_MAX; i++)
		mark_keep(&mem->head->health_marks[i], &marks->said[i].is);
}

static void put(struct health_marks *v, const struct kept_mark *is, bool old)
{
	struct noted_mark *said = place(v, is->id);
	*said = (struct noted_mark){.is = *is, .old = old};
	v->last = max_u64(v->last, is->given_at);
	show(v, said);
	want(v, said);
}

/* All of it is read before anything is written: it gets other places where its own are taken. */
void health_marks_return(struct health_marks *marks, struct memory *mem)
{
	struct kept_mark back[HEALTH_MARKS_MAX];
	unsigned n = 0;
	for (unsigned i = 0; i < HEALTH_MARKS_MAX; i++)
		n += mark_recall(&mem->head->health_marks[i], &back[n]);
	for (unsigned i = 0; i < n; i++) {
		const struct noted_mark *known = find(marks, back[i].id);
		if (!known || known->is.given_at < back[i].given_at)
			put(marks, &back[i], true);
	}
	health_marks_keep(marks, mem);
}

/* Both are kept: a rank that has not heard of the other one may yet speak of the first. */
void health_marks_follow(struct health_marks *marks, struct step_id from, struct step_id to)
{
	const struct noted_mark *said = find(marks, from);
	if (!said || find(marks, to))
		return;
	struct kept_mark is = said->is;
	is.id = to;
	put(marks, &is, true);
}

/* ---- taking ---------------------------------------------------------------------------------------------------- */

void health_marks_take(struct health_marks *marks, const struct wire_mark *m)
{
	struct noted_mark *said = find(marks, m->id);
	bool known = says(said, m->unhealthy, m->reason) && !said->old;
	if (known && (said->written || (marks->writing && !step_compare(marks->at, m->id))))
		return;
	if (known) {
		want(marks, said);
		return;
	}
	struct kept_mark is = {
		.id = m->id, .unhealthy = m->unhealthy, .given_at = max_u64(clock_wall(), marks->last + 1)};
	memcpy(is.reason, m->reason, sizeof(is.reason));
	put(marks, &is, false);
}
