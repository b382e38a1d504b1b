#include "save/saves_private.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "catalog/room.h"
#include "checkpoint/room.h"
#include "participant/room.h"
#include "runtime/room.h"
#include "save/save_policy.h"
#include "save/save_stats.h"

#include <stdio.h>
#include <string.h>

void saves_init(struct saves *saves, const struct saved_job *of)
{
	*saves = (struct saves){.of = *of, .bucket = {.rate = &of->policy->write_bandwidth}};
	list_init(&saves->snapshots);
	save_stats_of(of->stats, of->runtime, of->name, of->world);
}

void saves_free(struct saves *saves)
{
	list_for_safe(node, &saves->snapshots)
		snapshot_free(snapshot_of(node));
	previous_free(&saves->previous);
	part_layout_put(saves->layouts);
	share_parts_free(&saves->ordered.parts);
}

/* ---- finding --------------------------------------------------------------------------------------------------- */

struct snapshot *saves_find(struct saves *saves, struct step_id id)
{
	list_for(node, &saves->snapshots) {
		struct snapshot *s = snapshot_of(node);
		if (!step_compare(s->id, id))
			return s;
	}
	return NULL;
}

struct snapshot *saves_find_in_memory(struct saves *saves, struct step_id id)
{
	list_for(node, &saves->snapshots) {
		struct snapshot *s = snapshot_of(node);
		if (!step_compare(s->id, id) && snapshot_in_memory(s))
			return s;
	}
	return NULL;
}

void saves_insert(struct saves *saves, struct snapshot *s)
{
	struct list *at = saves->snapshots.prev;
	while (at != &saves->snapshots && step_compare(snapshot_of(at)->id, s->id) > 0)
		at = at->prev;
	list_push(at->next, &s->link); /* before the next one: behind `at` */
}

static int find_or_make(struct saves *saves, struct step_id id, struct snapshot **out)
{
	*out = saves_find(saves, id);
	if (*out)
		return 0;
	int rc = snapshot_new(saves, id, *saves->of.nlocal, out);
	if (!rc)
		saves_insert(saves, *out);
	return rc;
}

struct snapshot *saves_in_memory(struct saves *saves, uint64_t step)
{
	for (struct list *node = saves->snapshots.prev; node != &saves->snapshots; node = node->prev) {
		struct snapshot *s = snapshot_of(node);
		if (snapshot_in_memory(s) && (step == UINT64_MAX || s->id.step == step))
			return s;
	}
	return NULL;
}

bool saves_undecided(const struct saves *saves)
{
	list_for(node, &saves->snapshots) {
		const struct snapshot *s = snapshot_of(node);
		if (s->id.epoch < *saves->of.epoch && snapshot_undecided(s))
			return true;
	}
	return false;
}

/* ---- slots ----------------------------------------------------------------------------------------------------- */

/* A slot that this epoch has no use for is given back once its device has stopped writing. */
static void discard_slot(struct memory *mem, uint32_t slot, bool orphan)
{
	if (orphan || atomic_load(&mem->head->slots[slot].done)) {
		memory_release(mem, slot, false);
		memory_wake(mem);
	}
}

static void take_slot(struct saves *saves, uint32_t index, const struct saved_rank *rank, uint32_t slot)
{
	struct memory *mem = rank->mem;
	struct arena_slot *s = &mem->head->slots[slot];
	struct step_id id = {.step = s->step, .epoch = s->epoch};
	/* What came back with an arena was written by an earlier process, unless this one has been in the job before. */
	bool orphan = mem->adopted && !rank->rejoined;
	struct snapshot *snap;
	/* Only what the arena brought along may be of an earlier epoch; a living writer of an old epoch changes nothing. */
	if (id.step > STEP_MAX || id.epoch > *saves->of.epoch || !id.epoch ||
	    (id.epoch < *saves->of.epoch && !mem->adopted)) {
		discard_slot(mem, slot, orphan);
		return;
	}
	if (step_compare(id, saves->begun) > 0)
		saves->begun = id;
	int rc = find_or_make(saves, id, &snap);
	if (!rc)
		rc = snap->state == SNAPSHOT_OPEN ? snapshot_add(snap, index, mem, slot, orphan) : -ESTALE;
	if (rc && rc != -ENOMEM) /* then it is looked at again, at the next tick */
		discard_slot(mem, slot, orphan);
}

