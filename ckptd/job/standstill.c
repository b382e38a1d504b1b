#include "job/standstill.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "catalog/room.h"
#include "job/job.h"
#include "runtime/room.h"

#include <stdio.h>

/* ---- by numbers and the clock ---------------------------------------------------------------------------------- */

static uint64_t last_beat(const struct suspect *all, uint32_t n)
{
	uint64_t last = 0;
	for (uint32_t i = 0; i < n; i++)
		last = max_u64(last, all[i].is.beat_ns);
	return last;
}

static bool stands(uint64_t last_ns, uint64_t longest_ns, uint64_t now)
{
	uint64_t most = STANDSTILL_STEPS * min_u64(longest_ns, UINT64_MAX / 4) + STANDSTILL_MORE_NS;
	return longest_ns && last_ns && last_ns < now && now - last_ns > most;
}

static void name(struct standstill *s, const struct suspect *all, uint32_t n, uint64_t now)
{
	char text[CULPRIT_TEXT_MAX];
	const struct suspect *c = culprit_find(all, n, now);
	s->named = culprit_stands_out(all, n, c);
	s->rank = c->rank;
	culprit_text(all, n, c, text);
	if (s->named)
		snprintf(s->text, sizeof(s->text), "rank %u is waited for: %s", c->rank, text);
	else
		snprintf(s->text, sizeof(s->text), "none of its ranks here stands out: rank %u was %s", c->rank, text);
}

bool standstill_look(struct standstill *s, const struct suspect *all, uint32_t n, uint64_t longest_ns, uint64_t now)
{
	uint64_t last = last_beat(all, n);
	struct standstill was = *s;
	if (!stands(last, longest_ns, now)) {
		s->is = s->named = false;
		return was.is;
	}
	s->is = true;
	s->since_ns = last;
	name(s, all, n, now);
	return !was.is || was.named != s->named || (s->named && was.rank != s->rank);
}

/* ---- of a job --------------------------------------------------------------------------------------------------- */

static void tell(const struct job *job, uint64_t stood_ns)
{
	const struct standstill *s = &job->standstill;
	char text[sizeof(s->text) + 64];
	const char *kind = s->is ? "standstill" : "standstill-over";
	if (s->is)
		snprintf(text, sizeof(text), "no heartbeat for %.1f s: %s", (double)stood_ns / 1e9, s->text);
	else
		snprintf(text, sizeof(text), "heartbeats come again after %.1f s", (double)stood_ns / 1e9);
	log_info("job %s: %s", job->name, text);
	catalog_event(job->storage->catalog, job->name, (struct step_id){.epoch = job->epoch}, kind, text);
}

static void take(struct suspect *s, const struct rank *rank)
{
	s->rank = rank->id;
	s->stopped = false;
	flight_look(rank->mem->head, &s->is);
}

static uint64_t longest_step(const struct job *job)
{
	uint32_t longest_us = 0;
	for (uint32_t r = 0; r < job->nlocal; r++) {
		const struct pace *pace = &job->ranks[r].pace;
		if (pace->steps.count < STANDSTILL_KNOWN)
			return 0;
		for (uint32_t i = 0; i < pace->nrecent; i++)
			longest_us = pace->recent_us[i] > longest_us ? pace->recent_us[i] : longest_us;
	}
	return longest_us * 1000ull;
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

/* After a restore a rank may load for long, and beats only then. */
static bool arm(struct standstill *s, const struct suspect *all, uint32_t n, uint32_t epoch)
{
	bool begins = s->epoch != epoch;
	if (begins)
		s->armed = false;
	s->epoch = epoch;
	if (s->armed)
		return true;
	uint32_t stepped = 0;
	for (uint32_t i = 0; i < n; i++) {
		if (begins)
			s->steps[i] = all[i].is.step;
		stepped += all[i].is.step > s->steps[i];
	}
	s->armed = stepped == n;
	return s->armed;
}

void standstill_tick(struct job *job, uint64_t now)
{
	struct standstill *s = &job->standstill;
	struct suspect all[WIRE_LOCAL_MAX];
	uint64_t since = s->since_ns, longest = 0;
	uint32_t n = 0;
	if (all_at_work(job)) {
		for (; n < job->nlocal; n++)
			take(&all[n], &job->ranks[n]);
		longest = arm(s, all, n, job->epoch) ? longest_step(job) : 0;
	} else {
		s->epoch = 0;
	}
	if (s->is || stands(last_beat(all, n), longest, now)) /* what costs a look into /proc */
		for (uint32_t i = 0; i < n; i++)
			all[i].stopped = process_is_stopped(job->ranks[i].pid);
	if (standstill_look(s, all, n, longest, now))
		tell(job, now - (s->is ? s->since_ns : since));
}
