#include "save/save_stats.h"

#include "base/clock.h"
#include "runtime/room.h"
#include "save/snapshot.h"

#include <stdio.h>
#include <string.h>

enum { SAVE_STATS_NEWEST = 16 }; /* are shown whatever they are */

const char *save_failure_name(enum save_failure failure)
{
	static const char *const names[SAVE_FAILURE_END] = {"capture",    "torn",    "replicas", "epoch",
							    "superseded", "storage", "damaged"};
	return names[failure];
}

const char *level_name(enum level_shown level)
{
	static const char *const names[] = {"pending", "captured", "replicated", "durable", "verified"};
	return names[level];
}

const char *source_name(uint32_t source)
{
	static const char *const names[] = {"none", "memory", "peer", "storage"};
	return names[source & 3];
}

void save_stats_of(struct save_stats *m, const struct runtime *runtime, const char *job, const uint32_t *world)
{
	m->runtime = runtime;
	m->job = job;
	m->world = world;
}

/* ---- saves ----------------------------------------------------------------------------------------------------- */

static void finish(const struct save_stats *m, struct save_record *r)
{
	if (r->final || !r->id.epoch)
		return;
	r->final = true;
	spanlog_save(m->runtime->spanlog, m->job, r);
}

static struct save_record *find(struct save_stats *m, struct step_id id)
{
	for (uint32_t i = m->nsaves; i-- > 0;)
		if (!step_compare(m->saves[i].id, id))
			return &m->saves[i];
	return NULL;
}

/* Saves to memory, at every step perhaps, must not push out what stands on storage. */
static uint32_t dispensable(const struct save_stats *m)
{
	for (uint32_t i = 0; i < m->nsaves - SAVE_STATS_NEWEST; i++)
		if (!m->saves[i].to_storage && !m->saves[i].rc)
			return i;
	return 0;
}

static struct save_record *find_or_begin(struct save_stats *m, const struct snapshot *s)
{
	struct save_record *r = find(m, s->id);
	if (r)
		return r;
	if (m->nsaves == SAVE_STATS_SAVES) {
		uint32_t out = dispensable(m);
		finish(m, &m->saves[out]);
		memmove(&m->saves[out], &m->saves[out + 1], (--m->nsaves - out) * sizeof(m->saves[0]));
	}
	r = &m->saves[m->nsaves++];
	*r = (struct save_record){
		.id = s->id, .world = *m->world, .begun_wall_ns = clock_wall() - (clock_now() - s->opened_ns)};
	return r;
}

static uint64_t bytes_of(const struct snapshot *s)
{
	uint64_t bytes = 0;
	for (uint32_t r = 0; r < s->nparts; r++)
		bytes += s->parts[r].mem ? s->parts[r].mem->layout.data_bytes : 0;
	return bytes;
}

static void note_captured(struct save_stats *m, const struct snapshot *s, const struct save_record *r)
{
	histogram_add(&m->captured, r->captured_ns, 1);
	m->ncaptured++;
	m->captured_bytes += r->captured_bytes;
	m->captured_id = s->id;
	m->captured_wall_ns = clock_wall();
}

static void note_replicated(struct save_stats *m, const struct snapshot *s, const struct save_record *r)
{
	histogram_add(&m->replicated, r->replicated_ns, 1);
	m->nreplicated++;
	m->replicated_id = s->id;
	m->replicated_wall_ns = clock_wall();
}

static void note_durable(struct save_stats *m, const struct snapshot *s, const struct save_record *r)
{
	histogram_add(&m->durable, r->durable_ns, 1);
	m->written_bytes += r->written_bytes;
	m->write_ns += r->write_ns;
	m->durable_id = s->id;
	m->durable_wall_ns = clock_wall();
	m->storage_failures = 0;
	m->storage_rc = 0;
	if (s->verify == VERIFY_QUEUED && !m->unverified_ns)
		m->unverified_ns = s->durable_ns;
}

/* The newest is read back first: once it matches, nothing that is newer waits. */
static void note_verified(struct save_stats *m, const struct snapshot *s, const struct save_record *r)
{
	histogram_add(&m->verified, r->verified_ns, 1);
	m->verified_id = s->id;
	m->verified_wall_ns = clock_wall();
	m->unverified_ns = 0;
}

