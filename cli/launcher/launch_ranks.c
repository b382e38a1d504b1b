#include "launcher/launch.h"

#include "base/bytes.h"
#include "base/cgroup.h"
#include "base/cleanup.h"
#include "base/clock.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

/* How long a dead rank waits for the daemon's word, so that the daemon knows of the death before the replacement comes. */
#define WORD_NS (300 * CLOCK_NS_PER_MS)
/* The same, where all depends on that word. */
#define OWED_NS (5 * CLOCK_NS_PER_S)
/* How long a rank waits for a daemon that is away, and may come back. */
#define BACK_NS (30 * CLOCK_NS_PER_S)
/* A process that the daemon takes for gone, but that is still there, has this long to end. A newer one than RECENT_NS the daemon
 * cannot have known. */
#define LOST_NS (2 * CLOCK_NS_PER_S)
#define RECENT_NS CLOCK_NS_PER_S

/* ---- start ----------------------------------------------------------------------------------------------------- */

/* One rank alone keeps the launcher's own descriptors: a terminal stays a terminal. */
static bool piped(const struct launch *launch)
{
	return launch->options.processes > 1 || launch->options.nodes > 1;
}

static int open_pipe(int ends[2], struct err *err)
{
	return pipe2(ends, O_CLOEXEC) ? err_set(err, -errno, "pipe: %s", err_name(errno)) : 0;
}

static int spawn(struct launch *launch, struct launch_rank *rank, int out, int errors, struct err *err)
{
	AUTO_FREE char **env = env_of_rank(launch, rank);
	struct proc_spec spec = {
		.argv = launch->options.argv, .env = env, .out = out, .err = errors, .death_signal = SIGKILL};
	if (!env)
		return err_set(err, -ENOMEM, "out of memory");
	return proc_start(&rank->proc, &spec, err);
}

static int spawn_piped(struct launch *launch, struct launch_rank *rank, struct err *err)
{
	int a[2] = {-1, -1}, b[2] = {-1, -1};
	char prefix[STREAM_PREFIX] = "";
	int rc = open_pipe(a, err);
	if (!rc)
		rc = open_pipe(b, err);
	AUTO_CLOSE int out_from = a[0], out_to = a[1], err_from = b[0], err_to = b[1];
	if (!rc)
		rc = spawn(launch, rank, out_to, err_to, err);
	if (rc)
		return rc;
	if (launch->options.prefix)
		snprintf(prefix, sizeof(prefix), "[%u] ", rank->id);
	stream_open(&rank->out, steal_fd(&out_from), launch->options.json ? &launch->err : &launch->out, prefix);
	stream_open(&rank->err, steal_fd(&err_from), &launch->err, prefix);
	return 0;
}

void ranks_note_replaced(struct launch *launch, uint64_t now)
{
	struct recovery *r = recovery_current(&launch->recoveries);
	if (!r || r->daemon)
		return;
	for (uint32_t i = 0; i < launch->nranks; i++)
		if (launch->ranks[i].stand == RANK_WAITING)
			return;
	r->replaced_ns = now;
}

static void start_rank(struct launch *launch, struct launch_rank *rank, uint64_t now)
{
	struct err err = {""};
	uint64_t pause;
	int rc = piped(launch) ? spawn_piped(launch, rank, &err)
			       : spawn(launch, rank, launch->options.json ? STDERR_FILENO : -1, -1, &err);
	if (proc_may_start_later(rc)) {
		launch_warn(launch, "rank %u: %s", rank->id, err.text);
		if (streak_failed(&rank->streak, now, &pause)) {
			rank->start_at = now + pause;
			return;
		}
	}
	if (rc) {
		rank->start_at = UINT64_MAX;
		launch_give_up(launch, EXIT_FAILED, "rank %u: %s", rank->id, err.text);
		return;
	}
	rank->stand = RANK_RUNNING;
	rank->kill_at = UINT64_MAX;
	launch->over = launch->told_stays = false;
	launch->stays_ns = 0;
	if (rank->starts++)
		launch_say(launch, "rank %u runs again as process %d", rank->id, (int)rank->proc.pid);
	uplink_spawned(&launch->link, rank->id, &rank->proc);
	ranks_note_replaced(launch, clock_now());
}

/* ---- end ------------------------------------------------------------------------------------------------------- */

void ranks_finish(struct launch_rank *rank)
{
	rank->stand = RANK_FINISHED;
	rank->start_at = UINT64_MAX;
}

