#include "faults/faults.h"

#include "arena/room.h"
#include "base/clock.h"
#include "checkpoint/room.h"
#include "faults/fault_bits.h"
#include "job/room.h"
#include "replication/room.h"
#include "runtime/room.h"
#include "store/disk/disk.h"
#include "store/disk/power.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct faults {
	struct jobs *jobs;
	struct fault_log log;
};

struct faults *faults_new(struct jobs *jobs)
{
	struct faults *faults = calloc(1, sizeof(*faults));
	if (faults)
		faults->jobs = jobs;
	return faults;
}

void faults_free(struct faults *faults)
{
	free(faults);
}

const struct fault_log *faults_log(const struct faults *faults)
{
	return &faults->log;
}

/* ---- to cause ---------------------------------------------------------------------------------------------------- */

static int send_signal(const struct rank *rank, int sig)
{
	return syscall(SYS_pidfd_send_signal, rank->pidfd, sig, NULL, 0) < 0 ? -errno : 0;
}

static int signal_rank(struct rank *rank, struct fault_record *f, struct err *err)
{
	if (!rank->pid || rank->pidfd < 0)
		return err_set(err, -ESRCH, "rank %u has no process now", rank->id);
	int rc = send_signal(rank, f->entry->signal);
	if (rc)
		return err_set(err, rc, "cannot signal process %d of rank %u: %s", (int)rank->pid, rank->id,
			       err_name(rc));
	f->pid = rank->pid;
	if (f->for_ms)
		f->continue_ns = f->caused_ns + f->for_ms * CLOCK_NS_PER_MS;
	snprintf(f->text, sizeof(f->text), "signal %d (%s) to process %d of rank %u", f->entry->signal,
		 strsignal(f->entry->signal), (int)rank->pid, rank->id);
	return 0;
}

static int ask_rank(struct rank *rank, struct fault_record *f, struct err *err)
{
	if (!rank->pid || !rank->mem)
		return err_set(err, -ESRCH, "rank %u is not at work now", rank->id);
	struct arena_fault *fault = &rank->mem->head->fault;
	f->seq = atomic_load(&fault->seq);
	if (f->seq != atomic_load(&fault->taken) && atomic_load(&fault->kind))
		return err_set(err, -EBUSY, "rank %u has not played its last fault yet", rank->id);
	f->pid = rank->pid;
	f->seq++;
	atomic_store(&fault->kind, (uint32_t)f->entry->kind);
	atomic_store(&fault->ms, (uint32_t)f->for_ms);
	atomic_store_explicit(&fault->seq, f->seq, memory_order_release);
	snprintf(f->text, sizeof(f->text), "rank %u, process %d, is to play it", rank->id, (int)rank->pid);
	return 0;
}

static int error_of(enum fault_kind kind)
{
	return kind == FAULT_DISK_FULL ? -ENOSPC : kind == FAULT_DISK_READ_ONLY ? -EROFS : -EIO;
}

static void hold_disk(struct disk *disk, struct fault_record *f)
{
	bool stalls = f->entry->kind == FAULT_DISK_STALL;
	disk_hold(disk, stalls ? UINT64_MAX : FAULT_LAG_NS, f->caused_ns + f->for_ms * CLOCK_NS_PER_MS);
	snprintf(f->text, sizeof(f->text), "operations at the store %s for %lu ms",
		 stalls ? "wait" : "begin 100 ms late", (unsigned long)f->for_ms);
}

static int break_disk(const struct jobs *jobs, struct fault_record *f, struct err *err)
{
	struct disk *disk = jobs->storage->disk;
	int rc = error_of(f->entry->kind);
	if (jobs->storage->root < 0)
		return err_set(err, -ENOENT, "this daemon has no store");
	if (f->entry->kind == FAULT_DISK_STALL || f->entry->kind == FAULT_DISK_SLOW) {
		hold_disk(disk, f);
		return 0;
	}
	if (f->entry->kind == FAULT_DISK_CORRUPT) {
		disk_corrupt(disk, f->deadline_ns);
		snprintf(f->text, sizeof(f->text), "the next write to a checkpoint is changed");
		return 0;
	}
	f->deadline_ns = f->caused_ns + f->for_ms * CLOCK_NS_PER_MS;
	disk_break(disk, rc, f->deadline_ns);
	snprintf(f->text, sizeof(f->text), "writes to the store fail with %s for %lu ms", err_name(rc),
		 (unsigned long)f->for_ms);
	return 0;
}

