#include "launcher/launch.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <stdio.h>
#include <sys/wait.h>

/* How long the first greeting of the daemon may take. */
#define START_NS (10 * CLOCK_NS_PER_S)
/* After its grace: SIGTERM and SIGKILL to its ranks, and until ckptd has seen it go. */
#define EARLIER_NS (60 * CLOCK_NS_PER_S)

/* ---- its life -------------------------------------------------------------------------------------------------- */

static void start_daemon(struct launch *launch)
{
	/* Its log is ours: warnings are enough, unless somebody wants to see more. Socket and store are arguments. */
	const struct env_pair pairs[] = {{"CKPT_STORE", NULL},
					 {"CKPT_SOCKET", NULL},
					 {"CKPT_LOG", getenv("CKPT_LOG") ? getenv("CKPT_LOG") : "warn"}};
	AUTO_FREE char **env = env_with(pairs, sizeof(pairs) / sizeof(pairs[0]));
	struct err err = {"out of memory"};
	int rc = env ? keeper_start(&launch->keeper, env, &err) : -ENOMEM;
	if (rc) {
		launch->keeper.start_at = UINT64_MAX;
		launch_give_up(launch, EXIT_NO_DAEMON, "the daemon cannot be started: %s", err.text);
		return;
	}
	uplink_hurry(&launch->link);
}

static uint64_t fault_of_daemon(const struct launch *launch, uint64_t now)
{
	uint64_t fired = 0;
	for (size_t i = 0; i < launch->nfaults; i++) {
		const struct fault *f = &launch->faults[i];
		if (f->kind == FAULT_KILL_DAEMON && f->fired_ns && now - f->fired_ns < CLOCK_NS_PER_S)
			fired = max_u64(fired, f->fired_ns);
	}
	return fired;
}

static void never_answered(struct launch *launch, const char *how)
{
	const struct keeper *keeper = &launch->keeper;
	if (keeper->store && WIFEXITED(keeper->status) && WEXITSTATUS(keeper->status) == EXIT_LOCKED)
		launch_give_up(
			launch, EXIT_LOCKED,
			"another daemon writes to the store %s, perhaps that of another ckpt run: wait until it has "
			"ended, give another --store, or leave out --store and use that daemon too: --socket PATH "
			"with another --job",
			keeper->store);
	else
		launch_give_up(launch, EXIT_NO_DAEMON, "the daemon (ckptd) %s before it answered", how);
}

void daemon_ended(struct launch *launch, uint64_t now)
{
	char text[80];
	bool ready = launch->link.welcomed && launch->daemon_ready;
	bool again = keeper_ended(&launch->keeper, ready, now);
	proc_status_text(text, sizeof(text), launch->keeper.status);
	launch->daemon_ready = false;
	if (!launch->link.welcomed) {
		never_answered(launch, text);
		return;
	}
	if (!again) {
		launch_warn(launch, "the daemon (ckptd) %s, once too often: the ranks go on without checkpoints", text);
		return;
	}
	launch_warn(launch, "the daemon (ckptd) %s: it is started again", text);
	struct recovery *r = recovery_open(&launch->recoveries, true, now);
	if (!r)
		return;
	r->epoch = launch->epoch;
	r->fault_ns = fault_of_daemon(launch, now);
	snprintf(r->reason, sizeof(r->reason), "the daemon %s", text);
}

/* ---- what it says ---------------------------------------------------------------------------------------------- */

static void start_ranks(struct launch *launch, uint64_t now)
{
	launch->started_ns = launch->epoch_ns = now;
	if (launch->options.nodes > 1)
		launch_say(launch, "job %s: %u ranks on %u nodes, %u of them here, from rank %u on, daemon at %s",
			   launch->options.job, launch->world, launch->options.nodes, launch->nranks,
			   launch->ranks[0].id, launch->keeper.socket);
	else
		launch_say(launch, "job %s: %u rank%s, epoch %u, daemon at %s", launch->options.job, launch->world,
			   launch->world == 1 ? "" : "s", launch->epoch, launch->keeper.socket);
	for (uint32_t r = 0; r < launch->nranks; r++)
		launch->ranks[r].start_at = now;
}

