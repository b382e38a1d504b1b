/* How far the snapshots of this node have come, as its coordinator is told, and what it says of those of all nodes. */
#include "saves_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "catalog.h"
#include "daemon.h"
#include "gc.h"
#include "halt.h"
#include "seat.h"

#include <stdio.h>

/* ---- reports --------------------------------------------------------------------------------------------------- */

void saves_copied(struct saves *saves, const struct snapshot *s)
{
	if (!s->proven || !saves->job->spread)
		seat_copied(saves->job, s->id);
}

void saves_digested(struct saves *saves, struct snapshot *s)
{
	if (s->told == saves->job->epoch || !saves->job->epoch)
		return;
	s->told = saves->job->epoch;
	s->told_ns = clock_now();
	if (s->proven && saves->job->spread) /* the coordinator may have been restarted, too, and know nothing of it */
		snapshot_captured(s);
	else
		seat_reached(saves->job, s->id, LEVEL_CAPTURED);
}

void saves_failed(struct saves *saves, const struct snapshot *s, int rc)
{
	seat_failed(saves->job, s->id, rc, s->err.text);
}

/* ---- orders ---------------------------------------------------------------------------------------------------- */

static void tell_durable(const struct saves *saves, const struct snapshot *s, const struct commit *c)
{
	char linked[80] = "", packed[40] = "";
	if (c->linked_files)
		snprintf(linked, sizeof(linked), ", %lu of %lu files linked", (unsigned long)c->linked_files,
			 (unsigned long)c->files);
	if (c->stored != c->bytes)
		snprintf(packed, sizeof(packed), ", packed to %.0f%%", 100.0 * (double)c->stored / (double)c->bytes);
	log_info("job %s: step %lu epoch %u durable, %.0f ms after begin%s%s%s", saves->job->name,
		 (unsigned long)s->id.step, s->id.epoch, (double)(s->durable_ns - s->opened_ns) / 1e6, linked, packed,
		 c->already ? " (committed before a restart)" : "");
}

static void set_durable(struct saves *saves, struct snapshot *s)
{
	const struct commit *c = s->commit;
	if (s->state != SNAPSHOT_CAPTURED || !c)
		return;
	saves->committed++;
	s->durable_ns = clock_now();
	snapshot_set_state(s, SNAPSHOT_DURABLE);
	copies_durable(&saves->job->copies, s->id);
	s->verify_queued = saves->job->policy.verify;
	tell_durable(saves, s, c);
	catalog_committed(saves->daemon->catalog, saves->job->name, s->id, c->bytes, (uint32_t)c->files,
			  saves->job->world);
	snapshot_publish(s);
	if (!s->verify_queued)
		gc_want(saves->daemon->gc, saves->job);
	halt_durable(saves->job);
}

static void set_verified(struct saves *saves, struct snapshot *s)
{
	if (s->state != SNAPSHOT_DURABLE)
		return;
	saves->verified++;
	s->verified_ns = clock_now();
	snapshot_set_state(s, SNAPSHOT_VERIFIED);
	snapshot_publish(s);
}

bool saves_are_copied(const struct saves *saves)
{
	return copies_wanted(saves->job) != 0;
}

static void set_replicated(struct saves *saves, struct step_id id, struct snapshot *s)
{
	copies_replicated(&saves->job->copies, id);
	if (!s || s->replicated_ns || !snapshot_is_captured(s))
		return;
	s->replicated_ns = clock_now();
	log_info("job %s: step %lu epoch %u replicated, %.0f ms after begin", saves->job->name,
		 (unsigned long)s->id.step, s->id.epoch, (double)(s->replicated_ns - s->opened_ns) / 1e6);
	snapshot_publish(s);
}

void saves_level(struct saves *saves, struct step_id id, enum level_shown level)
{
	struct snapshot *s = saves_find(saves, id);
	if (s && level == LEVEL_CAPTURED)
		snapshot_captured(s);
	else if (level == LEVEL_REPLICATED)
		set_replicated(saves, id, s);
	else if (s && level == LEVEL_DURABLE)
		set_durable(saves, s);
	else if (s && level == LEVEL_VERIFIED)
		set_verified(saves, s);
}

void saves_fail(struct saves *saves, struct step_id id, int rc, const char *text)
{
	struct snapshot *s = saves_find(saves, id);
	if (s)
		snapshot_fail(s, rc, "%s", text);
	else
		seat_forgot(saves->job, id);
}

void saves_seal(struct saves *saves, struct step_id id, const struct wbuf *manifest)
{
	struct snapshot *s = saves_find(saves, id);
	if (s && s->commit)
		commit_seal(s->commit, manifest);
}
