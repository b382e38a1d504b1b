#include "loop.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agree.h"
#include "crew.h"
#include "deadline.h"
#include "message.h"
#include "progress.h"
#include "report.h"
#include "saver.h"
#include "state.h"
#include "step.h"

/* A ring may break before the daemon knows why; after this long the rank joins again without the news. */
enum { NEWS_MS = 5000 };
/* A rank that waits for others looks so often whether it is to end. */
enum { JOIN_MS = 1000 };

struct loop {
	const struct train_options *options;
	const struct data *data;
	const volatile sig_atomic_t *stop;
	struct cancel cancel;
	ckpt *session;
	struct state state;
	struct report report;
	struct crew crew;
	struct saver saver;
	struct step step;
	struct progress progress;
	struct entry entry; /* how this rank came into the epoch */
	char reason[CANCEL_REASON_SIZE];
	bool reported;       /* the entry is complete and reported */
	int64_t advanced_ns; /* last completed step, or the start */
	char why[LOOP_WHY_SIZE];
};

static int fail(struct loop *l, int rc, const char *why)
{
	if (why != l->why)
		snprintf(l->why, sizeof(l->why), "%s", why);
	return rc;
}

/* ---- the place in the world --------------------------------------------------------------------------------- */

/* What belongs to a place in the world, for the one that the session has now. */
static int make_state(struct loop *l)
{
	int rank = ckpt_rank(l->session), world = ckpt_world(l->session), rc;

	l->crew.rank = l->saver.rank = l->report.rank = rank;
	l->crew.world = world;
	if (world > RING_MAX_WORLD) {
		snprintf(l->why, sizeof(l->why), "%d ranks: at most %d are possible", world, RING_MAX_WORLD);
		return -EINVAL;
	}
	rc = state_create(l->options, rank, world, &l->state);
	if (rc == 0)
		rc = step_prepare(&l->step, world);
	if (rc < 0)
		return fail(l, rc, "not enough memory for the model");
	rc = state_register(&l->state, l->session);
	if (rc < 0)
		snprintf(l->why, sizeof(l->why), "register: %s", ckpt_error(l->session));
	return rc;
}

static void free_state(struct loop *l)
{
	step_free(&l->step);
	state_free(&l->state);
}

/* The job goes on with another world: the shards are others, and come out of the restore that follows. */
static int move(struct loop *l)
{
	l->crew.why[0] = '\0'; /* that was the news */
	message(l->crew.rank, "is rank %d of %d from now on", ckpt_rank(l->session), ckpt_world(l->session));
	saver_forget(&l->saver);
	free_state(l);
	return make_state(l);
}

/* ---- into an epoch ------------------------------------------------------------------------------------------- */

static void warn_of_another_run(struct loop *l)
{
	const struct counters *c = &l->state.counters;

	if (l->crew.rank == 0 &&
	    (c->seed != l->options->seed || c->batch != l->options->batch || c->text != data_fingerprint(l->data)))
		message(0,
			"the checkpoint of step %" PRIu64
			" comes from a run with another seed, batch or text: this one is not "
			"its continuation bit for bit",
			c->step);
}

/* Everybody has the same answer: a checkpoint, or a fresh start. */
static int restore(struct loop *l)
{
	ckpt_restored *restored = &l->entry.restored;
	int rc;

	*restored = CKPT_INIT(ckpt_restored);
	ckpt_beat(l->session, l->state.counters.step, CKPT_PHASE_RESTORE);
	rc = ckpt_restore(l->session, CKPT_LATEST, NULL, restored, -1);
	if (rc == -ENOENT) {
		*restored = CKPT_INIT(ckpt_restored);
		state_reset(&l->state, l->options, data_fingerprint(l->data));
		return 0;
	}
	if (rc < 0)
		return fail(l, crew_library_error(&l->crew, "restore", rc), l->crew.why);
	if (l->state.counters.version != STATE_VERSION) {
		snprintf(l->why, sizeof(l->why),
			 "the checkpoint of step %" PRIu64 " has counters of version %" PRIu64
			 ", this trainer knows version %d",
			 restored->step, l->state.counters.version, STATE_VERSION);
		return -EPROTONOSUPPORT;
	}
	warn_of_another_run(l);
	return 0;
}

