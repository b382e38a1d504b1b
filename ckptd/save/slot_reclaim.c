#include "save/saves_private.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "config/setting.h"
#include "participant/room.h"
#include "save/copies.h"
#include "save/save_stats.h"

#include <string.h>

enum { FAILED_KEPT = 64 };

static bool is_lent(const struct snapshot *s)
{
	return s->saves->lent.epoch && !step_compare(s->id, s->saves->lent);
}

/* To be written, although nobody here has asked for it, as soon as the disk is free. */
static bool is_ordered(const struct snapshot *s)
{
	return s->saves->ordered.id.epoch && !step_compare(s->id, s->saves->ordered.id);
}

/* Complete here, and not on all nodes, or so old ones would not have been restored: of use to nobody, where a save would find no slot.
 * What an earlier epoch has gone on from says nothing of what was captured in it. */
static bool was_passed_over(const struct saves *saves, const struct snapshot *s)
{
	uint32_t epoch = *saves->of.epoch;
	return *saves->of.spread && saves->resumed_in == epoch && s->id.epoch < epoch &&
	       step_compare(s->id, saves->resumed) > 0 && saves_lack_slots(saves);
}

/* Whatever was replicated of a job that has begun afresh since is as lost. */
static bool is_copied(const struct snapshot *s)
{
	const struct saves *saves = s->saves;
	return copies_keep(saves->of.copies, s->id) && (saves->resumed.epoch || !was_passed_over(saves, s));
}

static bool commit_reads_slots(const struct snapshot *s)
{
	return s->commit && s->commit->state < NODE_PART_STOPPED && !s->slots_on_disk;
}

static bool needed_in_memory(const struct snapshot *s, const struct snapshot *newest)
{
	if (commit_reads_slots(s))
		return true;
	if (s->rc || s->damaged || s->overtaken)
		return false;
	return s == newest || is_copied(s) || s->state < SNAPSHOT_CAPTURED || saves_wants_commit(s) || is_lent(s) ||
	       is_ordered(s);
}

static bool is_read_back(const struct snapshot *s)
{
	return s->verify == VERIFY_QUEUED || s->verify == VERIFY_READING;
}

/* A rank that begins late must be told that the step has failed, and not open it anew. Once a later step is captured on every rank
 * nobody is late any more. */
static bool somebody_may_begin(const struct snapshot *s, const struct snapshot *newest)
{
	if (!s->rc || s->id.epoch != *s->saves->of.epoch || (newest && step_compare(s->id, newest->id) < 0))
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
		if (snapshot_in_memory(s) && s->opened_ns > saves->lent_ns && s->id.epoch == *saves->of.epoch)
			saves->lent = (struct step_id){0};
	}
}

/* Of an epoch that is over, and the order to write it has not come: the node that decides may have been lost, and know nothing of it. */
static void give_up_waiting(struct saves *saves, const struct snapshot *newest)
{
	if (saves_decide(saves) || !saves_lack_slots(saves))
		return;
	list_for_safe(node, &saves->snapshots) {
		struct snapshot *s = snapshot_of(node);
		if (s == newest || s->state != SNAPSHOT_CAPTURED || s->id.epoch >= *saves->of.epoch ||
		    !saves_wants_commit(s) || is_ordered(s))
			continue;
		saves->reporting++; /* it is no failure of the save: should it be ordered after all, that is refused */
		snapshot_fail(s, -ECANCELED,
			      "its slots are needed, and nobody has asked for it since its epoch was over");
		saves->reporting--;
	}
}

static bool is_overtaken(const struct snapshot *s, const struct snapshot *newest)
{
	bool waits_its_turn = s->to_storage && s->saves->of.policy->save_policy != SAVE_NEWEST;
	return s != newest && snapshot_is_digested(s) && !waits_its_turn && !s->overtaken;
}

static bool has_given_word(const struct snapshot *s)
{
	return s->commit && s->commit->state >= NODE_PART_PREPARED && !s->commit->rc;
}

/* Storage gets something newer than was asked for. */
static void take_its_place(struct snapshot *s, struct snapshot *newest)
{
	if (!s->to_storage || newest->to_storage || !saves_decide(s->saves))
		return;
	newest->promoted = newest->to_storage = newest->due = true;
}

