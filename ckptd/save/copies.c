#include "save/copies.h"

#include "base/clock.h"
#include "base/log.h"
#include "participant/room.h"
#include "replication/room.h"
#include "runtime/room.h"
#include "save/saves_private.h"

#include <string.h>

#define RETRY_NS (10 * CLOCK_NS_PER_S)
#define IDLE_NS (10 * CLOCK_NS_PER_S)

_Static_assert(WIRE_LOCAL_MAX <= 64, "a bit for each rank");

void copies_init(struct copies *c, struct job *job)
{
	*c = (struct copies){.job = job};
}

void copies_leave(struct copies *c)
{
	if (c->job->peers->replica)
		replica_leave(c->job->peers->replica, c->job->name);
}

void copies_end(struct copies *c)
{
	const struct job *job = c->job;
	if (job->peers->replica && job->world && job->nlocal == job->world && !c->unserved)
		replica_end(job->peers->replica, job->name);
	else
		copies_leave(c);
}

unsigned copies_wanted(const struct job *job)
{
	return job->peers->replica ? (unsigned)job->policy.copies : 0;
}

void copies_epoch(struct copies *c)
{
	if (c->job->peers->replica)
		replica_epoch(c->job->peers->replica, c->job->name, c->job->epoch);
}

/* ---- what the coordinator says --------------------------------------------------------------------------------- */

static struct step_id kept(const struct copies *c)
{
	return step_compare(c->replicated, c->durable) > 0 ? c->replicated : (struct step_id){0};
}

static bool ordered(const struct copies *c)
{
	return c->id.epoch && c->epoch == c->job->epoch;
}

/* Its epoch is over, and whether all others said so, too, is not known here. */
static bool may_be_replicated(const struct copies *c)
{
	return c->held && step_compare(c->id, c->replicated) > 0 && step_compare(c->id, c->durable) > 0;
}

bool copies_keep(const struct copies *c, struct step_id id)
{
	if (!copies_wanted(c->job))
		return false;
	if (c->id.epoch && !step_compare(c->id, id) && (ordered(c) || may_be_replicated(c)))
		return true;
	return kept(c).epoch && !step_compare(kept(c), id);
}

void copies_yield(struct copies *c)
{
	if (!ordered(c))
		c->held = false;
	c->idle_ns = 0;
}

/* A restore orders copies when it ends. Ranks that go on without one must not find all slots taken for ever. */
static bool restores_nothing(const struct job *job)
{
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (job->ranks[r].state != RANK_JOINED || job->ranks[r].restoring.seq)
			return false;
	return restore_idle(&job->restore);
}

static void yield_in_time(struct copies *c)
{
	uint64_t now = clock_now();
	if (!c->held || !restores_nothing(c->job))
		c->idle_ns = 0;
	else if (!c->idle_ns)
		c->idle_ns = now;
	else if (now - c->idle_ns >= IDLE_NS)
		copies_yield(c);
}

void copies_replicated(struct copies *c, struct step_id id)
{
	struct step_id old = c->replicated;
	bool newer = step_compare(id, old) > 0;
	/* What this epoch has gone on from may be older: what was replicated before nobody could have. */
	if (!newer && !(ordered(c) && !step_compare(id, c->id)))
		return;
	c->replicated = id;
	if (newer && old.epoch && c->job->peers->replica) /* nodes that were holders once */
		replica_forget(c->job->peers->replica, c->job->name, old);
}

void copies_durable(struct copies *c, struct step_id id)
{
	if (step_compare(id, c->durable) > 0)
		c->durable = id;
}

/* ---- the outcome ------------------------------------------------------------------------------------------------ */

static uint64_t missing(const struct copies *c)
{
	const struct job *job = c->job;
	uint64_t found = 0;
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (!replica_whole(job->peers->replica, job->name, job->ranks[r].id, c->id))
			found |= 1ull << r;
	return found;
}

unsigned copies_missing(const struct copies *c)
{
	bool settled = ordered(c) && copies_wanted(c->job) && !c->todo && !c->sending;
	return settled ? (unsigned)__builtin_popcountll(missing(c)) : 0;
}

static void give_up(struct copies *c)
{
	c->answered = true;
	participant_uncopied(c->job, c->id, copies_wanted(c->job) ? c->why.text : "none are wanted (copies = 0)");
}

/* Who is told may order the next: nothing is touched afterwards. */
static void settle(struct copies *c)
{
	uint64_t lacking = missing(c), now = clock_now();
	if (!lacking)
		c->retry_ns = 0;
	else if (!c->retry_ns)
		c->retry_ns = now + RETRY_NS;
	if (!lacking && !c->held) {
		c->answered = c->held = true;
		c->why.text[0] = 0;
		participant_reached(c->job, c->id, LEVEL_REPLICATED);
	} else if (lacking && !c->answered) {
		give_up(c);
	} else if (lacking && now >= c->retry_ns) {
		c->retry_ns = 0;
		c->todo = lacking;
	}
}