/* By how much: its number of seconds stands where others have a rank. */
static int64_t jump_of(const struct fault_record *f)
{
	return f->rank ? (int32_t)f->rank * (int64_t)CLOCK_NS_PER_S : (int64_t)FAULT_JUMP_NS;
}

enum { JUMP_TEXT = 48 };

/* "24.0 h ahead", "90 s behind" */
static const char *jump_text(int64_t by, char dst[JUMP_TEXT])
{
	double s = (double)(by < 0 ? -by : by) / 1e9;
	const char *where = by < 0 ? "behind" : "ahead";
	if (s < 3599)
		snprintf(dst, JUMP_TEXT, "%.0f s %s", s, where);
	else
		snprintf(dst, JUMP_TEXT, "%.1f h %s", s / 3600, where);
	return dst;
}

static int jump(struct faults *faults, struct fault_record *f, struct err *err)
{
	const struct fault_record *other;
	char far[JUMP_TEXT];
	int32_t by = (int32_t)f->rank;
	if (by > FAULT_JUMP_MAX_S || by < -FAULT_JUMP_MAX_S)
		return err_set(err, -EINVAL, "the time of day jumps by %d s at most", FAULT_JUMP_MAX_S);
	for (uint32_t i = 0; (other = fault_log_at(&faults->log, i)); i++)
		if (other != f && other->entry == f->entry && other->outcome == FAULT_PENDING)
			return err_set(err, -EBUSY, "the time of day is off already");
	f->deadline_ns = f->caused_ns + f->for_ms * CLOCK_NS_PER_MS;
	clock_wall_jump(jump_of(f));
	snprintf(f->text, sizeof(f->text), "the time of day is %s for %lu ms", jump_text(jump_of(f), far),
		 (unsigned long)f->for_ms);
	return 0;
}

/* It was read when the fault was caused, and is read again. */
static void look_jumped(const struct jobs *jobs, struct fault_record *f)
{
	char far[JUMP_TEXT];
	uint64_t now = clock_now(), took = now - f->caused_ns;
	int64_t by = jump_of(f), ahead = (int64_t)(clock_wall() - f->wall_ns - took);
	if (now < f->deadline_ns)
		return;
	clock_wall_jump(0);
	bool is = by < 0 ? ahead < by / 2 && ahead > 2 * by : ahead > by / 2 && ahead < 2 * by;
	fault_log_end(jobs, f, is ? FAULT_FIRED : FAULT_NOT_FIRED, "the time of day was %s for %lu ms, and is back",
		      jump_text(ahead, far), (unsigned long)(took / CLOCK_NS_PER_MS));
}

/* ---- the node ------------------------------------------------------------------------------------------------------- */

static void cut_power(const struct faults *faults, struct fault_record *f)
{
	struct power_losses l = {0};
	if (faults->jobs->storage->root >= 0)
		power_cut(faults->jobs->storage->disk, f->rank, &l);
	snprintf(f->text, sizeof(f->text),
		 "lost are %" PRIu64 " of %" PRIu64 " bytes in %" PRIu64 " files, and %" PRIu64 " of %" PRIu64
		 " changes of names, that no fsync had confirmed",
		 l.lost_bytes, l.bytes, l.files, l.lost_names, l.names);
}

static void kill_node(const struct faults *faults, struct fault_record *f)
{
	uint32_t ranks = 0;
	list_for(node, &faults->jobs->list)
		ranks += list_entry(node, struct job, link)->nlocal;
	snprintf(f->text, sizeof(f->text), "SIGKILL to ckptd, process %d, to ckpt run, and to %u ranks", (int)getpid(),
		 ranks);
}

/* The span log has what was caused: its lines are still on their way. */
void faults_power_off(const struct faults *faults)
{
	list_for(node, &faults->jobs->list) {
		const struct job *job = list_entry(node, struct job, link);
		client_kill(job->launcher); /* before it can tell of its ranks */
		for (uint32_t i = 0; i < job->nlocal; i++) {
			const struct rank *rank = &job->ranks[i];
			if (rank->pidfd >= 0)
				(void)send_signal(rank, SIGKILL);
			if (rank->launched > 0)
				kill(rank->launched, SIGKILL);
		}
	}
	spanlog_close(faults->jobs->runtime->spanlog);
	kill(getpid(), SIGKILL);
}