/* Nobody says which are complete on all nodes. The last one that is known to be stays, and so does the newest that is complete here; of those
 * between the oldest one gives way to the next save. Ranks are a step apart at most, so that all nodes have the same ones when it is over. */
static void give_up_overtaken(struct saves *saves)
{
	struct snapshot *newest = NULL, *oldest = NULL;
	if (!saves->apart || !saves_lack_slots(saves))
		return;
	list_for(node, &saves->snapshots)
		if (snapshot_is_digested(snapshot_of(node)))
			newest = snapshot_of(node);
	list_for(node, &saves->snapshots)
		if (!oldest && is_overtaken(snapshot_of(node), newest))
			oldest = snapshot_of(node);
	if (!oldest)
		return;
	oldest->overtaken = true;
	if (has_given_word(oldest))
		return;
	take_its_place(oldest, newest);
	saves->reporting++; /* nobody is there to hear it; who coordinates next sees that it was left out */
	snapshot_fail(oldest, -ECANCELED, "superseded: step %lu is complete here, and nobody coordinates the job",
		      (unsigned long)newest->id.step);
	saves->reporting--;
}

void saves_reclaim(struct saves *saves)
{
	unsigned kept = 0;
	return_loan(saves);
	struct snapshot *newest = saves_in_memory(saves, UINT64_MAX);
	if (newest && was_passed_over(saves, newest))
		newest = NULL;
	give_up_waiting(saves, newest);
	give_up_overtaken(saves);
	list_for_safe(node, &saves->snapshots) {
		struct snapshot *s = snapshot_of(node);
		if (needed_in_memory(s, newest))
			continue;
		snapshot_publish(s); /* without its slots nothing else tells that it is on its way */
		if (!snapshot_release(s))
			continue;
		snapshot_publish(s); /* no copy of it will be made any more */
		if (!snapshot_idle(s) || is_read_back(s) || snapshot_awaits_readback(s))
			continue;
		if (somebody_may_begin(s, newest) && kept++ < FAILED_KEPT)
			continue;
		save_stats_end(saves->of.stats, s);
		participant_forgot(saves->of.job, s->id);
		snapshot_free(s);
	}
}

void saves_lend(struct saves *saves, struct step_id id)
{
	saves->lent = id;
	saves->lent_ns = clock_now();
}

void saves_resume(struct saves *saves, struct step_id id)
{
	saves->resumed = id;
	saves->resumed_in = *saves->of.epoch;
}

static void release_unclaimed(struct memory *mem)
{
	for (uint32_t i = 0; i < mem->nslots; i++)
		if (!mem->slots[i].used && atomic_load(&mem->head->slots[i].state) != SLOT_FREE)
			memory_release(mem, i, false);
}

void saves_orphan(struct saves *saves, uint32_t index)
{
	struct memory *mem = saved_rank(saves, index).mem;
	list_for(node, &saves->snapshots)
		snapshot_of(node)->parts[index].orphan = true;
	if (mem && !saves_unseen(saves, index))
		release_unclaimed(mem);
	saves_pump(saves);
}

/* What would be written of it is damaged, too: a commit under way is given up, and who waits for one is told. One that is prepared has
 * given its word: the coordinator may be making it a checkpoint. Whether that is damaged, its read-back tells. */
void saves_drop(struct saves *saves, struct snapshot *s)
{
	s->damaged = true;
	if (s->commit ? s->commit->state < NODE_PART_PREPARED : saves_wants_commit(s))
		snapshot_fail(s, -EBADMSG, "its copy in memory is damaged");
	saves_pump(saves);
}

int saves_adopt(struct saves *saves, struct step_id id, const uint32_t *slots)
{
	struct snapshot *s;
	struct snapshot *old = saves_find(saves, id);
	if (old && snapshot_idle(old) && snapshot_release(old) && !is_read_back(old)) {
		participant_forgot(saves->of.job, id);
		snapshot_free(old);
	}
	int rc = snapshot_new(saves, id, *saves->of.nlocal, &s);
	if (rc)
		return rc;
	for (uint32_t r = 0; !rc && r < s->nparts; r++) {
		struct memory *mem = saved_rank(saves, r).mem;
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
	saves_insert(saves, s);
	saves_pump(saves);
	return 0;
}
