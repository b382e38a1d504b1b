#include "loop/saver.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "common/deadline.h"
#include "common/message.h"

/* How long the last save may be refused for want of a slot, and how often it asks. */
enum { LAST_PATIENCE_MS = 120000, LAST_PAUSE_MS = 20 };
/* How long a save that is to show a fault waits for a slot. */
enum { SLOT_PATIENCE_MS = 1000 };

static const char *target_name(ckpt_target target)
{
	return target == CKPT_STORAGE ? "storage" : "memory";
}

static int fail(struct saver *s, const char *doing, uint64_t step, int rc)
{
	snprintf(s->why, sizeof(s->why), "%s of step %" PRIu64 ": %s: %s", doing, step, strerror(-rc),
		 ckpt_error(s->session));
	return rc;
}

bool saver_fatal(int rc)
{
	return rc == -EPERM || rc == -ECHILD;
}

static void drop(struct saver *s, int index)
{
	ckpt_snapshot_free(s->followed[index]);
	s->count--;
	for (int i = index; i < s->count; i++) {
		s->followed[i] = s->followed[i + 1];
		s->target[i] = s->target[i + 1];
		s->captured[i] = s->captured[i + 1];
	}
}

static void keep(struct saver *s, struct ckpt_snapshot *snapshot, ckpt_target target)
{
	if (s->count == SAVER_FOLLOWED_MAX)
		drop(s, 0); /* it goes its way, its end is not told */
	s->followed[s->count] = snapshot;
	s->target[s->count] = target;
	s->captured[s->count++] = false;
	s->unfenced = snapshot;
}

/* A save that could not begin. An outage is told when it starts, not at every save. Returns what ends the step, else 0. */
static int refused(struct saver *s, int rc)
{
	bool everywhere = rc == -EBUSY || rc == -ENOTCONN;

	if (rc == -ESTALE || saver_fatal(rc))
		return fail(s, "save", s->stall.step, rc);
	s->stall.result = rc == -EBUSY ? "busy" : rc == -ENOTCONN ? "unreachable" : "failed";
	report_save(s->report, &s->stall);
	if (rc == -EBUSY)
		s->busy++;
	else
		s->failed++;
	if (rc != s->told && (!everywhere || s->rank == 0))
		message(s->rank, "no save to %s at step %" PRIu64 ", training goes on: %s",
			target_name(s->stall.target), s->stall.step, ckpt_error(s->session));
	s->told = rc;
	return 0;
}

/* 0, or any error of ckpt_begin(). */
static int start(struct saver *s, uint64_t step, ckpt_target target)
{
	struct ckpt_snapshot *snapshot;
	int64_t from = monotonic_ns();
	int rc = ckpt_begin(s->session, step, target, s->stream, &snapshot);

	s->stall = (struct save_stall){
		.step = step, .target = target, .begin_ms = (double)(monotonic_ns() - from) / 1e6, .result = "ok"};
	if (rc < 0)
		return rc;
	if (s->told == -ENOTCONN && s->rank == 0)
		message(0, "the daemon is back: saves go on at step %" PRIu64, step);
	s->told = 0;
	keep(s, snapshot, target);
	return 0;
}

void saver_joined(struct saver *s)
{
	bool before = s->memory_only;

	s->memory_only = ckpt_has_storage(s->session) == 0;
	if (s->memory_only == before || !s->storage_every || s->rank != 0)
		return;
	message(0, s->memory_only ? "the daemon has no store: all saves go to memory only"
				  : "the daemon has a store now: saves to storage go there");
}

/* Where a save that is due for storage can go. */
static ckpt_target storage_target(const struct saver *s)
{
	return s->memory_only ? CKPT_MEMORY : CKPT_STORAGE;
}

uint64_t saver_safe(const struct saver *s)
{
	return s->on_storage > s->in_memory ? s->on_storage : s->in_memory;
}

enum turn { TURN_NONE = 0, TURN_MEMORY, TURN_STORAGE };

static enum turn turn_by_step(const struct saver *s, uint64_t step)
{
	if (s->storage_every && step % s->storage_every == 0)
		return TURN_STORAGE;
	return s->memory_every && step % s->memory_every == 0 ? TURN_MEMORY : TURN_NONE;
}

/* What the daemon does not answer is not saved, here as on the other ranks. */
static enum turn turn_of(const struct saver *s, uint64_t step)
{
	int due = s->automatic ? ckpt_due(s->session, step) : -EOPNOTSUPP;

	if (due == -EOPNOTSUPP)
		return turn_by_step(s, step);
	return due <= 0 ? TURN_NONE : due & CKPT_DUE_STORAGE ? TURN_STORAGE : TURN_MEMORY;
}

bool saver_due(const struct saver *s, uint64_t step)
{
	return turn_of(s, step) != TURN_NONE;
}

bool saver_has_slot(struct saver *s)
{
	return ckpt_wait_slot(s->session, SLOT_PATIENCE_MS) == 0;
}

int saver_again(struct saver *s, uint64_t step)
{
	int rc = start(s, step, s->storage_every ? storage_target(s) : CKPT_MEMORY);

	return rc < 0 ? refused(s, rc) : 0;
}

int saver_begin(struct saver *s, uint64_t step)
{
	enum turn turn = turn_of(s, step);
	int rc = 0;

	if (turn != TURN_NONE)
		rc = start(s, step, turn == TURN_STORAGE ? storage_target(s) : CKPT_MEMORY);
	return rc < 0 ? refused(s, rc) : 0;
}

