#include "seat.h"

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "catalog.h"
#include "daemon.h"
#include "member.h"

/* ---- epochs ---------------------------------------------------------------------------------------------------- */

static void persist(void *arg, uint32_t epoch)
{
	struct job *job = arg;
	catalog_epoch(job->daemon->catalog, job->name, epoch);
}

static void adopt(void *arg, uint32_t node, uint32_t epoch, bool resumed)
{
	struct job *job = arg;
	(void)node;
	job->epoch = epoch;
	if (resumed)
		job->resumed_ns = clock_now();
}

static void freeze(struct job *job)
{
	copies_epoch(&job->copies);
	/* Arenas first: from here on no rank of the old epoch gets anything promoted, whatever it is doing. */
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (job->ranks[r].mem)
			memory_set_epoch(job->ranks[r].mem, job->epoch);
	saves_follow(&job->saves);
	saves_poison(&job->saves, job->epoch);
	recover_cancel(&job->recover);
}

static void raise_epoch(void *arg, uint32_t node, uint32_t epoch, const char *reason)
{
	struct job *job = arg;
	(void)node;
	job->epoch = epoch;
	job->fresh = false;
	failpoint("job.raise", NULL);
	freeze(job);
	measures_raise(job, job->lost_beat_ns, reason);
	job->lost_beat_ns = 0;
	log_warn("job %s: epoch %u: %s", job->name, job->epoch, reason);
	for (uint32_t r = 0; r < job->nlocal; r++) {
		struct rank *rank = &job->ranks[r];
		if (rank->state == RANK_JOINED)
			rank->state = RANK_REGISTERED;
		rank->resumed = false;
		if (rank->restoring.seq)
			member_refuse(rank, &rank->restoring, -ESTALE, "%s", reason);
	}
	job->resumed_ns = 0;
	member_tell_epoch(job, reason);
}

static void tell(void *arg, uint32_t node, uint32_t rank, const char *reason)
{
	struct job *job = arg;
	(void)node;
	log_warn("job %s: rank %u is gone before the job began: %s", job->name, rank, reason);
	job->lost_beat_ns = 0;
	member_tell_epoch(job, reason);
}

static void joined(void *arg, uint32_t node, const struct wire_joined *m)
{
	(void)node;
	member_joined(arg, m);
}

/* ---- restore --------------------------------------------------------------------------------------------------- */

static void look(void *arg, uint32_t node, uint64_t step)
{
	struct job *job = arg;
	(void)node;
	recover_look(&job->recover, step);
}

static void fetch(void *arg, uint32_t node, const struct coord_choice *choice)
{
	struct job *job = arg;
	(void)node;
	recover_fetch(&job->recover, choice);
}

static void restored(void *arg, uint32_t node, const struct coord_choice *choice)
{
	struct job *job = arg;
	(void)node;
	recover_finish(&job->recover, choice);
}

static void refuse(void *arg, uint32_t node, int rc, const char *text, const char *why)
{
	struct job *job = arg;
	(void)node;
	recover_refuse(&job->recover, rc, text, why);
}

/* ---- saves ----------------------------------------------------------------------------------------------------- */

static void level(void *arg, uint32_t node, struct step_id id, enum level_shown is)
{
	struct job *job = arg;
	(void)node;
	saves_level(&job->saves, id, is);
}

static void fail(void *arg, uint32_t node, struct step_id id, int rc, const char *text)
{
	struct job *job = arg;
	(void)node;
	saves_fail(&job->saves, id, rc, text);
}

static void copy(void *arg, uint32_t node, struct step_id id)
{
	struct job *job = arg;
	(void)node;
	copies_order(&job->copies, id);
}

static void seal(void *arg, uint32_t node, struct step_id id, const struct wbuf *manifest)
{
	struct job *job = arg;
	(void)node;
	saves_seal(&job->saves, id, manifest);
}

int seat_take(struct job *job, uint32_t epoch)
{
	job->epoch = epoch;
	job->orders = (struct coord_orders){.arg = job,
					    .persist = persist,
					    .adopt = adopt,
					    .raise = raise_epoch,
					    .tell = tell,
					    .joined = joined,
					    .look = look,
					    .fetch = fetch,
					    .restored = restored,
					    .refuse = refuse,
					    .level = level,
					    .fail = fail,
					    .copy = copy,
					    .seal = seal};
	int rc = coord_new(job->name, job->world, 1, epoch, &job->orders, &job->coord);
	if (!rc)
		coord_attend(job->coord, 0, job->nlocal);
	return rc;
}