/* A step that it had no slot for: others have begun it, or will, on this node or on another one. */
static void hear_left_out(struct saves *saves, uint32_t index, const struct memory *mem)
{
	struct step_id id = arena_left_out(mem->head);
	if (id.step > STEP_MAX || id.epoch != *saves->of.epoch || !step_compare(id, saves->left_out[index]))
		return;
	saves->left_out[index] = id;
	if (*saves->of.spread && !saves_find(saves, id))
		participant_say(saves->of.job, &(struct peer_report){.type = PEER_LEFT_OUT, .save = {.id = id}});
}

static void scan_rank(struct saves *saves, uint32_t index, const struct saved_rank *rank)
{
	struct memory *mem = rank->mem;
	for (uint32_t i = 0; i < mem->nslots; i++) {
		if (mem->slots[i].used)
			continue;
		if (atomic_load_explicit(&mem->head->slots[i].state, memory_order_acquire) == SLOT_CAPTURING)
			take_slot(saves, index, rank, i);
	}
	hear_left_out(saves, index, mem);
}

/* A rank that had no slot for it, has begun a later step, or has finished, will never begin this one. */
static void give_up_skipped(struct saves *saves, struct snapshot *s)
{
	for (uint32_t r = 0; r < s->nparts; r++) {
		if (s->parts[r].state != PART_ABSENT)
			continue;
		const struct saved_rank rank = saved_rank(saves, r);
		if (rank.finished) {
			snapshot_fail(s, -ECANCELED, "rank %u has finished without beginning step %lu", rank.id,
				      (unsigned long)s->id.step);
			return;
		}
		if (!step_compare(saves->left_out[r], s->id)) {
			snapshot_fail(s, -ECANCELED, "rank %u had no free slot for step %lu", rank.id,
				      (unsigned long)s->id.step);
			return;
		}
		for (struct list *node = s->link.next; node != &saves->snapshots; node = node->next) {
			if (snapshot_of(node)->parts[r].state == PART_ABSENT)
				continue;
			snapshot_fail(s, -ECANCELED, "rank %u skipped step %lu and began step %lu", rank.id,
				      (unsigned long)s->id.step, (unsigned long)snapshot_of(node)->id.step);
			return;
		}
	}
}

void saves_follow(struct saves *saves)
{
	if (!*saves->of.epoch)
		return; /* what stands in the slots cannot be told from what is not of this job's time */
	for (uint32_t r = 0; r < *saves->of.nlocal; r++) {
		const struct saved_rank rank = saved_rank(saves, r);
		if (rank.mem && rank.in_use)
			scan_rank(saves, r, &rank);
	}
	saves->walking++; /* what ends would be forgotten */
	list_for(node, &saves->snapshots) {
		struct snapshot *s = snapshot_of(node);
		if (s->state == SNAPSHOT_OPEN)
			give_up_skipped(saves, s);
		snapshot_follow(s);
		saves_say_again(saves, s);
	}
	saves->walking--;
	saves_pump(saves);
}

/* ---- commits --------------------------------------------------------------------------------------------------- */

static void data_written(struct node_part *c)
{
	struct snapshot *s = c->arg;
	s->slots_on_disk = true;
}

static void commit_prepared(struct node_part *c)
{
	struct snapshot *s = c->arg;
	saves_prepared(s->saves, s);
}

static void commit_failed(struct node_part *c)
{
	struct snapshot *s = c->arg;
	if (s->anew) {
		node_part_clear(c, 0);
		return;
	}
	if (s->state == SNAPSHOT_OPEN && s->saves->of.runtime->stopping)
		return; /* saves_end_open */
	s->saves->failed++;
	snapshot_fail_storage(s, c->rc, "%s", c->err.text);
}

