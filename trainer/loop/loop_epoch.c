#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "collective/mismatch.h"
#include "common/deadline.h"
#include "common/message.h"
#include "loop/agree.h"
#include "loop/loop_internal.h"

/* A ring may break before the daemon knows why; after this long the rank joins again without the news. */
enum { NEWS_MS = 5000, NEWS_BEAT_MS = 500 };
/* A rank that waits for others looks so often whether it is to end. */
enum { JOIN_MS = 1000 };

/* ---- the place in the world --------------------------------------------------------------------------------- */

int loop_make_state(struct loop *l)
{
	int rank = ckpt_rank(l->session), world = ckpt_world(l->session), rc;

	l->communicator.rank = l->saver.rank = l->report.rank = rank;
	l->communicator.world = world;
	if (world > RING_MAX_WORLD) {
		snprintf(l->why, sizeof(l->why), "%d ranks: at most %d are possible", world, RING_MAX_WORLD);
		return -EINVAL;
	}
	rc = state_create(l->platform, l->options, rank, world, &l->state);
	if (rc == 0)
		rc = step_prepare(&l->step, world);
	if (rc < 0)
		return loop_fail(
			l, rc, *l->platform->device.why ? l->platform->device.why : "not enough memory for the model");
	rc = state_register(&l->state, l->session);
	if (rc < 0)
		snprintf(l->why, sizeof(l->why), "register: %s", ckpt_error(l->session));
	return rc;
}

void loop_free_state(struct loop *l)
{
	step_free(&l->step);
	state_free(&l->state);
}

/* The job goes on with another world: the shards are others, and come out of the restore that follows. */
static int move(struct loop *l)
{
	l->communicator.why[0] = '\0'; /* that was the news */
	message(l->communicator.rank, "is rank %d of %d from now on", ckpt_rank(l->session), ckpt_world(l->session));
	saver_forget(&l->saver);
	loop_free_state(l);
	return loop_make_state(l);
}

/* ---- into an epoch ------------------------------------------------------------------------------------------- */

/* Waits in short turns for the others: while they are missing a request to stop ends the wait, as does our patience. */
static int join(struct loop *l)
{
	bool again;
	int rc;

	do {
		rc = communicator_join(&l->communicator, JOIN_MS);
		again = l->communicator.missing && !loop_wants_stop(l) && !loop_patience_ended(l);
		if (rc == -EREMCHG) {
			rc = move(l);
			again = rc == 0;
		}
	} while (again);
	if (rc == 0)
		saver_joined(&l->saver);
	return rc;
}

/* Each rank saw only that a neighbour was in another collective. Rank 0 tells people. */
static int compare_places(struct loop *l)
{
	char text[MISMATCH_TEXT_SIZE];
	int rc = mismatch_compare(&l->communicator, &l->place, text);

	if (rc < 0)
		return rc;
	l->compared = true;
	if (*text && *l->left)
		snprintf(l->left, sizeof(l->left), "%s", text);
	if (*text && l->communicator.rank == 0)
		message(0, "%s", text);
	return 0;
}

int loop_enter(struct loop *l)
{
	struct entry_times *at = &l->entry.at;
	int rc;

	at->joining = monotonic_ns();
	rc = join(l);
	at->joined = monotonic_ns();
	if (rc == 0)
		rc = communicator_connect(&l->communicator);
	if (rc == 0)
		rc = agree(&l->communicator, l->options, data_fingerprint(l->data));
	if (rc == 0)
		rc = compare_places(l);
	if (rc < 0)
		return loop_fail(l, rc, *l->communicator.why ? l->communicator.why : l->why);
	at->connected = monotonic_ns();
	l->entry.epoch = l->communicator.epoch;
	rc = loop_restore(l);
	at->restored = monotonic_ns();
	return rc;
}

static const char *source_name(ckpt_source source)
{
	return source == CKPT_FROM_MEMORY ? "memory" : source == CKPT_FROM_PEER ? "a peer" : "storage";
}

void loop_tell_entry(struct loop *l)
{
	const struct entry *e = &l->entry;
	int64_t from = e->at.noticed ? e->at.noticed : e->at.joining;

	if (l->reported)
		return;
	l->reported = true;
	report_entry(&l->report, e);
	if (l->communicator.rank != 0)
		return;
	if (!e->restored.source)
		message(0, "epoch %u: %d ranks start at step 0", e->epoch, l->communicator.world);
	else
		message(0, "epoch %u: %d ranks go on from %s at step %" PRIu64 " after %.0f ms%s%s%s%s", e->epoch,
			l->communicator.world, source_name(e->restored.source), e->restored.step,
			(double)(e->at.restored - from) / 1e6, *e->reason ? ": " : "", e->reason,
			*e->restored.why ? "; passed over: " : "", e->restored.why);
}

/* ---- out of an epoch ----------------------------------------------------------------------------------------- */

/* A loss within a recovery belongs to the same one: what was noticed first, and where, stays. */
static void note_loss(struct loop *l, int64_t now)
{
	struct entry_times *at = &l->entry.at;
	struct entry_times first = {.complete = l->communicator.complete_ns, .noticed = now};

	if (!l->reported) {
		first = (struct entry_times){.complete = at->complete, .noticed = at->noticed, .told = at->told};
	} else {
		l->entry.lost_step = l->state.counters.step;
		snprintf(l->left, sizeof(l->left), "%s", l->why);
	}
	*at = first;
	l->reported = false;
}

/* What was not compared yet says more than where an epoch ended in which nobody came so far. */
static void note_place(struct loop *l)
{
	if (l->compared || !l->place.epoch)
		l->place = l->communicator.place;
	l->compared = false;
}

/* The news may have come before the ring broke, after it, or not at all. */
static void note_news(struct loop *l, int64_t now)
{
	struct entry_times *at = &l->entry.at;
	int64_t told = cancel_told(&l->cancel, l->communicator.epoch, l->reason);

	if (!at->noticed || at->told)
		return;
	at->told = told ? told : monotonic_ns();
	if (told && told < now)
		at->noticed = told;
}

/* Without news, joining brings them about. Who waits for them does not hang. */
static void await_news(struct loop *l)
{
	int64_t deadline = deadline_in_ms(NEWS_MS), next;

	do {
		ckpt_beat(l->session, l->state.counters.step, CKPT_PHASE_COLLECTIVE);
		next = deadline_in_ms(NEWS_BEAT_MS);
	} while (cancel_wait(&l->cancel, l->communicator.epoch, next < deadline ? next : deadline) == -ETIMEDOUT &&
		 monotonic_ns() < deadline);
}

int loop_leave(struct loop *l)
{
	int64_t now = monotonic_ns();
	int rc;

	note_loss(l, now);
	note_place(l);
	saver_forget(&l->saver);
	rc = communicator_leave(&l->communicator);
	if (rc < 0)
		return loop_fail(l, rc, l->communicator.why);
	if (l->communicator.missing && loop_wants_stop(l))
		return -ECANCELED;
	if (loop_patience_ended(l))
		return -ETIMEDOUT;
	if (!l->agreed && !l->communicator.mismatch)
		await_news(l);
	l->agreed = false;
	note_news(l, now);
	message(l->communicator.rank, "leaves epoch %u after step %" PRIu64 " (%s)%s%s", l->communicator.epoch,
		l->entry.lost_step, l->why, *l->reason ? ": " : "", l->reason);
	return 0;
}
