#include "job/job.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "checkpoint/room.h"
#include "job/jobs.h"
#include "job/participation.h"
#include "job/rank/barriers.h"
#include "job/rank/job_former.h"
#include "job/rank/rank.h"
#include "job/recovery_notes.h"
#include "job/restoring.h"
#include "job/saving.h"
#include "participant/room.h"
#include "replication/room.h"

#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { JOBS_MAX = 64 };

struct job *job_find(struct jobs *jobs, const char *name)
{
	list_for(node, &jobs->list) {
		struct job *job = list_entry(node, struct job, link);
		if (!strcmp(job->name, name))
			return job;
	}
	return NULL;
}

struct rank *job_rank(const struct job *job, uint32_t id)
{
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (job->ranks[r].id == id)
			return &job->ranks[r];
	return NULL;
}

struct rank *job_claim(struct job *job, uint32_t id)
{
	struct rank *rank = job_rank(job, id);
	if (!rank && id < job->world)
		rank = job_rank(job, RANK_MAX);
	if (rank)
		rank->id = id;
	return rank;
}

/* ---- life ------------------------------------------------------------------------------------------------------ */

static void init_ranks(struct job *job)
{
	for (uint32_t r = 0; r < job->nlocal; r++)
		job->ranks[r] = (struct rank){
			.job = job, .id = job->spread ? RANK_MAX : r, .index = r, .pidfd = -1, .doorbell = -1};
}

static unsigned job_count(const struct jobs *jobs)
{
	unsigned n = 0;
	list_for(node, &jobs->list)
		n++;
	return n;
}

/* A client that does not say has all of them. */
static uint32_t local_world(const struct wire_hello *hello)
{
	return hello->local_world ? hello->local_world : hello->world;
}

static bool is_spread(const struct wire_hello *hello)
{
	return hello->spread || local_world(hello) < hello->world;
}

/* A launcher that does not know which ranks are to be here: none, until there is a plan (job/resize.h). */
static bool awaits_plan(const struct wire_hello *hello)
{
	return hello->role == ROLE_LAUNCHER && !hello->world;
}

/* It may have run on this node alone: its coordinator was here, and no other has heard of its epochs. */
static uint32_t known_of_copies(const struct jobs *jobs, const char *job)
{
	return jobs->peers->replica ? replica_known_epoch(jobs->peers->replica, job) : 0;
}

static int job_new(struct jobs *jobs, const struct wire_hello *hello, struct job **out, struct err *err)
{
	if (job_count(jobs) >= JOBS_MAX)
		return err_set(err, -EBUSY, "job '%s': this daemon has %d jobs already", hello->job, JOBS_MAX);
	struct job *job = calloc(1, sizeof(*job));
	if (job)
		job->ranks = calloc(local_world(hello) ? local_world(hello) : 1, sizeof(*job->ranks));
	if (!job || !job->ranks) {
		free(job);
		return err_set(err, -ENOMEM, "no memory for job '%s'", hello->job);
	}
	snprintf(job->name, sizeof(job->name), "%s", hello->job);
	jobs_lend(jobs, job);
	job->world = hello->world;
	job->nlocal = local_world(hello);
	job->spread = is_spread(hello);
	job->known = job->spread ? (uint32_t)max_u64(hello->epoch, known_of_copies(jobs, hello->job)) : 0;
	job->returning_ns = job->spread && hello->epoch ? clock_now() : 0;
	job->nslots = ARENA_SLOTS_MIN;
	job->fresh = true;
	job->dormant_ns = clock_now();
	sources_fill(jobs->runtime->sources, SCOPE_JOB, job->name, &job->policy);
	init_ranks(job);
	job_init_saves(job);
	copying_init(job);
	job_init_restore(job);
	job_init_marks(job);
	job_init_recoveries(job);
	job->linked = job->spread && coordinator_in_reach(jobs->control, job->name);
	job->linked_term = coordinator_term(jobs->control, job->name);
	list_push(&jobs->list, &job->link);
	int rc = job->nlocal ? participation_take(job, hello->plan, err) : 0;
	if (rc) {
		list_remove(&job->link);
		free(job->ranks);
		free(job);
		return rc;
	}
	former_give(job, former_unpark(&jobs->formers, job->name, job->world, job->nlocal, job->spread));
	if (job->former)
		participation_knows(job, WITNESS_ARENA, former_epoch(job->former));
	/* On another node its round could hold the lock of the job just when the coordinator wants to take it. */
	if (!job->spread || host_here(jobs->control, job->name))
		gc_want(jobs->storage->gc, job->name, &job->policy);
	if (!job->world)
		log_info("job %s: its launcher waits for a plan", job->name);
	else if (job->spread)
		log_info("job %s: world size %u, %u ranks here", job->name, job->world, job->nlocal);
	else
		log_info("job %s: world size %u, epoch %u", job->name, job->world, job->epoch);
	*out = job;
	return 0;
}

