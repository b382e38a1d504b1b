#include "save/snapshot.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "base/transitions.h"
#include "save/saves.h"
#include "save/snapshot_digest.h"

#include <stdio.h>
#include <string.h>

enum {
	ERRNO_MAX = 4095 /* what a rank reports beyond it is no error code */
};

#define DECISION_NS CLOCK_NS_PER_S /* in which a coordinator that can be reached has answered */

static const char *const state_names[SNAPSHOT_STATE_END] = {
	[SNAPSHOT_OPEN] = "open",       [SNAPSHOT_COPIED] = "copied",     [SNAPSHOT_CAPTURED] = "captured",
	[SNAPSHOT_DURABLE] = "durable", [SNAPSHOT_VERIFIED] = "verified", [SNAPSHOT_FAILED] = "failed",
};

static const uint32_t next_states[SNAPSHOT_STATE_END] = {
	[SNAPSHOT_OPEN] = 1 << SNAPSHOT_COPIED | 1 << SNAPSHOT_FAILED,
	[SNAPSHOT_COPIED] = 1 << SNAPSHOT_CAPTURED | 1 << SNAPSHOT_FAILED,
	[SNAPSHOT_CAPTURED] = 1 << SNAPSHOT_DURABLE,
	[SNAPSHOT_DURABLE] = 1 << SNAPSHOT_VERIFIED,
};

static const struct transitions transitions = {"snapshot", state_names, next_states, SNAPSHOT_STATE_END};

const char *snapshot_state_name(enum snapshot_state state)
{
	return transitions_name(&transitions, state);
}

void snapshot_set_state(struct snapshot *s, enum snapshot_state state)
{
	transitions_check(&transitions, s->state, state);
	s->state = state;
	log_debug("step %lu epoch %u: %s", (unsigned long)s->id.step, s->id.epoch, snapshot_state_name(state));
	failpoint("snapshot.state", NULL);
}

int snapshot_new(struct saves *saves, struct step_id id, uint32_t nparts, struct snapshot **out)
{
	struct snapshot *s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->parts = calloc(nparts, sizeof(*s->parts));
	s->commit_ranks = calloc(nparts, sizeof(*s->commit_ranks));
	if (!s->parts || !s->commit_ranks) {
		free(s->parts);
		free(s->commit_ranks);
		free(s);
		return -ENOMEM;
	}
	list_init(&s->link);
	s->saves = saves;
	s->id = id;
	s->nparts = nparts;
	s->state = SNAPSHOT_OPEN;
	s->opened_ns = clock_now();
	s->shown_level = -1;
	*out = s;
	return 0;
}

void snapshot_free(struct snapshot *s)
{
	list_remove(&s->link);
	node_part_free(s->commit);
	for (uint32_t r = 0; r < s->nparts; r++) {
		free(s->parts[r].leaves);
		free(s->parts[r].replica_digests);
		memory_put(s->parts[r].mem);
	}
	free(s->parts);
	free(s->commit_ranks);
	free(s);
}

int snapshot_add(struct snapshot *s, uint32_t index, struct memory *mem, uint32_t slot, bool orphan)
{
	struct part *part = &s->parts[index];
	if (part->state != PART_ABSENT)
		return -EEXIST;
	part->leaves = calloc(mem->layout.nleaves ? mem->layout.nleaves : 1, sizeof(*part->leaves));
	if (!part->leaves)
		return -ENOMEM;
	list_init(&part->digests);
	part->mem = memory_get(mem);
	part->slot = slot;
	part->state = PART_CAPTURING;
	part->orphan = orphan;
	mem->slots[slot] = (struct slot_view){.used = true, .id = s->id};
	if (mem->adopted && memory_shown(mem, s->id) >= LEVEL_CAPTURED)
		s->proven = true;
	if (mem->head->slots[slot].target == SLOT_STORAGE)
		s->to_storage = true;
	return 0;
}

/* ---- following the slots ------------------------------------------------------------------------------------- */

