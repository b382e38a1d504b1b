/* The processes of a campaign. On one node that is a `ckpt run`, which sees to its daemon. On several each node has a daemon and a `ckpt run`;
 * a daemon that has died is started again here, as a service manager does it. */
#include "campaign/campaign_run.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "campaign/campaign_hosts.h"
#include "frame/progress.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define GRACE_NS (90 * CLOCK_NS_PER_S)  /* for a last checkpoint */
#define SERVED_NS (20 * CLOCK_NS_PER_S) /* for the end of a daemon */
#define DEATH_NS (30 * CLOCK_NS_PER_S)  /* at a load of 60 a daemon that was killed took more than 5 s to end */
#define PAUSE_NS (100 * CLOCK_NS_PER_MS)

int campaign_start(struct campaign *c, bool disturbed, uint64_t steps, struct err *err)
{
	c->disturbed = disturbed;
	c->steps = steps;
	c->nnodes = disturbed ? c->file.nodes : 1;
	memset(c->nodes, 0, sizeof(c->nodes));
	for (uint32_t k = 0; k < c->nnodes; k++)
		c->nodes[k].run_in = c->nodes[k].daemon_in = -1;
	if (disturbed)
		campaign_skip_logs(c);
	if (c->nnodes == 1)
		return campaign_start_run(c, 0, err);
	int rc = 0;
	for (uint32_t k = 0; !rc && k < c->nnodes; k++) {
		c->nodes[k].start_at = clock_now();
		c->nodes[k].to_run = true;
		rc = c->hosts.n ? campaign_hosts_bridge(c, k, err) : 0;
	}
	return rc ? rc : campaign_write_cluster(c, err);
}

/* ---- a turn -------------------------------------------------------------------------------------------------------- */

static struct campaign_node *node_of(struct campaign *c, pid_t pid)
{
	for (uint32_t k = 0; k < c->nnodes; k++)
		if (c->nodes[k].run.pid == pid || c->nodes[k].daemon.pid == pid || c->nodes[k].bridge.pid == pid)
			return &c->nodes[k];
	return NULL;
}

static void hang_up(int *in)
{
	if (*in >= 0)
		close(*in);
	*in = -1;
}

/* A daemon never ends so: its remote shell does. What comes of it is no fault of the campaign's, so the campaign cannot go on. */
static void note_lost_daemon(const struct campaign *c, struct campaign_node *node, int status)
{
	if (!c->hosts.n || (!WIFSIGNALED(status) && WEXITSTATUS(status) != SHELL_BROKE))
		return;
	node->lost_daemon = !node->status;
	node->status = node->status ? node->status : status;
}

/* Whoever has ended: of a job that is to end no daemon is started again. */
static bool reap(struct campaign *c, bool again)
{
	pid_t pid = proc_next_ended();
	struct campaign_node *node = pid ? node_of(c, pid) : NULL;
	if (node && node->run.pid == pid) {
		node->status = proc_reap(&node->run, pid);
		node->lost_daemon = false;
		hang_up(&node->run_in);
	} else if (node && node->bridge.pid == pid) {
		proc_reap(&node->bridge, pid);
	} else if (node) {
		note_lost_daemon(c, node, proc_reap(&node->daemon, pid));
		hang_up(&node->daemon_in);
		node->start_at = again ? clock_deadline(PAUSE_NS) : 0;
	} else if (pid) {
		proc_reap(NULL, pid);
	}
	return pid;
}

/* One that was killed holds its address until it has ended. */
static int start_due(struct campaign *c, uint32_t k, struct err *err)
{
	struct campaign_node *node = &c->nodes[k];
	int rc = 0;
	if (node->start_at && clock_now() >= node->start_at && !node->daemon.pid) {
		node->start_at = 0;
		rc = campaign_start_daemon(c, k, err);
	}
	if (!rc && node->to_run && !node->run.pid && node->daemon.pid && node->answers) {
		node->to_run = false;
		rc = campaign_start_run(c, k, err);
	}
	return rc;
}

/* Each `ckpt run`; *status: of the first that has not ended well, else 0. */
static bool have_ended(const struct campaign *c, int *status)
{
	bool all = true;
	*status = 0;
	for (uint32_t k = 0; k < c->nnodes; k++) {
		all &= !c->nodes[k].run.pid && !c->nodes[k].to_run;
		if (!*status)
			*status = c->nodes[k].status;
	}
	return all;
}