static int do_cause(struct faults *faults, struct job *job, struct fault_record *f, uint32_t seed, struct err *err)
{
	const struct jobs *jobs = faults->jobs;
	char text[FAULT_BITS_TEXT] = "";
	int rc = 0;
	if (f->entry->actor == FAULT_BY_COMMAND) {
		snprintf(f->text, sizeof(f->text), "ckpt fault is allowed to cause it");
		return 0;
	}
	if (f->entry->target == FAULT_AT_STORE)
		return break_disk(jobs, f, err);
	if (f->entry->kind == FAULT_CLOCK_JUMP)
		return jump(faults, f, err);
	if (fault_ends_node(f->entry)) {
		(f->entry->kind == FAULT_POWER_CUT ? cut_power : kill_node)(faults, f);
		return 0;
	}
	if (f->entry->kind == FAULT_FLIP_REPLICA) {
		rc = fault_flip_replica(jobs->peers->replica, job->name, f->rank, seed, text, err);
	} else {
		struct rank *rank = job_rank(job, f->rank);
		if (!rank)
			return err_set(err, -ENOENT,
				       "rank %u of job %s is not on this node: ask the daemon of its node", f->rank,
				       job->name);
		if (f->entry->actor == FAULT_BY_SIGNAL)
			return signal_rank(rank, f, err);
		if (f->entry->actor == FAULT_BY_RANK)
			return ask_rank(rank, f, err);
		rc = fault_flip_arena(job, f->rank, seed, text, err);
	}
	snprintf(f->text, sizeof(f->text), "%s", text);
	return rc;
}

static void answer_of(const struct fault_record *f, struct wire_answer *answer)
{
	answer->number = f->number;
	answer->left = f->outcome;
	memcpy(answer->job, f->job, sizeof(answer->job));
	snprintf(answer->text, sizeof(answer->text), "%s", f->text);
}

int faults_cause(struct faults *faults, struct job *job, const struct wire_command *command, struct wire_answer *answer,
		 struct err *err)
{
	const struct wire_fault *what = &command->fault;
	const struct fault_entry *entry = fault_of((enum fault_kind)what->kind);
	if (!faults || !faults->jobs->runtime->config.faults)
		return err_set(
			err, -EPERM,
			"faults on purpose are not allowed here: set faults = yes in [node] of its configuration");
	if (entry->actor == FAULT_BY_CAMPAIGN)
		return err_set(err, -EOPNOTSUPP, "%s: " FAULT_NEEDS_NETWORK, entry->name);
	struct fault_record *f = fault_log_take(&faults->log);
	if (!f)
		return err_set(err, -EBUSY, "%d faults are pending already", FAULT_LOG_MAX);
	f->entry = entry;
	f->rank = what->rank;
	f->for_ms = what->for_ms;
	f->wall_ns = clock_wall();
	f->caused_ns = clock_now();
	f->deadline_ns = f->caused_ns + (entry->fires_ms + what->for_ms) * CLOCK_NS_PER_MS;
	memcpy(f->job, job->name, sizeof(f->job));
	int rc = do_cause(faults, job, f, what->number, err);
	if (rc) {
		*f = (struct fault_record){0};
		faults->log.last--; /* numbers have no gaps */
		return rc;
	}
	fault_log_caused(faults->jobs, f);
	if (fault_ends_node(entry) ||
	    (entry->actor == FAULT_BY_DAEMON && entry->target == FAULT_AT_RANK)) /* it was read back at once */
		fault_log_end(faults->jobs, f, FAULT_FIRED, NULL);
	answer_of(f, answer);
	return 0;
}

/* ---- what has become of it --------------------------------------------------------------------------------------- */

static struct rank *rank_of(struct jobs *jobs, const struct fault_record *f)
{
	struct job *job = job_find(jobs, f->job);
	return job ? job_rank(job, f->rank) : NULL;
}

static void look_signalled(const struct jobs *jobs, struct fault_record *f, const struct rank *rank)
{
	bool same = rank && rank->pid == f->pid;
	if (f->entry->kind == FAULT_STOP && same && process_is_stopped(f->pid))
		fault_log_end(jobs, f, FAULT_FIRED, "process %d is stopped", (int)f->pid);
	else if (f->entry->kind != FAULT_STOP && !same)
		fault_log_end(jobs, f, FAULT_FIRED, "process %d has died", (int)f->pid);
	else if (f->entry->kind == FAULT_STOP && !same)
		fault_log_end(jobs, f, FAULT_NOT_FIRED, "process %d has ended first", (int)f->pid);
}