/* A daemon that has begun anew knows nothing: it gets back what was held for it. */
static void welcomed(struct launch *launch, uint64_t now)
{
	launch->daemon_ready = launch->keeper.answered = true;
	nodes_welcomed(launch);
	/* Once ranks have joined, a daemon that has begun anew may name an epoch that they will not enter, since they are still
	 * in theirs: a new one comes as EPOCH. */
	if (!launch->held.count && launch->link.welcome.epoch > launch->epoch)
		launch->epoch = launch->link.welcome.epoch;
	world_offer(launch); /* first: it tells whose places those are */
	for (uint32_t r = 0; r < launch->nranks; r++) {
		const struct held *held = held_find(&launch->held, launch->ranks[r].id);
		if (held)
			uplink_return(&launch->link, held);
		if (launch->ranks[r].proc.pid)
			uplink_spawned(&launch->link, launch->ranks[r].id, &launch->ranks[r].proc);
	}
	if (launch->stop >= STOP_ASKED && !launch->leaving)
		uplink_stop(&launch->link);
	struct recovery *r = recovery_current(&launch->recoveries);
	if (r && r->daemon)
		r->replaced_ns = r->back_ns = now;
	if (!launch->started_ns && launch->stop == STOP_NONE && !launch->options.least)
		start_ranks(launch, now);
}

static uint64_t fault_of_ranks(const struct launch *launch, const struct wire_epoch *m, uint64_t now)
{
	uint64_t fired = 0;
	for (size_t i = 0; i < launch->nfaults; i++) {
		const struct fault *f = &launch->faults[i];
		if (f->kind == FAULT_KILL_DAEMON || !f->fired_ns || now - f->fired_ns > 60 * CLOCK_NS_PER_S)
			continue;
		for (uint32_t k = 0; k < m->nlost; k++)
			if (m->lost[k] == f->rank && f->fired_ns > launch->epoch_ns)
				fired = max_u64(fired, f->fired_ns);
	}
	return fired;
}

static void new_epoch(struct launch *launch, const struct wire_epoch *m, uint64_t now)
{
	struct recovery *r = recovery_open(&launch->recoveries, false, now);
	if (r) {
		r->epoch = m->epoch;
		if (!r->reason[0]) {
			snprintf(r->reason, sizeof(r->reason), "%.*s", RECOVERY_TEXT_MAX - 1, m->reason);
			r->fault_ns = fault_of_ranks(launch, m, now);
			r->step_known = held_newest_step(&launch->held, &r->step_before);
		}
	}
	launch->epoch = m->epoch;
	launch->epoch_ns = now;
	ranks_note_replaced(launch, now);
	launch_say(launch, "epoch %u: %s", m->epoch, m->reason);
	if (m->elsewhere)
		ranks_lost_elsewhere(launch, now);
}

static void take_arena(struct launch *launch, struct frame *f)
{
	struct wire_arena_of m;
	struct err err = {""};
	int rc = wire_arena_of_decode(f->body, f->len, &m, &err);
	int fd = rc ? -1 : frame_take_fd(f, 0);
	if (!rc)
		rc = fd < 0 ? err_set(&err, fd, "HOLD without an arena") : held_take(&launch->held, &m, fd, &err);
	if (rc)
		launch_warn(launch, "%s", err.text);
	else if (launch->stop == STOP_ASKED && !launch->leaving)
		uplink_stop(&launch->link); /* also for those that were made since */
}