static enum save_failure failure_of(const struct snapshot *s)
{
	int rc = snapshot_error(s);
	if ((rc == -ECANCELED || rc == -EALREADY) && s->storage_rc)
		return SAVE_FAILED_SUPERSEDED;
	if (s->storage_rc)
		return s->state >= SNAPSHOT_DURABLE && rc == -EBADMSG ? SAVE_FAILED_DAMAGED : SAVE_FAILED_STORAGE;
	return rc == -ESTALE    ? SAVE_FAILED_EPOCH
	       : rc == -EBADMSG ? SAVE_FAILED_TORN
	       : rc == -EUCLEAN ? SAVE_FAILED_REPLICAS
				: SAVE_FAILED_CAPTURE;
}

static void note_failed(struct save_stats *m, const struct snapshot *s, const struct save_record *r)
{
	enum save_failure why = failure_of(s);
	m->failed[why]++;
	if (why == SAVE_FAILED_DAMAGED)
		m->damaged_id = s->id;
	if (s->state >= SNAPSHOT_DURABLE)
		m->unverified_ns = 0; /* it was tried: what came of it is told by itself */
	if (why != SAVE_FAILED_STORAGE || s->state >= SNAPSHOT_DURABLE)
		return;
	m->storage_failures++;
	m->storage_rc = r->rc;
	snprintf(m->storage_error, sizeof(m->storage_error), "%s", r->error);
}

static enum level_shown level_reached(const struct snapshot *s)
{
	if (s->state == SNAPSHOT_FAILED || s->state < SNAPSHOT_CAPTURED)
		return LEVEL_PENDING;
	return s->state == SNAPSHOT_CAPTURED  ? s->replicated_ns ? LEVEL_REPLICATED : LEVEL_CAPTURED
	       : s->state == SNAPSHOT_DURABLE ? LEVEL_DURABLE
					      : LEVEL_VERIFIED;
}

static uint64_t since_begin(const struct snapshot *s, uint64_t ns)
{
	return ns > s->opened_ns ? ns - s->opened_ns : 0;
}

/* All that is known, since the record may be new although the snapshot is not. */
static void fill(struct save_record *r, const struct snapshot *s, enum level_shown level)
{
	r->level = level;
	r->to_storage = s->to_storage;
	if (level < LEVEL_CAPTURED && s->late_phase) {
		r->late_rank = s->late_rank;
		r->late_phase = s->late_phase;
	}
	if (level >= LEVEL_CAPTURED && !r->captured_ns) {
		r->captured_ns = since_begin(s, s->captured_ns);
		r->captured_bytes = bytes_of(s);
	}
	if (s->replicated_ns)
		r->replicated_ns = since_begin(s, s->replicated_ns);
	if (level >= LEVEL_DURABLE && !r->durable_ns) {
		r->durable_ns = since_begin(s, s->durable_ns);
		r->write_ns = s->durable_ns - s->commit_ns - (s->commit ? s->commit->waited_ns : 0);
		r->written_bytes = s->commit ? s->commit->stored : 0;
	}
	if (level >= LEVEL_VERIFIED)
		r->verified_ns = since_begin(s, s->verified_ns);
	r->rc = snapshot_error(s);
	snprintf(r->error, sizeof(r->error), "%.*s", SAVE_STATS_TEXT_MAX - 1, r->rc ? s->err.text : "");
}

void save_stats_save(struct save_stats *m, struct snapshot *s)
{
	struct save_record *r = find_or_begin(m, s);
	enum level_shown level = level_reached(s);
	fill(r, s, level);
	if (s->noted_level < LEVEL_CAPTURED && level >= LEVEL_CAPTURED)
		note_captured(m, s, r);
	if (s->replicated_ns && !s->noted_replicated)
		note_replicated(m, s, r);
	s->noted_replicated = s->replicated_ns != 0;
	if (s->noted_level < LEVEL_DURABLE && level >= LEVEL_DURABLE)
		note_durable(m, s, r);
	if (s->noted_level < LEVEL_VERIFIED && level >= LEVEL_VERIFIED)
		note_verified(m, s, r);
	s->noted_level = level;
	if (!s->noted_failed && r->rc) {
		s->noted_failed = true;
		note_failed(m, s, r);
	}
	if (r->rc || level == LEVEL_VERIFIED || (level == LEVEL_DURABLE && !snapshot_awaits_readback(s)))
		finish(m, r);
}

void save_stats_reread(struct save_stats *m, struct step_id id, bool damaged)
{
	if (damaged)
		m->damaged_id = id;
	else if (!step_compare(m->damaged_id, id))
		m->damaged_id = (struct step_id){0};
}

void save_stats_end(struct save_stats *m, const struct snapshot *s)
{
	struct save_record *r = s ? find(m, s->id) : NULL;
	if (r)
		finish(m, r);
	for (uint32_t i = 0; !s && i < m->nsaves; i++)
		finish(m, &m->saves[i]);
}
