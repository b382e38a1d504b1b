#include "reform.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "catalog.h"
#include "daemon.h"
#include "job.h"
#include "member.h"
#include "queue.h"
#include "rank.h"
#include "seat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How long processes that the daemon has lost with its last life may take to come back. */
#define BACK_NS (5 * CLOCK_NS_PER_S)
/* Between two tries of what the store refuses. */
#define AGAIN_NS (2 * CLOCK_NS_PER_S)

void reform_free(struct reform *reform)
{
	if (reform->offered)
		crew_free(&reform->crew);
	*reform = (struct reform){0};
}

/* ---- what the launcher has ----------------------------------------------------------------------------------------- */

/* The crew as it is now: every rank has a process, whatever may be offered beyond them. */
static int begin(struct job *job, const struct wire_offer *offer, struct err *err)
{
	struct crew *crew = &job->reform.crew;
	if (crew_init(crew, 1, offer->want, offer->least))
		return err_set(err, -ENOMEM, "no memory for the crew of job '%s'", job->name);
	crew_offer(crew, 0, job->world, false);
	crew_plan(crew);
	job->reform.offered = true;
	return 0;
}

int reform_offer(struct job *job, uint32_t seq, const struct wire_offer *offer, struct err *err)
{
	struct reform *reform = &job->reform;
	reform->seq = seq;
	if (job->spread)
		return err_set(err, -EOPNOTSUPP,
			       "job '%s' is spread over nodes: its world does not change in this version", job->name);
	if (offer->want < job->world || offer->least > job->world)
		return err_set(err, -EINVAL, "an offer of %u to %u ranks, where job '%s' has %u", offer->least,
			       offer->want, job->name, job->world);
	if (!reform->offered) {
		int rc = begin(job, offer, err);
		if (rc)
			return rc;
	}
	for (uint32_t i = 0; i < offer->nlost; i++)
		crew_lose(&reform->crew, offer->lost[i]);
	if (crew_state(&reform->crew) == CREW_BROKEN && !reform->clearing_ns) {
		reform->clearing_ns = clock_now();
		reform->flushed = false;
	}
	return 0;
}

/* ---- the new world ------------------------------------------------------------------------------------------------- */

/* The session goes on with another rank, of which it knows nothing yet. */
static void carry(struct rank *to, struct rank *from)
{
	struct waiting *asks = from->registering.seq ? &from->registering : &from->joining;
	uint32_t seq = asks->seq;
	rank_carry(to, from);
	to->moved = true;
	if (seq)
		reform_tell(to, seq, NULL);
}

/* The new world has fewer of them, never more: it must not be planned twice because there was no memory for it. */
static struct rank *make_ranks(struct job *job)
{
	struct rank *ranks = calloc(job->world, sizeof(*ranks));
	for (uint32_t r = 0; ranks && r < job->world; r++)
		ranks[r] = (struct rank){.job = job, .id = r, .index = r, .pidfd = -1, .doorbell = -1};
	return ranks;
}

static void tell_launcher(struct job *job)
{
	AUTO_WBUF struct wbuf body = {0};
	const struct crew *crew = &job->reform.crew;
	struct wire_plan m = {.world = crew->world, .n = crew->world};
	for (uint32_t r = 0; r < crew->world; r++) {
		m.ranks[r] = r;
		m.was[r] = crew->was[r];
	}
	if (wire_plan_encode(&m, &body))
		body.failed = true;
	client_send(job->launcher, WIRE_PLAN, 0, &body, NULL, 0);
}

/* What belongs to the old world and to nobody else. What was counted stays. */
static void clear(struct job *job)
{
	struct saves *saves = &job->saves, old = *saves;
	measures_end(job, NULL);
	recoveries_end(job);
	copies_end(&job->copies);
	copies_init(&job->copies, job);
	saves_free(saves);
	saves_init(saves, job->daemon, job);
	saves->committed = old.committed;
	saves->failed = old.failed;
	saves->verified = old.verified;
	job->daemon->memory_used -= job_memory(job);
	job->formed = false;
	job->fresh = true;
	job->resumed_ns = job->returning_ns = 0;
}

static void swap_ranks(struct job *job, struct rank *ranks)
{
	const struct crew *crew = &job->reform.crew;
	struct rank *old = job->ranks;
	uint32_t nold = job->nlocal;
	clear(job);
	job->ranks = ranks;
	job->world = job->nlocal = crew->world;
	for (uint32_t r = 0; r < crew->world; r++)
		if (crew->was[r] != CREW_NEW)
			carry(&ranks[r], &old[crew->was[r]]);
	for (uint32_t r = 0; r < nold; r++) {
		if (old[r].client) /* of a process that the launcher takes for lost */
			client_detach(old[r].client);
		rank_end(&old[r]);
	}
	free(old);
}

