#include "job/halt.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "checkpoint/room.h"
#include "job/job.h"
#include "participant/room.h"

#include <stdio.h>

#define HALT_SPARE (5 * CLOCK_NS_PER_S)
#define HALT_SURE 0.99 /* of the steps and saves so far are not longer than what is counted on */

uint64_t halt_need(const struct job *job)
{
	uint64_t step = 0, save = histogram_quantile_ns(&job->save_stats.durable, HALT_SURE);
	for (uint32_t r = 0; r < job->nlocal; r++)
		step = max_u64(step, histogram_quantile_ns(&job->ranks[r].pace.steps, HALT_SURE));
	return 2 * step + 2 * save + HALT_SPARE;
}

static void say(struct wire_answer *answer, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void say(struct wire_answer *answer, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(answer->text, sizeof(answer->text), fmt, ap);
	va_end(ap);
}

/* The nodes of a job that is spread hear it from the coordinator, this one among them, when it is on record. */
static void set(struct job *job, struct peer_halt later)
{
	if (!job->spread)
		job->halt.later = later;
}

static int ask_before(struct job *job, uint64_t at_ns, struct wire_answer *answer, struct err *err)
{
	uint64_t now = clock_wall(), need = halt_need(job);
	if (at_ns < now + need)
		return err_set(err, -EINVAL,
			       "job %s needs %.0f s to make a last checkpoint and end (twice a step and twice a save, "
			       "and %.0f s): "
			       "there are %.0f s; halt it now, or kill it",
			       job->name, (double)need / 1e9, (double)HALT_SPARE / 1e9,
			       at_ns > now ? (double)(at_ns - now) / 1e9 : 0.0);
	set(job, (struct peer_halt){.kind = COMMAND_HALT_BEFORE, .before_ns = at_ns});
	say(answer, "job %s will be asked to end in %.0f s, %.0f s before the time", job->name,
	    (double)(at_ns - now - need) / 1e9, (double)need / 1e9);
	return 0;
}

static int go_on(struct job *job, struct wire_answer *answer, struct err *err)
{
	if (job->stop)
		return err_set(err, -EINVAL, "job %s has been asked to end already: that cannot be taken back",
			       job->name);
	if (!job->halt.later.kind && !job->spread)
		return err_set(err, -EINVAL, "job %s has not been asked to end", job->name);
	say(answer,
	    job->halt.later.kind ? "job %s goes on"
				 : "job %s: nothing is known here of its being asked to end; where it is, it goes on",
	    job->name);
	set(job, (struct peer_halt){0});
	return 0;
}

int halt_request(struct job *job, const struct wire_command *command, struct wire_answer *answer, struct err *err)
{
	switch (command->kind) {
	case COMMAND_HALT_AFTER:
		if (job->storage->root < 0)
			return err_set(err, -EINVAL, "there is no next checkpoint: this daemon has no store");
		set(job, (struct peer_halt){.kind = COMMAND_HALT_AFTER});
		say(answer, "job %s will be asked to end when its next checkpoint is durable", job->name);
		return 0;
	case COMMAND_HALT_BEFORE:
		return ask_before(job, command->at_ns, answer, err);
	case COMMAND_GO_ON:
		return go_on(job, answer, err);
	default:
		say(answer, "job %s is asked to make a last checkpoint and end", job->name);
		if (!job->spread)
			job_stop(job);
		return 0;
	}
}

static void note(const struct job *job, uint32_t kind)
{
	if (!job->stop && kind != COMMAND_HALT)
		log_info("job %s: %s", job->name,
			 kind == COMMAND_HALT_AFTER    ? "it will be asked to end when its next checkpoint is durable"
			 : kind == COMMAND_HALT_BEFORE ? "it will be asked to end in time"
						       : "nothing is asked of it any more");
}

void halt_entered(struct job *job)
{
	for (uint32_t r = 0; r < job->nlocal; r++)
		job->ranks[r].was_in = true;
	job->halt.launcher_was_there = job->launcher != NULL;
}

bool halt_may_be_known(const struct job *job)
{
	for (uint32_t r = 0; r < job->nlocal; r++) {
		const struct rank *rank = &job->ranks[r];
		if (rank->was_in && (rank->pid || rank->client))
			return true;
	}
	return job->launcher && job->halt.launcher_was_there;
}

/* A rank that has yet to enter an epoch has not looked whether it is to end. */
static void take_back(struct job *job)
{
	if (!job->stop || halt_may_be_known(job))
		return;
	job->stop = false;
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (job->ranks[r].mem)
			memory_set_stop(job->ranks[r].mem, false);
}

void halt_hear(struct job *job, const struct peer_halt *halt)
{
	struct peer_halt was = job->halt.later;
	if (halt->number < was.number || (peer_halt_equal(halt, &was) && halt->kind != COMMAND_HALT))
		return;
	job->halt.later = *halt;
	job->halt.due = job->halt.due && halt->kind;
	if (!halt->kind)
		take_back(job);
	note(job, halt->kind);
	if (halt->kind == COMMAND_HALT)
		job_stop(job);
}

static void tell_coordinator(const struct job *job)
{
	participant_forward(job, &(struct wire_command){.kind = COMMAND_HALT});
}

/* The time has come, for one of the nodes: they have different ideas of how long a save takes. All end when that is on
 * record: one that ended alone would leave the others to a checkpoint that never comes. */
void halt_now(struct job *job)
{
	if (job->stop || job->halt.due)
		return;
	if (!job->spread)
		job_stop(job);
	job->halt.due = job->spread;
	tell_coordinator(job);
}

void halt_joined(struct job *job)
{
	job->halt.apart = false;
	if (job->halt.due && !job->stop)
		tell_coordinator(job);
}

void halt_durable(struct job *job)
{
	if (job->halt.later.kind == COMMAND_HALT_AFTER && !job->halt.apart)
		halt_now(job);
}

void halt_apart(struct job *job)
{
	job->halt.apart = true;
	if (job->halt.later.kind && !job->stop)
		log_warn("job %s: it is to end later, and does not before it has a coordinator again, which knows "
			 "whether that "
			 "still holds",
			 job->name);
}

void halt_tick(struct job *job)
{
	const struct peer_halt *later = &job->halt.later;
	if (later->kind == COMMAND_HALT_BEFORE && !job->halt.apart && clock_wall() + halt_need(job) >= later->before_ns)
		halt_now(job);
}