static void note(struct copies *c, uint32_t rank, int rc, const char *text)
{
	struct err was = c->why;
	err_set(&c->why, rc, "rank %u: %s", rank, text);
	if (!strcmp(was.text, c->why.text))
		return; /* tried again, to no avail */
	log_info("job %s: step %lu epoch %u has not all its copies: %s", c->job->name, (unsigned long)c->id.step,
		 c->id.epoch, c->why.text);
}

/* ---- sending ---------------------------------------------------------------------------------------------------- */

static void sent(void *arg, const struct replica_sent *done)
{
	struct job *job = job_find(arg, done->job);
	struct rank *rank = job ? job_rank(job, done->rank) : NULL;
	struct copies *c = job ? &job->copies : NULL;
	if (!rank || step_compare(done->id, c->id) != 0 || !(c->sending & 1ull << rank->index))
		return; /* of a job, or of an order, that is over */
	c->sending &= ~(1ull << rank->index);
	if (!ordered(c))
		return;
	if (done->rc)
		note(c, done->rank, done->rc, done->err.text);
	copies_tick(c);
}

static int send_part(struct copies *c, const struct snapshot *s, uint32_t index)
{
	struct job *job = c->job;
	const struct part *part = &s->parts[index];
	struct replica_send what = {.job = job->name,
				    .epoch = job->epoch,
				    .rank = job->ranks[index].id,
				    .id = s->id,
				    .keep = kept(c),
				    .mem = part->mem,
				    .slot = part->slot,
				    .leaves = part->leaves,
				    .copies = copies_wanted(job),
				    .done = sent,
				    .arg = job->jobs};
	return replica_send(job->peers->replica, &what);
}

static void send_parts(struct copies *c)
{
	const struct snapshot *s = saves_find(&c->job->saves, c->id);
	bool there = s && snapshot_in_memory(s);
	for (uint32_t r = 0; r < c->job->nlocal; r++) {
		uint64_t bit = 1ull << r;
		int rc = !(c->todo & bit) ? 0 : there ? send_part(c, s, r) : -ENOENT;
		if (!(c->todo & bit) || rc == -EBUSY) /* of the last epoch, and on its way out */
			continue;
		c->todo &= ~bit;
		if (!rc)
			c->sending |= bit;
		else if (rc == -ESTALE)
			note(c, c->job->ranks[r].id, rc, "other nodes know of a later epoch of this job");
		else
			note(c, c->job->ranks[r].id, rc, there ? err_name(rc) : "it is not in memory");
	}
}

/* What they have saved since the restore shows that they are at work. */
static bool must_wait(const struct copies *c)
{
	struct job *job = c->job;
	const struct snapshot *newest = saves_in_memory(&job->saves, UINT64_MAX);
	bool at_work = newest && step_compare(newest->id, job->restore.last) > 0;
	return step_compare(c->id, job->restore.last) <= 0 && !at_work &&
	       recoveries_return(&job->recovery_log, clock_now());
}

void copies_tick(struct copies *c)
{
	if (!copies_wanted(c->job) || c->job->runtime->stopping)
		return;
	if (!ordered(c)) {
		yield_in_time(c);
		return;
	}
	if (c->todo && !must_wait(c))
		send_parts(c);
	if (!c->todo && !c->sending)
		settle(c);
}

/* Only -ENOENT says that nobody has anything. */
void copies_refused(struct copies *c, int rc)
{
	c->unserved = c->unserved || rc != -ENOENT;
}

void copies_order(struct copies *c, struct step_id id)
{
	c->id = id;
	c->epoch = c->job->epoch;
	c->todo = c->job->nlocal < 64 ? (1ull << c->job->nlocal) - 1 : UINT64_MAX;
	c->sending = c->retry_ns = c->idle_ns = 0;
	c->answered = c->held = c->unserved = false;
	c->why.text[0] = 0;
	if (copies_wanted(c->job))
		copies_tick(c);
	else
		give_up(c);
}

/* ---- for other nodes -------------------------------------------------------------------------------------------- */

int copies_find(void *arg, const char *name, uint32_t id, struct step_id step, struct memory **mem, uint32_t *slot)
{
	struct job *job = job_find(arg, name);
	struct rank *rank = job ? job_rank(job, id) : NULL;
	const struct snapshot *s = rank ? saves_find(&job->saves, step) : NULL;
	if (!s || !snapshot_in_memory(s))
		return -ENOENT;
	*mem = s->parts[rank->index].mem;
	*slot = s->parts[rank->index].slot;
	return 0;
}
