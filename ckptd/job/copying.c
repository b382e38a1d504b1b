#include "job/copying.h"

#include "base/clock.h"
#include "base/log.h"
#include "job/job.h"
#include "participant/room.h"
#include "replication/room.h"

#include <string.h>

#define RETRY_NS (10 * CLOCK_NS_PER_S)
#define IDLE_NS (10 * CLOCK_NS_PER_S)

_Static_assert(WIRE_LOCAL_MAX <= 64, "a bit for each rank");

void copying_init(struct job *job)
{
	job->copying = (struct copying){0};
	copies_init(&job->copies,
		    &(struct copied_job){
			    .name = job->name, .peers = job->peers, .policy = &job->policy, .epoch = &job->epoch});
}

void copying_leave(const struct job *job)
{
	if (job->peers->replica)
		replica_leave(job->peers->replica, job->name);
}

/* Ranks that a plan gave to this node may go to others, in the same epoch if nobody has entered it: that all is over its coordinator says. */
static bool ends_here(const struct job *job)
{
	bool moves = job->spread && job->resize.plan;
	return job->world && job->nlocal == job->world && !moves && !job->copying.unserved;
}

void copying_end(const struct job *job)
{
	if (job->peers->replica && ends_here(job))
		replica_end(job->peers->replica, job->name);
	else
		copying_leave(job);
}

void copying_epoch(const struct job *job)
{
	if (job->peers->replica)
		replica_epoch(job->peers->replica, job->name, job->epoch);
}

/* ---- the outcome ------------------------------------------------------------------------------------------------ */

static uint64_t missing(const struct job *job)
{
	uint64_t found = 0;
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (!replica_whole(job->peers->replica, job->name, job->ranks[r].id, job->copies.id))
			found |= 1ull << r;
	return found;
}

static bool is_under_way(const struct job *job)
{
	return job->copying.todo || job->copying.sending;
}

unsigned copying_missing(const struct job *job)
{
	bool settled = copies_are_ordered(&job->copies) && copies_wanted(&job->copies) && !is_under_way(job);
	return settled ? (unsigned)__builtin_popcountll(missing(job)) : 0;
}

static void give_up(struct job *job)
{
	bool wanted = copies_wanted(&job->copies);
	job->copying.answered = true;
	participant_uncopied(job, job->copies.id, wanted ? job->copying.why.text : "none are wanted (copies = 0)");
}

/* Who is told may order the next: nothing is touched afterwards. */
static void settle(struct job *job)
{
	struct copying *c = &job->copying;
	uint64_t lacking = missing(job), now = clock_now();
	if (!lacking)
		c->retry_ns = 0;
	else if (!c->retry_ns)
		c->retry_ns = now + RETRY_NS;
	if (!lacking && !job->copies.held) {
		c->answered = job->copies.held = true;
		c->why.text[0] = 0;
		participant_reached(job, job->copies.id, LEVEL_REPLICATED);
	} else if (lacking && !c->answered) {
		give_up(job);
	} else if (lacking && now >= c->retry_ns) {
		c->retry_ns = 0;
		c->todo = lacking;
	}
}

static void note(struct job *job, uint32_t rank, int rc, const char *text)
{
	struct err *why = &job->copying.why, was = *why;
	err_set(why, rc, "rank %u: %s", rank, text);
	if (!strcmp(was.text, why->text))
		return; /* tried again, to no avail */
	log_info("job %s: step %lu epoch %u has not all its copies: %s", job->name, (unsigned long)job->copies.id.step,
		 job->copies.id.epoch, why->text);
}

/* ---- sending ---------------------------------------------------------------------------------------------------- */