void saves_begin_anew(struct snapshot *s, const char *why)
{
	s->anew = true;
	node_part_abort(s->commit, -ECANCELED, why);
}

/* As if it had never begun: the pump goes on with what is ordered. */
static void forget_commit(struct snapshot *s)
{
	node_part_free(s->commit);
	s->commit = NULL;
	s->anew = s->slots_on_disk = false;
}

static void commit_done(struct node_part *c)
{
	struct snapshot *s = c->arg;
	struct saves *saves = s->saves;
	bool withdrawn = c->rc || c->cleared;
	saves->committing = NULL;
	if (!withdrawn)
		previous_take(&saves->previous, c);
	if (s->anew)
		forget_commit(s);
	if (withdrawn) /* the save may have failed meanwhile for the coordinator that wants it written anew */
		saves_cleared(saves, s->id);
	saves_pump(saves);
}

static int start_commit(struct saves *saves, struct snapshot *s)
{
	struct node_part *c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	for (uint32_t r = 0; r < s->nparts; r++)
		s->commit_ranks[r] = (struct node_part_rank){
			.mem = s->parts[r].mem, .slot = s->parts[r].slot, .leaves = s->parts[r].leaves};
	snapshot_note_arrived(s);
	c->disk = saves->of.storage->disk;
	c->throttle = &saves->of.storage->writes;
	c->bucket = &saves->bucket;
	c->previous = &saves->previous;
	c->layouts = &saves->layouts;
	c->full_every = saves->of.policy->full_every;
	c->packing = saves->of.policy->compress == COMPRESS_ZSTD ? &saves->of.storage->packing : NULL;
	c->root = saves->of.storage->root;
	c->store = *saves->of.spread ? saves->of.runtime->config.store : NULL;
	c->id = s->id;
	c->world = *saves->of.world;
	c->nranks = s->nparts;
	c->ranks = s->commit_ranks;
	c->digests_ready = s->state >= SNAPSHOT_CAPTURED;
	c->data_written = data_written;
	c->prepared = commit_prepared;
	c->failed = commit_failed;
	c->done = commit_done;
	c->arg = s;
	snprintf(c->job, sizeof(c->job), "%s", saves->of.name);
	snprintf(c->node, sizeof(c->node), "%s", saves->of.runtime->config.node);
	s->commit = c;
	s->commit_ns = clock_now();
	saves->committing = s;
	int rc = node_part_start(c);
	if (rc) {
		saves->committing = NULL;
		s->commit = NULL;
		node_part_free(c);
	}
	return rc;
}

bool saves_wants_commit(const struct snapshot *s)
{
	return s->to_storage && !s->commit && !s->rc && !s->storage_rc &&
	       (s->state == SNAPSHOT_COPIED || s->state == SNAPSHOT_CAPTURED);
}

bool saves_decide(const struct saves *saves)
{
	for (uint32_t r = 0; *saves->of.spread && r < *saves->of.nlocal; r++)
		if (!saves_rank(saves, r))
			return true;
	return !*saves->of.spread;
}

/* The disk writes one snapshot at a time: the one that was ordered, else the one that is chosen here. */
static void pump_commit(struct saves *saves)
{
	struct snapshot *ordered = saves_ordered(saves);
	bool chooses = saves_decide(saves) && !saves->apart;
	struct snapshot *next = ordered || !chooses ? ordered : queue_next(saves);
	int rc = next ? start_commit(saves, next) : 0;
	if (rc)
		snapshot_fail_storage(next, rc, "cannot start the commit: %s", err_name(rc));
	else if (ordered)
		node_part_write(next->commit, saves->ordered.flag, saves->ordered.maker, &saves->ordered.parts);
	else if (next)
		saves_ready(saves, next);
}