uint64_t job_memory(const struct job *job)
{
	uint64_t bytes = 0;
	for (uint32_t r = 0; r < job->nlocal; r++)
		bytes += job->ranks[r].mem ? job->ranks[r].mem->size : 0;
	return bytes;
}

bool job_finished(const struct job *job)
{
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (job->ranks[r].state != RANK_LEFT)
			return false;
	return job->nlocal;
}

static void release(struct job *job, bool comes_again)
{
	former_park(&job->jobs->formers, job->former);
	job->former = NULL;
	job->runtime->memory.arenas -= job_memory(job);
	save_stats_end(&job->save_stats, NULL);
	recoveries_end(&job->recovery_log);
	recoveries_free(&job->recovery_log);
	copying_end(job);
	saves_free(&job->saves);
	for (uint32_t r = 0; r < job->nlocal; r++)
		rank_end(&job->ranks[r]);
	list_remove(&job->link);
	if (job->nlocal)
		participation_leave(job, comes_again);
	free(job->ranks);
	free(job);
}

void job_free(struct job *job)
{
	release(job, false);
}

/* ---- hello ----------------------------------------------------------------------------------------------------- */

bool job_alive(const struct job *job)
{
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (job->ranks[r].pid || job->ranks[r].client)
			return true;
	return job->launcher != NULL;
}

static int check_hello(const struct jobs *jobs, const struct wire_hello *hello, struct err *err)
{
	if (local_world(hello) > WIRE_LOCAL_MAX)
		return err_set(err, -EINVAL, "job '%s': %u ranks on one node, at most %d are supported", hello->job,
			       local_world(hello), WIRE_LOCAL_MAX);
	if (is_spread(hello) && !jobs->peers->roster)
		return err_set(err, -EOPNOTSUPP,
			       "job '%s' has %u ranks, %u of them on this node, and this ckptd is in no cluster: set "
			       "cluster and cluster-key in its section [node], on all nodes",
			       hello->job, hello->world, hello->local_world);
	if (hello->role == ROLE_RANK && hello->rank >= hello->world)
		return err_set(err, -EINVAL, "rank %u of a world of %u", hello->rank, hello->world);
	return 0;
}

static bool has_shape(const struct job *job, const struct wire_hello *hello)
{
	return job->world == hello->world && job->nlocal == local_world(hello);
}

/* After a restart of the daemon its processes may come before the launcher, as what they were
 * before a plan of which they have not heard. The launcher follows it, and its word counts; unless that job is at work. */
static bool is_outdated(const struct job *job, const struct wire_hello *hello)
{
	return hello->plan && !job->resize.plan && !job->launcher && !job->entered && !has_shape(job, hello);
}

/* They come again, and are told who they are, or are on their way out. */
static void end_sessions(struct job *job)
{
	for (uint32_t r = 0; r < job->nlocal; r++) {
		if (job->ranks[r].mem)
			memory_retire(job->ranks[r].mem);
		if (job->ranks[r].client)
			client_detach(job->ranks[r].client);
	}
}

