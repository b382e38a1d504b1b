#include "campaign/campaign_run.h"

#include "base/cleanup.h"
#include "remote/environment.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ARGS_MAX = 64, NUMBER_MAX = 24, VARIABLES_MAX = 8 };

struct args {
	char *list[ARGS_MAX];
	int n;
	char numbers[12][NUMBER_MAX];
	int nnumbers;
};

struct paths {
	char self[PATH_MAX], trainer[PATH_MAX], store[PATH_MAX], socket[PATH_MAX], report[PATH_MAX], roster[PATH_MAX],
		key[PATH_MAX];
};

static void add(struct args *a, const char *text)
{
	if (a->n + 1 < ARGS_MAX)
		a->list[a->n++] = (char *)text;
}

static void add_number(struct args *a, const char *option, uint64_t value, const char *unit)
{
	char *text = a->numbers[a->nnumbers++];
	snprintf(text, NUMBER_MAX, "%lu%s", (unsigned long)value, unit);
	add(a, option);
	add(a, text);
}

/* A program beside this one, else the one that PATH has. */
static const char *beside(const char *name, char dst[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", dst, PATH_MAX - 1);
	char *slash = n > 0 ? memrchr(dst, '/', (size_t)n) : NULL;
	if (slash && (size_t)(slash - dst) + strlen(name) + 2 <= PATH_MAX) {
		snprintf(slash + 1, PATH_MAX - (size_t)(slash + 1 - dst), "%s", name);
		if (!access(dst, X_OK))
			return dst;
	}
	snprintf(dst, PATH_MAX, "%s", name);
	return dst;
}

static void add_trainer(const struct campaign *c, struct args *a, const char *trainer, const char *report)
{
	for (int i = 0; c->command && c->command[i]; i++)
		add(a, c->command[i]);
	if (!c->command)
		add(a, trainer);
	add_number(a, "--steps", c->steps, "");
	add_number(a, "--save-memory-every", c->file.memory_every, "");
	add_number(a, "--save-storage-every", c->file.storage_every, "");
	add(a, "--report");
	add(a, report);
}

static void add_daemon(const struct campaign *c, struct args *a, uint32_t node, struct paths *p)
{
	if (campaign_is_elastic(c)) {
		add_number(a, "--nodes", c->nnodes - c->file.spares, "");
		add_number(a, "--min-ranks", c->file.min_ranks, "");
		if (node >= c->nnodes - c->file.spares)
			add(a, "--spare");
		return;
	}
	if (c->nnodes > 1) {
		add_number(a, "--nodes", c->nnodes, "");
		add_number(a, "--node-rank", node, "");
		return;
	}
	add(a, "--store");
	add(a, campaign_path(c, c->disturbed ? "store" : "calm", p->store));
}

static int start_there(const struct campaign *c, uint32_t node, struct proc *proc, const struct proc_spec *spec,
		       struct err *err)
{
	if (!c->disturbed || !c->net.nodes)
		return proc_start(proc, spec, err);
	int rc = campaign_net_enter(&c->net, node, err);
	if (rc)
		return rc;
	rc = proc_start(proc, spec, err);
	campaign_net_leave(&c->net);
	return rc;
}

static int start_here(const struct campaign *c, uint32_t node, const struct args *a, char *const *set, int n, int log,
		      struct proc *proc, struct err *err)
{
	AUTO_FREE char **env = environment_with(set, n);
	if (!env)
		return err_set(err, -ENOMEM, "out of memory");
	/* Where a campaign was killed nobody mends its network, and a last checkpoint would be waited for in vain. */
	bool waits = c->net.nodes && proc == &c->nodes[node].run;
	int death_signal = waits ? SIGKILL : SIGTERM;
	struct proc_spec spec = {.argv = a->list, .env = env, .out = log, .err = log, .death_signal = death_signal};
	return start_there(c, node, proc, &spec, err);
}

/* The device and the configuration are as here. Who is left alone takes no last checkpoint: the daemons end, too. */
static int start_on_host(struct campaign *c, uint32_t node, const struct args *a, char **set, int n, int log,
			 struct proc *proc, struct err *err)
{
	static const char *const passed[] = {"CKPT_DEVICE", "CKPT_CONFIG"};
	struct campaign_node *of = &c->nodes[node];
	char text[2][ENVIRONMENT_TEXT_MAX];
	for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++) {
		const char *value = getenv(passed[i]);
		if (!value)
			continue;
		snprintf(text[i], sizeof(text[i]), "%s=%s", passed[i], value);
		set[n++] = text[i];
	}
	bool run = proc == &of->run;
	return hosts_start(&c->hosts, node, run ? 'K' : 'T', set, n, a->list, log, proc,
			   run ? &of->run_in : &of->daemon_in, err);
}

