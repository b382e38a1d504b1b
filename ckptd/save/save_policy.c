#include "save/save_policy.h"

#include "base/bytes.h"
#include "base/log.h"
#include "checkpoint/room.h"
#include "runtime/room.h"
#include "save/saves_private.h"

#include <assert.h>

/* ---- persist-every ----------------------------------------------------------------------------------------------- */

/* A reload may have made the interval shorter. */
static bool next_is_due(const struct saves *saves)
{
	return !saves->until_due || saves->until_due >= saves->of.policy->persist_every || *saves->of.stop;
}

/* Once per save, in the order in which they are copied. */
static void take_number(struct saves *saves, struct snapshot *s)
{
	if (s->due || s->passed_over)
		return;
	uint64_t every = saves->of.policy->persist_every;
	s->due = next_is_due(saves);
	s->passed_over = !s->due;
	saves->until_due = s->due ? every - 1 : saves->until_due - 1;
}

/* Not before it is captured: what fails earlier is lost for the memory, too. */
static void pass_over(const struct saves *saves, struct snapshot *s)
{
	if (s->passed_over && !s->promoted && s->state == SNAPSHOT_CAPTURED)
		snapshot_stay(s, -EOPNOTSUPP,
			      "stays in memory: the policy persist-every = %lu writes one save in %lu to storage",
			      (unsigned long)saves->of.policy->persist_every,
			      (unsigned long)saves->of.policy->persist_every);
}

void queue_failed(struct saves *saves, const struct snapshot *s)
{
	if (s->due)
		saves->until_due = 0;
}

static void promote(struct saves *saves, struct snapshot *s)
{
	s->to_storage = s->due = s->flushed = true;
	s->passed_over = s->stays = false;
	s->storage_rc = 0;
	snapshot_publish(s);
	saves_pump(saves);
}

void queue_finish(struct saves *saves)
{
	if (!saves_decide(saves))
		return;
	struct snapshot *newest = saves_in_memory(saves, UINT64_MAX);
	bool lost = saves->until_due + 1 < saves->of.policy->persist_every;
	if (!newest || !lost || newest->state != SNAPSHOT_CAPTURED || newest->commit || saves->of.storage->root < 0)
		return;
	log_info("job %s: the last saves were passed over: step %lu is written after all", saves->of.name,
		 (unsigned long)newest->id.step);
	promote(saves, newest);
}

int queue_flush(struct saves *saves, struct step_id *id, struct err *err)
{
	if (saves->of.storage->root < 0)
		return err_set(err, -EINVAL, "this daemon has no store: start ckptd with --store");
	if (!saves_decide(saves))
		return err_set(err, -EINVAL,
			       "job %s: what is written is decided on the node of rank 0: ask the ckptd there",
			       saves->of.name);
	struct snapshot *newest = saves_in_memory(saves, UINT64_MAX);
	if (!newest)
		return err_set(err, -ENOENT, "job %s has no snapshot that is complete in memory", saves->of.name);
	if (newest->state == SNAPSHOT_CAPTURED && newest->storage_rc && !newest->stays)
		return err_set(
			err, newest->storage_rc,
			"job %s: step %lu has failed, and nothing is written twice under a name; the next one can "
			"be: %s",
			saves->of.name, (unsigned long)newest->id.step, newest->err.text);
	if (snapshot_is_partial(newest))
		return err_set(err, -EINVAL,
			       "job %s: its ranks have restored step %lu of epoch %u and register less than was saved: "
			       "as that "
			       "step it cannot be written; the next save can be",
			       saves->of.name, (unsigned long)newest->id.step, newest->id.epoch);
	*id = newest->id;
	if (newest->state == SNAPSHOT_CAPTURED && !newest->commit)
		promote(saves, newest);
	return 0;
}

/* ---- save-policy ------------------------------------------------------------------------------------------------- */

static bool complete_in_memory(const struct snapshot *s)
{
	return s && s->state >= SNAPSHOT_CAPTURED && s->state != SNAPSHOT_FAILED;
}

/* Its ranks know of nothing: for them it was in memory only, or passed over. */
static void disinherit(struct snapshot *s)
{
	s->promoted = s->due = false;
	s->to_storage = s->passed_over;
	s->stays = s->passed_over;
	s->storage_rc = s->passed_over ? -EOPNOTSUPP : 0;
}

/* What is good gives way only to what is good: a copy whose digests are still compared may turn out torn. An promoted was never asked
 * for: nobody waits for it on storage. */
static void supersede(struct snapshot *s, const struct snapshot *newer)
{
	assert(complete_in_memory(newer));
	if (s->promoted) {
		disinherit(s);
		return;
	}
	snapshot_stay(s, -ECANCELED, "superseded: step %lu was ready to be written before this one",
		      (unsigned long)newer->id.step);
}

static bool waits(const struct snapshot *s)
{
	return saves_wants_commit(s) && s->due;
}

/* What no policy lets through. */
static void give_up_hopeless(struct saves *saves, struct snapshot *s)
{
	if (saves->of.storage->root < 0)
		snapshot_fail_storage(s, -EINVAL,
				      "this daemon has no store: start ckptd with --store, or save to memory");
	else if (s->id.epoch > EPOCH_MAX)
		snapshot_fail_storage(s, -EOVERFLOW,
				      "epoch %u has no name in a store: start the job anew under another name",
				      s->id.epoch);
	else if (complete_in_memory(saves->committing) && step_compare(s->id, saves->committing->id) < 0)
		supersede(s, saves->committing);
	else
		pass_over(saves, s);
}