static void take_seat(struct job *job)
{
	struct err err = {{0}};
	job->reform.seat_ns = 0;
	if (!seat_take(job, &err))
		return;
	job->reform.seat_ns = clock_deadline(AGAIN_NS);
	log_error("%s", err.text);
}

static void reform(struct job *job)
{
	uint32_t world = job->world;
	struct rank *ranks = make_ranks(job);
	if (!ranks) {
		log_error("job %s: no memory for its new world", job->name);
		return; /* the next tick tries again */
	}
	if (crew_plan(&job->reform.crew)) {
		free(ranks);
		job->reform.clearing_ns = 0; /* too few are left: the launcher, who knows it, ends the job */
		return;
	}
	log_warn("job %s: world size changes from %u to %u", job->name, world, job->reform.crew.world);
	seat_leave(job);
	swap_ranks(job, ranks);
	tell_launcher(job);
	job->reform.clearing_ns = 0;
	take_seat(job);
}

/* ---- on the way there ---------------------------------------------------------------------------------------------- */

/* Another world would begin without what cannot be written: the launcher ends the job instead, as it would have done at once. */
static void refuse(struct job *job, const struct snapshot *newest)
{
	log_error("job %s: its world does not change: step %lu is in memory only, and cannot be written: %s", job->name,
		  (unsigned long)newest->id.step, err_name(newest->storage_rc));
	client_error(job->launcher, job->reform.seq, newest->storage_rc,
		     "step %lu is in memory only, and cannot be written (%s): another world would have lost it",
		     (unsigned long)newest->id.step, err_name(newest->storage_rc));
	job->reform.clearing_ns = 0;
}

/* Another world takes its state from storage alone: as long as memory has something newer, the arenas stay. */
static bool state_is_safe(struct job *job)
{
	struct step_id id;
	struct err err = {{0}};
	const struct snapshot *newest = saves_in_memory(&job->saves, UINT64_MAX);
	if (!newest || newest->state == SNAPSHOT_DURABLE || newest->state == SNAPSHOT_VERIFIED)
		return true;
	if (saves_busy(&job->saves))
		return false;
	if (!job->reform.flushed && queue_flush(&job->saves, &id, &err))
		log_warn("job %s: %s", job->name, err.text);
	job->reform.flushed = true;
	if (newest->storage_rc)
		refuse(job, newest);
	return false;
}

/* Each has brought its arena, or never will. */
static bool all_back(const struct job *job)
{
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (job->reform.crew.node[r] != CREW_NOBODY && !job->ranks[r].client &&
		    job->ranks[r].state != RANK_LEFT)
			return clock_now() - job->reform.clearing_ns > BACK_NS;
	return true;
}

void reform_tick(struct job *job)
{
	if (job->reform.seat_ns && clock_now() >= job->reform.seat_ns)
		take_seat(job);
	if (!job->reform.clearing_ns || !all_back(job))
		return;
	saves_follow(&job->saves);
	if (state_is_safe(job) && saves_idle(&job->saves) && recover_idle(&job->recover))
		reform(job);
}

/* ---- processes ----------------------------------------------------------------------------------------------------- */

bool reform_tell(struct rank *rank, uint32_t seq, const struct registration *table)
{
	AUTO_WBUF struct wbuf body = {0};
	const struct job *job = rank->job;
	struct wire_moved m = {.rank = rank->id, .world = job->world, .local_world = job->nlocal};
	if (table && table->rank == m.rank && table->world == m.world)
		rank->moved = false;
	if (!rank->moved)
		return false;
	if (wire_moved_encode(&m, &body))
		body.failed = true;
	client_send(rank->client, WIRE_MOVED, seq, &body, NULL, 0);
	return true;
}

void reform_place(struct daemon *daemon, struct wire_hello *hello, int pid)
{
	struct job *job = hello->role == ROLE_RANK ? job_find(daemon, hello->job) : NULL;
	for (uint32_t r = 0; job && r < job->nlocal; r++) {
		struct rank *rank = &job->ranks[r];
		if (rank->pid != pid || rank->greeted || rank->id == RANK_MAX)
			continue;
		if (rank->id == hello->rank && job->world == hello->world)
			return;
		rank->moved = true;
		hello->rank = rank->id;
		hello->world = job->world;
		hello->local_world = job->nlocal;
		return;
	}
}