/* Old arenas and new ones of the same state. */
static bool has_room_twice(const struct job *job)
{
	const struct runtime *runtime = job->runtime;
	uint64_t more = former_bytes(job), limit = job->policy.memory_limit;
	return runtime->memory.arenas + runtime->memory.tables + runtime->memory.copies + more <=
		       runtime->config.memory_limit &&
	       (!limit || more <= limit / 2);
}

/* What the ranks of one node have left is read by others of that node, as long as both find room; else it is written first. What is on
 * several nodes is of no use for another world but on storage. */
static int make_way(struct job *job, const struct wire_hello *hello, struct err *err)
{
	struct err why = {{0}};
	bool apart = job->spread || is_spread(hello);
	int rc = former_ready(job, err);
	if (rc || (!apart && has_room_twice(job)))
		return rc;
	rc = former_store(job, &why);
	if (rc == -EAGAIN)
		return err_set(err, rc, "%s", why.text);
	if (!rc || !apart)
		return 0;
	const struct snapshot *newest = saves_in_memory(&job->saves, UINT64_MAX);
	return err_set(
		err, -EBUSY,
		"job '%s': step %lu of epoch %u is in the memory of its %u ranks only (%u of them here), where %u "
		"ranks cannot read it, and is not on storage: %s. It is kept for %lu s; start %u ranks, or take "
		"another name",
		job->name, (unsigned long)newest->id.step, newest->id.epoch, job->world, job->nlocal, hello->world,
		why.text, (unsigned long)(job->policy.linger_ms / 1000), job->world);
}

/* Those that come do not fit the arenas. */
static int replace_job(struct job *job, const struct wire_hello *hello, bool outdated, struct err *err)
{
	struct jobs *jobs = job->jobs;
	struct former *former = NULL;
	int rc = outdated ? 0 : make_way(job, hello, err);
	if (!rc && !outdated && !job->spread)
		rc = former_take(job, &former, err);
	if (rc)
		return rc;
	log_info("job %s: world size changes from %u (%u here) to %u (%u here)", job->name, job->world, job->nlocal,
		 hello->world, local_world(hello));
	end_sessions(job);
	release(job, outdated);
	former_park(&jobs->formers, former);
	return 0;
}

/* A job whose processes are all gone may come back with another world size. */
static int get_job(struct jobs *jobs, const struct wire_hello *hello, struct job **out, struct err *err)
{
	struct job *job = job_find(jobs, hello->job);
	int rc = 0;
	bool outdated = job && is_outdated(job, hello);
	if (job && awaits_plan(hello) && !outdated) { /* as it is, or what is left of it */
		*out = job;
		return 0;
	}
	if (job && !has_shape(job, hello)) {
		bool alive = job_alive(job) && !outdated;
		if (alive || !job_idle(job))
			return err_set(err, alive ? -EBUSY : -EAGAIN,
				       "job '%s' runs with world size %u, %u of them here; world size %u, %u of them "
				       "here, must wait until it has ended",
				       job->name, job->world, job->nlocal, hello->world, local_world(hello));
		rc = replace_job(job, hello, outdated, err);
		if (rc)
			return rc;
		job = NULL;
	}
	if (!job)
		rc = former_allows(&jobs->formers, hello, is_spread(hello), err);
	if (!job && !rc)
		rc = job_new(jobs, hello, &job, err);
	if (!rc)
		*out = job;
	return rc;
}

int job_retake(struct jobs *jobs, const struct wire_hello *hello, int fd, struct err *err)
{
	struct job *job = NULL;
	int rc = check_hello(jobs, hello, err);
	if (!rc)
		rc = get_job(jobs, hello, &job, err);
	if (!rc)
		return job_return(job, hello->rank, fd, err);
	close(fd);
	return rc;
}