/* Both of a node write to its log. */
static int start(struct campaign *c, uint32_t node, const struct args *a, struct proc *proc, struct err *err)
{
	char span_log[ENVIRONMENT_TEXT_MAX], path[PATH_MAX], log[PATH_MAX], *set[VARIABLES_MAX];
	int n = 0;
	set[n++] = (char *)"CKPT_LOG=info";
	if (c->disturbed) {
		snprintf(span_log, sizeof(span_log), "CKPT_SPAN_LOG=%s", campaign_node_path(c, node, "spans", path));
		set[n++] = (char *)"CKPT_FAULTS=yes";
		set[n++] = span_log;
	}
	if (c->disturbed)
		campaign_node_path(c, node, c->nnodes > 1 ? "log" : "run.log", log);
	else
		campaign_path(c, "calm.log", log);
	AUTO_CLOSE int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (fd < 0)
		return err_set(err, -errno, "%s: %s", log, err_name(errno));
	return c->hosts.n ? start_on_host(c, node, a, set, n, fd, proc, err)
			  : start_here(c, node, a, set, n, fd, proc, err);
}

/* The daemon's; on a host it is beside the daemon. */
static char *socket_of(const struct campaign *c, uint32_t node, char dst[PATH_MAX])
{
	if (c->hosts.n)
		return hosts_socket(&c->hosts, node, c->disturbed ? "s" : "calm", dst);
	return c->disturbed ? campaign_node_path(c, node, "s", dst) : campaign_path(c, "calm.s", dst);
}

/* Hosts append to no file that is of all. */
static char *report_of(const struct campaign *c, uint32_t node, char dst[PATH_MAX])
{
	if (c->hosts.n && c->disturbed)
		return campaign_node_path(c, node, "train.jsonl", dst);
	return campaign_path(c, c->disturbed ? "train.jsonl" : "calm.jsonl", dst);
}

int campaign_start_run(struct campaign *c, uint32_t node, struct err *err)
{
	struct paths p;
	struct args a = {.n = 0};
	add(&a, beside("ckpt", p.self));
	add(&a, "run");
	add_number(&a, "--ranks", c->disturbed ? campaign_file_each(&c->file) : c->calm_world, "");
	add(&a, "--job");
	add(&a, c->disturbed ? "campaign" : "calm");
	add_daemon(c, &a, node, &p);
	add(&a, "--socket");
	add(&a, socket_of(c, node, p.socket));
	add_number(&a, "--hang-timeout", c->file.hang_ms, "ms");
	add_number(&a, "--max-restarts", 1000, "");
	add_number(&a, "--restart-window", 60, "s");
	add(&a, "--");
	add_trainer(c, &a, beside("ckpt-train", p.trainer), report_of(c, node, p.report));
	return start(c, node, &a, &c->nodes[node].run, err);
}

int campaign_start_daemon(struct campaign *c, uint32_t node, struct err *err)
{
	struct paths p;
	struct args a = {.n = 0};
	char name[NUMBER_MAX];
	snprintf(name, sizeof(name), "node-%u", node);
	const char *const words[] = {beside("ckptd", p.self),
				     "--node",
				     name,
				     "--socket",
				     socket_of(c, node, p.socket),
				     "--store",
				     campaign_path(c, "store", p.store),
				     "--cluster",
				     campaign_path(c, "roster", p.roster),
				     "--cluster-key",
				     campaign_path(c, "key", p.key)};
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		add(&a, words[i]);
	add_number(&a, "--peer-timeout", CAMPAIGN_PEER_MS, "ms");
	add_number(&a, "--hang-timeout", c->file.hang_ms, "ms"); /* as the launchers: they kill whom it names */
	return start(c, node, &a, &c->nodes[node].daemon, err);
}