static void on_frame(struct launch *launch, struct frame *f, uint64_t now)
{
	struct wire_epoch epoch;
	struct wire_plan plan;
	struct wire_error error;
	struct wire_command command;
	struct err err = {""};
	switch (f->type) {
	case WIRE_WELCOME:
		welcomed(launch, now);
		break;
	case WIRE_HOLD:
		take_arena(launch, f);
		break;
	case WIRE_EPOCH:
		if (wire_epoch_decode(f->body, f->len, &epoch, &err)) {
			launch_warn(launch, "%s", err.text);
			break;
		}
		if (epoch.epoch > launch->epoch)
			new_epoch(launch, &epoch, now);
		ranks_lost(launch, &epoch, now);
		break;
	case WIRE_PLAN:
		if (wire_plan_decode(f->body, f->len, &plan, &err))
			launch_warn(launch, "%s", err.text);
		else
			world_plan(launch, &plan, now);
		break;
	case WIRE_COMMAND:
		if (wire_command_decode(f->body, f->len, &command, &err))
			launch_warn(launch, "%s", err.text);
		else
			launch->drained = command.kind == COMMAND_DRAIN;
		break;
	case WIRE_STATUS:
		recovery_answer(&launch->recoveries, (const char *)f->body, f->len, launch->options.job);
		break;
	case WIRE_ERROR:
		if (wire_error_decode(f->body, f->len, &error, &err))
			break;
		if (f->seq && f->seq == launch->link.offer_seq)
			launch_give_up(launch, EXIT_FAILED, "%s", error.text);
		else
			launch_warn(launch, "the daemon says: %s", error.text);
		break;
	default:
		break;
	}
}

void daemon_receive(struct launch *launch, uint64_t now)
{
	while (!uplink_recv(&launch->link)) {
		on_frame(launch, &launch->link.frame, now);
		frame_free(&launch->link.frame);
	}
}

void daemon_ask(struct launch *launch)
{
	if (launch->link.state != UPLINK_UP)
		return;
	uplink_ask(&launch->link);
	recovery_asked(&launch->recoveries);
}

/* ---- time ------------------------------------------------------------------------------------------------------ */

/* A daemon that refuses us will go on refusing. */
static bool refused(int rc)
{
	return rc == -EINVAL || rc == -EOPNOTSUPP || rc == -EPROTONOSUPPORT || rc == -EACCES || rc == -EPROTO ||
	       rc == -EBADMSG;
}

/* Who attends starts this launcher again where the way to an earlier one broke: that one still ends its ranks. */
static uint64_t patience(struct launch *launch)
{
	if (!launch->options.attended || launch->link.rc != -EBUSY)
		return START_NS;
	if (!launch->told_busy)
		launch_say(launch, "%s: its end is waited for", launch->link.why.text);
	launch->told_busy = true;
	return launch->options.grace_ns + EARLIER_NS;
}

/* Who attends tells by it that this launcher has not come to the job. */
static int unanswered(const struct launch *launch)
{
	if (launch->link.rc != -EBUSY)
		return EXIT_NO_DAEMON;
	return launch->options.attended ? EXIT_LOCKED : EXIT_FAILED;
}

static void check_first_greeting(struct launch *launch, uint64_t now)
{
	const struct uplink *link = &launch->link;
	if (link->welcomed || launch->failed)
		return;
	if (refused(link->rc))
		launch_give_up(launch, EXIT_FAILED, "%s", link->why.text);
	else if (now - launch->begin_ns > patience(launch))
		launch_give_up(launch, unanswered(launch), "%s",
			       link->why.text[0] ? link->why.text : "the daemon does not answer");
}

void daemon_tick(struct launch *launch, uint64_t now)
{
	if (launch->keeper.owned && !launch->keeper.proc.pid && now >= launch->keeper.start_at)
		start_daemon(launch);
	launch->link.hello.epoch = held_epoch_known(&launch->held, launch->epoch);
	uplink_tick(&launch->link, now);
	check_first_greeting(launch, now);
	if (launch->link.state == UPLINK_UP && recovery_should_ask(&launch->recoveries, now))
		daemon_ask(launch);
	recovery_settle(&launch->recoveries, now);
}
