#include "job/monitor/straggler_watch.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "catalog/room.h"
#include "cluster/room.h"
#include "coordinator/room.h"
#include "format/arena/flight.h"
#include "job/job.h"
#include "participant/room.h"
#include "replication/room.h"
#include "runtime/room.h"

#include <stdio.h>
#include <string.h>

#define LOOK_NS (200 * CLOCK_NS_PER_MS)

/* ---- in words -------------------------------------------------------------------------------------------------- */

double straggler_cost(const struct straggler_episode *e)
{
	return e->lasted_ns ? e->lost_ns / (double)e->lasted_ns : 0;
}

static const char *who(const struct straggler_episode *e, char *dst, size_t size)
{
	if (e->whole)
		snprintf(dst, size, "node %s", e->node);
	else if (e->spread)
		snprintf(dst, size, "rank %u on node %s", e->rank, e->node);
	else
		snprintf(dst, size, "rank %u", e->rank);
	return dst;
}

const char *straggler_text(const struct straggler_episode *e, char *dst, size_t size)
{
	char name[NAME_NODE_MAX + 32];
	who(e, name, sizeof(name));
	if (e->until_wall_ns)
		snprintf(dst, size, "%s is no straggler any more: in %.0f s it has cost up to %.0f s", name,
			 (double)e->lasted_ns / 1e9, e->lost_ns / 1e9);
	else
		snprintf(dst, size,
			 "%s is a straggler: %s own part of a step takes %.1f times as long as that of the others, "
			 "which wait for it up to %.0f%% of the time",
			 name, e->whole ? "its ranks'" : "its", e->ratio, 100 * straggler_cost(e));
	return dst;
}

static void tell(const struct job *job, const struct straggler_episode *e, const char *kind)
{
	char text[320];
	straggler_text(e, text, sizeof(text));
	if (e->until_wall_ns)
		log_info("job %s: %s", job->name, text);
	else
		log_warn("job %s: %s", job->name, text);
	catalog_event(job->storage->catalog, job->name, (struct step_id){.epoch = job->epoch}, kind, text);
}

/* ---- episodes -------------------------------------------------------------------------------------------------- */

static const char *node_name(const struct job *job, uint32_t node)
{
	return job->spread ? job->peers->roster->nodes[node].name : job->runtime->config.node;
}

static bool is_of(const struct job *job, const struct straggler_episode *e, const struct peer_straggler *is)
{
	return !e->until_wall_ns && e->whole == is->whole &&
	       (e->whole ? !strcmp(e->node, node_name(job, is->node)) : e->rank == is->rank);
}

static struct straggler_episode *open_of(struct job *job, const struct peer_straggler *is)
{
	struct straggler_watch *w = &job->stragglers;
	for (uint32_t i = w->nepisodes; i-- > 0;)
		if (is_of(job, &w->episodes[i], is))
			return &w->episodes[i];
	return NULL;
}

/* The oldest that is over makes room: as many as there is room for are never late at once beside a new one, by what is heard. */
static struct straggler_episode *add(struct straggler_watch *w)
{
	uint32_t out = 0;
	while (w->nepisodes == STRAGGLER_EPISODES && out + 1 < STRAGGLER_EPISODES && !w->episodes[out].until_wall_ns)
		out++;
	if (w->nepisodes == STRAGGLER_EPISODES)
		memmove(&w->episodes[out], &w->episodes[out + 1], (--w->nepisodes - out) * sizeof(w->episodes[0]));
	return &w->episodes[w->nepisodes++];
}

static void end(const struct job *job, struct straggler_episode *e)
{
	e->until_wall_ns = clock_wall();
	tell(job, e, "straggler-over");
}

static void note(struct job *job, const struct peer_straggler *is)
{
	struct straggler_episode *e = open_of(job, is);
	bool news = !e;
	if (news) {
		e = add(&job->stragglers);
		*e = (struct straggler_episode){.whole = is->whole,
						.rank = is->rank,
						.spread = job->spread,
						.since_wall_ns = clock_wall() - is->lasted_ns};
		snprintf(e->node, sizeof(e->node), "%s", node_name(job, is->node));
	}
	e->lasted_ns = is->lasted_ns;
	e->lost_ns = (double)is->lost_ns;
	e->ratio = is->ratio / 1000.0;
	if (news)
		tell(job, e, "straggler");
}

uint32_t straggler_watch_late(const struct straggler_watch *w)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < w->nepisodes; i++)
		n += !w->episodes[i].until_wall_ns;
	return n;
}

const struct straggler_episode *straggler_watch_here(const struct job *job)
{
	const struct straggler_watch *w = &job->stragglers;
	for (uint32_t i = 0; i < w->nepisodes; i++) {
		const struct straggler_episode *e = &w->episodes[i];
		if (e->whole && !e->until_wall_ns && !strcmp(e->node, job->runtime->config.node))
			return e;
	}
	return NULL;
}