static void wait_for_start(struct launch *launch, struct launch_rank *rank, uint64_t pause, uint64_t now)
{
	rank->stand = RANK_WAITING;
	rank->pause_until = now + pause;
	rank->start_at = rank->pause_until;
	if (launch->link.state == UPLINK_UP && pause < WORD_NS)
		rank->start_at = now + (launch->loss.owed ? OWED_NS : WORD_NS);
}

/* No restart is left for the loss. */
static void do_without(struct launch *launch, struct launch_rank *rank)
{
	char text[80];
	launch->loss.owed = false;
	if (!world_retire(launch, rank))
		launch_give_up(launch, EXIT_FAILED,
			       "rank %u %s, and all %u restarts that --max-restarts allows are spent: giving up",
			       rank->id, proc_status_text(text, sizeof(text), rank->status), launch->budget.max);
}

/* It may follow from the loss of a rank elsewhere, of which the daemon has yet to say. */
static bool may_be_elsewhere(const struct launch *launch, bool at_work)
{
	return launch->options.nodes > 1 && !launch->options.least && at_work && launch->link.state == UPLINK_UP;
}

/* One for the loss; true: the rank is to be started. */
static bool take_restart(struct launch *launch, struct launch_rank *rank, bool at_work, uint64_t now)
{
	launch->loss.counted = budget_take(&launch->budget, now);
	launch->loss.owed = !launch->loss.counted && may_be_elsewhere(launch, at_work);
	if (launch->loss.counted || launch->loss.owed)
		return true;
	do_without(launch, rank);
	return false;
}

static bool exited_with(const struct launch_rank *rank, int code)
{
	return WIFEXITED(rank->status) && WEXITSTATUS(rank->status) == code;
}

static void say_again(struct launch *launch, const struct launch_rank *rank, pid_t pid, bool at_work, bool follows)
{
	char text[80];
	const char *early = at_work ? "" : " before it was at work";
	proc_status_text(text, sizeof(text), rank->status);
	if (follows)
		launch_warn(launch, "rank %u (process %d) %s%s: started again, for the same loss%s", rank->id, (int)pid,
			    text, early, launch->loss.elsewhere ? " on another node" : "");
	else if (launch->loss.owed)
		launch_warn(
			launch,
			"rank %u (process %d) %s%s: no restart is left, unless it follows from a loss on another node",
			rank->id, (int)pid, text, early);
	else
		launch_warn(launch, "rank %u (process %d) %s%s: restart %u of %u", rank->id, (int)pid, text, early,
			    launch->budget.spent, launch->budget.max);
}

/* It has failed: again, later, or never. follows: from a loss that is known already. */
static void consider(struct launch *launch, struct launch_rank *rank, pid_t pid, bool at_work, bool follows,
		     uint64_t now)
{
	char text[80];
	uint64_t pause = 0;
	proc_status_text(text, sizeof(text), rank->status);
	if (!at_work && exited_with(rank, EXIT_USAGE)) {
		launch_give_up(
			launch, EXIT_FAILED,
			"rank %u (process %d) %s before it was at work: wrong usage, which no restart mends: giving up",
			rank->id, (int)pid, text);
		return;
	}
	if (!follows)
		loss_begin(&launch->loss, held_newest_entered(&launch->held), now);
	if (at_work)
		streak_ended(&rank->streak);
	if (!at_work && !streak_failed(&rank->streak, now, &pause)) {
		if (world_retire(launch, rank))
			return;
		launch_give_up(
			launch, EXIT_FAILED,
			"rank %u has failed %d times within %d s before it was at work: giving up (process %d %s)",
			rank->id, STREAK_MAX, (int)(STREAK_NS / CLOCK_NS_PER_S), (int)pid, text);
		return;
	}
	if (!follows && !take_restart(launch, rank, at_work, now))
		return;
	say_again(launch, rank, pid, at_work, follows);
	wait_for_start(launch, rank, pause, now);
}

/* It had finished, but another one was lost and the job goes back together: that loss is counted. */
static void start_finished(struct launch *launch, struct launch_rank *rank, uint64_t now)
{
	if (rank->retired || launch->stop >= STOP_TERM)
		return;
	launch_say(launch, "rank %u had finished, but the job needs it again", rank->id);
	wait_for_start(launch, rank, 0, now);
	rank->start_at = now;
}