static int hello_rank(struct job *job, struct client *client, const struct wire_hello *hello, pid_t pid,
		      struct rank **out, struct err *err)
{
	if (resize_let_go(job, pid))
		return err_set(err, -EBUSY, "%s has no rank of job '%s' any more: its world has changed",
			       process_text(pid).text, job->name);
	struct rank *rank = job_claim(job, hello->rank);
	if (!rank)
		return err_set(err, -EBUSY,
			       "rank %u of job '%s' is one too many: %u of its ranks are on this node already",
			       hello->rank, job->name, job->nlocal);
	/* What the launcher started may be a script whose child is the rank. */
	if (rank->client || (rank->pid && rank->pid != pid && rank->hello_received))
		return err_set(err, rank->pid && process_is_dying(rank->pid) ? -EAGAIN : -EBUSY,
			       "rank %u of job '%s' is held by %s", rank->id, job->name, process_text(rank->pid).text);
	if (rank->pid != pid)
		rank_watch(rank, pid, pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1);
	rank->client = client;
	rank->hello_received = true;
	rank->failed = false;
	rank->seen_ns = clock_now();
	rank->rejoined = rank->was_in = hello->epoch != 0;
	if (!rank->rejoined || rank->state == RANK_LEFT)
		member_forget_table(rank);
	rank->resumed = hello->epoch && hello->epoch == job->epoch && rank->state != RANK_LEFT;
	rank->state = RANK_CONNECTED;
	rank->hung = false;
	if (hello->slots > job->nslots && hello->slots <= ARENA_SLOTS_MAX)
		job->nslots = hello->slots;
	*out = rank;
	return 0;
}

/* Nobody is left of those who were asked to end, be it in an earlier incarnation of this daemon: then the arenas that it took
 * back say so. Where others of a job that is spread still are to, that is known where it is coordinated, and told to who
 * joins. */
static void begin_again(struct job *job)
{
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (job->ranks[r].mem)
			memory_set_stop(job->ranks[r].mem, false);
	if (!job->stop && !job->halt.later.kind && !job->halt.due)
		return;
	log_info("job %s: it begins again: that it was asked to end is over with those who were asked", job->name);
	job->stop = false;
	job->halt = (struct halt){0};
	if (job->spread && job->nlocal)
		participation_join(job);
}

static int hello_job(struct job *job, struct client *client, const struct wire_hello *hello, pid_t pid,
		     struct job **out, struct rank **rank, struct err *err)
{
	int rc = 0;
	bool again = !job_alive(job), known = halt_may_be_known(job);
	participation_knows(job, hello->role == ROLE_RANK ? WITNESS_RANK : WITNESS_OTHER, hello->epoch);
	if (job->fresh && job->epoch > EPOCH_MAX)
		return err_set(err, -EINVAL,
			       "job '%s' has used up its %u epochs in this store: choose another name or another store",
			       job->name, EPOCH_MAX);
	*out = job;
	if (hello->role == ROLE_LAUNCHER) {
		if (job->launcher)
			return err_set(err, -EBUSY, "job '%s' has a launcher already", job->name);
		job->launcher = client;
		job->halt.launcher_was_there = hello->epoch != 0;
		finish_greet(job);
	} else {
		rc = hello_rank(job, client, hello, pid, rank, err);
	}
	if (!rc && again && !hello->epoch)
		begin_again(job);
	/* Who knows an epoch was at work before this daemon was, and may have been asked. */
	if (!rc && job->spread && !known && halt_may_be_known(job))
		participation_join(job);
	if (!rc) {
		job->dormant_ns = 0;
		job->yields = false;
		job->over = 0;
	}
	return rc;
}

int job_hello(struct jobs *jobs, struct client *client, const struct wire_hello *said, pid_t pid, struct job **out,
	      struct rank **rank, struct err *err)
{
	struct wire_hello place = *said;
	struct job *job = NULL;
	*rank = NULL;
	resize_place(jobs, &place, pid);
	int rc = check_hello(jobs, &place, err);
	if (!rc)
		rc = get_job(jobs, &place, &job, err);
	if (rc)
		return rc;
	return hello_job(job, client, &place, pid, out, rank, err);
}
