#include "job.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "catalog.h"
#include "daemon.h"
#include "gc.h"
#include "loop.h"
#include "member.h"
#include "process.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

/* How long resumed ranks wait, after a restart of the daemon, for one that does not come back; and how long a rank that has
 * lost its connection but not its life may take to come back. */
#define RESUME_GRACE_NS (5 * CLOCK_NS_PER_S)

enum { JOBS_MAX = 64 };

const char *rank_state_name(enum rank_state state)
{
	static const char *const names[] = {"absent", "connected", "registered", "joined", "left"};
	return state < sizeof(names) / sizeof(names[0]) ? names[state] : "?";
}

struct job *job_find(struct daemon *daemon, const char *name)
{
	list_for(node, &daemon->jobs) {
		struct job *job = list_entry(node, struct job, link);
		if (!strcmp(job->name, name))
			return job;
	}
	return NULL;
}

/* ---- life ------------------------------------------------------------------------------------------------------ */

static void init_ranks(struct job *job)
{
	for (uint32_t r = 0; r < job->world; r++)
		job->ranks[r] = (struct rank){.job = job, .id = r, .pidfd = -1, .doorbell = -1};
}

static unsigned job_count(const struct daemon *daemon)
{
	unsigned n = 0;
	list_for(node, &daemon->jobs)
		n++;
	return n;
}

static int job_new(struct daemon *daemon, const struct wire_hello *hello, struct job **out, struct err *err)
{
	uint32_t epoch;
	if (job_count(daemon) >= JOBS_MAX)
		return err_set(err, -EBUSY, "job '%s': this daemon has %d jobs already", hello->job, JOBS_MAX);
	int rc = member_first_epoch(daemon, hello->job, &epoch, err);
	if (rc)
		return err_prefix(err, rc, "job '%s': no epoch can be chosen", hello->job);
	struct job *job = calloc(1, sizeof(*job));
	if (job)
		job->ranks = calloc(hello->world, sizeof(*job->ranks));
	if (!job || !job->ranks) {
		free(job);
		return err_set(err, -ENOMEM, "no memory for job '%s'", hello->job);
	}
	job->daemon = daemon;
	job->world = hello->world;
	job->nslots = ARENA_SLOTS_MIN;
	job->fresh = true;
	job->epoch = epoch;
	job->dormant_ns = clock_now();
	snprintf(job->name, sizeof(job->name), "%s", hello->job);
	sources_fill(daemon->sources, SCOPE_JOB, job->name, &job->policy);
	init_ranks(job);
	saves_init(&job->saves, daemon, job);
	recover_init(&job->recover, job);
	list_push(&daemon->jobs, &job->link);
	gc_want(daemon->gc, job);
	log_info("job %s: world size %u, epoch %u", job->name, job->world, job->epoch);
	*out = job;
	return 0;
}

static void forget_process(struct rank *rank)
{
	watch_remove(rank->pid_watch);
	rank->pid_watch = NULL;
	if (rank->pidfd >= 0)
		close(rank->pidfd);
	rank->pidfd = -1;
	rank->pid = 0;
	rank->greeted = false;
}

static void free_rank(struct rank *rank)
{
	forget_process(rank);
	watch_remove(rank->doorbell_watch);
	if (rank->doorbell >= 0)
		close(rank->doorbell);
	table_put(rank->table);
	rank->job->daemon->tables_used -= rank->table_bytes;
	job_drop_arena(rank);
	memory_put(rank->mem);
}

uint64_t job_memory(const struct job *job)
{
	uint64_t bytes = 0;
	for (uint32_t r = 0; r < job->world; r++)
		bytes += job->ranks[r].mem ? job->ranks[r].mem->size : 0;
	return bytes;
}

void job_free(struct job *job)
{
	job->daemon->memory_used -= job_memory(job);
	measures_end(job, NULL);
	saves_free(&job->saves);
	for (uint32_t r = 0; r < job->world; r++)
		free_rank(&job->ranks[r]);
	list_remove(&job->link);
	free(job->ranks);
	free(job);
}

/* ---- hello ----------------------------------------------------------------------------------------------------- */

static bool job_alive(const struct job *job)
{
	for (uint32_t r = 0; r < job->world; r++)
		if (job->ranks[r].pid || job->ranks[r].client)
			return true;
	return job->launcher != NULL;
}

