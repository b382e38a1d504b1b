#include "job/rank/job_former.h"

#include "base/clock.h"
#include "base/log.h"
#include "checkpoint/room.h"
#include "job/job.h"
#include "participant/room.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- what is in its arenas ------------------------------------------------------------------------------------- */

/* Arenas that have come back, all of them: what is in the slots is looked at although no process was sent them since. False: it can be told
 * only in an epoch, which the coordinator has yet to say. */
static bool look_in(struct job *job)
{
	bool adopted = false, all = true;
	for (uint32_t r = 0; r < job->nlocal; r++) {
		const struct memory *mem = job->ranks[r].mem;
		adopted |= mem && mem->adopted;
		all &= mem && !mem->failed;
	}
	for (uint32_t r = 0; all && r < job->nlocal; r++)
		job->ranks[r].mem->inspected |= job->ranks[r].mem->adopted;
	return !adopted || job->epoch;
}

int former_ready(struct job *job, struct err *err)
{
	if (!look_in(job))
		return err_set(
			err, -EAGAIN,
			"job '%s': what its ranks have left in memory is looked at when its coordinator is there",
			job->name);
	saves_follow(&job->saves);
	list_for(node, &job->saves.snapshots) {
		const struct snapshot *s = snapshot_of(node);
		if (snapshot_undecided(s))
			return err_set(err, -EAGAIN,
				       "job '%s': step %lu, which its ranks have left in memory, is still checked",
				       job->name, (unsigned long)s->id.step);
	}
	return 0;
}

static bool is_stored(const struct job *job, const struct snapshot *s)
{
	return snapshot_is_stored(s) || step_compare(s->id, job->copies.durable) <= 0;
}

bool former_waits(struct job *job, bool tell)
{
	const struct snapshot *s = saves_in_memory(&job->saves, UINT64_MAX);
	bool waits = s && s->id.epoch < job->epoch && !is_stored(job, s) && job->saves.resumed_in != job->epoch;
	if (waits && tell)
		log_warn("job %s: its ranks have left without going on from step %lu of epoch %u, in memory only: it "
			 "is kept for %lu s",
			 job->name, (unsigned long)s->id.step, s->id.epoch,
			 (unsigned long)(job->policy.linger_ms * CLOCK_NS_PER_MS / CLOCK_NS_PER_S));
	return waits;
}

bool former_checks(struct job *job)
{
	struct err err;
	bool others = false;
	for (uint32_t r = 0; r < job->nlocal; r++) {
		const struct rank *rank = &job->ranks[r];
		others |= rank->mem && rank->table && !table_equal(rank->table, rank->mem->table);
	}
	return others && former_ready(job, &err);
}

/* Where the job is coordinated it is known who is there to write it. */
static int ask_for_it(const struct job *job, const struct snapshot *newest, struct err *err)
{
	int rc = participant_can_forward(job, err);
	if (!rc && newest->state == SNAPSHOT_CAPTURED && !newest->commit)
		participant_forward(job, &(struct wire_command){.kind = COMMAND_FLUSH});
	return rc;
}

int former_store(struct job *job, struct err *err)
{
	struct step_id id;
	const struct snapshot *newest = saves_in_memory(&job->saves, UINT64_MAX);
	if (!newest || is_stored(job, newest) || snapshot_is_partial(newest))
		return 0; /* the last: what it is of is kept */
	if (job->storage->root < 0)
		return err_set(err, -EINVAL, "this daemon has no store");
	int rc = job->spread ? ask_for_it(job, newest, err) : 0;
	if (!rc && newest->storage_rc && !newest->stays)
		return err_set(err, newest->storage_rc, "it cannot be written: %s", newest->err.text);
	if (!rc && !job->spread)
		rc = queue_flush(&job->saves, &id, err);
	if (rc)
		return rc;
	return err_set(err, -EAGAIN,
		       "job '%s': step %lu of epoch %u, in memory only, is written before its world changes", job->name,
		       (unsigned long)newest->id.step, newest->id.epoch);
}

/* ---- what it leaves -------------------------------------------------------------------------------------------- */