/* Its arena shows a later epoch already. One that came back after that was raised, with a rank in its fence, may be looked at first when it is over. */
static bool is_too_late(struct snapshot *s)
{
	uint32_t epoch = *s->saves->of.epoch;
	if (s->id.epoch < epoch)
		snapshot_fail(s, -ESTALE, "epoch %u began before every rank was captured", epoch);
	return s->id.epoch < epoch;
}

/* Returns who keeps the part from being copied, or LATE_NOBODY. */
static enum late_phase follow_capture(struct snapshot *s, struct part *part)
{
	uint32_t rank = part->mem->table->reg.rank;
	struct arena_slot *slot = &part->mem->head->slots[part->slot];
	uint32_t done = atomic_load_explicit(&slot->done, memory_order_acquire);
	uint32_t fenced = atomic_load_explicit(&slot->fenced, memory_order_acquire);
	if ((int32_t)done < 0) {
		int rc = (int32_t)done >= -ERRNO_MAX ? (int32_t)done : -EIO;
		snapshot_fail(s, rc, "rank %u could not capture its state: %s", rank, err_name(rc));
		return LATE_NOBODY;
	}
	if (fenced > 1) {
		snapshot_fail(s, -ECANCELED,
			      "rank %u went on without a fence: its state may have changed under the copy", rank);
		return LATE_NOBODY;
	}
	if (done == 1 && fenced == 1)
		part->state = PART_COPIED;
	else if (is_too_late(s))
		return LATE_NOBODY;
	return done != 1 ? LATE_CAPTURE : fenced != 1 ? LATE_FENCE : LATE_NOBODY;
}

static int digest_part(struct snapshot *s, struct part *part)
{
	bool copied = part->state == PART_COPIED;
	int rc = snapshot_digest_arrived(s, part, copied);
	if (!rc && copied)
		rc = snapshot_digest_replicas(s, part);
	if (rc)
		snapshot_fail(s, rc,
			      rc == -E2BIG ? "rank %u has replicas of more groups than can be compared"
					   : "no memory to digest rank %u",
			      part->mem->table->reg.rank);
	return rc;
}

static void follow_part(struct snapshot *s, uint32_t index)
{
	struct part *part = &s->parts[index];
	enum late_phase late = part->state == PART_ABSENT ? LATE_BEGIN : LATE_NOBODY;
	if (part->state == PART_CAPTURING)
		late = follow_capture(s, part);
	if (s->state == SNAPSHOT_FAILED)
		return;
	if ((part->state == PART_CAPTURING || part->state == PART_COPIED) && !digest_part(s, part) &&
	    part->state == PART_COPIED && part->submitted == part->mem->layout.nleaves && !part->in_flight)
		snapshot_compare_digests(s, part);
	if (part->state == PART_COPIED && late == LATE_NOBODY)
		late = LATE_DIGEST;
	if (late != LATE_NOBODY && s->late_phase == LATE_NOBODY) {
		s->late_rank = saves_rank(s->saves, index);
		s->late_phase = late;
	}
}

static bool all_parts(const struct snapshot *s, enum part_state least)
{
	for (uint32_t r = 0; r < s->nparts; r++)
		if (s->parts[r].state < least)
			return false;
	return true;
}

bool snapshot_is_writable(const struct snapshot *s)
{
	if (s->state == SNAPSHOT_OPEN)
		return s->id.epoch == *s->saves->of.epoch && all_parts(s, PART_CAPTURING);
	return s->state == SNAPSHOT_COPIED || s->state == SNAPSHOT_CAPTURED;
}

bool snapshot_is_digested(const struct snapshot *s)
{
	return s->state == SNAPSHOT_COPIED && all_parts(s, PART_DIGESTED);
}

bool snapshot_has_slots(const struct snapshot *s)
{
	for (uint32_t r = 0; r < s->nparts; r++)
		if (s->parts[r].state == PART_RELEASED)
			return false;
	return true;
}