static bool wants_stop(const struct loop *l)
{
	return *l->stop || ckpt_should_stop(l->session);
}

static bool patience_ended(const struct loop *l)
{
	return monotonic_ns() - l->advanced_ns > l->options->patience_ms * 1000000;
}

/* Waits in short turns for the others: while they are missing a request to stop ends the wait, as does our patience. */
static int join(struct loop *l)
{
	bool again;
	int rc;

	do {
		rc = crew_join(&l->crew, JOIN_MS);
		again = l->crew.missing && !wants_stop(l) && !patience_ended(l);
		if (rc == -EREMCHG) {
			rc = move(l);
			again = rc == 0;
		}
	} while (again);
	if (rc == 0)
		saver_joined(&l->saver);
	return rc;
}

static int enter(struct loop *l)
{
	struct entry_times *at = &l->entry.at;
	int rc;

	at->joining = monotonic_ns();
	rc = join(l);
	at->joined = monotonic_ns();
	if (rc == 0)
		rc = crew_connect(&l->crew);
	if (rc == 0)
		rc = agree(&l->crew, l->options, data_fingerprint(l->data));
	if (rc < 0)
		return fail(l, rc, *l->crew.why ? l->crew.why : l->why);
	at->connected = monotonic_ns();
	l->entry.epoch = l->crew.epoch;
	rc = restore(l);
	at->restored = monotonic_ns();
	return rc;
}

static const char *source_name(ckpt_source source)
{
	return source == CKPT_FROM_MEMORY ? "memory" : source == CKPT_FROM_PEER ? "a peer" : "storage";
}

/* Rank 0 tells people; every rank reports. After the first step of the epoch, or when there is none to do. */
static void tell_entry(struct loop *l)
{
	const struct entry *e = &l->entry;
	int64_t from = e->at.noticed ? e->at.noticed : e->at.joining;

	if (l->reported)
		return;
	l->reported = true;
	report_entry(&l->report, e);
	if (l->crew.rank != 0)
		return;
	if (!e->restored.source)
		message(0, "epoch %u: %d ranks start at step 0", e->epoch, l->crew.world);
	else
		message(0, "epoch %u: %d ranks go on from %s at step %" PRIu64 " after %.0f ms%s%s%s%s", e->epoch,
			l->crew.world, source_name(e->restored.source), e->restored.step,
			(double)(e->at.restored - from) / 1e6, *e->reason ? ": " : "", e->reason,
			*e->restored.why ? "; passed over: " : "", e->restored.why);
}

/* ---- out of an epoch ----------------------------------------------------------------------------------------- */

/* A loss within a recovery belongs to the same one: what was noticed first, and where, stays. */
static void note_loss(struct loop *l, int64_t now)
{
	struct entry_times *at = &l->entry.at;
	struct entry_times first = {.complete = l->crew.complete_ns, .noticed = now};

	if (!l->reported)
		first = (struct entry_times){.complete = at->complete, .noticed = at->noticed, .told = at->told};
	else
		l->entry.lost_step = l->state.counters.step;
	*at = first;
	l->reported = false;
}

/* The news may have come before the ring broke, after it, or not at all. */
static void note_news(struct loop *l, int64_t now)
{
	struct entry_times *at = &l->entry.at;
	int64_t told = cancel_told(&l->cancel, l->crew.epoch, l->reason);

	if (!at->noticed || at->told)
		return;
	at->told = told ? told : monotonic_ns();
	if (told && told < now)
		at->noticed = told;
}

/*
 * Leaves everything that belongs to the epoch and waits for the news of the next. -ETIMEDOUT: no step for too long;
 * -ECANCELED: asked to stop while ranks are missing, who are not likely to come for that.
 */
static int leave(struct loop *l)
{
	int64_t now = monotonic_ns();

	note_loss(l, now);
	saver_forget(&l->saver);
	crew_leave(&l->crew);
	if (l->crew.missing && wants_stop(l))
		return -ECANCELED;
	if (patience_ended(l))
		return -ETIMEDOUT;
	cancel_wait(&l->cancel, l->crew.epoch, deadline_in_ms(NEWS_MS)); /* without news, joining brings them about */
	note_news(l, now);
	message(l->crew.rank, "leaves epoch %u after step %" PRIu64 " (%s)%s%s", l->crew.epoch, l->entry.lost_step,
		l->why, *l->reason ? ": " : "", l->reason);
	return 0;
}