int saver_fence(struct saver *s)
{
	int64_t from = monotonic_ns();
	int rc;

	if (!s->unfenced)
		return 0;
	rc = ckpt_fence(s->unfenced, s->stream);
	s->unfenced = NULL;
	s->stall.fence_ms = (double)(monotonic_ns() - from) / 1e6;
	if (rc == -ESTALE || saver_fatal(rc))
		return fail(s, "fence", s->stall.step, rc);
	if (rc < 0) {
		s->failed++;
		s->stall.result = "failed";
		message(s->rank, "the save of step %" PRIu64 " failed, training goes on: %s", s->stall.step,
			ckpt_error(s->session));
		drop(s, s->count - 1);
	}
	report_save(s->report, &s->stall);
	return 0;
}

static void note_level(struct saver *s, int index, int level)
{
	uint64_t step = ckpt_snapshot_step(s->followed[index]);

	if (level >= CKPT_CAPTURED && !s->captured[index]) {
		s->captured[index] = true;
		s->in_memory = step;
	}
	if (level >= CKPT_DURABLE)
		s->on_storage = step;
}

/* Asked once more, so that the sentence, which comes a moment later than the news, can be told. */
static void note_deviation(struct saver *s, struct ckpt_snapshot *snapshot)
{
	s->deviated = ckpt_snapshot_step(snapshot);
	ckpt_wait(snapshot, CKPT_CAPTURED, 0);
	snprintf(s->why, sizeof(s->why), "not saved: %s", ckpt_error(s->session));
	if (s->rank == 0)
		message(0, "%s", s->why);
}

/* What could not be read back may be good all the same, and counts; what was read back and does not match does not. */
static bool is_on_storage(const struct saver *s, int index, int rc)
{
	return rc != -EBADMSG && s->target[index] == CKPT_STORAGE &&
	       ckpt_wait(s->followed[index], CKPT_DURABLE, 0) == 0;
}

static void note_failure(struct saver *s, int index, int rc)
{
	if (rc == -ESTALE)
		return; /* the news of the epoch are told elsewhere */
	if (is_on_storage(s, index, rc)) {
		note_level(s, index, CKPT_DURABLE);
		if (s->rank == 0)
			message(0, "the save of step %" PRIu64 " is on storage, but is not verified: %s",
				ckpt_snapshot_step(s->followed[index]), ckpt_error(s->session));
		return;
	}
	s->failed++;
	if (rc == -EUCLEAN)
		note_deviation(s, s->followed[index]);
	else if (s->rank == 0)
		message(0, "the save of step %" PRIu64 " to %s failed, training goes on: %s",
			ckpt_snapshot_step(s->followed[index]), target_name(s->target[index]), ckpt_error(s->session));
}

void saver_follow(struct saver *s)
{
	int i = 0;

	while (i < s->count && s->followed[i] != s->unfenced) {
		int level = ckpt_poll(s->followed[i]);

		/* The operator's policy keeps it in memory: that was as far as it goes. */
		if (level == -EOPNOTSUPP)
			note_level(s, i, CKPT_CAPTURED);
		else if (level < 0)
			note_failure(s, i, level);
		else
			note_level(s, i, level);
		if (level < 0 || level >= (s->target[i] == CKPT_STORAGE ? CKPT_DURABLE : CKPT_CAPTURED))
			drop(s, i);
		else
			i++;
	}
}

void saver_doubt(struct saver *s)
{
	s->in_memory = s->on_storage = 0;
}

void saver_forget(struct saver *s)
{
	s->unfenced = NULL;
	s->deviated = 0;
	while (s->count)
		drop(s, s->count - 1);
}

/* Where there is no slot it is not even tried: what one rank leaves out is given up for all. */
static int start_with_slot(struct saver *s, uint64_t step, ckpt_target target)
{
	int rc = ckpt_wait_slot(s->session, 0);
	return rc == 0 ? start(s, step, target) : rc == -ETIMEDOUT ? -EBUSY : rc;
}

/* Begins the last save, when there is a slot for it and a daemon: there is no later one. */
static int start_last(struct saver *s, uint64_t step, ckpt_target target)
{
	int64_t deadline = deadline_in_ms(LAST_PATIENCE_MS);
	int rc;

	while ((rc = start_with_slot(s, step, target)) == -EBUSY || rc == -ENOTCONN) {
		if (monotonic_ns() >= deadline)
			break;
		/* a slot becomes free without a sign to us; a new epoch does come with one */
		if (poll(&(struct pollfd){s->cancel->fd, POLLIN, 0}, 1, LAST_PAUSE_MS) > 0)
			return fail(s, "last save", step, -ESTALE);
		saver_follow(s);
	}
	return rc < 0 ? fail(s, "last save", step, rc) : 0;
}

int saver_finish(struct saver *s, uint64_t step)
{
	ckpt_target target = s->storage_every ? storage_target(s) : CKPT_MEMORY;
	int rc = saver_fence(s);

	if (rc < 0 || (!s->storage_every && !s->memory_every))
		return rc;
	saver_follow(s);
	rc = start_last(s, step, target);
	if (rc < 0)
		return rc;
	rc = saver_fence(s);
	if (rc < 0)
		return rc;
	if (!s->count)
		return fail(s, "last save", step, -EIO); /* the fence has told why */
	rc = ckpt_wait(s->followed[s->count - 1], target == CKPT_STORAGE ? CKPT_DURABLE : CKPT_CAPTURED, -1);
	if (rc == -EUCLEAN) {
		note_deviation(s, s->followed[s->count - 1]);
		return rc;
	}
	/* -EOPNOTSUPP: the daemon writes it when all ranks have closed. What storage refused is not what the session would. */
	if (rc < 0 && rc != -EOPNOTSUPP) {
		fail(s, "last save", step, rc);
		return saver_fatal(rc) ? -EIO : rc;
	}
	saver_follow(s);
	return 0;
}