void snapshot_note_arrived(struct snapshot *s)
{
	for (uint32_t r = 0; r < s->nparts; r++) {
		struct part *part = &s->parts[r];
		s->commit_ranks[r].arriving = part->state == PART_CAPTURING;
		if (part->state == PART_CAPTURING)
			s->commit_ranks[r].arrived = snapshot_digested(part);
	}
}

/* What has arrived goes to storage. */
static void feed_commit(struct snapshot *s)
{
	if (!s->commit || s->state == SNAPSHOT_FAILED)
		return;
	snapshot_note_arrived(s);
	node_part_arrived(s->commit);
}

void snapshot_follow(struct snapshot *s)
{
	if (s->state != SNAPSHOT_OPEN && s->state != SNAPSHOT_COPIED)
		return;
	s->late_phase = LATE_NOBODY;
	for (uint32_t r = 0; r < s->nparts && s->state != SNAPSHOT_FAILED; r++)
		follow_part(s, r);
	feed_commit(s);
	if (s->state == SNAPSHOT_OPEN && all_parts(s, PART_COPIED)) {
		snapshot_set_state(s, SNAPSHOT_COPIED);
		saves_copied(s->saves, s);
	}
	if (snapshot_is_digested(s))
		saves_digested(s->saves, s);
	snapshot_publish(s);
}

bool snapshot_undecided(const struct snapshot *s)
{
	if (s->state != SNAPSHOT_COPIED)
		return false;
	return !all_parts(s, PART_DIGESTED) || clock_now() - s->told_ns < DECISION_NS;
}

void snapshot_captured(struct snapshot *s)
{
	if (s->state != SNAPSHOT_COPIED)
		return;
	s->captured_ns = clock_now();
	snapshot_set_state(s, SNAPSHOT_CAPTURED);
	for (uint32_t r = 0; r < s->nparts; r++)
		s->commit_ranks[r].leaves = s->parts[r].leaves;
	if (s->commit)
		node_part_digests_ready(s->commit);
	snapshot_publish(s);
}

/* ---- ends ---------------------------------------------------------------------------------------------------- */

static void fail(struct snapshot *s, bool in_memory, int rc)
{
	if (in_memory) {
		s->storage_rc = rc;
	} else {
		s->rc = rc;
		snapshot_set_state(s, SNAPSHOT_FAILED);
	}
	if (s->commit)
		node_part_abort(s->commit, rc, s->err.text);
	saves_report(s->saves, s, rc);
	snapshot_publish(s);
	if (s->rc || s->commit || s->state < SNAPSHOT_CAPTURED)
		saves_failed(s->saves, s, rc);
	else
		saves_passed(s->saves, s, rc);
}

enum failure { FAIL_WHOLLY, FAIL_STORAGE, FAIL_BY_POLICY };

static void fail_saying(struct snapshot *s, enum failure how, int rc, const char *fmt, va_list ap)
{
	bool captured = s->state >= SNAPSHOT_CAPTURED, in_memory = captured || how != FAIL_WHOLLY;
	if (s->rc || (s->storage_rc && in_memory))
		return;
	s->storage_rc = 0;
	s->stays = captured && how == FAIL_BY_POLICY;
	vsnprintf(s->err.text, sizeof(s->err.text), fmt, ap);
	fail(s, in_memory, rc);
}

void snapshot_fail(struct snapshot *s, int rc, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	fail_saying(s, FAIL_WHOLLY, rc, fmt, ap);
	va_end(ap);
}

void snapshot_stay(struct snapshot *s, int rc, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	fail_saying(s, FAIL_BY_POLICY, rc, fmt, ap);
	va_end(ap);
}

void snapshot_fail_storage(struct snapshot *s, int rc, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	fail_saying(s, FAIL_STORAGE, rc, fmt, ap);
	va_end(ap);
}

bool snapshot_to_storage(const struct snapshot *s)
{
	return s->to_storage && !s->rc && !s->storage_rc && s->state < SNAPSHOT_DURABLE;
}