/* ---- in an epoch --------------------------------------------------------------------------------------------- */

static void tell_progress(struct loop *l)
{
	const struct counters *c = &l->state.counters;
	uint64_t tokens = l->options->batch * (uint64_t)l->options->model.seq_len;
	char line[PROGRESS_SIZE];

	if (l->crew.rank == 0 &&
	    progress_line(&l->progress, monotonic_ns(), c->step, l->options->steps, c->loss, tokens, &l->saver, line))
		message(0, "%s", line);
}

static int one_step(struct loop *l, bool *stop)
{
	int rc;

	*stop = wants_stop(l);
	rc = step_run(&l->step, stop);
	if (rc < 0)
		return fail(l, rc,
			    rc == -ENODATA ? "the text is shorter than a row"
			    : *l->crew.why ? l->crew.why
					   : l->saver.why);
	l->advanced_ns = monotonic_ns();
	if (!l->entry.at.stepped)
		l->entry.at.stepped = l->advanced_ns;
	tell_entry(l);
	return 0;
}

/* All steps but the last end with a save by schedule; the last save is another matter. */
static int train(struct loop *l)
{
	bool stop = false;
	int rc = 0;

	progress_start(&l->progress, l->options->progress, l->state.counters.step);
	while (rc == 0 && !stop && l->state.counters.step < l->options->steps) {
		rc = one_step(l, &stop);
		if (rc == 0 && !stop && l->state.counters.step < l->options->steps) {
			rc = saver_begin(&l->saver, l->state.counters.step);
			if (rc < 0)
				fail(l, rc, l->saver.why);
		}
		saver_follow(&l->saver);
		tell_progress(l);
	}
	return rc;
}

/* All ranks must have the same parameters, else the run was wrong. */
static int compare_parameters(struct loop *l, struct loop_result *result)
{
	uint64_t all[RING_MAX_WORLD];
	int rc;

	result->fingerprint = all[l->crew.rank] = state_fingerprint(&l->state);
	rc = crew_gather(&l->crew, all, sizeof(all[0]));
	if (rc < 0)
		return fail(l, rc, l->crew.why);
	for (int rank = 1; rank < l->crew.world; rank++) {
		if (all[rank] != all[0]) {
			snprintf(l->why, sizeof(l->why),
				 "ranks 0 and %d ended with different parameters: %016" PRIx64 " and %016" PRIx64, rank,
				 all[0], all[rank]);
			return -EBADMSG;
		}
	}
	return 0;
}

/* Of this epoch, from the end of its first step, which waits for what comes with an epoch. */
static double mean_step_ms(const struct loop *l)
{
	uint64_t steps = l->state.counters.step - l->entry.restored.step;

	return steps > 1 ? (double)(l->advanced_ns - l->entry.at.stepped) / 1e6 / (double)(steps - 1) : 0;
}

/* The last save. Its failure is told by the result; only the end of the epoch sends us back. */
static int finish(struct loop *l, struct loop_result *result)
{
	int64_t from = monotonic_ns();
	int rc;

	tell_entry(l);
	*result = (struct loop_result){
		.step = l->state.counters.step, .loss = l->state.counters.loss, .rank = l->crew.rank};
	ckpt_beat(l->session, l->state.counters.step, CKPT_PHASE_SAVE);
	rc = saver_finish(&l->saver, l->state.counters.step);
	if (rc == -ESTALE || saver_fatal(rc))
		return fail(l, rc, l->saver.why);
	if (rc < 0) {
		result->unsafe = true;
		message(l->crew.rank, "%s", l->saver.why);
	}
	rc = compare_parameters(l, result);
	if (rc < 0)
		return rc;
	report_end(&l->report, &(struct run_end){.step = result->step,
						 .loss = result->loss,
						 .fingerprint = result->fingerprint,
						 .wait_ms = (double)(monotonic_ns() - from) / 1e6,
						 .step_ms = mean_step_ms(l)});
	rc = crew_barrier(&l->crew); /* who leaves first must not look like a lost neighbour */
	return rc < 0 ? fail(l, rc, l->crew.why) : 0;
}

