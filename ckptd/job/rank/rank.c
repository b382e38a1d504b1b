#include "job/rank/rank.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "catalog/room.h"
#include "checkpoint/room.h"
#include "format/arena/flight.h"
#include "job/rank/barriers.h"
#include "participant/room.h"
#include "runtime/room.h"

#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

/* How long resumed ranks wait, after a restart of the daemon, for one that does not come back; and how long a rank that has
 * lost its connection but not its life may take to come back. */
#define RESUME_GRACE_NS (5 * CLOCK_NS_PER_S)

const char *rank_state_name(enum rank_state state)
{
	static const char *const names[] = {"absent", "connected", "registered", "joined", "left"};
	return state < sizeof(names) / sizeof(names[0]) ? names[state] : "?";
}

/* ---- its process ----------------------------------------------------------------------------------------------- */

static void forget_process(struct rank *rank)
{
	watch_remove(rank->pid_watch);
	rank->pid_watch = NULL;
	if (rank->pidfd >= 0)
		close(rank->pidfd);
	rank->pidfd = -1;
	rank->pid = 0;
	rank->hello_received = rank->was_in = false;
}

void rank_end(struct rank *rank)
{
	forget_process(rank);
	watch_remove(rank->doorbell_watch);
	if (rank->doorbell >= 0)
		close(rank->doorbell);
	table_put(rank->table);
	rank->job->runtime->memory.tables -= rank->table_bytes;
	job_drop_arena(rank);
	memory_put(rank->mem);
}

/* Nobody speaks for the rank and nothing writes to its slots any more, even if a child of the process still holds the socket. */
static void process_gone(struct rank *rank)
{
	forget_process(rank);
	if (rank->client)
		client_detach(rank->client);
	rank->client = NULL;
	rank->rejoined = false;
	if (rank->mem && rank->arena_sent) /* and followed, once the epoch is known */
		rank->mem->inspected |= rank->mem->adopted;
	saves_follow(&rank->job->saves); /* what was complete when it died is taken */
	saves_orphan(&rank->job->saves, rank->index);
}

static void process_died(void *arg, uint32_t events)
{
	struct rank *rank = arg;
	(void)events;
	pid_t pid = rank->pid;
	process_gone(rank);
	rank_lost(rank, "its %s has died", process_text(pid).text);
}

void job_bye(struct rank *rank, uint32_t seq)
{
	AUTO_WBUF struct wbuf body = {0};
	saves_follow(&rank->job->saves); /* a save that it began just now */
	rank->state = RANK_LEFT;
	member_forget_table(rank);
	log_debug("job %s: rank %u has finished", rank->job->name, rank->id);
	client_send(rank->client, WIRE_BYE, seq, &body, NULL, 0);
	if (job_finished(rank->job))
		queue_finish(&rank->job->saves);
}

void rank_watch(struct rank *rank, pid_t pid, int pidfd)
{
	forget_process(rank);
	rank->pid = pid;
	rank->pidfd = pidfd;
	if (pidfd >= 0)
		rank->pid_watch = loop_watch(rank->job->runtime->loop, pidfd, EPOLLIN, process_died, rank);
	if (pidfd >= 0 && !rank->pid_watch) { /* not a pidfd, or no memory: the end of the connection must do */
		close(pidfd);
		rank->pidfd = -1;
	}
}

void job_watch_foreign(struct rank *rank, pid_t pid, int pidfd)
{
	rank_watch(rank, pid, pidfd);
}

void rank_carry(struct rank *to, struct rank *from)
{
	pid_t pid = from->pid;
	int pidfd = from->pidfd;
	bool hello_received = from->hello_received, was_in = from->was_in;
	to->launched = from->launched;
	to->client = from->client;
	from->client = NULL;
	from->pidfd = -1;
	forget_process(from);
	if (to->client)
		client_move(to->client, to);
	to->state = to->client ? RANK_CONNECTED : RANK_ABSENT;
	to->rejoined = true;
	to->seen_ns = clock_now();
	if (pid)
		rank_watch(to, pid, pidfd);
	to->hello_received = hello_received;
	to->was_in = was_in;
}

