#include "base/clock.h"
#include "client/session/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The level of a failure is in shared memory at once; its sentence comes over the socket a moment later. */
#define SENTENCE_PATIENCE (300 * CLOCK_NS_PER_MS)

static const char *level_name(ckpt_level level)
{
	static const char *const names[] = {"begun", "captured", "replicated", "durable", "verified"};
	return names[level];
}

static const char *phase_name(uint32_t phase)
{
	static const char *const names[] = {[LATE_NOBODY] = "",         [LATE_BEGIN] = "begin",
					    [LATE_CAPTURE] = "capture", [LATE_FENCE] = "fence",
					    [LATE_DIGEST] = "digest",   [LATE_WRITE] = "write",
					    [LATE_COMMIT] = "commit",   [LATE_VERIFY] = "verification",
					    [LATE_GONE] = "",           [LATE_COPY] = "copies on other nodes"};
	return phase < sizeof(names) / sizeof(*names) ? names[phase] : "";
}

/* Copies the newest view of the snapshot; levels only rise. Returns the final error, or 0. */
static int look(struct ckpt_snapshot *snap, struct shown *shown)
{
	int level = atomic_load(&snap->level);
	*shown = (struct shown){0};
	if (stage_shown(snap->stage, snap->id, shown) && shown->level <= LEVEL_VERIFIED)
		while (level < shown->level && !atomic_compare_exchange_weak(&snap->level, &level, shown->level))
			;
	shown->level = atomic_load(&snap->level);
	int failed = atomic_load(&snap->failed);
	return failed ? failed : shown->error < 0 ? shown->error : 0;
}

/* The daemon was restarted after it had given the slot back, and before the snapshot had reached its last level. */
static bool gone(const struct ckpt_snapshot *snap)
{
	struct shown shown;
	return !stage_holds(snap->stage, snap->slot, snap->id) && stage_shown(snap->stage, snap->id, &shown) &&
	       shown.late_phase == LATE_GONE;
}

static uint32_t epoch_now(const struct ckpt_snapshot *snap)
{
	return atomic_load_explicit(&stage_head(snap->stage)->epoch, memory_order_acquire);
}

static int say_stale(const struct ckpt_snapshot *snap, const char *more, struct err *err)
{
	return err_set(err, -ESTALE, "epoch %u has begun, the snapshot is of epoch %u%s", epoch_now(snap),
		       snap->id.epoch, more);
}

/* Why no further level can come although the daemon shows no error; 0: it can. */
static int dead_end(const struct ckpt_snapshot *snap, struct err *err)
{
	/* What the daemon has seen it ends itself: it says that a snapshot is poisoned, and one that was complete goes its way in the
	 * new epoch, too. What it has not seen by now it never will. */
	if (epoch_now(snap) != snap->id.epoch && stage_unseen(snap->stage, snap->id, snap->begun))
		return say_stale(snap, "", err);
	if (atomic_load(&snap->stage->lost))
		return err_set(err, -ECANCELED, "the daemon was restarted without the arenas");
	if (gone(snap))
		return err_set(err, -ECANCELED, "the daemon was restarted before it had written or read it back");
	if (stage_dropped(snap->stage, snap->slot, snap->id))
		return err_set(err, -ECANCELED, "its outcome is no longer kept: that of %d others is", ARENA_STATUS);
	return 0;
}

/* A daemon that would read back says that it is about to as soon as a snapshot is durable. */
static bool never_verified(const struct ckpt_snapshot *snap, ckpt_level level)
{
	struct shown shown;
	return level == CKPT_VERIFIED && stage_shown(snap->stage, snap->id, &shown) && shown.level == LEVEL_DURABLE &&
	       shown.late_phase == LATE_NOBODY;
}

/* What fails on its way to storage may still get its copies, and so may what only waits for the disk. */
static bool is_copied(const struct shown *shown, ckpt_level level)
{
	return level == CKPT_REPLICATED && shown->level == LEVEL_CAPTURED && shown->late_phase == LATE_COPY;
}

/* A daemon that would copy says that it is about to as soon as a snapshot is captured. */
static bool never_replicated(const struct ckpt_snapshot *snap, ckpt_level level)
{
	struct shown shown;
	return level == CKPT_REPLICATED && stage_shown(snap->stage, snap->id, &shown) &&
	       shown.level == LEVEL_CAPTURED && shown.late_phase == LATE_NOBODY;
}

static int say_failure(struct ckpt_snapshot *snap, int rc, uint64_t deadline, struct err *err)
{
	char text[WIRE_TEXT_MAX];
	if (atomic_load(&snap->failed))
		return err_set(err, rc, "%s", snap->why);
	if (news_sentence(snap->s, snap->id, deadline, text, sizeof(text)))
		return err_set(err, rc, "%s", text);
	return err_set(err, rc, "%s", err_name(rc));
}

