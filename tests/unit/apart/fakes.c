#include "fakes.h"

#include "base/clock.h"
#include "base/log.h"
#include "participant/participant.h"
#include "save/saves_private.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

struct fake_replica fake_replica;
struct fake_participant fake_participant;
struct fake_saves fake_saves;
struct fake_coord fake_coord;
static uint64_t skipped_ns;
static int64_t jumped_ns;

void fakes_reset(void)
{
	log_set_level(LOG_ERROR);
	fake_replica = (struct fake_replica){0};
	fake_participant = (struct fake_participant){0};
	fake_saves = (struct fake_saves){0};
	fake_coord = (struct fake_coord){0};
	fake_host = (struct fake_host){0};
	fake_client = (struct fake_client){0};
	fake_registry = (struct fake_registry){0};
}

/* ---- clock ------------------------------------------------------------------------------------------------------ */

void clock_skip(uint64_t ns)
{
	skipped_ns += ns;
}

static uint64_t ns_of(clockid_t which)
{
	struct timespec t;
	clock_gettime(which, &t);
	return (uint64_t)t.tv_sec * CLOCK_NS_PER_S + (uint64_t)t.tv_nsec;
}

uint64_t clock_now(void)
{
	return ns_of(CLOCK_MONOTONIC) + skipped_ns;
}

uint64_t clock_since_boot(void)
{
	return clock_now();
}

uint64_t clock_wall(void)
{
	return ns_of(CLOCK_REALTIME) + skipped_ns + (uint64_t)jumped_ns;
}

void clock_wall_jump(int64_t ahead_ns)
{
	jumped_ns = ahead_ns;
}

int clock_ms_until(uint64_t deadline)
{
	uint64_t now = clock_now();
	return deadline > now ? (int)((deadline - now + CLOCK_NS_PER_MS - 1) / CLOCK_NS_PER_MS) : 0;
}

uint64_t clock_deadline(uint64_t ns)
{
	uint64_t now = clock_now();
	return ns > UINT64_MAX - now ? UINT64_MAX : now + ns;
}

/* ---- replica ---------------------------------------------------------------------------------------------------- */

int replica_send(struct replica *r, const struct replica_send *what)
{
	(void)r;
	if (fake_replica.send_rc)
		return fake_replica.send_rc;
	cr_assert(fake_replica.nsends < FAKE_SENDS);
	fake_replica.sends[fake_replica.nsends++] = *what;
	return 0;
}

void fake_sent(uint32_t rank, int rc, const char *text)
{
	unsigned i = fake_replica.nsends;
	while (i && fake_replica.sends[i - 1].rank != rank)
		i--;
	cr_assert(i, "nothing of rank %u was sent", rank);
	const struct replica_send what = fake_replica.sends[i - 1];
	struct replica_sent sent = {.job = what.job, .rank = rank, .id = what.id, .wanted = 1, .held = !rc, .rc = rc};
	snprintf(sent.err.text, sizeof(sent.err.text), "%s", text);
	if (!rc)
		fake_replica.whole |= 1ull << rank;
	what.done(what.arg, &sent);
}

bool replica_whole(const struct replica *r, const char *job, uint32_t rank, struct step_id id)
{
	(void)r;
	(void)job;
	(void)id;
	return fake_replica.whole & 1ull << rank;
}

void replica_end(struct replica *r, const char *job)
{
	(void)r;
	(void)job;
	fake_replica.ends++;
}

void replica_leave(struct replica *r, const char *job)
{
	(void)r;
	(void)job;
	fake_replica.leaves++;
}

int replica_keep(struct replica *r, const char *job, struct memory *mem, const struct step_id *ids)
{
	(void)r;
	(void)job;
	(void)mem;
	(void)ids;
	return 0;
}

uint64_t replica_kept(const struct replica *r)
{
	(void)r;
	return 0;
}

void replica_epoch(struct replica *r, const char *job, uint32_t epoch)
{
	(void)r;
	(void)job;
	(void)epoch;
	fake_replica.epochs++;
}

void replica_forget(struct replica *r, const char *job, struct step_id before)
{
	(void)r;
	(void)job;
	fake_replica.forgets++;
	fake_replica.forgotten = before;
}

/* ---- participant ------------------------------------------------------------------------------------------------------- */

void participant_uncopied(const struct job *job, struct step_id id, const char *why)
{
	(void)job;
	(void)why;
	fake_participant.uncopied++;
	fake_participant.id = id;
}

void participant_reached(const struct job *job, struct step_id id, enum level_shown level)
{
	(void)job;
	fake_participant.reached++;
	fake_participant.id = id;
	fake_participant.level = level;
}

/* ---- job, saves, recover ---------------------------------------------------------------------------------------- */

bool job_finished(const struct job *job)
{
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (job->ranks[r].state != RANK_LEFT)
			return false;
	return job->nlocal;
}

struct job *job_find(struct jobs *jobs, const char *name)
{
	(void)jobs;
	return fake_saves.job && !strcmp(fake_saves.job->name, name) ? fake_saves.job : NULL;
}

struct rank *job_rank(const struct job *job, uint32_t id)
{
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (job->ranks[r].id == id)
			return &job->ranks[r];
	return NULL;
}

struct snapshot *saves_find(struct saves *saves, struct step_id id)
{
	struct snapshot *s = fake_saves.snapshot;
	(void)saves;
	return s && !step_compare(s->id, id) ? s : NULL;
}

bool snapshot_in_memory(const struct snapshot *s)
{
	return s == fake_saves.snapshot;
}

bool restore_idle(const struct restore *restore)
{
	return restore->state == RESTORE_IDLE;
}

/* ---- coordinator ------------------------------------------------------------------------------------------------ */

void coord_made(struct coord *c, struct step_id id, bool found)
{
	(void)c;
	(void)id;
	fake_coord.made++;
	fake_coord.found = found;
}

void coord_sealed(struct coord *c, struct step_id id)
{
	(void)c;
	(void)id;
	fake_coord.sealed++;
}

void coord_spoiled(struct coord *c, struct step_id id, int rc, const char *text)
{
	(void)c;
	(void)id;
	fake_coord.spoiled++;
	fake_coord.rc = rc;
	snprintf(fake_coord.text, sizeof(fake_coord.text), "%s", text);
}

void coord_left(struct coord *c, struct step_id id, bool kept)
{
	(void)c;
	(void)id;
	fake_coord.left++;
	fake_coord.kept = kept;
}