/* What waits for the order to be written would keep its slots for as long as nobody can give it. */
void saves_apart(struct saves *saves, bool apart)
{
	struct snapshot *s = saves->committing;
	if (saves->apart && !apart)
		saves->linked_ns = clock_now();
	saves->apart = apart;
	if (apart && s && s->commit->state == NODE_PART_ASK)
		saves_begin_anew(s, "nobody coordinates the job");
}

/* ---- the order ---------------------------------------------------------------------------------------------------- */

void saves_pump(struct saves *saves)
{
	if (saves->reporting || saves->walking)
		return;
	pump_commit(saves);
	saves_pump_readback(saves);
	saves_reclaim(saves);
}

bool saves_end_open(struct saves *saves, bool leave)
{
	struct snapshot *s = saves->committing;
	if (!s || s->state != SNAPSHOT_OPEN || s->commit->rc)
		return false;
	saves->walking++;
	if (leave) {
		node_part_abort(s->commit, -ECANCELED, "this daemon ends");
		node_part_clear(s->commit, 0);
	} else {
		snapshot_follow(s);
	}
	saves->walking--;
	saves_pump(saves);
	return leave;
}

/* ---- what is under way ------------------------------------------------------------------------------------------ */

bool saves_busy(const struct saves *saves)
{
	list_for(node, &saves->snapshots) {
		const struct snapshot *s = snapshot_of(node);
		if (s->state == SNAPSHOT_OPEN || s->state == SNAPSHOT_COPIED)
			return true;
	}
	return false;
}

bool saves_at_work(const struct saves *saves)
{
	if (saves->committing || saves->verifying)
		return true;
	list_for(node, &saves->snapshots)
		if (!snapshot_idle(snapshot_of(node)))
			return true;
	return false;
}

bool saves_idle_here(const struct saves *saves)
{
	if (saves_at_work(saves))
		return false;
	list_for(node, &saves->snapshots) {
		const struct snapshot *s = snapshot_of(node);
		if ((saves_decide(saves) && saves_wants_commit(s)) || s->verify == VERIFY_QUEUED)
			return false;
	}
	return true;
}

bool saves_idle(const struct saves *saves)
{
	if (!saves_idle_here(saves))
		return false;
	list_for(node, &saves->snapshots)
		if (saves_wants_commit(snapshot_of(node)))
			return false;
	return true;
}

/* ---- telling --------------------------------------------------------------------------------------------------- */

void saves_publish(struct saves *saves, const struct level *level)
{
	for (uint32_t r = 0; r < *saves->of.nlocal; r++)
		if (saved_rank(saves, r).mem)
			memory_publish(saved_rank(saves, r).mem, level);
}

void saves_note(struct saves *saves, struct snapshot *s)
{
	save_stats_save(saves->of.stats, s);
}

void saves_report(struct saves *saves, const struct snapshot *s, int rc)
{
	bool wanted = rc == -EOPNOTSUPP; /* a policy of the operator's: neither an event nor news */
	bool superseded = rc == -ECANCELED || rc == -EALREADY;
	if (!superseded && !wanted)
		queue_failed(saves, s);
	enum log_level level = wanted ? LOG_DEBUG : superseded || rc == -ESTALE || rc == -EBUSY ? LOG_INFO : LOG_WARN;
	log_line(level, "job %s: step %lu epoch %u %s: %s", saves->of.name, (unsigned long)s->id.step, s->id.epoch,
		 s->rc                          ? "failed"
		 : s->state >= SNAPSHOT_DURABLE ? "not verified"
						: "not on storage",
		 s->err.text);
	if (!wanted)
		catalog_event(saves->of.storage->catalog, saves->of.name, s->id, "save-failed", s->err.text);
	saves->of.event(saves->of.job, s->id, rc, s->err.text);
}

const struct memory *saves_memory(const struct saves *saves, uint32_t index)
{
	return saved_rank(saves, index).mem;
}

uint32_t saves_rank(const struct saves *saves, uint32_t index)
{
	return saved_rank(saves, index).id;
}

void saves_submit(struct saves *saves, struct work *work)
{
	pool_submit(saves->of.runtime->pool, work);
}
