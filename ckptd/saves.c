#include "saves.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "catalog.h"
#include "daemon.h"
#include "job.h"
#include "readback.h"

#include <stdio.h>
#include <string.h>

enum { FAILED_KEPT = 64 };

static struct snapshot *snapshot_of(struct list *node)
{
	return list_entry(node, struct snapshot, link);
}

void saves_init(struct saves *saves, struct daemon *daemon, struct job *job)
{
	*saves = (struct saves){.daemon = daemon, .job = job};
	list_init(&saves->snapshots);
}

void saves_free(struct saves *saves)
{
	list_for_safe(node, &saves->snapshots)
		snapshot_free(snapshot_of(node));
}

/* ---- finding --------------------------------------------------------------------------------------------------- */

static struct snapshot *find(struct saves *saves, struct step_id id)
{
	list_for(node, &saves->snapshots) {
		struct snapshot *s = snapshot_of(node);
		if (!step_compare(s->id, id))
			return s;
	}
	return NULL;
}

static void insert(struct saves *saves, struct snapshot *s)
{
	struct list *at = saves->snapshots.prev;
	while (at != &saves->snapshots && step_compare(snapshot_of(at)->id, s->id) > 0)
		at = at->prev;
	list_push(at->next, &s->link); /* before the next one: behind `at` */
}