bool snapshot_is_captured(const struct snapshot *s)
{
	return s->state >= SNAPSHOT_CAPTURED && s->state != SNAPSHOT_FAILED;
}

bool snapshot_in_memory(const struct snapshot *s)
{
	if (!snapshot_is_captured(s) || s->damaged)
		return false;
	for (uint32_t r = 0; r < s->nparts; r++)
		if (s->parts[r].state != PART_DIGESTED || s->parts[r].mem != saves_memory(s->saves, r))
			return false;
	return true;
}

bool snapshot_awaits_readback(const struct snapshot *s)
{
	return s->state == SNAPSHOT_DURABLE && !s->storage_rc && s->verify != VERIFY_NEVER && s->verify != VERIFY_LEFT;
}

bool snapshot_idle(const struct snapshot *s)
{
	return !s->works && (!s->commit || s->commit->state == NODE_PART_DONE);
}

/* A slot whose device still copies, or which is being copied to another node, must not be handed out again; once the process is gone
 * no device writes any more. */
static bool part_ended(const struct part *part)
{
	if (part->mem->slots[part->slot].copies)
		return false;
	return part->orphan || atomic_load(&part->mem->head->slots[part->slot].done) != 0;
}

bool snapshot_release(struct snapshot *s)
{
	bool all = true;
	for (uint32_t r = 0; r < s->nparts; r++) {
		struct part *part = &s->parts[r];
		if (part->state == PART_ABSENT || part->state == PART_RELEASED)
			continue;
		if (part->in_flight || !part_ended(part)) {
			all = false;
			continue;
		}
		memory_release(part->mem, part->slot, part->state == PART_DIGESTED && !s->damaged);
		memory_wake(part->mem);
		part->state = PART_RELEASED;
	}
	return all;
}

static int level_of(const struct snapshot *s)
{
	switch (s->state) {
	case SNAPSHOT_CAPTURED:
		return s->replicated_ns ? LEVEL_REPLICATED : LEVEL_CAPTURED;
	case SNAPSHOT_DURABLE:
		return LEVEL_DURABLE;
	case SNAPSHOT_VERIFIED:
		return LEVEL_VERIFIED;
	default:
		return LEVEL_PENDING;
	}
}

/* Of what is captured: what its next level waits for. */
static enum late_phase late_captured(const struct snapshot *s)
{
	if (s->commit && !s->storage_rc)
		return s->commit->state <= NODE_PART_DATA ? LATE_WRITE : LATE_COMMIT;
	/* Its slots are given back, or it is one that others overtake: no copy is made of it. */
	return !s->replicated_ns && saves_are_copied(s->saves) && snapshot_in_memory(s) ? LATE_COPY : LATE_NOBODY;
}

void snapshot_publish(struct snapshot *s)
{
	if (s->state == SNAPSHOT_CAPTURED) {
		s->late_phase = late_captured(s);
		s->late_rank = 0;
	} else if (s->state == SNAPSHOT_DURABLE) {
		/* The level that is left will come, or never. */
		s->late_phase = s->verify == VERIFY_NEVER ? LATE_NOBODY : LATE_VERIFY;
		s->late_rank = 0;
	}
	struct level level = {.id = s->id,
			      .level = level_of(s),
			      .error = !s->rc && s->promoted
					       ? (s->passed_over ? -EOPNOTSUPP : 0)
					       : snapshot_error(s), /* an promoted's ranks asked for memory only */
			      .late_rank = s->late_rank,
			      .late_phase = s->late_phase};
	if (level.level == s->shown_level && level.error == s->shown_error && level.late_rank == s->shown_rank &&
	    level.late_phase == s->shown_phase)
		return;
	s->shown_level = level.level;
	s->shown_error = level.error;
	s->shown_rank = level.late_rank;
	s->shown_phase = level.late_phase;
	saves_publish(s->saves, &level);
	saves_note(s->saves, s);
}
