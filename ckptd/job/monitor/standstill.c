#include "job/monitor/standstill.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "catalog/room.h"
#include "cluster/room.h"
#include "job/job.h"
#include "participant/room.h"
#include "replication/room.h"
#include "runtime/room.h"

#include <stdio.h>
#include <string.h>

#define SAY_AGAIN_NS CLOCK_NS_PER_S /* that a rank is elsewhere */

/* ---- by numbers and the clock ---------------------------------------------------------------------------------- */

static uint64_t last_beat(const struct suspect *all, uint32_t n)
{
	uint64_t last = 0;
	for (uint32_t i = 0; i < n; i++)
		last = max_u64(last, all[i].is.beat_ns);
	return last;
}

uint64_t standstill_silence(uint64_t median_ns, uint64_t longest_ns)
{
	uint64_t most = UINT64_MAX / 4, median = min_u64(median_ns, most), longest = min_u64(longest_ns, most);
	uint64_t tail = min_u64(STANDSTILL_MORE_NS, STANDSTILL_SHORT * min_u64(median, STANDSTILL_MORE_NS));
	return max_u64(STANDSTILL_STEPS * median + STANDSTILL_MORE_NS, STANDSTILL_STEPS * longest + tail);
}

static bool silent(const struct suspect *all, uint32_t n, uint64_t silence_ns, uint64_t now)
{
	uint64_t last = last_beat(all, n);
	return silence_ns && last && last < now && now - last > silence_ns;
}

static bool are_at_the_same(const struct suspect *a, const struct suspect *b)
{
	return a->rank == b->rank && a->stopped == b->stopped && a->is.step == b->is.step &&
	       a->is.in_collective == b->is.in_collective && a->is.collective == b->is.collective &&
	       a->is.bytes == b->is.bytes && !strcmp(a->is.op, b->is.op);
}

static struct suspect with_age(struct suspect s, uint64_t now)
{
	s.is.beat_ns = now - min_u64(s.is.beat_ns, now);
	return s;
}

static void make(struct peer_silent *m, const struct suspect *all, uint32_t n, uint64_t now)
{
	m->n = n;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t at = i;
		for (; at && m->of[at - 1].rank > all[i].rank; at--)
			m->of[at] = m->of[at - 1];
		m->of[at] = with_age(all[i], now);
	}
}

static bool tells_the_same(const struct peer_silent *a, const struct peer_silent *b)
{
	bool same = a->n == b->n;
	for (uint32_t i = 0; same && i < a->n; i++)
		same = are_at_the_same(&a->of[i], &b->of[i]);
	return same;
}

void standstill_keep_stopped(struct standstill *s, struct suspect *all, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if (all[i].stopped)
			s->stopped_ns[i] = all[i].is.beat_ns;
		all[i].stopped = s->stopped_ns[i] && s->stopped_ns[i] == all[i].is.beat_ns;
	}
}

bool standstill_look(struct standstill *s, const struct suspect *all, uint32_t n, uint64_t silence_ns, uint64_t now)
{
	struct peer_silent m = {0};
	if (silent(all, n, silence_ns, now))
		make(&m, all, n, now);
	bool goes_on = m.n && s->said.n;
	if (tells_the_same(&m, &s->said) || (goes_on && now - s->said_ns < SAY_AGAIN_NS))
		return false;
	s->said = m;
	s->said_ns = now;
	return true;
}

/* ---- of a job --------------------------------------------------------------------------------------------------- */

static void tell(const struct job *job, const char *kind, const char *text)
{
	log_info("job %s: %s", job->name, text);
	catalog_event(job->storage->catalog, job->name, (struct step_id){.epoch = job->epoch}, kind, text);
}

static void begin(const struct job *job, uint64_t now)
{
	const struct standstill *s = &job->standstill;
	char text[sizeof(s->text) + 64];
	snprintf(text, sizeof(text), "no heartbeat for %.1f s: %s", (double)(now - s->since_ns) / 1e9, s->text);
	tell(job, "standstill", text);
}

static void end(struct job *job, const char *how, uint64_t now)
{
	struct standstill *s = &job->standstill;
	char text[128];
	if (!s->is)
		return;
	s->is = s->named = false;
	snprintf(text, sizeof(text), "%s after %.1f s", how, (double)(now - min_u64(s->since_ns, now)) / 1e9);
	tell(job, "standstill-over", text);
}

/* The launcher reads it there (cli/launcher/launch_hang.c). Every tick: a daemon that was lost has left its own word. */
static void show(const struct job *job)
{
	const struct standstill *s = &job->standstill;
	uint64_t named = s->is ? arena_named(s->told_epoch, s->named ? s->rank : ARENA_NOBODY) : 0;
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (job->ranks[r].mem && atomic_load(&job->ranks[r].mem->head->named) != named)
			atomic_store(&job->ranks[r].mem->head->named, named);
}

static void take(struct suspect *s, const struct rank *rank)
{
	s->rank = rank->id;
	s->stopped = false;
	flight_look(rank->mem->head, &s->is);
}