int campaign_await(struct campaign *c, uint64_t deadline, int *status, struct err *err)
{
	for (;;) {
		int rc = 0;
		while (reap(c, true))
			;
		campaign_hosts_beat(c);
		if (have_ended(c, status) || *status)
			return 0;
		for (uint32_t k = 0; !rc && k < c->nnodes; k++)
			rc = start_due(c, k, err);
		if (rc)
			return rc;
		if (cli_interrupted())
			return -ECANCELED;
		if (clock_now() >= deadline)
			return -ETIMEDOUT;
		poll(NULL, 0, 20);
	}
}

/* What is behind a remote shell hears of it by a letter. */
static void signal_one(const struct campaign *c, const struct proc *proc, int in, int sig)
{
	if (!c->hosts.n)
		proc_signal(proc, sig);
	else
		hosts_tell(in, sig == SIGKILL ? 'K' : sig == SIGINT ? 'I' : 'T');
}

/* ---- the loss of a node -------------------------------------------------------------------------------------------- */

/* On a host the remote shells end when all processes below them have died. */
static bool are_gone(const struct campaign *c, const struct campaign_node *node, const pid_t *ranks, uint32_t n)
{
	for (uint32_t i = 0; !c->hosts.n && i < n; i++)
		if (!kill(ranks[i], 0))
			return false;
	return !node->run.pid && !node->daemon.pid;
}

/* As `host run` says it. */
static bool were_killed(int status)
{
	return WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGKILL;
}

int campaign_kill_node(struct campaign *c, uint32_t k, const pid_t *ranks, uint32_t n, uint64_t for_ms, struct err *err)
{
	struct campaign_node *node = &c->nodes[k];
	uint64_t deadline = clock_deadline(DEATH_NS);
	char path[PATH_MAX];
	if (!node->run.pid || !node->daemon.pid)
		return err_set(err, -ESRCH, "node-%u is not there", k);
	signal_one(c, &node->daemon, node->daemon_in, SIGKILL);
	signal_one(c, &node->run, node->run_in, SIGKILL); /* the kernel ends the ranks with it */
	for (uint32_t i = 0; !c->hosts.n && i < n; i++)
		kill(ranks[i], SIGKILL);
	while (!are_gone(c, node, ranks, n) && clock_now() < deadline)
		if (!reap(c, true))
			poll(NULL, 0, 1);
	bool gone = are_gone(c, node, ranks, n) && (!c->hosts.n || were_killed(node->status));
	if (!c->hosts.n)
		unlink(campaign_node_path(c, k, "s", path)); /* a machine that starts again has none */
	node->status = 0;
	node->lost_daemon = false;
	node->to_run = true;
	node->start_at = clock_deadline(for_ms * CLOCK_NS_PER_MS);
	return gone ? 0 : err_set(err, -ETIMEDOUT, "a process of node-%u has not died", k);
}

/* ---- the end ------------------------------------------------------------------------------------------------------- */

static bool any_left(const struct campaign *c, bool daemons)
{
	for (uint32_t k = 0; k < c->nnodes; k++)
		if (daemons ? c->nodes[k].daemon.pid : c->nodes[k].run.pid)
			return true;
	return false;
}

static void end(struct campaign *c, bool daemons, int sig, uint64_t deadline)
{
	for (uint32_t k = 0; k < c->nnodes; k++) {
		const struct campaign_node *n = &c->nodes[k];
		signal_one(c, daemons ? &n->daemon : &n->run, daemons ? n->daemon_in : n->run_in, sig);
	}
	while (any_left(c, daemons) && clock_now() < deadline)
		if (!reap(c, false))
			poll(NULL, 0, 20);
}

/* The other end of a bridge ends with it, and its socket is nobody's. */
static void end_bridges(struct campaign *c)
{
	char path[PATH_MAX];
	for (uint32_t k = 0; c->hosts.n && c->disturbed && k < c->nnodes; k++) {
		proc_signal(&c->nodes[k].bridge, SIGTERM);
		unlink(campaign_node_path(c, k, "s", path));
	}
}

static bool has_lost_daemon(const struct campaign *c)
{
	bool lost = false;
	for (uint32_t k = 0; k < c->nnodes; k++)
		lost |= c->nodes[k].lost_daemon;
	return lost;
}

/* The daemons stay until the ranks have made their last checkpoint. Without one of them they would wait for that in vain. */
void campaign_stop(struct campaign *c)
{
	campaign_net_mend_all(&c->net); /* a last checkpoint needs it */
	end(c, false, has_lost_daemon(c) ? SIGKILL : SIGINT, clock_deadline(GRACE_NS));
	end(c, true, SIGTERM, clock_deadline(SERVED_NS));
	end_bridges(c);
	proc_kill_all(clock_deadline(10 * CLOCK_NS_PER_S));
	for (uint32_t k = 0; k < c->nnodes; k++) {
		hang_up(&c->nodes[k].run_in);
		hang_up(&c->nodes[k].daemon_in);
	}
}