static int live(struct loop *l, struct loop_result *result)
{
	int rc;

	l->advanced_ns = monotonic_ns();
	l->entry.reason = l->reason;
	while (true) {
		l->crew.why[0] = l->saver.why[0] = '\0';
		rc = enter(l);
		if (rc == 0)
			rc = train(l);
		if (rc == 0)
			rc = finish(l, result);
		if (rc != -ESTALE)
			return rc;
		rc = leave(l);
		if (rc < 0)
			return rc;
	}
}

/* ---- around it ----------------------------------------------------------------------------------------------- */

static int open_session(struct loop *l)
{
	ckpt_options o = CKPT_INIT(ckpt_options);

	o.rank = l->options->rank;
	o.world = l->options->world;
	o.strict = l->options->strict;
	o.on_epoch = cancel_raise;
	o.on_epoch_arg = &l->cancel;
	return ckpt_open(&o, &l->session, l->why, sizeof(l->why));
}

static int check_text(struct loop *l)
{
	if (data_size(l->data) > (size_t)l->options->model.seq_len)
		return 0;
	snprintf(l->why, sizeof(l->why), "the text has %zu bytes, a row needs %d: give more text or a smaller --seq",
		 data_size(l->data), l->options->model.seq_len + 1);
	return -ENODATA;
}

/* Everything that lives as long as the session. What was made is freed by tear_down(). */
static int set_up(struct loop *l)
{
	l->crew = (struct crew){.session = l->session,
				.cancel = &l->cancel,
				.address = l->options->address,
				.timeout_ms = l->options->timeout_ms};
	l->saver = (struct saver){.session = l->session,
				  .cancel = &l->cancel,
				  .report = &l->report,
				  .memory_every = l->options->memory_every,
				  .storage_every = l->options->storage_every};
	l->step = (struct step){l->options, l->data, &l->state, &l->crew, &l->saver, NULL, NULL};
	return make_state(l);
}

/* The session first: it reads registered memory until then. */
static void tear_down(struct loop *l, int outcome)
{
	int rc;

	saver_forget(&l->saver);
	rc = ckpt_close(l->session);
	if (rc < 0 && outcome == 0)
		message(l->crew.rank, "a save to storage had failed: %s", strerror(-rc));
	crew_leave(&l->crew);
	free_state(l);
}

static int run_session(struct loop *l, struct loop_result *result)
{
	int rc = open_session(l);

	if (rc < 0)
		return rc;
	rc = set_up(l);
	if (rc == 0)
		rc = live(l, result);
	if (rc == 0 && l->options->dump && l->crew.rank == 0) {
		rc = state_dump(&l->state, l->options->dump);
		if (rc < 0)
			snprintf(l->why, sizeof(l->why), "%s: %s", l->options->dump, strerror(-rc));
	}
	tear_down(l, rc);
	return rc;
}

static int run(struct loop *l, struct loop_result *result)
{
	int rc = check_text(l);

	if (rc < 0)
		return rc;
	rc = report_open(&l->report, l->options->report);
	if (rc < 0) {
		snprintf(l->why, sizeof(l->why), "%s: %s", l->options->report, strerror(-rc));
		return rc;
	}
	rc = cancel_open(&l->cancel);
	if (rc < 0) {
		snprintf(l->why, sizeof(l->why), "eventfd: %s", strerror(-rc));
	} else {
		rc = run_session(l, result);
		cancel_close(&l->cancel);
	}
	report_close(&l->report);
	return rc;
}

int loop_run(const struct train_options *options, const struct data *data, const volatile sig_atomic_t *stop,
	     struct loop_result *result, char why[LOOP_WHY_SIZE])
{
	struct loop l = {.options = options, .data = data, .stop = stop};
	int rc = run(&l, result);

	snprintf(why, LOOP_WHY_SIZE, "%s", rc < 0 ? l.why : "");
	return rc;
}