/* The kernel says nowhere which process it was. A rank that ended by itself may be reaped before the one that was killed. */
static void say_if_short_of_memory(struct launch *launch, const struct launch_rank *rank)
{
	char limit[32];
	uint64_t kills = cgroup_memory_kills(), bytes = cgroup_memory_limit();
	bool killed = WIFSIGNALED(rank->status) && WTERMSIG(rank->status) == SIGKILL;
	if (!killed || kills <= launch->memory_kills)
		return;
	launch->memory_kills++;
	launch_warn(launch,
		    "rank %u: the kernel has killed a process in this control group for lack of memory%s%s: raise "
		    "its limit, or have the ranks use less",
		    rank->id, bytes == UINT64_MAX ? "" : ", its limit is ",
		    bytes == UINT64_MAX ? "" : bytes_human(limit, sizeof(limit), bytes));
}

static struct launch_rank *rank_of(struct launch *launch, pid_t pid)
{
	for (uint32_t r = 0; r < launch->nranks; r++)
		if (launch->ranks[r].proc.pid == pid)
			return &launch->ranks[r];
	return NULL;
}

/* It waited for another rank in the end. What an earlier process has left in the record says nothing of this one. */
static bool in_collective(const struct launch *launch, const struct launch_rank *rank)
{
	struct flight_view view;
	return held_look(&launch->held, rank->id, &view) && view.beat_ns > rank->proc.started_ns && view.in_collective;
}

bool ranks_reap(struct launch *launch, pid_t pid, struct ended *ended)
{
	struct launch_rank *rank = rank_of(launch, pid);
	if (!rank)
		return false;
	*ended = (struct ended){
		.rank = rank, .pid = pid, .started_ns = rank->proc.started_ns, .waited = in_collective(launch, rank)};
	faults_note(launch, rank->id, clock_now()); /* while it is known which process that was */
	ended->status = proc_reap(&rank->proc, pid);
	return true;
}

static void settle(struct launch *launch, const struct ended *ended, uint64_t now)
{
	struct launch_rank *rank = ended->rank;
	bool at_work = held_at_work(&launch->held, rank->id, ended->started_ns);
	bool follows = loss_covers(&launch->loss, ended->started_ns, held_entered(&launch->held, rank->id));
	/* The daemon did not wait for its end. A save since then: it had lost the process for a moment, as when it is restarted. */
	bool wanted = rank->kill_at != UINT64_MAX && !held_saves(&launch->held, rank->id, rank->lost_ns);
	rank->status = ended->status;
	rank->ended = true;
	rank->lost_ns = now;
	stream_close(&rank->out);
	stream_close(&rank->err);
	uplink_exited(&launch->link, rank->id, ended->pid, rank->status);
	rank->kill_at = UINT64_MAX;
	ranks_finish(rank);
	say_if_short_of_memory(launch, rank);
	/* Should it not have finished after all, the daemon will want it again. */
	bool unsafe = at_work && exited_with(rank, EXIT_PARTIAL);
	if (unsafe)
		launch_warn(
			launch,
			"rank %u (process %d) exited with status %d: it has finished, but not all is saved; it is not "
			"started again",
			rank->id, (int)ended->pid, EXIT_PARTIAL);
	if (rank->status && !unsafe && launch->stop < STOP_TERM)
		consider(launch, rank, ended->pid, at_work, follows, now);
	else if (wanted)
		start_finished(launch, rank, now);
}

void ranks_settle(struct launch *launch, struct ended *ended, uint32_t n, uint64_t now)
{
	ended_sort(ended, n);
	for (uint32_t i = 0; i < n; i++)
		settle(launch, &ended[i], now);
}

/* ---- what the daemon says -------------------------------------------------------------------------------------- */

static void lost(struct launch *launch, struct launch_rank *rank, uint64_t now)
{
	switch (rank->stand) {
	case RANK_WAITING:
		if (rank->start_at != UINT64_MAX)
			rank->start_at = rank->pause_until;
		break;
	case RANK_FINISHED:
		start_finished(launch, rank, now);
		break;
	case RANK_RUNNING:
		if (now - rank->proc.started_ns < RECENT_NS)
			break;
		rank->lost_ns = now;
		rank->kill_at = now + LOST_NS;
		break;
	}
}