bool saves_lack_slots(const struct saves *saves)
{
	for (uint32_t r = 0; r < *saves->of.nlocal; r++) {
		const struct memory *mem = saved_rank(saves, r).mem;
		uint32_t n = 0;
		for (uint32_t i = 0; mem && i < mem->nslots; i++)
			n += mem->slots[i].used;
		if (mem && n == mem->nslots)
			return true;
	}
	return false;
}

static bool may_inherit(const struct snapshot *s)
{
	return s && s->state == SNAPSHOT_CAPTURED && !s->commit && !s->promoted &&
	       (s->passed_over || (!s->to_storage && !s->storage_rc));
}

/* While the disk is slow one snapshot is being written and one waits. Where that leaves no slot for the next save, what is newest in
 * memory is written in place of the one that waits, whose slots become free: training is neither held up nor without a copy in memory
 * of what it did last, and storage gets something newer than was asked for. */
static void hand_over(struct saves *saves)
{
	if (saves_busy(saves) || !saves_lack_slots(saves))
		return;       /* a capture that ends makes room itself */
	saves_reclaim(saves); /* what the newest one has just made needless */
	struct snapshot *newest = saves_in_memory(saves, UINT64_MAX);
	if (!saves->committing || !may_inherit(newest) || !saves_lack_slots(saves))
		return;
	for (struct list *node = newest->link.prev; node != &saves->snapshots && !newest->promoted; node = node->prev)
		newest->promoted = saves_wants_commit(snapshot_of(node)) && snapshot_of(node)->due;
	if (!newest->promoted)
		return;
	newest->to_storage = newest->due = true;
	newest->stays = false;
	newest->storage_rc = 0;
}

static struct snapshot *choose_newest(struct saves *saves)
{
	struct snapshot *newest = NULL;
	hand_over(saves);
	for (struct list *node = saves->snapshots.prev; node != &saves->snapshots; node = node->prev) {
		struct snapshot *s = snapshot_of(node);
		if (!waits(s))
			continue;
		if (newest && newest->state >= SNAPSHOT_CAPTURED)
			supersede(s, newest);
		else if (!newest)
			newest = s;
	}
	return newest;
}

static uint64_t room(const struct saves *saves)
{
	const struct policy *policy = saves->of.policy;
	uint64_t slots = *saves->of.nslots > ARENA_SLOTS_MIN ? *saves->of.nslots - ARENA_SLOTS_MIN : 0;
	return policy->save_policy == SAVE_REFUSE ? 0 : min_u64(policy->save_queue, slots);
}

static void refuse(struct saves *saves, struct snapshot *s, uint64_t waiting)
{
	if (saves->of.policy->save_policy == SAVE_REFUSE)
		snapshot_stay(s, -EBUSY, "not written: step %lu is still being written, and the policy is to refuse",
			      (unsigned long)saves->committing->id.step);
	else
		snapshot_stay(s, -EBUSY,
			      "not written: %lu saves wait for the disk already, the most with save-queue = %lu and %u "
			      "slots (CKPT_SLOTS)",
			      (unsigned long)waiting, (unsigned long)saves->of.policy->save_queue, *saves->of.nslots);
}

/* In order; what finds the disk busy and the queue full is refused. A free disk takes the first one, which does not wait. */
static struct snapshot *choose_first(struct saves *saves)
{
	struct snapshot *first = NULL;
	uint64_t waiting = 0, most = room(saves) + !saves->committing;
	list_for_safe(node, &saves->snapshots) {
		struct snapshot *s = snapshot_of(node);
		if (!waits(s))
			continue;
		if (waiting < most)
			waiting++;
		else if (!s->flushed && complete_in_memory(s) && complete_in_memory(saves->committing))
			refuse(saves, s, waiting);
		first = first ? first : s;
	}
	return first;
}

/* With nothing else to do the disk begins with what is still copied. Whatever becomes of that, none that is good gives way to it. */
static struct snapshot *choose_open(struct saves *saves)
{
	if (saves->of.storage->root < 0 || !next_is_due(saves))
		return NULL;
	list_for(node, &saves->snapshots) {
		struct snapshot *s = snapshot_of(node);
		if (s->state != SNAPSHOT_OPEN)
			continue;
		if (!snapshot_is_writable(s))
			return NULL;
		if (!s->to_storage || s->commit || s->storage_rc || s->id.epoch > EPOCH_MAX)
			continue;
		take_number(saves, s);
		return s;
	}
	return NULL;
}

struct snapshot *queue_next(struct saves *saves)
{
	list_for_safe(node, &saves->snapshots) {
		struct snapshot *s = snapshot_of(node);
		if (!saves_wants_commit(s))
			continue;
		take_number(saves, s);
		give_up_hopeless(saves, s);
	}
	struct snapshot *next =
		saves->of.policy->save_policy == SAVE_NEWEST ? choose_newest(saves) : choose_first(saves);
	if (saves->committing || saves->of.runtime->stopping)
		return NULL;
	return next ? next : choose_open(saves);
}
