#include "job/monitor/loss_watch.h"

#include "base/clock.h"
#include "base/log.h"
#include "catalog/room.h"
#include "job/job.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Steps that are judged at a time: ranks that tell of the same steps never have more. */
enum { AT_A_TIME = 2 * ARENA_LOSSES };

const char *loss_episode_text(const struct loss_episode *e, char *dst, size_t size)
{
	char text[LOSS_TEXT_MAX];
	loss_text(&e->found, text, sizeof(text));
	if (e->by_rank)
		snprintf(dst, size, "%s, as rank %u says", text, e->rank);
	else
		snprintf(dst, size, "%s", text);
	return dst;
}

const struct loss_episode *loss_watch_open(const struct loss_watch *w)
{
	const struct loss_episode *last = w->nepisodes ? &w->episodes[w->nepisodes - 1] : NULL;
	return last && !last->until_wall_ns ? last : NULL;
}

static void note(const struct job *job, const char *kind, const char *text)
{
	struct step_id id = {.step = job->loss.now.step, .epoch = job->epoch};
	catalog_event(job->storage->catalog, job->name, id, kind, text);
}

/* ---- episodes -------------------------------------------------------------------------------------------------- */

static struct loss_episode *add(struct loss_watch *w)
{
	if (w->nepisodes == LOSS_EPISODES)
		memmove(w->episodes, w->episodes + 1, --w->nepisodes * sizeof(w->episodes[0]));
	return &w->episodes[w->nepisodes++];
}

/* Another one may take its place. */
static void end(struct loss_watch *w)
{
	if (loss_watch_open(w))
		w->episodes[w->nepisodes - 1].until_wall_ns = clock_wall();
}

static void begin(struct job *job, const struct loss_merged *merged)
{
	struct loss_watch *w = &job->loss;
	char text[LOSS_TEXT_MAX + 32];
	bool by_rank = w->now.is == LOSS_NOT_FINITE && merged->rank < job->nlocal;
	end(w);
	struct loss_episode *e = add(w);
	*e = (struct loss_episode){.found = w->now.found,
				   .by_rank = by_rank,
				   .rank = by_rank ? job->ranks[merged->rank].id : 0,
				   .since_wall_ns = clock_wall()};
	w->counts[w->now.is]++;
	loss_episode_text(e, text, sizeof(text));
	log_warn("job %s: %s", job->name, text);
	note(job,
	     w->now.is == LOSS_SPIKE      ? "loss-spike"
	     : w->now.is == LOSS_DIVERGED ? "loss-diverged"
					  : "loss-not-finite",
	     text);
	loss_policy_act(job, &e->found, text);
}

static void over(struct job *job)
{
	char text[96];
	end(&job->loss);
	snprintf(text, sizeof(text), "the loss is steady again: %.4g at step %" PRIu64, job->loss.now.value,
		 job->loss.now.step);
	log_info("job %s: %s", job->name, text);
	note(job, "loss-over", text);
}

/* ---- looking --------------------------------------------------------------------------------------------------- */

static void judge(struct job *job, const struct loss_merged *merged)
{
	struct loss_watch *w = &job->loss;
	if (merged->epoch > w->epoch) {
		w->epoch = merged->epoch;
		if (loss_watch_open(w) && job->policy.loss_policy == LOSS_ROLLBACK)
			loss_forget(&w->now); /* it went back for that: what followed is not to be compared with */
		loss_excuse(&w->now);
		end(w);
	}
	if (!loss_step(&w->now, merged->step, merged->value, merged->norm))
		return;
	if (w->now.is == LOSS_GOOD)
		over(job);
	else
		begin(job, merged);
}

void loss_watch_tick(struct job *job)
{
	const struct arena_losses *losses[WIRE_LOCAL_MAX];
	struct loss_merged merged;
	if (!job->epoch)
		return;
	loss_policy_tick(job);
	for (uint32_t r = 0; r < job->nlocal; r++)
		losses[r] = job->ranks[r].mem ? &job->ranks[r].mem->head->losses : NULL;
	for (int i = 0; i < AT_A_TIME && loss_merge_next(&job->loss.ranks, job->epoch, losses, job->nlocal, &merged);
	     i++)
		judge(job, &merged);
}