void ranks_lost(struct launch *launch, const struct wire_epoch *m, uint64_t now)
{
	for (uint32_t r = 0; r < launch->nranks; r++)
		launch->ranks[r].kill_at = UINT64_MAX;
	for (uint32_t i = 0; i < m->nlost; i++) {
		struct launch_rank *rank = ranks_find(launch, m->lost[i]);
		if (rank)
			lost(launch, rank, now);
	}
}

void ranks_lost_elsewhere(struct launch *launch, uint64_t now)
{
	if (!loss_is_elsewhere(&launch->loss, held_newest_entered(&launch->held), now))
		return;
	budget_give_back(&launch->budget);
	launch_say(launch, "it is counted on the node of the rank that was lost, not here: %u of %u restarts are spent",
		   launch->budget.spent, launch->budget.max);
}

/* ---- time ------------------------------------------------------------------------------------------------------ */

static void kill_lost(struct launch *launch, struct launch_rank *rank)
{
	rank->kill_at = UINT64_MAX;
	if (held_at_work(&launch->held, rank->id, rank->lost_ns))
		return;
	launch_warn(launch, "rank %u: the daemon has lost it, but its process %d is still there: it is killed",
		    rank->id, (int)rank->proc.pid);
	proc_signal(&rank->proc, SIGKILL);
}

static void note_back(struct launch *launch, uint64_t now)
{
	struct recovery *r = recovery_current(&launch->recoveries);
	if (!r || r->daemon || !r->replaced_ns || r->back_ns)
		return;
	for (uint32_t i = 0; i < launch->nranks; i++) {
		const struct launch_rank *rank = &launch->ranks[i];
		if (rank->retired) /* the others have yet to come into the world without it */
			return;
		bool back = rank->stand == RANK_FINISHED ||
			    held_at_work(&launch->held, rank->id, max_u64(rank->proc.started_ns, r->seen_ns));
		if (!back)
			return;
	}
	r->back_ns = now;
}

/* A daemon that begins anew gets the arenas back first. To ranks that come before them it gives new ones, and what is in memory is lost. */
static uint64_t due(const struct launch *launch, const struct launch_rank *rank)
{
	const struct uplink *link = &launch->link;
	bool first = launch->held.count && link->state != UPLINK_UP && !launch->keeper.given_up;
	return first ? max_u64(rank->start_at, link->lost_ns + BACK_NS) : rank->start_at;
}

void ranks_tick(struct launch *launch, uint64_t now)
{
	for (uint32_t r = 0; r < launch->nranks; r++) {
		struct launch_rank *rank = &launch->ranks[r];
		bool starts = rank->stand == RANK_WAITING && now >= due(launch, rank);
		if (starts && launch->loss.owed)
			do_without(launch, rank);
		else if (starts)
			start_rank(launch, rank, now);
		if (rank->stand == RANK_RUNNING && now >= rank->kill_at)
			kill_lost(launch, rank);
	}
	note_back(launch, now);
}

uint64_t ranks_next(const struct launch *launch)
{
	uint64_t next = UINT64_MAX;
	for (uint32_t r = 0; r < launch->nranks; r++) {
		const struct launch_rank *rank = &launch->ranks[r];
		if (rank->stand == RANK_WAITING)
			next = min_u64(next, due(launch, rank));
		if (rank->stand == RANK_RUNNING)
			next = min_u64(next, rank->kill_at);
	}
	return next;
}

struct launch_rank *ranks_find(const struct launch *launch, uint32_t id)
{
	for (uint32_t r = 0; r < launch->nranks; r++)
		if (launch->ranks[r].id == id)
			return &launch->ranks[r];
	return NULL;
}

void ranks_init(struct launch_rank *rank, uint32_t id)
{
	*rank = (struct launch_rank){.id = id, .start_at = UINT64_MAX, .kill_at = UINT64_MAX};
	rank->proc.pidfd = rank->out.fd = rank->err.fd = -1;
}

bool ranks_none_left(const struct launch *launch)
{
	for (uint32_t r = 0; r < launch->nranks; r++)
		if (launch->ranks[r].stand != RANK_FINISHED)
			return false;
	return true;
}

bool ranks_over(const struct launch *launch)
{
	return ranks_none_left(launch) && ((!launch->waits && !stay_wanted(launch)) || launch->stop != STOP_NONE);
}

void ranks_signal(struct launch *launch, int sig)
{
	for (uint32_t r = 0; r < launch->nranks; r++)
		proc_signal(&launch->ranks[r].proc, sig);
}
