/* How a job goes on from tick to tick, and how it ends: asked to, or when nothing of it is left. */
#include "job/job.h"

#include "base/clock.h"
#include "base/log.h"
#include "checkpoint/room.h"
#include "job/apart.h"
#include "job/jobs.h"
#include "job/participation.h"
#include "job/rank/barriers.h"
#include "job/rank/job_former.h"
#include "job/rank/rank.h"
#include "participant/room.h"

/* ---- end -------------------------------------------------------------------------------------------------------- */

void job_stop(struct job *job)
{
	if (!job->stop)
		log_info("job %s: asked to stop", job->name);
	job->stop = true;
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (job->ranks[r].mem)
			memory_set_stop(job->ranks[r].mem, true);
}

/* A rank that begins a save from now on sees this in the fence. A rank that had begun before is seen in the slots (participant_paused). */
void job_pause(struct job *job, uint64_t after)
{
	job->pause = after == UINT64_MAX ? 0 : after + 1;
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (job->ranks[r].mem)
			memory_set_pause(job->ranks[r].mem, job->pause);
	atomic_thread_fence(memory_order_seq_cst);
	if (job->pause)
		saves_follow(&job->saves);
}

void job_yield(struct job *job)
{
	struct err err;
	if (job_alive(job) || job->resize.offered || job->yields || former_ready(job, &err) || former_store(job, &err))
		return; /* it is asked again */
	log_info("job %s: it makes way for another world, what was in memory is on storage", job->name);
	job->yields = true;
}

void job_over(struct job *job, uint32_t epoch)
{
	job->over = epoch;
}

/* ---- time ------------------------------------------------------------------------------------------------------ */

/* Who has said goodbye may still be connected. */
static bool all_left(const struct job *job)
{
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (job->ranks[r].state != RANK_LEFT || job->ranks[r].client)
			return false;
	return true;
}

/* Without arenas and without anybody connected there is nothing to keep, whether or not the processes live on. */
static bool holds_anything(const struct job *job)
{
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (job->ranks[r].mem || job->ranks[r].client)
			return true;
	return false;
}

bool job_idle(const struct job *job)
{
	return saves_idle(&job->saves) && !host_busy(job->control, job->name) && restore_idle(&job->restore) &&
	       health_marks_idle(&job->health_marks);
}

/* Of a later incarnation of it, in a later epoch, nothing was said. */
static bool is_over(const struct job *job)
{
	return job->over && job->known <= job->over && !job_alive(job);
}

static bool may_end(struct job *job, uint64_t now)
{
	if (is_over(job))
		restore_cancel(&job->restore); /* nobody waits for it any more, nor does anybody go on with it */
	if (!job_idle(job) || job->launcher)
		return false;
	bool left = all_left(job), waits = left && former_waits(job, !job->dormant_ns);
	if ((left && !waits) || !holds_anything(job) || job->yields)
		return true;
	if (job_alive(job)) {
		job->dormant_ns = 0;
		return false;
	}
	if (is_over(job) && !left)
		return true;
	if (!job->dormant_ns)
		job->dormant_ns = now;
	return now - job->dormant_ns > job->policy.linger_ms * CLOCK_NS_PER_MS;
}

bool job_tick(struct job *job)
{
	uint64_t now = clock_now();
	throttle_pump(&job->storage->writes);
	saves_follow(&job->saves);
	saves_expire(&job->saves);
	participation_tick(job);
	member_expire(job, now);
	rank_watch_missing(job, now);
	copying_tick(job);
	restore_pump(&job->restore);
	resize_tick(job);
	finish_tick(job);
	halt_tick(job);
	apart_tick(job, now);
	for (uint32_t r = 0; r < job->nlocal; r++)
		rank_watch_beat(&job->ranks[r], now);
	interval_look(job);
	straggler_watch_tick(job, now);
	standstill_tick(job, now);
	loss_watch_tick(job);
	recoveries_tick(&job->recovery_log, now);
	former_tick(job, now);
	if (!may_end(job, now))
		return true;
	if (job->dormant_ns && now - job->dormant_ns > job->policy.linger_ms * CLOCK_NS_PER_MS)
		former_let_go(job, "nobody has come for it");
	log_info("job %s: ended, %lu checkpoints durable", job->name, (unsigned long)job->saves.committed);
	job_free(job);
	return false;
}
