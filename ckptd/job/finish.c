#include "job/finish.h"

#include "base/clock.h"
#include "base/log.h"
#include "job/job.h"
#include "job/participation.h"
#include "job/rank/barriers.h"
#include "job/resize.h"
#include "participant/room.h"

#define AGAIN_NS CLOCK_NS_PER_S

/* Whatever the launcher had started, and nothing is started again by itself. */
static bool all_ended(const struct job *job)
{
	for (uint32_t r = 0; r < job->nlocal; r++) {
		const struct rank *rank = &job->ranks[r];
		if (rank->client || rank->pid || rank->launched || rank->failed)
			return false;
	}
	return job->nlocal;
}

/* Before there is one nobody was at work, and no launcher stays. */
static bool has_arena(const struct job *job)
{
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (job->ranks[r].mem)
			return true;
	return false;
}

/* Of what it had under way when the coordinator was lost nobody says what becomes of it, unless it joins in another epoch. */
bool finish_stands(const struct job *job)
{
	const struct finish *f = &job->finish;
	return f->stand && f->epoch == job->epoch && job_finished(job) && (!f->apart || job_idle(job));
}

static void let_go(struct job *job, const char *why)
{
	job->finish.stand = FINISH_OVER;
	job->finish.epoch = job->epoch;
	if (!job->launcher)
		return;
	if (*why) {
		log_warn("job %s: its launcher is let go: %s", job->name, why);
		client_error(job->launcher, 0, -ENOTCONN, "job %s: %s", job->name, why);
	}
	resize_dismiss(job);
}

static void recall(struct job *job)
{
	struct finish *f = &job->finish;
	if (f->stand == FINISH_OVER || !job->launcher)
		return; /* nobody is there to start them */
	if (f->recalled == job->epoch) {
		let_go(job, "its ranks were needed again, and have ended without taking part");
		return;
	}
	*f = (struct finish){.recalled = job->epoch};
	member_tell_epoch(job, "ranks that have finished are needed again", false);
}

void finish_hear(struct job *job, enum peer_finish_state is)
{
	struct finish *f = &job->finish;
	if (!f->stand || f->epoch != job->epoch)
		return;
	f->apart = false;
	if (is == PEER_NEEDED)
		recall(job);
	else if (is == PEER_DISMISSED && f->stand != FINISH_OVER)
		let_go(job, "");
	else if (is == PEER_STAYS && f->stand == FINISH_SAID)
		f->stand = FINISH_HEARD;
}

void finish_greet(struct job *job)
{
	job->finish.since_ns = 0;
}

void finish_apart(struct job *job)
{
	struct finish *f = &job->finish;
	f->apart = true;
	f->say_ns = clock_deadline(AGAIN_NS);
	if (f->stand == FINISH_HEARD)
		f->stand = FINISH_SAID;
}

static void say(struct job *job, uint64_t now)
{
	struct finish *f = &job->finish;
	struct err away = {{0}};
	f->say_ns = now + AGAIN_NS;
	if (!participant_can_forward(job, &away))
		participation_join(job);
}

static void begin(struct job *job)
{
	struct finish *f = &job->finish;
	f->stand = FINISH_SAID;
	f->epoch = job->epoch;
	f->say_ns = 0;
	f->apart = false;
}

/* Who was let go does not say any more that it has finished, and whoever has begun to coordinate the job meanwhile has never heard of this
 * node: it joins when its ranks are back. */
static void begin_anew(struct job *job)
{
	bool over = job->finish.stand == FINISH_OVER;
	job->finish = (struct finish){.recalled = job->finish.recalled};
	if (over && job->spread && !job->resize.offered)
		participation_join(job);
}

void finish_tick(struct job *job)
{
	struct finish *f = &job->finish;
	uint64_t now = clock_now();
	if (!job->spread || job->resize.offered || !all_ended(job) || !has_arena(job)) {
		begin_anew(job);
		return;
	}
	if (f->stand && f->epoch != job->epoch) /* the coordinator was heard */
		*f = (struct finish){.recalled = f->recalled};
	if (!f->stand && job->epoch && job_finished(job))
		begin(job);
	if (f->stand == FINISH_SAID && now >= f->say_ns)
		say(job, now);
	if (f->stand == FINISH_HEARD || !f->since_ns)
		f->since_ns = now;
	if (f->stand < FINISH_HEARD && now - f->since_ns > job->policy.join_timeout_ms * CLOCK_NS_PER_MS)
		let_go(job, "the daemon that coordinates it has not said for join-timeout that others are at work");
}