static void sent(void *arg, const struct replica_sent *done)
{
	struct job *job = job_find(arg, done->job);
	struct rank *rank = job ? job_rank(job, done->rank) : NULL;
	if (!rank || step_compare(done->id, job->copies.id) != 0 || !(job->copying.sending & 1ull << rank->index))
		return; /* of a job, or of an order, that is over */
	job->copying.sending &= ~(1ull << rank->index);
	if (!copies_are_ordered(&job->copies))
		return;
	if (done->rc)
		note(job, done->rank, done->rc, done->err.text);
	copying_tick(job);
}

static int send_part(const struct job *job, const struct snapshot *s, uint32_t index)
{
	const struct part *part = &s->parts[index];
	struct replica_send what = {.job = job->name,
				    .epoch = job->epoch,
				    .rank = job->ranks[index].id,
				    .id = s->id,
				    .keep = copies_kept(&job->copies),
				    .mem = part->mem,
				    .slot = part->slot,
				    .leaves = part->leaves,
				    .copies = copies_wanted(&job->copies),
				    .done = sent,
				    .arg = job->jobs};
	return replica_send(job->peers->replica, &what);
}

static void send_parts(struct job *job)
{
	struct copying *c = &job->copying;
	const struct snapshot *s = saves_find(&job->saves, job->copies.id);
	bool there = s && snapshot_in_memory(s);
	for (uint32_t r = 0; r < job->nlocal; r++) {
		uint64_t bit = 1ull << r;
		int rc = !(c->todo & bit) ? 0 : there ? send_part(job, s, r) : -ENOENT;
		if (!(c->todo & bit) || rc == -EBUSY) /* of the last epoch, and on its way out */
			continue;
		c->todo &= ~bit;
		if (!rc)
			c->sending |= bit;
		else if (rc == -ESTALE)
			note(job, job->ranks[r].id, rc, "other nodes know of a later epoch of this job");
		else
			note(job, job->ranks[r].id, rc, there ? err_name(rc) : "it is not in memory");
	}
}

/* What they have saved since the restore shows that they are at work. */
static bool must_wait(struct job *job)
{
	const struct snapshot *newest = saves_in_memory(&job->saves, UINT64_MAX);
	bool at_work = newest && step_compare(newest->id, job->restore.last) > 0;
	return step_compare(job->copies.id, job->restore.last) <= 0 && !at_work &&
	       recoveries_return(&job->recovery_log, clock_now());
}

/* A restore orders copies when it ends. Ranks that go on without one must not find all slots taken for ever. */
static bool restores_nothing(const struct job *job)
{
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (job->ranks[r].state != RANK_JOINED || job->ranks[r].restoring.seq)
			return false;
	return restore_idle(&job->restore);
}

static void yield_in_time(struct job *job)
{
	uint64_t now = clock_now(), *idle_ns = &job->copying.idle_ns;
	if (!job->copies.held || !restores_nothing(job))
		*idle_ns = 0;
	else if (!*idle_ns)
		*idle_ns = now;
	else if (now - *idle_ns >= IDLE_NS)
		copies_yield(&job->copies);
}

void copying_tick(struct job *job)
{
	if (!copies_wanted(&job->copies) || job->runtime->stopping)
		return;
	if (!copies_are_ordered(&job->copies)) {
		yield_in_time(job);
		return;
	}
	if (job->copying.todo && !must_wait(job))
		send_parts(job);
	if (!is_under_way(job))
		settle(job);
}

/* Only -ENOENT says that nobody has anything. */
void copying_refused(struct job *job, int rc)
{
	job->copying.unserved = job->copying.unserved || rc != -ENOENT;
}

void copying_order(struct job *job, struct step_id id)
{
	copies_order(&job->copies, id);
	job->copying = (struct copying){.todo = job->nlocal < 64 ? (1ull << job->nlocal) - 1 : UINT64_MAX};
	if (copies_wanted(&job->copies))
		copying_tick(job);
	else
		give_up(job);
}

/* ---- for other nodes -------------------------------------------------------------------------------------------- */

int copying_find(void *arg, const char *name, uint32_t id, struct step_id step, struct memory **mem, uint32_t *slot)
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