/* ---- looking --------------------------------------------------------------------------------------------------- */

static bool all_at_work(const struct job *job)
{
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (job->ranks[r].state != RANK_JOINED || !job->ranks[r].mem)
			return false;
	return job->nlocal && job->epoch;
}

static struct peer_rank_pace pace_of(const struct rank *rank, uint64_t now)
{
	const struct arena_head *head = rank->mem->head;
	struct flight_waited waited = flight_waited(head, now);
	return (struct peer_rank_pace){
		.rank = rank->id, .step = atomic_load(&head->flight.step), .waited_ns = waited.ns, .left = waited.left};
}

static void make(struct peer_pace *m, const struct job *job, uint64_t now)
{
	*m = (struct peer_pace){.clock_ns = now, .n = job->nlocal};
	for (uint32_t i = 0; i < m->n; i++) {
		uint32_t at = i;
		for (; at && m->of[at - 1].rank > job->ranks[i].id; at--)
			m->of[at] = m->of[at - 1];
		m->of[at] = pace_of(&job->ranks[i], now);
	}
}

/* Ranks that keep no flight records have nothing to tell. */
static bool has_records(const struct peer_pace *m)
{
	bool has = false;
	for (uint32_t i = 0; !has && i < m->n; i++)
		has = m->of[i].left;
	return has;
}

/* Or has broken: a counter went back. */
static bool round_over(const struct peer_pace *from, const struct peer_pace *to)
{
	bool over = to->n == from->n && to->clock_ns - from->clock_ns >= STRAGGLING_ROUND_NS;
	for (uint32_t i = 0; over && i < to->n; i++)
		over = to->of[i].step - from->of[i].step >= STRAGGLING_STEPS;
	return over;
}

void straggler_watch_tick(struct job *job, uint64_t now)
{
	struct straggler_watch *w = &job->stragglers;
	struct peer_report report = {.type = PEER_PACE};
	if (!all_at_work(job) || (w->epoch && w->epoch != job->epoch)) {
		straggler_watch_anew(job);
		return;
	}
	if (now < w->look_ns)
		return;
	w->look_ns = now + LOOK_NS;
	make(&report.pace, job, now);
	if (w->epoch ? !round_over(&w->said, &report.pace) : !has_records(&report.pace))
		return;
	w->epoch = job->epoch;
	w->said = report.pace;
	participant_say(job, &report);
}

/* ---- of the coordinator ---------------------------------------------------------------------------------------- */

static bool is_known(const struct job *job, const struct peer_straggler *is)
{
	return is->rank < job->world && (!job->spread || is->node < job->peers->roster->n);
}

/* Of the epoch that the ranks here are in, and of nobody who is not there. */
static bool counts(const struct job *job, const struct peer_stragglers *m)
{
	bool is = m->epoch == job->epoch && m->epoch == job->stragglers.epoch;
	for (uint32_t i = 0; is && i < m->n; i++)
		is = is_known(job, &m->of[i]);
	return is;
}

static void take_own_parts(struct job *job, const struct peer_stragglers *m)
{
	struct straggler_watch *w = &job->stragglers;
	memset(w->ranks, 0, sizeof(w->ranks));
	for (uint32_t i = 0; i < m->nown; i++) {
		const struct peer_own_part *o = &m->own[i];
		const struct rank *rank = job_rank(job, o->rank);
		if (rank)
			w->ranks[rank->index] = (struct straggler_rank){.compared = true,
									.late = o->late,
									.own = (double)o->own / PEER_SHARE,
									.ratio = o->ratio / 1000.0,
									.cost = (double)o->cost / PEER_SHARE};
	}
}

static bool says(const struct job *job, const struct peer_stragglers *m, const struct straggler_episode *e)
{
	bool found = false;
	for (uint32_t i = 0; !found && i < m->n; i++)
		found = is_of(job, e, &m->of[i]);
	return found;
}

void straggler_watch_hear(struct job *job, const struct peer_stragglers *m)
{
	struct straggler_watch *w = &job->stragglers;
	if (!counts(job, m))
		return;
	take_own_parts(job, m);
	for (uint32_t i = 0; i < w->nepisodes; i++)
		if (!w->episodes[i].until_wall_ns && !says(job, m, &w->episodes[i]))
			end(job, &w->episodes[i]);
	for (uint32_t i = 0; i < m->n; i++)
		note(job, &m->of[i]);
}

void straggler_watch_anew(struct job *job)
{
	struct straggler_watch *w = &job->stragglers;
	if (!w->epoch)
		return; /* nothing is known */
	w->epoch = 0;
	memset(w->ranks, 0, sizeof(w->ranks));
	for (uint32_t i = 0; i < w->nepisodes; i++)
		if (!w->episodes[i].until_wall_ns)
			end(job, &w->episodes[i]);
}
