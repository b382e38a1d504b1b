#include "campaign/campaign_run.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "frame/progress.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ARGS_MAX = 64, NUMBER_MAX = 24, VARIABLES_MAX = 4 };
#define GRACE_NS (90 * CLOCK_NS_PER_S)

extern char **environ;

struct args {
	char *list[ARGS_MAX];
	int n;
	char numbers[8][NUMBER_MAX];
	int nnumbers;
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

static void add_trainer(const struct campaign *c, struct args *a, const char *trainer, uint64_t steps,
			const char *report)
{
	for (int i = 0; c->command && c->command[i]; i++)
		add(a, c->command[i]);
	if (!c->command)
		add(a, trainer);
	add_number(a, "--steps", steps, "");
	add_number(a, "--save-memory-every", c->file.memory_every, "");
	add_number(a, "--save-storage-every", c->file.storage_every, "");
	add(a, "--report");
	add(a, report);
}

/* This environment, without another job's, and with these. free() it. */
static char **environment(char (*set)[PATH_MAX + 32], int n)
{
	size_t count = 0, kept = 0;
	while (environ[count])
		count++;
	char **env = calloc(count + (size_t)n + 1, sizeof(*env));
	for (size_t i = 0; env && i < count; i++)
		if (strncmp(environ[i], "CKPT_", 5) != 0 || !strncmp(environ[i], "CKPT_DEVICE=", 12) ||
		    !strncmp(environ[i], "CKPT_CONFIG=", 12))
			env[kept++] = environ[i];
	for (int i = 0; env && i < n; i++)
		env[kept++] = set[i];
	return env;
}

int campaign_start(struct campaign *c, bool disturbed, uint64_t steps, struct err *err)
{
	char self[PATH_MAX], trainer[PATH_MAX], store[PATH_MAX], sock[PATH_MAX], log[PATH_MAX], spans[PATH_MAX],
		report[PATH_MAX];
	char set[VARIABLES_MAX][PATH_MAX + 32];
	struct args a = {.n = 0};
	int n = 0;
	campaign_path(c, "spans", spans);
	snprintf(set[n++], sizeof(set[0]), "CKPT_LOG=info");
	if (disturbed) {
		snprintf(set[n++], sizeof(set[0]), "CKPT_FAULTS=yes");
		snprintf(set[n++], sizeof(set[0]), "CKPT_SPAN_LOG=%s", spans);
	}
	AUTO_FREE char **env = environment(set, n);
	add(&a, beside("ckpt", self));
	add(&a, "run");
	add_number(&a, "--ranks", c->file.ranks, "");
	add(&a, "--job");
	add(&a, disturbed ? "campaign" : "calm");
	add(&a, "--store");
	add(&a, campaign_path(c, disturbed ? "store" : "calm", store));
	add(&a, "--socket");
	add(&a, campaign_path(c, disturbed ? "s" : "calm.s", sock));
	add_number(&a, "--hang-timeout", c->file.hang_ms, "ms");
	add_number(&a, "--max-restarts", 1000, "");
	add_number(&a, "--restart-window", 60, "s");
	add(&a, "--");
	add_trainer(c, &a, beside("ckpt-train", trainer), steps,
		    campaign_path(c, disturbed ? "train.jsonl" : "calm.jsonl", report));
	AUTO_CLOSE int fd = open(campaign_path(c, disturbed ? "run.log" : "calm.log", log),
				 O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (fd < 0 || !env) {
		int rc = env ? -errno : -ENOMEM;
		return err_set(err, rc, "%s: %s", log, err_name(rc));
	}
	struct proc_spec spec = {.argv = a.list, .env = env, .out = fd, .err = fd, .death_signal = SIGTERM};
	return proc_start(&c->run, &spec, err);
}

int campaign_await(struct campaign *c, uint64_t deadline, int *status)
{
	while (c->run.pid) {
		pid_t pid = proc_next_ended();
		if (pid == c->run.pid) {
			*status = proc_reap(&c->run, pid);
			return 0;
		}
		if (pid)
			proc_reap(NULL, pid);
		if (cli_interrupted())
			return -ECANCELED;
		if (clock_now() >= deadline)
			return -ETIMEDOUT;
		poll(NULL, 0, 20);
	}
	return 0;
}

void campaign_stop(struct campaign *c)
{
	uint64_t deadline = clock_deadline(GRACE_NS);
	if (c->run.pid)
		kill(c->run.pid, SIGINT);
	while (c->run.pid && clock_now() < deadline) {
		pid_t pid = proc_next_ended();
		if (pid)
			proc_reap(pid == c->run.pid ? &c->run : NULL, pid);
		else
			poll(NULL, 0, 20);
	}
	proc_kill_all(clock_deadline(10 * CLOCK_NS_PER_S));
}