static int check_hello(const struct wire_hello *hello, struct err *err)
{
	if (hello->world > WIRE_LOCAL_MAX)
		return err_set(err, -EINVAL, "job '%s': %u ranks on one node, at most %d are supported", hello->job,
			       hello->world, WIRE_LOCAL_MAX);
	if (hello->local_world && hello->local_world != hello->world)
		return err_set(
			err, -EOPNOTSUPP,
			"job '%s' has %u ranks, %u of them on this node: this version of ckptd serves jobs whose "
			"ranks are all on one node",
			hello->job, hello->world, hello->local_world);
	if (hello->role == ROLE_RANK && hello->rank >= hello->world)
		return err_set(err, -EINVAL, "rank %u of a world of %u", hello->rank, hello->world);
	return 0;
}

/* A job whose processes are all gone may come back with another world size: its arenas are of no use then, storage is. */
static int get_job(struct daemon *daemon, const struct wire_hello *hello, struct job **out, struct err *err)
{
	struct job *job = job_find(daemon, hello->job);
	if (job && job->world != hello->world) {
		if (job_alive(job) || !saves_idle(&job->saves) || !recover_idle(&job->recover))
			return err_set(err, job_alive(job) ? -EBUSY : -EAGAIN,
				       "job '%s' runs with world size %u; world size %u must wait until it has ended",
				       job->name, job->world, hello->world);
		log_info("job %s: world size changes from %u to %u", job->name, job->world, hello->world);
		job_free(job);
		job = NULL;
	}
	int rc = job ? 0 : job_new(daemon, hello, &job, err);
	if (!rc)
		*out = job;
	return rc;
}

int job_retake(struct daemon *daemon, const struct wire_hello *hello, int fd, struct err *err)
{
	struct job *job = NULL;
	int rc = check_hello(hello, err);
	if (!rc)
		rc = get_job(daemon, hello, &job, err);
	if (!rc)
		return job_return(job, hello->rank, fd, err);
	close(fd);
	return rc;
}

/* Nobody speaks for the rank and nothing writes to its slots any more, even if a child of the process still holds the socket. */
static void process_gone(struct rank *rank)
{
	forget_process(rank);
	if (rank->client)
		client_detach(rank->client);
	rank->client = NULL;
	saves_follow(&rank->job->saves); /* what was complete when it died is taken */
	saves_orphan(&rank->job->saves, rank->id);
}

static void process_died(void *arg, uint32_t events)
{
	struct rank *rank = arg;
	(void)events;
	pid_t pid = rank->pid;
	process_gone(rank);
	job_rank_lost(rank, "its process %d has died", (int)pid);
}

/* pidfd taken over. Without one (very old kernels) the end of the connection tells of the death. */
static void watch_process(struct rank *rank, pid_t pid, int pidfd)
{
	forget_process(rank);
	rank->pid = pid;
	rank->pidfd = pidfd;
	if (pidfd >= 0)
		rank->pid_watch = loop_watch(rank->job->daemon->loop, pidfd, EPOLLIN, process_died, rank);
	if (pidfd >= 0 && !rank->pid_watch) { /* not a pidfd, or no memory: the end of the connection must do */
		close(pidfd);
		rank->pidfd = -1;
	}
}

/* After a restart of the daemon its clients know the epoch better than the store does. A rank that is in the last epoch that was
 * given out goes on in it; whoever else knows of one proves only that it must not be given out again. */
static void resume_epoch(struct job *job, const struct wire_hello *hello)
{
	if (!job->fresh || !hello->epoch || hello->epoch > EPOCH_MAX)
		return;
	if (hello->role == ROLE_RANK && !job->resumed_ns && hello->epoch + 1 >= job->epoch) {
		job->epoch = job->entered = hello->epoch;
		job->resumed_ns = clock_now();
	}
	if (!job->resumed_ns)
		member_skip_epoch(job, hello->epoch);
}