static void take_step(struct former *former, const struct job *job, const struct snapshot *s)
{
	struct former_step *step = &former->steps[former->n++];
	*step = (struct former_step){.id = s->id, .stored = is_stored(job, s), .partial = snapshot_is_partial(s)};
	for (uint32_t r = 0; r < former->nlocal; r++) {
		step->slots[r] = s->parts[r].slot;
		former->mems[r]->slots[step->slots[r]].left = true;
	}
}

/* It stands for its step, or nothing else that was left does. */
static bool is_worth(const struct job *job, const struct snapshot *s)
{
	struct former *former;
	return snapshot_in_memory(s) && (!snapshot_is_partial(s) || !former_find(job->former, s->id, &former));
}

static bool has_worth(const struct job *job)
{
	list_for(node, &job->saves.snapshots)
		if (is_worth(job, snapshot_of(node)))
			return true;
	return false;
}

static int make(struct job *job, struct former **out, struct err *err)
{
	struct former *former = calloc(1, sizeof(*former));
	if (!former)
		return err_set(err, -ENOMEM, "no memory to keep what the ranks of job '%s' have left", job->name);
	*former = (struct former){.world = job->world,
				  .nlocal = job->nlocal,
				  .spread = job->spread,
				  .epoch = job->epoch,
				  .linger_ns = job->policy.linger_ms * CLOCK_NS_PER_MS};
	snprintf(former->job, sizeof(former->job), "%s", job->name);
	for (uint32_t r = 0; r < job->nlocal; r++) {
		struct memory *mem = former->mems[r] = memory_get(job->ranks[r].mem);
		former->kept[r] = mem->kept;
		mem->kept = false; /* not to be dropped with the rank */
	}
	list_for(node, &job->saves.snapshots) {
		const struct snapshot *s = snapshot_of(node);
		if (is_worth(job, s) && former->n < ARENA_SLOTS_MAX)
			take_step(former, job, s);
	}
	former_count(job->runtime, former);
	*out = former;
	return 0;
}

int former_take(struct job *job, struct former **out, struct err *err)
{
	struct former *former = NULL;
	int rc = has_worth(job) ? make(job, &former, err) : 0;
	*out = NULL;
	if (rc)
		return rc;
	if (former)
		former_insert(&job->former, former);
	*out = job->former;
	job->former = NULL;
	return 0;
}

/* *at: in the list of the job. */
static void let_go(struct job *job, struct former **at, const char *why)
{
	char text[WIRE_TEXT_MAX];
	struct former *former = *at;
	log_info("job %s: %s, is let go: %s", job->name, former_text(former, text, sizeof(text)), why);
	*at = former->next;
	former_end(job->runtime, former);
	for (uint32_t r = 0; !job->former && r < job->nlocal; r++)
		if (job->ranks[r].mem)
			job_keep_arena(&job->ranks[r]); /* the places of those at the service manager are free */
}

void former_let_go(struct job *job, const char *why)
{
	while (job->former)
		let_go(job, &job->former, why);
}

bool former_let_go_stored(struct job *job, const char *why)
{
	bool any = false;
	for (struct former **at = &job->former; *at;) {
		const struct former_step *step = former_newest(*at);
		if (step && step->stored) {
			let_go(job, at, why);
			any = true;
		} else {
			at = &(*at)->next;
		}
	}
	return any;
}

void former_give(struct job *job, struct former *list)
{
	char text[WIRE_TEXT_MAX];
	job->former = list;
	for (struct former *former = list; former; former = former->next) {
		former->parked_ns = former->superseded_ns = 0;
		log_warn("job %s: %s, is kept for a world of %u to restore from", job->name,
			 former_text(former, text, sizeof(text)), job->world);
		for (uint32_t r = 0; r < former->nlocal; r++)
			health_marks_return(&job->health_marks, former->mems[r]);
	}
}

/* ---- back to its ranks ----------------------------------------------------------------------------------------- */

static struct memory *fitting(const struct former *former, const struct rank *rank)
{
	for (uint32_t r = 0; r < former->nlocal; r++)
		if (former->mems[r]->table->reg.rank == rank->id && rank->table &&
		    table_equal(rank->table, former->mems[r]->table))
			return former->mems[r];
	return NULL;
}