static int find_or_make(struct saves *saves, struct step_id id, struct snapshot **out)
{
	*out = find(saves, id);
	if (*out)
		return 0;
	int rc = snapshot_new(saves, id, saves->job->world, out);
	if (!rc)
		insert(saves, *out);
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

/* ---- slots ----------------------------------------------------------------------------------------------------- */

/* A slot that this epoch has no use for is given back once its device has stopped writing. */
static void discard_slot(struct memory *mem, uint32_t slot, bool orphan)
{
	if (orphan || atomic_load(&mem->head->slots[slot].done)) {
		memory_release(mem, slot);
		memory_wake(mem);
	}
}

static void take_slot(struct saves *saves, struct rank *rank, uint32_t slot)
{
	struct memory *mem = rank->mem;
	struct arena_slot *s = &mem->head->slots[slot];
	struct step_id id = {.step = s->step, .epoch = s->epoch};
	/* What came back with an arena was written by an earlier process, unless this one has been in the job before. */
	bool orphan = mem->adopted && !rank->veteran;
	struct snapshot *snap;
	/* Only what the arena brought along may be of an earlier epoch; a living writer of an old epoch changes nothing. */
	if (id.step > STEP_MAX || id.epoch > saves->job->epoch || !id.epoch ||
	    (id.epoch < saves->job->epoch && !mem->adopted)) {
		discard_slot(mem, slot, orphan);
		return;
	}
	if (id.epoch > saves->begun_epoch)
		saves->begun_epoch = id.epoch;
	int rc = find_or_make(saves, id, &snap);
	if (!rc)
		rc = snap->state == SNAPSHOT_OPEN ? snapshot_add(snap, rank->id, mem, slot, orphan) : -ESTALE;
	if (rc)
		discard_slot(mem, slot, orphan);
}

static void scan_rank(struct saves *saves, struct rank *rank)
{
	struct memory *mem = rank->mem;
	for (uint32_t i = 0; i < mem->nslots; i++) {
		if (mem->slots[i].used)
			continue;
		if (atomic_load_explicit(&mem->head->slots[i].state, memory_order_acquire) == SLOT_CAPTURING)
			take_slot(saves, rank, i);
	}
}

/* A rank that has begun a later step, or has finished, will never begin this one. */
static void give_up_skipped(struct saves *saves, struct snapshot *s)
{
	for (uint32_t r = 0; r < s->nparts; r++) {
		if (s->parts[r].state != PART_ABSENT)
			continue;
		if (saves->job->ranks[r].state == RANK_LEFT) {
			snapshot_fail(s, -ECANCELED, "rank %u has finished without beginning step %lu", r,
				      (unsigned long)s->id.step);
			return;
		}
		for (struct list *node = s->link.next; node != &saves->snapshots; node = node->next) {
			if (snapshot_of(node)->parts[r].state == PART_ABSENT)
				continue;
			snapshot_fail(s, -ECANCELED, "rank %u skipped step %lu and began step %lu", r,
				      (unsigned long)s->id.step, (unsigned long)snapshot_of(node)->id.step);
			return;
		}
	}
}

void saves_follow(struct saves *saves)
{
	for (uint32_t r = 0; r < saves->job->world; r++)
		if (saves->job->ranks[r].mem && saves->job->ranks[r].arena_sent)
			scan_rank(saves, &saves->job->ranks[r]);
	list_for(node, &saves->snapshots) {
		struct snapshot *s = snapshot_of(node);
		if (s->state == SNAPSHOT_OPEN)
			give_up_skipped(saves, s);
		snapshot_follow(s);
	}
	saves_pump(saves);
}

/* ---- commits --------------------------------------------------------------------------------------------------- */

static void data_written(struct commit *c)
{
	struct snapshot *s = c->arg;
	s->slots_on_disk = true;
}

static void commit_done(struct commit *c)
{
	struct snapshot *s = c->arg;
	struct saves *saves = s->saves;
	saves->committing = NULL;
	if (c->rc) {
		saves->failed++;
		snapshot_fail(s, c->rc, "%s", c->err.text);
	} else if (s->state == SNAPSHOT_CAPTURED) {
		saves->committed++;
		s->durable_ns = clock_now();
		snapshot_set_state(s, SNAPSHOT_DURABLE);
		s->verify_queued = saves->daemon->config.verify;
		log_info("job %s: step %lu epoch %u durable, %.0f ms after begin%s", saves->job->name,
			 (unsigned long)s->id.step, s->id.epoch, (double)(s->durable_ns - s->opened_ns) / 1e6,
			 c->already ? " (committed before a restart)" : "");
		catalog_committed(saves->daemon->catalog, saves->job->name, s->id, c->bytes, (uint32_t)c->files,
				  saves->job->world);
		snapshot_publish(s);
	}
	saves_pump(saves);
}

static int start_commit(struct saves *saves, struct snapshot *s)
{
	struct commit *c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	for (uint32_t r = 0; r < s->nparts; r++)
		s->commit_ranks[r] = (struct commit_rank){
			.mem = s->parts[r].mem, .slot = s->parts[r].slot, .leaves = s->parts[r].leaves};
	c->disk = saves->daemon->disk;
	c->root = saves->daemon->root;
	c->id = s->id;
	c->world = saves->job->world;
	c->nranks = s->nparts;
	c->ranks = s->commit_ranks;
	c->digests_ready = s->state >= SNAPSHOT_CAPTURED;
	c->data_written = data_written;
	c->done = commit_done;
	c->arg = s;
	snprintf(c->job, sizeof(c->job), "%s", saves->job->name);
	snprintf(c->node, sizeof(c->node), "%s", saves->daemon->config.node);
	s->commit = c;
	saves->committing = s;
	int rc = commit_start(c);
	if (rc) {
		saves->committing = NULL;
		s->commit = NULL;
		commit_free(c);
	}
	return rc;
}

static bool wants_commit(const struct snapshot *s)
{
	return s->to_storage && !s->commit && !s->rc && !s->storage_rc &&
	       (s->state == SNAPSHOT_COPIED || s->state == SNAPSHOT_CAPTURED);
}

static void supersede(struct snapshot *s, const struct snapshot *newer)
{
	snapshot_fail(s, -ECANCELED, "superseded: step %lu was ready to be written before this one",
		      (unsigned long)newer->id.step);
}

/* The disk writes one snapshot at a time; of those that wait, the newest wins. */
static void pump_commit(struct saves *saves)
{
	struct snapshot *newest = NULL;
	for (struct list *node = saves->snapshots.prev; node != &saves->snapshots; node = node->prev) {
		struct snapshot *s = snapshot_of(node);
		if (!wants_commit(s))
			continue;
		if (saves->daemon->root < 0) {
			snapshot_fail(s, -EINVAL,
				      "this daemon has no store: start ckptd with --store, or save to memory");
		} else if (s->id.epoch > EPOCH_MAX) {
			snapshot_fail(s, -EOVERFLOW,
				      "epoch %u has no name in a store: start the job anew under another name",
				      s->id.epoch);
		} else if (newest && newest->state >= SNAPSHOT_CAPTURED) {
			supersede(s, newest);
		} else if (saves->committing && step_compare(s->id, saves->committing->id) < 0) {
			supersede(s, saves->committing); /* found in the arenas after a restart */
		} else if (!newest) {
			newest = s;
		}
	}
	if (!newest || saves->committing || saves->daemon->stopping)
		return;
	int rc = start_commit(saves, newest);
	if (rc)
		snapshot_fail(newest, rc, "cannot start the commit: %s", err_name(rc));
}

/* ---- read-back ------------------------------------------------------------------------------------------------- */

static void verify_done(void *arg, struct step_id id, int rc, const struct err *err)
{
	struct saves *saves = arg;
	saves->verifying = NULL;
	struct snapshot *s = find(saves, id);
	if (!rc || rc == -EBADMSG) /* could not be read says nothing about the bytes */
		catalog_verified(saves->daemon->catalog, saves->job->name, id, rc);
	if (s && !rc) {
		saves->verified++;
		s->verified_ns = clock_now();
		snapshot_set_state(s, SNAPSHOT_VERIFIED);
	} else if (s) {
		snapshot_fail(s, rc, "reading back found: %s", err->text);
	}
	if (s)
		snapshot_publish(s);
	saves_pump(saves);
}

/* The newest first; one at a time, and never while a commit wants the disk. */
static void pump_verify(struct saves *saves)
{
	if (saves->verifying || saves->committing || saves->daemon->stopping)
		return;
	for (struct list *node = saves->snapshots.prev; node != &saves->snapshots; node = node->prev) {
		struct snapshot *s = snapshot_of(node);
		if (!s->verify_queued)
			continue;
		s->verify_queued = false;
		int rc = readback_start(saves->daemon, saves->job->name, s->id, verify_done, saves, &saves->verifying);
		if (rc)
			snapshot_fail(s, rc, "cannot read back: %s", err_name(rc));
		return;
	}
}

/* ---- giving back ----------------------------------------------------------------------------------------------- */

static bool is_lent(const struct snapshot *s)
{
	return s->saves->lent.epoch && !step_compare(s->id, s->saves->lent);
}

static bool commit_reads_slots(const struct snapshot *s)
{
	return s->commit && s->commit->state != COMMIT_DONE && !s->slots_on_disk;
}

static bool needed_in_memory(const struct snapshot *s, const struct snapshot *newest)
{
	if (commit_reads_slots(s))
		return true;
	if (s->rc || s->damaged)
		return false;
	return s == newest || s->state < SNAPSHOT_CAPTURED || wants_commit(s) || is_lent(s);
}

static bool being_verified(const struct snapshot *s)
{
	return s->verify_queued || (s->saves->verifying && !step_compare(readback_id(s->saves->verifying), s->id));
}

/* A rank that begins late must be told that the step has failed, and not open it anew. Once a later step is captured on every rank
 * nobody is late any more. */
static bool somebody_may_begin(const struct snapshot *s, const struct snapshot *newest)
{
	if (!s->rc || s->id.epoch != s->saves->job->epoch || (newest && step_compare(s->id, newest->id) < 0))
		return false;
	for (uint32_t r = 0; r < s->nparts; r++)
		if (s->parts[r].state == PART_ABSENT)
			return true;
	return false;
}

static void return_loan(struct saves *saves)
{
	list_for(node, &saves->snapshots) {
		const struct snapshot *s = snapshot_of(node);
		if (snapshot_in_memory(s) && s->opened_ns > saves->lent_ns && s->id.epoch == saves->job->epoch)
			saves->lent = (struct step_id){0};
	}
}

static void reclaim(struct saves *saves)
{
	unsigned kept = 0;
	return_loan(saves);
	struct snapshot *newest = saves_in_memory(saves, UINT64_MAX);
	list_for_safe(node, &saves->snapshots) {
		struct snapshot *s = snapshot_of(node);
		if (needed_in_memory(s, newest) || !snapshot_release(s) || !snapshot_idle(s) || being_verified(s))
			continue;
		if (somebody_may_begin(s, newest) && kept++ < FAILED_KEPT)
			continue;
		snapshot_free(s);
	}
}

void saves_pump(struct saves *saves)
{
	pump_commit(saves);
	pump_verify(saves);
	reclaim(saves);
}

void saves_lend(struct saves *saves, struct step_id id)
{
	saves->lent = id;
	saves->lent_ns = clock_now();
}

static void release_unclaimed(struct memory *mem)
{
	for (uint32_t i = 0; i < mem->nslots; i++)
		if (!mem->slots[i].used && atomic_load(&mem->head->slots[i].state) != SLOT_FREE)
			memory_release(mem, i);
}

void saves_orphan(struct saves *saves, uint32_t rank)
{
	list_for(node, &saves->snapshots)
		snapshot_of(node)->parts[rank].orphan = true;
	if (saves->job->ranks[rank].mem)
		release_unclaimed(saves->job->ranks[rank].mem);
	saves_pump(saves);
}

/* A commit that still reads the slots is given up: what it would write is damaged, too. */
void saves_drop(struct saves *saves, struct snapshot *s)
{
	s->damaged = true;
	if (s->commit && s->commit->state != COMMIT_DONE)
		snapshot_fail(s, -EBADMSG, "its copy in memory is damaged");
	saves_pump(saves);
}

int saves_adopt(struct saves *saves, struct step_id id, const uint32_t *slots)
{
	struct snapshot *s;
	struct snapshot *old = find(saves, id);
	if (old && snapshot_idle(old) && snapshot_release(old) && !being_verified(old))
		snapshot_free(old);
	int rc = snapshot_new(saves, id, saves->job->world, &s);
	if (rc)
		return rc;
	for (uint32_t r = 0; !rc && r < s->nparts; r++) {
		struct memory *mem = saves->job->ranks[r].mem;
		memory_complete(mem, slots[r], id);
		rc = snapshot_add(s, r, mem, slots[r], true);
		if (rc)
			break;
		memcpy(s->parts[r].leaves, memory_leaves(mem, slots[r]), mem->layout.nleaves * sizeof(uint64_t));
		s->parts[r].state = PART_DIGESTED;
	}
	if (rc) {
		snapshot_free(s);
		return rc;
	}
	s->to_storage = false;
	snapshot_set_state(s, SNAPSHOT_COPIED);
	snapshot_set_state(s, SNAPSHOT_CAPTURED);
	s->captured_ns = clock_now();
	insert(saves, s);
	saves_pump(saves);
	return 0;
}

/* ---- deadlines, epochs ----------------------------------------------------------------------------------------- */

static const char *phase_text(uint32_t phase)
{
	static const char *const texts[] = {[LATE_BEGIN] = "has not begun this step",
					    [LATE_CAPTURE] = "is still copying",
					    [LATE_FENCE] = "has not called fence",
					    [LATE_DIGEST] = "is still being digested"};
	return phase && phase < sizeof(texts) / sizeof(texts[0]) ? texts[phase] : "is late";
}

static void expire(struct saves *saves, struct snapshot *s, uint64_t now)
{
	const struct config *config = &saves->daemon->config;
	uint64_t save_ns = config->save_timeout_ms * CLOCK_NS_PER_MS,
		 stall_ns = config->stall_timeout_ms * CLOCK_NS_PER_MS;
	if ((s->state == SNAPSHOT_OPEN || s->state == SNAPSHOT_COPIED) && now - s->opened_ns > save_ns)
		snapshot_fail(s, -ETIMEDOUT, "not captured within %u ms: rank %u %s", config->save_timeout_ms,
			      s->late_rank, phase_text(s->late_phase));
	else if (s->commit && s->commit->state != COMMIT_DONE && now - s->commit->progress_ns > stall_ns)
		snapshot_fail(s, -ETIMEDOUT, "storage made no progress for %u ms (commit state %s)",
			      config->stall_timeout_ms, commit_state_name(s->commit->state));
}

void saves_expire(struct saves *saves)
{
	uint64_t now = clock_now();
	list_for_safe(node, &saves->snapshots)
		expire(saves, snapshot_of(node), now);
	saves_pump(saves);
}

static bool complete_copy(const struct snapshot *s)
{
	return s->state >= SNAPSHOT_COPIED && s->state != SNAPSHOT_FAILED;
}

void saves_poison(struct saves *saves, uint32_t epoch)
{
	saves->lent = (struct step_id){0};
	list_for_safe(node, &saves->snapshots) {
		struct snapshot *s = snapshot_of(node);
		if (!complete_copy(s) && s->state != SNAPSHOT_FAILED)
			snapshot_fail(s, -ESTALE, "epoch %u began before every rank was captured", epoch);
	}
	for (uint32_t r = 0; r < saves->job->world; r++)
		if (saves->job->ranks[r].mem)
			saves->job->ranks[r].mem->adopted = false;
	saves_pump(saves);
}

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

bool saves_idle(const struct saves *saves)
{
	if (saves_at_work(saves))
		return false;
	list_for(node, &saves->snapshots) {
		const struct snapshot *s = snapshot_of(node);
		if (wants_commit(s) || s->verify_queued)
			return false;
	}
	return true;
}

/* ---- telling --------------------------------------------------------------------------------------------------- */

void saves_publish(struct saves *saves, const struct level *level)
{
	for (uint32_t r = 0; r < saves->job->world; r++)
		if (saves->job->ranks[r].mem)
			memory_publish(saves->job->ranks[r].mem, level);
}

void saves_report(struct saves *saves, const struct snapshot *s, int rc)
{
	enum log_level level = rc == -ECANCELED || rc == -ESTALE ? LOG_INFO : LOG_WARN;
	log_line(level, "job %s: step %lu epoch %u %s: %s", saves->job->name, (unsigned long)s->id.step, s->id.epoch,
		 s->rc ? "failed" : "not on storage", s->err.text);
	catalog_event(saves->daemon->catalog, saves->job->name, s->id, "save-failed", s->err.text);
	job_event(saves->job, s->id, rc, s->err.text);
}

const struct memory *saves_memory(const struct saves *saves, uint32_t rank)
{
	return saves->job->ranks[rank].mem;
}