static int hello_rank(struct job *job, struct client *client, const struct wire_hello *hello, pid_t pid,
		      struct rank **out, struct err *err)
{
	struct rank *rank = &job->ranks[hello->rank];
	/* What the launcher started may be a script whose child is the rank. */
	if (rank->client || (rank->pid && rank->pid != pid && rank->greeted))
		return err_set(err, rank->pid && process_is_dying(rank->pid) ? -EAGAIN : -EBUSY,
			       "rank %u of job '%s' is held by process %d", rank->id, job->name, (int)rank->pid);
	if (rank->pid != pid)
		watch_process(rank, pid, (int)syscall(SYS_pidfd_open, pid, 0));
	rank->client = client;
	rank->greeted = true;
	rank->seen_ns = clock_now();
	rank->veteran = hello->epoch != 0;
	if (!rank->veteran || rank->state == RANK_LEFT)
		member_forget_table(rank);
	rank->resumed = hello->epoch && hello->epoch == job->epoch && rank->state != RANK_LEFT;
	rank->state = RANK_CONNECTED;
	rank->hung = false;
	if (hello->slots > job->nslots && hello->slots <= ARENA_SLOTS_MAX)
		job->nslots = hello->slots;
	*out = rank;
	return 0;
}

int job_hello(struct daemon *daemon, struct client *client, const struct wire_hello *hello, pid_t pid, struct job **out,
	      struct rank **rank, struct err *err)
{
	struct job *job = NULL;
	*rank = NULL;
	int rc = check_hello(hello, err);
	if (!rc)
		rc = get_job(daemon, hello, &job, err);
	if (rc)
		return rc;
	resume_epoch(job, hello);
	if (job->fresh && job->epoch > EPOCH_MAX)
		return err_set(err, -EINVAL,
			       "job '%s' has used up its %u epochs in this store: choose another name or another store",
			       job->name, EPOCH_MAX);
	*out = job;
	if (hello->role == ROLE_LAUNCHER) {
		if (job->launcher)
			return err_set(err, -EBUSY, "job '%s' has a launcher already", job->name);
		job->launcher = client;
	} else {
		rc = hello_rank(job, client, hello, pid, rank, err);
	}
	if (!rc)
		job->dormant_ns = 0;
	return rc;
}

/* ---- loss ------------------------------------------------------------------------------------------------------ */

void job_disconnected(struct job *job, struct rank *rank)
{
	if (!rank) {
		job->launcher = NULL;
		return;
	}
	rank->client = NULL;
	rank->seen_ns = clock_now();
	rank->registering = rank->joining = rank->restoring = (struct waiting){0};
	if (rank->pidfd < 0) {
		process_gone(rank);
		job_rank_lost(rank, "its connection has ended");
	}
}

void job_rank_lost(struct rank *rank, const char *fmt, ...)
{
	struct job *job = rank->job;
	char why[WIRE_TEXT_MAX];
	enum rank_state was = rank->state;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	rank->registering = rank->joining = rank->restoring = (struct waiting){0};
	if (was == RANK_ABSENT || was == RANK_LEFT) {
		saves_follow(&job->saves);
		return; /* it had finished, or never began */
	}
	rank->state = RANK_ABSENT;
	rank->resumed = false;
	member_forget_table(rank);
	catalog_event(job->daemon->catalog, job->name, (struct step_id){.epoch = job->epoch}, "rank-lost", why);
	if (job->fresh && was != RANK_JOINED) {
		log_warn("job %s: rank %u is gone before the job began: %s", job->name, rank->id, why);
		member_tell_epoch(job, why);
		return;
	}
	job->lost_beat_ns = rank->mem ? atomic_load(&rank->mem->head->flight.beat_ns) : 0;
	job_raise(job, "rank %u is lost: %s", rank->id, why);
}