static bool fits(const struct job *job, const struct former *former)
{
	if (former->world != job->world || former->nlocal != job->nlocal)
		return false;
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (!fitting(former, &job->ranks[r]))
			return false;
	return true;
}

static void replace(struct rank *rank, struct memory *mem)
{
	struct runtime *runtime = rank->job->runtime;
	if (rank->mem)
		runtime->memory.arenas -= rank->mem->size;
	job_drop_arena(rank);
	memory_put(rank->mem);
	rank->mem = memory_get(mem);
}

static void free_others(struct memory *mem)
{
	for (uint32_t i = 0; i < mem->nslots; i++)
		if (!mem->slots[i].left)
			memory_release(mem, i, false);
}

/* The slots stand as the former ranks have left them. */
static void adopt(struct job *job, const struct former *former, const struct former_step *step)
{
	uint32_t slots[WIRE_LOCAL_MAX] = {0};
	if (step->damaged || saves_find_in_memory(&job->saves, step->id))
		return;
	for (uint32_t r = 0; r < job->nlocal; r++)
		for (uint32_t k = 0; k < former->nlocal; k++)
			if (former->mems[k] == job->ranks[r].mem)
				slots[r] = step->slots[k];
	if (saves_adopt(&job->saves, step->id, slots))
		log_warn("job %s: no memory to take step %lu back", job->name, (unsigned long)step->id.step);
}

void former_return(struct job *job)
{
	char text[WIRE_TEXT_MAX];
	struct former **at = &job->former;
	while (*at && !fits(job, *at))
		at = &(*at)->next;
	struct former *former = *at;
	if (!former || !restore_idle(&job->restore) || has_worth(job))
		return;
	*at = former->next;
	log_info("job %s: %s, is theirs again", job->name, former_text(former, text, sizeof(text)));
	for (uint32_t r = 0; r < job->nlocal; r++)
		replace(&job->ranks[r], fitting(former, &job->ranks[r]));
	job->has_arenas = false; /* they are looked at anew */
	for (uint32_t r = 0; r < former->nlocal; r++) {
		former->mems[r]->kept = former->kept[r];
		free_others(former->mems[r]); /* what was begun there, and not completed, is nobody's */
	}
	/* While they are held: what would give a slot back has not known that it is taken. */
	for (uint32_t i = 0; i < former->n; i++)
		adopt(job, former, &former->steps[i]);
	for (uint32_t r = 0; r < former->nlocal; r++) {
		for (uint32_t i = 0; i < former->n; i++)
			former->mems[r]->slots[former->steps[i].slots[r]].left = false;
		memory_put(former->mems[r]);
	}
	free(former);
	saves_pump(&job->saves);
}

/* ---- while its job is there ------------------------------------------------------------------------------------ */

/* Why it is not needed any more; NULL: it is. Ranks that have gone on from something know what they do; those that have begun afresh may have
 * been told to by mistake. */
static const char *not_needed(struct job *job, struct former *former, uint64_t now)
{
	const struct former_step *step = former_newest(former);
	const struct snapshot *newest = saves_in_memory(&job->saves, UINT64_MAX);
	if (!step)
		return "it is of no use";
	int order = newest ? step_compare(newest->id, step->id) : -1;
	if (order < 0 || (!order && snapshot_is_partial(newest)))
		return NULL;
	if (!former->superseded_ns)
		former->superseded_ns = now;
	if (job->saves.resumed.epoch)
		return "the job has gone on";
	if (now - former->superseded_ns > former->linger_ns)
		return "the job has begun without it, and nobody has come for it";
	return NULL;
}

void former_tick(struct job *job, uint64_t now)
{
	if (!restore_idle(&job->restore))
		return;
	for (struct former **at = &job->former; *at;) {
		const char *why = not_needed(job, *at, now);
		if (why)
			let_go(job, at, why);
		else
			at = &(*at)->next;
	}
}

uint64_t former_bytes(const struct job *job)
{
	return job_memory(job) + formers_bytes(job->former);
}