static int say_late(struct ckpt_snapshot *snap, ckpt_level level, const struct shown *shown, uint32_t ms,
		    struct err *err)
{
	struct err why = {0};
	if (!service_check(snap->s, NULL, &why)) {
		if (shown->late_phase)
			err_set(&why, 0, "waiting for rank %u (%s)", shown->late_rank, phase_name(shown->late_phase));
		else
			err_set(&why, 0, "waiting for the daemon");
	}
	return err_set(err, -ETIMEDOUT, "not %s after %u ms: %s", level_name(level), ms, why.text);
}

/* The job has moved on and this rank has not: others wait for it in ckpt_join. */
static bool left_behind(const struct ckpt_snapshot *snap)
{
	return epoch_now(snap) != atomic_load(&snap->s->epoch);
}

static int wait_level(struct ckpt_snapshot *snap, ckpt_level level, uint64_t deadline, uint32_t ms, bool to_the_end,
		      struct err *err)
{
	for (;;) {
		struct shown shown;
		/* Read before the look: a change in between makes the sleep return at once. */
		uint32_t seen = atomic_load_explicit(&stage_head(snap->stage)->wake, memory_order_acquire);
		int rc = look(snap, &shown);
		if (shown.level >= (int)level)
			return 0;
		if (rc && !is_copied(&shown, level))
			return say_failure(snap, rc, clock_deadline(SENTENCE_PATIENCE), err);
		rc = dead_end(snap, err);
		if (!rc && never_replicated(snap, level))
			rc = err_set(err, -ECANCELED, "its place was taken before it had copies on other nodes");
		if (!rc && never_verified(snap, level))
			rc = err_set(err, -EINVAL,
				     "it is durable and never becomes verified: the daemon does not read back "
				     "(--no-verify)");
		if (!rc && !to_the_end && left_behind(snap))
			rc = say_stale(snap, ": call ckpt_join, and ask again then what became of it", err);
		if (rc)
			return rc;
		if (clock_now() >= deadline)
			return say_late(snap, level, &shown, ms, err);
		beat_sleep(snap->s, snap->stage, seen, deadline);
	}
}

static int wait_named(struct ckpt_snapshot *snap, ckpt_level level, uint64_t deadline, uint32_t ms, bool to_the_end,
		      struct err *err)
{
	int rc = wait_level(snap, level, deadline, ms, to_the_end, err);
	return rc ? err_prefix(err, rc, "step %" PRIu64, snap->id.step) : 0;
}

int snapshot_wait_end(struct ckpt_snapshot *snap, uint64_t deadline, uint32_t ms, struct err *err)
{
	return wait_named(snap, CKPT_DURABLE, deadline, ms, true, err);
}

static int check_level(const struct ckpt_snapshot *snap, ckpt_level level, struct err *err)
{
	struct wire_welcome daemon;
	struct err ignored;
	if (level < CKPT_CAPTURED || level > CKPT_VERIFIED)
		return err_set(err, -EINVAL, "level %d is not one to wait for", (int)level);
	if (snap->target == CKPT_MEMORY && level >= CKPT_DURABLE)
		return err_set(err, -EINVAL, "a snapshot in memory (CKPT_MEMORY) never becomes %s", level_name(level));
	service_check(snap->s, &daemon, &ignored);
	if (level == CKPT_REPLICATED && !daemon.peers)
		return err_set(err, -EINVAL, "no peers are configured: snapshots are not replicated");
	return 0;
}

int ckpt_wait(ckpt_snapshot *snap, ckpt_level level, int timeout_ms)
{
	struct err err = {0};
	uint32_t ms;
	if (!snap)
		return session_refuse(NULL, SNAPSHOT_NULL);
	uint64_t deadline = session_deadline(snap->s, timeout_ms, &ms);
	int rc = session_check(snap->s, &err);
	if (!rc)
		rc = check_level(snap, level, &err);
	if (!rc)
		rc = wait_named(snap, level, deadline, ms, false, &err);
	return rc ? session_fail(snap->s, rc, &err) : 0;
}

int ckpt_poll(ckpt_snapshot *snap)
{
	struct err err = {0};
	struct shown shown;
	if (!snap)
		return session_refuse(NULL, SNAPSHOT_NULL);
	int rc = session_check(snap->s, &err);
	if (rc)
		return session_fail(snap->s, rc, &err);
	rc = look(snap, &shown);
	if (rc)
		say_failure(snap, rc, 0, &err);
	else if (shown.level < (snap->target == CKPT_STORAGE ? LEVEL_DURABLE : LEVEL_CAPTURED))
		rc = dead_end(snap, &err);
	if (!rc)
		return shown.level;
	err_prefix(&err, rc, "step %" PRIu64, snap->id.step);
	return session_fail(snap->s, rc, &err);
}