void job_raise(struct job *job, const char *fmt, ...)
{
	char reason[WIRE_TEXT_MAX];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(reason, sizeof(reason), fmt, ap);
	va_end(ap);
	job->epoch++;
	job->fresh = false;
	failpoint("job.raise", NULL);
	/* Arenas first: from here on no rank of the old epoch gets anything promoted, whatever it is doing. */
	for (uint32_t r = 0; r < job->world; r++)
		if (job->ranks[r].mem)
			memory_set_epoch(job->ranks[r].mem, job->epoch);
	saves_follow(&job->saves);
	saves_poison(&job->saves, job->epoch);
	recover_cancel(&job->recover);
	catalog_epoch(job->daemon->catalog, job->name, job->epoch);
	measures_raise(job, job->lost_beat_ns, reason);
	job->lost_beat_ns = 0;
	log_warn("job %s: epoch %u: %s", job->name, job->epoch, reason);
	for (uint32_t r = 0; r < job->world; r++) {
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

/* ---- the launcher's word --------------------------------------------------------------------------------------- */

void job_spawned(struct job *job, uint32_t id, pid_t pid, int pidfd)
{
	struct rank *rank = id < job->world ? &job->ranks[id] : NULL;
	if (!rank || rank->pid) {
		if (pidfd >= 0)
			close(pidfd);
		return;
	}
	watch_process(rank, pid, pidfd);
	rank->seen_ns = clock_now();
}

void job_exited(struct job *job, uint32_t id, pid_t pid, int status)
{
	struct rank *rank = id < job->world ? &job->ranks[id] : NULL;
	if (!rank || rank->pid != pid)
		return;
	process_gone(rank);
	job_rank_lost(rank, "the launcher saw process %d end with wait status %d", (int)pid, status);
}

void job_stop(struct job *job)
{
	job->stop = true;
	log_info("job %s: asked to stop", job->name);
	for (uint32_t r = 0; r < job->world; r++)
		if (job->ranks[r].mem)
			memory_set_stop(job->ranks[r].mem);
}

/* ---- time ------------------------------------------------------------------------------------------------------ */

static void watch_hang(struct rank *rank, uint64_t now)
{
	uint64_t limit = rank->job->policy.hang_timeout_ms * CLOCK_NS_PER_MS;
	if (!limit || rank->state != RANK_JOINED || !rank->mem)
		return;
	struct arena_flight *flight = &rank->mem->head->flight;
	uint64_t beat = atomic_load(&flight->beat_ns);
	bool hung = beat && beat < now && now - beat > limit;
	if (hung && !rank->hung)
		log_warn("job %s: rank %u hangs: no heartbeat for %.1f s, last at step %lu, phase %u%s%.15s",
			 rank->job->name, rank->id, (double)(now - beat) / 1e9,
			 (unsigned long)atomic_load(&flight->step), atomic_load(&flight->phase),
			 atomic_load(&flight->in_collective) ? ", in collective " : "",
			 atomic_load(&flight->in_collective) ? flight->coll_op : "");
	rank->hung = hung;
}

static void watch_missing(struct job *job, uint64_t now)
{
	for (uint32_t r = 0; r < job->world; r++) {
		struct rank *rank = &job->ranks[r];
		if (rank->client || rank->state == RANK_LEFT)
			continue;
		bool was_here = rank->state >= RANK_CONNECTED && now - rank->seen_ns > RESUME_GRACE_NS;
		bool never_came =
			job->resumed_ns && now - job->resumed_ns > RESUME_GRACE_NS && rank->state == RANK_ABSENT;
		if (was_here) {
			job_rank_lost(rank, "process %d has not come back to the daemon", (int)rank->pid);
		} else if (never_came) {
			job_raise(job, "rank %u did not come back after the daemon restarted", r);
			return;
		}
	}
}

/* Who has said goodbye may still be connected. */
static bool all_left(const struct job *job)
{
	for (uint32_t r = 0; r < job->world; r++)
		if (job->ranks[r].state != RANK_LEFT || job->ranks[r].client)
			return false;
	return true;
}

/* Without arenas and without anybody connected there is nothing to keep, whether or not the processes live on. */
static bool holds_anything(const struct job *job)
{
	for (uint32_t r = 0; r < job->world; r++)
		if (job->ranks[r].mem || job->ranks[r].client)
			return true;
	return false;
}

static bool may_end(struct job *job, uint64_t now)
{
	if (!saves_idle(&job->saves) || !recover_idle(&job->recover) || job->launcher)
		return false;
	if (all_left(job) || !holds_anything(job))
		return true;
	if (job_alive(job)) {
		job->dormant_ns = 0;
		return false;
	}
	if (!job->dormant_ns)
		job->dormant_ns = now;
	return now - job->dormant_ns > job->policy.linger_ms * CLOCK_NS_PER_MS;
}

bool job_tick(struct job *job)
{
	uint64_t now = clock_now();
	throttle_pump(&job->daemon->writes);
	saves_follow(&job->saves);
	saves_expire(&job->saves);
	member_expire(job, now);
	watch_missing(job, now);
	recover_pump(&job->recover);
	halt_tick(job);
	for (uint32_t r = 0; r < job->world; r++)
		watch_hang(&job->ranks[r], now);
	measures_tick(job, now);
	if (!may_end(job, now))
		return true;
	log_info("job %s: ended, %lu checkpoints durable", job->name, (unsigned long)job->saves.committed);
	job_free(job);
	return false;
}