static void look_played(const struct jobs *jobs, struct fault_record *f, const struct rank *rank)
{
	struct arena_fault *fault = rank && rank->mem ? &rank->mem->head->fault : NULL;
	if (fault && atomic_load(&fault->seq) == f->seq && atomic_load(&fault->taken) == f->seq) {
		fault_log_end(jobs, f, FAULT_FIRED, "rank %u, process %d, plays it", f->rank, (int)f->pid);
		return;
	}
	if (rank && rank->pid == f->pid && clock_now() < f->deadline_ns)
		return;
	if (fault)
		atomic_store(&fault->kind, 0);
	fault_log_end(jobs, f, FAULT_NOT_FIRED, "rank %u has not taken it: %s", f->rank,
		      rank && rank->pid == f->pid ? "its program may not play faults" : "its process has ended first");
}

/* "…/gpt/.writing-step-000000000010.e0001-1/rank-….safetensors" */
static void look_corrupt(const struct jobs *jobs, struct fault_record *f)
{
	uint64_t at, step = 0;
	unsigned epoch = 0;
	const char *file = disk_hit_file(jobs->storage->disk, &at), *dir = strstr(file, "step-"),
		   *name = strrchr(file, '/');
	if (!dir || sscanf(dir, "step-%" SCNu64 ".e%u", &step, &epoch) != 2)
		step = epoch = 0;
	fault_log_end(jobs, f, FAULT_FIRED,
		      "bit 3 of byte %" PRIu64 " of %s of step %" PRIu64 " of epoch %u changed on its way to the store",
		      at, name ? name + 1 : file, step, epoch);
}

static void look_at_store(const struct jobs *jobs, struct fault_record *f)
{
	if (!disk_hits(jobs->storage->disk))
		return;
	if (f->entry->kind == FAULT_DISK_CORRUPT)
		look_corrupt(jobs, f);
	else if (f->entry->kind == FAULT_DISK_STALL || f->entry->kind == FAULT_DISK_SLOW)
		fault_log_end(jobs, f, FAULT_FIRED, "an operation at the store has waited");
	else
		fault_log_end(jobs, f, FAULT_FIRED, "a write to the store was refused");
}

static void look(struct jobs *jobs, struct fault_record *f)
{
	const struct rank *rank = f->entry->target == FAULT_AT_RANK ? rank_of(jobs, f) : NULL;
	if (f->entry->actor == FAULT_BY_SIGNAL)
		look_signalled(jobs, f, rank);
	else if (f->entry->actor == FAULT_BY_RANK)
		look_played(jobs, f, rank);
	else if (f->entry->kind == FAULT_CLOCK_JUMP)
		look_jumped(jobs, f);
	else if (f->entry->target == FAULT_AT_STORE)
		look_at_store(jobs, f);
	if (f->outcome == FAULT_PENDING && clock_now() >= f->deadline_ns)
		fault_log_end(jobs, f, FAULT_NOT_FIRED, "nothing was seen of it in time");
}

static void resume(struct jobs *jobs, struct fault_record *f)
{
	const struct rank *rank = rank_of(jobs, f);
	f->continue_ns = 0;
	if (rank && rank->pid == f->pid && rank->pidfd >= 0)
		(void)send_signal(rank, SIGCONT);
}

void faults_tick(struct faults *faults)
{
	struct fault_log *log = &faults->log;
	if (faults->jobs->storage->disk)
		disk_let_go(faults->jobs->storage->disk);
	for (uint32_t i = 0; i < FAULT_LOG_MAX; i++) {
		struct fault_record *f = &log->ring[i];
		if (f->number && f->outcome == FAULT_PENDING)
			look(faults->jobs, f);
		if (f->continue_ns && clock_now() >= f->continue_ns)
			resume(faults->jobs, f);
	}
}

void faults_end(struct faults *faults)
{
	for (uint32_t i = 0; faults && i < FAULT_LOG_MAX; i++)
		if (faults->log.ring[i].continue_ns)
			resume(faults->jobs, &faults->log.ring[i]);
}

int faults_ask(struct faults *faults, const struct wire_command *command, struct wire_answer *answer, struct err *err)
{
	const struct wire_fault *what = &command->fault;
	struct fault_record *f = faults ? fault_log_find(&faults->log, what->number) : NULL;
	if (!f)
		return err_set(err, -ENOENT, "this daemon knows nothing of fault %u; it may have been started since",
			       what->number);
	faults_tick(faults);
	if (what->outcome != FAULT_PENDING && f->outcome == FAULT_PENDING && f->entry->actor == FAULT_BY_COMMAND)
		fault_log_end(faults->jobs, f, (enum fault_outcome)what->outcome, "%s", what->text);
	answer_of(f, answer);
	return 0;
}