/* By the slowest rank here. 0: too few steps are known. */
static uint64_t silence_of(const struct job *job)
{
	uint32_t longest_us = 0, median_us = 0;
	for (uint32_t r = 0; r < job->nlocal; r++) {
		const struct pace *pace = &job->ranks[r].pace;
		if (pace->steps.count < STANDSTILL_KNOWN)
			return 0;
		for (uint32_t i = 0; i < pace->nrecent; i++)
			longest_us = pace->recent_us[i] > longest_us ? pace->recent_us[i] : longest_us;
		uint32_t median = pace_median_us(pace);
		median_us = median > median_us ? median : median_us;
	}
	return standstill_silence(median_us * 1000ull, longest_us * 1000ull);
}

/* While ranks come, go, join or restore, nobody beats. */
static bool all_at_work(const struct job *job)
{
	for (uint32_t r = 0; r < job->nlocal; r++) {
		const struct rank *rank = &job->ranks[r];
		if (rank->state != RANK_JOINED || !rank->mem || rank->joining.seq || rank->restoring.seq)
			return false;
	}
	return job->nlocal != 0;
}

/* After a restore a rank may load for long, and beats only then. It may be behind the step of its last heartbeat before that. */
static bool arm(struct standstill *s, const struct suspect *all, uint32_t n, const struct job *job)
{
	bool begins = s->epoch != job->epoch;
	if (begins)
		s->armed = false;
	s->epoch = job->epoch;
	if (s->armed)
		return true;
	uint32_t stepped = 0;
	for (uint32_t i = 0; i < n; i++) {
		if (begins || s->steps[i] == UINT64_MAX)
			s->steps[i] = all[i].is.beat_ns > job->entered_ns ? all[i].is.step : UINT64_MAX;
		stepped += all[i].is.step > s->steps[i];
	}
	s->armed = stepped == n;
	return s->armed;
}

/* In the first steps of an epoch nothing is a measure but what a step of the job must fit in. 0: nothing is. */
static uint64_t limit_of(const struct job *job, bool armed)
{
	uint64_t usual = silence_of(job), start = job->policy.hang_timeout_ms * CLOCK_NS_PER_MS;
	return armed && usual ? usual : start ? max_u64(usual, start) : 0;
}

/* No heartbeat is missed of the time before the ranks have entered; nor of ranks that give none. */
static void count_from_entry(const struct job *job, struct suspect *all, uint32_t n)
{
	if (!last_beat(all, n))
		return;
	for (uint32_t i = 0; i < n; i++)
		all[i].is.beat_ns = max_u64(all[i].is.beat_ns, job->entered_ns);
}

static void look(struct job *job, uint64_t now)
{
	struct standstill *s = &job->standstill;
	struct suspect all[WIRE_LOCAL_MAX] = {0};
	uint64_t silence = 0;
	uint32_t n = 0;
	if (all_at_work(job)) {
		for (; n < job->nlocal; n++)
			take(&all[n], &job->ranks[n]);
		silence = limit_of(job, arm(s, all, n, job));
		count_from_entry(job, all, n);
	} else {
		s->epoch = 0;
	}
	if (silent(all, n, silence, now)) { /* what costs a look into /proc */
		for (uint32_t i = 0; i < n; i++)
			all[i].stopped = process_is_stopped(job->ranks[i].pid);
		standstill_keep_stopped(s, all, n);
	}
	if (!standstill_look(s, all, n, silence, now))
		return;
	participant_say(job, &(struct peer_report){.type = PEER_SILENT, .silent = s->said});
	if (!s->said.n)
		end(job, "heartbeats come again", now);
}

void standstill_tick(struct job *job, uint64_t now)
{
	look(job, now);
	show(job);
}

/* ---- of the coordinator ----------------------------------------------------------------------------------------- */

/* Of the epoch that the ranks here are in; and they have not gone on meanwhile. */
static bool counts(const struct job *job, const struct peer_standstill *m)
{
	bool known = m->rank < job->world && (!job->spread || m->node < job->peers->roster->n);
	return m->epoch == job->epoch && (!m->is || (known && job->standstill.said.n));
}

static void describe(const struct job *job, const struct peer_standstill *m, char *dst, size_t size)
{
	char who[NAME_NODE_MAX + 32];
	if (job->spread)
		snprintf(who, sizeof(who), "rank %u on node %s", m->rank, job->standstill.node);
	else
		snprintf(who, sizeof(who), "rank %u", m->rank);
	if (m->named)
		snprintf(dst, size, "%s is waited for: %s", who, m->text);
	else
		snprintf(dst, size, "none of its ranks stands out: %s was %s", who, m->text);
}

void standstill_hear(struct job *job, const struct peer_standstill *m)
{
	struct standstill *s = &job->standstill;
	uint64_t now = clock_now();
	if (!counts(job, m))
		return;
	if (!m->is) {
		end(job, "heartbeats come again", now);
		return;
	}
	bool news = !s->is || s->named != m->named || (m->named && s->rank != m->rank);
	s->is = true;
	s->told_epoch = m->epoch;
	s->since_ns = now - min_u64(m->silent_ns, now);
	s->named = m->named;
	s->rank = m->rank;
	snprintf(s->node, sizeof(s->node), "%s",
		 job->spread ? job->peers->roster->nodes[m->node].name : job->runtime->config.node);
	describe(job, m, s->text, sizeof(s->text));
	if (!news)
		return;
	s->after_ns = now - s->since_ns;
	begin(job, now);
}

void standstill_anew(struct job *job)
{
	job->standstill.said.n = 0;
	end(job, "the coordinator is lost or another one", clock_now());
}
