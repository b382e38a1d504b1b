#include "save/saves_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "catalog/room.h"
#include "checkpoint/room.h"
#include "participant/room.h"
#include "runtime/room.h"

#define VERIFY_PATIENCE (5 * CLOCK_NS_PER_S)

static void verify_done(void *arg, struct step_id id, int rc, const struct err *err)
{
	struct saves *saves = arg;
	bool ends = rc == -ECANCELED; /* saves_stop_reading */
	saves->verifying = NULL;
	struct snapshot *s = saves_find(saves, id);
	if (rc == -EBADMSG) /* the previous checkpoint may have the same file */
		previous_forget(&saves->previous);
	if (!rc && err->text[0]) {
		log_warn("job %s: step %lu epoch %u: %s", saves->of.name, (unsigned long)id.step, id.epoch, err->text);
		catalog_event(saves->of.storage->catalog, saves->of.name, id, "repaired", err->text);
	}
	if (!rc || rc == -EBADMSG) /* could not be read says nothing about the bytes */
		catalog_verified(saves->of.storage->catalog, saves->of.name, id, rc);
	if (s && s->verify == VERIFY_READING)
		s->verify = ends ? VERIFY_LEFT : VERIFY_AWAITED;
	if (ends)
		log_info("job %s: step %lu epoch %u is not read back: this daemon ends", saves->of.name,
			 (unsigned long)id.step, id.epoch);
	else if (s && !rc)
		participant_reached(saves->of.job, id, LEVEL_VERIFIED);
	else if (s)
		snapshot_fail(s, rc, rc == -EBADMSG ? "reading back found: %s" : "it cannot be read back: %s",
			      err->text[0] ? err->text : err_name(rc));
	saves_pump(saves);
}

/* A disk that is never idle must not put the read-back off for ever. */
static bool overdue(const struct saves *saves)
{
	list_for(node, &saves->snapshots) {
		const struct snapshot *s = snapshot_of(node);
		if (s->verify == VERIFY_QUEUED && clock_now() - s->durable_ns > VERIFY_PATIENCE)
			return true;
	}
	return false;
}

/* Checkpoints that come faster than they can be read back: the oldest that wait are left out. Ranks no longer see their levels: so
 * many later ones have taken the places. */
static void bound_verify(struct saves *saves)
{
	unsigned waiting = 0;
	for (struct list *node = saves->snapshots.prev; node != &saves->snapshots; node = node->prev) {
		struct snapshot *s = snapshot_of(node);
		if (!snapshot_awaits_readback(s) || ++waiting <= ARENA_STATUS || s->verify == VERIFY_READING)
			continue;
		bool here = s->verify == VERIFY_QUEUED;
		s->verify = VERIFY_LEFT;
		if (!here)
			continue;
		log_info("job %s: step %lu epoch %u is not read back: %d later checkpoints wait for that",
			 saves->of.name, (unsigned long)s->id.step, s->id.epoch, ARENA_STATUS);
	}
}

static void start_verify(struct saves *saves, struct snapshot *s)
{
	s->verify = VERIFY_READING;
	struct donor donor;
	int rc = snapshot_donor(s, &donor);
	donor.layout = rc ? NULL : part_layout_get(saves->layouts);
	struct readback what = {.job = saves->of.name,
				.id = s->id,
				.rate = saves->of.policy->read_bandwidth,
				.donor = donor,
				.store = saves->of.runtime->config.store,
				.meter = &saves->of.storage->reads,
				.pool = saves->of.runtime->reader,
				.gait = &saves->gait,
				.done = verify_done,
				.arg = saves};
	rc = rc ? rc : readback_start(&what, &saves->verifying);
	if (rc) {
		s->verify = VERIFY_LEFT;
		snapshot_fail(s, rc, "cannot read back: %s", err_name(rc));
	}
}

/* The newest that waits. Of a daemon that ends only the newest on storage: it is what the job goes on from. */
static struct snapshot *next_verify(const struct saves *saves)
{
	for (struct list *node = saves->snapshots.prev; node != &saves->snapshots; node = node->prev) {
		struct snapshot *s = snapshot_of(node);
		if (s->verify == VERIFY_QUEUED)
			return s;
		if (saves->of.runtime->stopping && (s->state == SNAPSHOT_DURABLE || s->state == SNAPSHOT_VERIFIED))
			return NULL;
	}
	return NULL;
}

/* One at a time, and while a commit wants the disk only what has waited long. */
void saves_pump_readback(struct saves *saves)
{
	bound_verify(saves);
	if (saves->verifying || saves->gait == READBACK_STOP || (saves->committing && !overdue(saves)))
		return;
	struct snapshot *next = next_verify(saves);
	if (next)
		start_verify(saves, next);
}

void saves_stop_reading(struct saves *saves)
{
	saves->gait = READBACK_STOP;
}