/* ---- loss ------------------------------------------------------------------------------------------------------ */

void job_disconnected(struct job *job, struct rank *rank)
{
	if (!rank) {
		job->launcher = NULL;
		for (uint32_t r = 0; r < job->nlocal; r++)
			job->ranks[r].launched = 0; /* it tells again when it is back */
		resize_abandoned(job);
		return;
	}
	rank->client = NULL;
	rank->seen_ns = clock_now();
	rank->registering = rank->joining = rank->restoring = (struct waiting){0};
	if (rank->pidfd < 0) {
		process_gone(rank);
		rank_lost(rank, "its connection has ended");
	}
}

void rank_lost(struct rank *rank, const char *fmt, ...)
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
	catalog_event(job->storage->catalog, job->name, (struct step_id){.epoch = job->epoch}, "rank-lost", why);
	recoveries_lost(&job->recovery_log, rank->mem ? atomic_load(&rank->mem->head->flight.beat_ns) : 0);
	participant_lost(job, rank->id, was == RANK_JOINED, why);
}

/* ---- the launcher's word --------------------------------------------------------------------------------------- */

void job_spawned(struct job *job, uint32_t id, pid_t pid, int pidfd)
{
	struct rank *rank = job_claim(job, id);
	resize_started(job, pid);
	if (rank) {
		rank->launched = pid;
		rank->failed = false;
	}
	if (!rank || rank->pid) {
		if (pidfd >= 0)
			close(pidfd);
		return;
	}
	rank_watch(rank, pid, pidfd);
	rank->seen_ns = clock_now();
}

void job_exited(struct job *job, uint32_t id, pid_t pid, int status)
{
	struct rank *rank = job_rank(job, id);
	if (rank && rank->launched == pid) {
		rank->launched = 0;
		rank->failed = status != 0;
	}
	if (!rank || rank->pid != pid)
		return;
	process_gone(rank);
	rank_lost(rank, "the launcher saw process %d end with wait status %d", (int)pid, status);
}

/* ---- time ------------------------------------------------------------------------------------------------------ */

static void look_for_hang(struct rank *rank, const struct flight_view *is, uint64_t now)
{
	uint64_t limit = rank->job->policy.hang_timeout_ms * CLOCK_NS_PER_MS;
	if (!limit)
		return;
	bool hung = is->beat_ns && is->beat_ns < now && now - is->beat_ns > limit;
	if (hung && !rank->hung)
		log_warn("job %s: rank %u hangs: no heartbeat for %.1f s, last at step %lu, phase %u%s%s",
			 rank->job->name, rank->id, (double)(now - is->beat_ns) / 1e9, (unsigned long)is->step,
			 is->phase, is->in_collective ? ", in collective " : "", is->in_collective ? is->op : "");
	rank->hung = hung;
}

void rank_watch_beat(struct rank *rank, uint64_t now)
{
	struct flight_view is;
	if (rank->state != RANK_JOINED || !rank->mem)
		return;
	flight_look(rank->mem->head, &is);
	look_for_hang(rank, &is, now);
	if (is.beat_ns > rank->job->entered_ns && is.beat_ns <= now)
		pace_beat(&rank->pace, rank->job->epoch, is.step, is.beat_ns);
}

void rank_watch_missing(struct job *job, uint64_t now)
{
	for (uint32_t r = 0; r < job->nlocal; r++) {
		struct rank *rank = &job->ranks[r];
		if (rank->client || rank->state == RANK_LEFT)
			continue;
		bool was_here = rank->state >= RANK_CONNECTED && now - rank->seen_ns > RESUME_GRACE_NS;
		bool never_came =
			job->resumed_ns && now - job->resumed_ns > RESUME_GRACE_NS && rank->state == RANK_ABSENT;
		if (was_here) {
			rank_lost(rank, "%s has not come back to the daemon", process_text(rank->pid).text);
		} else if (never_came) {
			participant_missing(job, rank->id);
			return;
		}
	}
}
