#include "job/straggler_watch.h"

#include "base/clock.h"
#include "base/log.h"
#include "catalog/room.h"
#include "format/arena/flight.h"
#include "job/job.h"

#include <stdio.h>
#include <string.h>

#define LOOK_NS (200 * CLOCK_NS_PER_MS)

double straggler_cost(const struct straggler_episode *e)
{
	return e->lasted_ns ? e->lost_ns / (double)e->lasted_ns : 0;
}

const char *straggler_text(const struct straggler_episode *e, char *dst, size_t size)
{
	if (e->until_wall_ns)
		snprintf(dst, size, "rank %u is no straggler any more: in %.0f s it has cost up to %.0f s", e->rank,
			 (double)e->lasted_ns / 1e9, e->lost_ns / 1e9);
	else
		snprintf(dst, size,
			 "rank %u is a straggler: its own part of a step takes %.1f times as long as that of the "
			 "others, which wait for it up to %.0f%% of the time",
			 e->rank, e->ratio, 100 * straggler_cost(e));
	return dst;
}

static void tell(const struct job *job, const struct straggler_episode *e, const char *kind)
{
	char text[200];
	straggler_text(e, text, sizeof(text));
	if (e->until_wall_ns)
		log_info("job %s: %s", job->name, text);
	else
		log_warn("job %s: %s", job->name, text);
	catalog_event(job->storage->catalog, job->name, (struct step_id){.epoch = job->epoch}, kind, text);
}

/* ---- episodes -------------------------------------------------------------------------------------------------- */

/* That of a rank which still is one; NULL: it is none. */
static struct straggler_episode *open_of(struct straggler_watch *w, uint32_t rank)
{
	for (uint32_t i = w->nepisodes; i-- > 0;)
		if (w->episodes[i].rank == rank && !w->episodes[i].until_wall_ns)
			return &w->episodes[i];
	return NULL;
}

/* The oldest that is over makes room; NULL: as many ranks are late at once, and one more is not told. */
static struct straggler_episode *add(struct straggler_watch *w)
{
	uint32_t out = 0;
	while (w->nepisodes == STRAGGLER_EPISODES && out < STRAGGLER_EPISODES && !w->episodes[out].until_wall_ns)
		out++;
	if (out == STRAGGLER_EPISODES)
		return NULL;
	if (w->nepisodes == STRAGGLER_EPISODES)
		memmove(&w->episodes[out], &w->episodes[out + 1], (--w->nepisodes - out) * sizeof(w->episodes[0]));
	return &w->episodes[w->nepisodes++];
}

static void end(const struct job *job, struct straggler_episode *e)
{
	e->until_wall_ns = clock_wall();
	tell(job, e, "straggler-over");
}

static void follow(struct straggler_episode *e, const struct straggler_rank *rank, uint64_t now)
{
	e->lasted_ns = now - e->since_ns;
	e->lost_ns = rank->lost_ns;
	e->ratio = rank->ratio;
}

static void note(struct job *job, uint32_t index, uint64_t now)
{
	struct straggler_watch *w = &job->stragglers;
	const struct straggler_rank *rank = &w->now.ranks[index];
	struct straggler_episode *e = open_of(w, job->ranks[index].id);
	if (rank->late && e) {
		follow(e, rank, now);
	} else if (rank->late && (e = add(w))) {
		*e = (struct straggler_episode){.rank = job->ranks[index].id,
						.since_ns = rank->since_ns,
						.since_wall_ns = clock_wall() - (now - rank->since_ns)};
		follow(e, rank, now);
		tell(job, e, "straggler");
	} else if (e) {
		end(job, e);
	}
}

/* ---- looking --------------------------------------------------------------------------------------------------- */

static bool all_at_work(const struct job *job)
{
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (job->ranks[r].state != RANK_JOINED || !job->ranks[r].mem)
			return false;
	return job->nlocal && job->epoch;
}

static void forget(struct job *job)
{
	struct straggler_watch *w = &job->stragglers;
	straggler_forget(&w->now);
	for (uint32_t i = 0; i < w->nepisodes; i++)
		if (!w->episodes[i].until_wall_ns)
			end(job, &w->episodes[i]);
}

void straggler_watch_tick(struct job *job, uint64_t now)
{
	struct straggler_watch *w = &job->stragglers;
	struct straggler_sample samples[WIRE_LOCAL_MAX];
	if (!all_at_work(job) || (w->now.epoch && w->now.epoch != job->epoch)) {
		forget(job);
		return;
	}
	if (now < w->look_ns)
		return;
	w->look_ns = now + LOOK_NS;
	for (uint32_t r = 0; r < job->nlocal; r++) {
		const struct arena_head *head = job->ranks[r].mem->head;
		struct flight_waited waited = flight_waited(head, now);
		samples[r] = (struct straggler_sample){
			.step = atomic_load(&head->flight.step), .waited_ns = waited.ns, .left = waited.left};
	}
	if (!straggler_look(&w->now, job->epoch, samples, job->nlocal, now))
		return;
	for (uint32_t r = 0; r < job->nlocal; r++)
		note(job, r, now);
}
