#include "base/failpoint.h"

#ifdef CKPT_FAILPOINTS
#include "base/cleanup.h"
#include "base/err.h"
#include "base/number.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Every failpoint of the code base, in alphabetical order, one per line so that additions do not conflict. "base.test"
 * stands nowhere but in the tests of this file. */
/* clang-format off */
static const char *const names[] = {
	"base.test",
	"catalog.list",
	"catalog.open",
	"catalog.query",
	"commit.aside",
	"commit.ask",
	"commit.close_dir",
	"commit.close_directory",
	"commit.close_directory_job",
	"commit.close_job",
	"commit.close_node",
	"commit.close_previous",
	"commit.data",
	"commit.digests",
	"commit.disarm",
	"commit.done",
	"commit.find_dir",
	"commit.find_job",
	"commit.job_dir",
	"commit.left",
	"commit.look",
	"commit.manifest",
	"commit.mkdir",
	"commit.name",
	"commit.node",
	"commit.notice",
	"commit.open_dir",
	"commit.open_job",
	"commit.open_node",
	"commit.over",
	"commit.prepared",
	"commit.previous",
	"commit.probe",
	"commit.probe_manifest",
	"commit.read_manifest",
	"commit.read_node",
	"commit.ready",
	"commit.remove",
	"commit.sidecars",
	"commit.stopped",
	"commit.sync_dir",
	"commit.sync_manifest",
	"commit.sync_name",
	"commit.sync_root",
	"commit.withdraw",
	"conn.send",
	"device.copy",
	"device.launch",
	"device.restore",
	"disk.allocate",
	"disk.allocate.after",
	"disk.close",
	"disk.close.after",
	"disk.fsync",
	"disk.fsync.after",
	"disk.link",
	"disk.link.after",
	"disk.mkdir",
	"disk.mkdir.after",
	"disk.open",
	"disk.open.after",
	"disk.read",
	"disk.read.after",
	"disk.register",
	"disk.rename",
	"disk.rename.after",
	"disk.rmdir",
	"disk.rmdir.after",
	"disk.truncate",
	"disk.truncate.after",
	"disk.unlink",
	"disk.unlink.after",
	"disk.write",
	"disk.write.after",
	"end.tell",
	"gc.manifest",
	"gc.move",
	"gc.open",
	"gc.plan",
	"gc.rmdir",
	"gc.sync",
	"gc.unlink",
	"job.arenas",
	"job.epoch",
	"job.raise",
	"job.register",
	"job.schedule",
	"mark.write",
	"memory.fill",
	"memory.pool",
	"memory.prefault",
	"plan.tell",
	"readback",
	"recover.fetch",
	"recover.memory",
	"recover.scan",
	"recover.there",
	"snapshot.digest",
	"snapshot.state",
	NULL,
};
/* clang-format on */

enum { ARMED_MAX = 64, LINE_SIZE = 160 };

enum action { ACT_ERROR, ACT_SHORT, ACT_DELAY, ACT_KILL };

struct armed {
	const char *name; /* of the table */
	enum action action;
	uint64_t arg; /* errno, bytes or milliseconds */
	uint64_t at;  /* fires at this hit only; 0: at every hit */
	_Atomic uint64_t hits;
};

/* Written before main and by failpoint_arm only. */
static struct armed armed[ARMED_MAX];
static size_t armed_count;

const char *const *failpoint_names(void)
{
	return names;
}

static void note(const char *what, const char *name, const char *action)
{
	const char *path = getenv("CKPT_FAILPOINT_LOG");
	if (!path || !*path)
		return;
	char line[LINE_SIZE];
	int n = snprintf(line, sizeof(line), "%s %s%s%s\n", what, name, *action ? " " : "", action);
	/* Opened anew for each line: the process under test may close descriptors that it does not know. */
	AUTO_CLOSE int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0 || write(fd, line, (size_t)n) != n)
		dprintf(STDERR_FILENO, "failpoint: cannot write %s: %s\n", path, err_name(errno));
}

static void sleep_ms(uint64_t ms)
{
	struct timespec left = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
	while (nanosleep(&left, &left) < 0 && errno == EINTR)
		;
}

static int fire(const struct armed *a, size_t *size)
{
	switch (a->action) {
	case ACT_ERROR:
		note("fired", a->name, "error");
		return -(int)a->arg;
	case ACT_SHORT:
		if (size && *size > a->arg) {
			note("fired", a->name, "short");
			*size = (size_t)a->arg;
		}
		return 0;
	case ACT_DELAY:
		note("fired", a->name, "delay");
		sleep_ms(a->arg);
		return 0;
	case ACT_KILL:
		note("fired", a->name, "kill");
		kill(getpid(), SIGKILL);
		for (;;)
			pause();
	}
	return 0;
}

int failpoint(const char *name, size_t *size)
{
	int saved = errno, rc = 0;
	bool noted = false;
	for (size_t i = 0; i < armed_count; i++) {
		struct armed *a = &armed[i];
		if (strcmp(a->name, name))
			continue;
		if (!noted)
			note("hit", name, "");
		noted = true;
		uint64_t hit = atomic_fetch_add(&a->hits, 1) + 1;
		if (!rc && (!a->at || a->at == hit))
			rc = fire(a, size);
	}
	errno = saved;
	return rc;
}

static const char *find_name(const char *name)
{
	for (size_t i = 0; names[i]; i++)
		if (!strcmp(names[i], name))
			return names[i];
	return NULL;
}

static bool parse_errno(const char *s, uint64_t *value)
{
	for (int e = 1; e < 256; e++) {
		const char *name = strerrorname_np(e);
		if (name && !strcmp(name, s)) {
			*value = (uint64_t)e;
			return true;
		}
	}
	return false;
}

static bool parse_action(struct armed *a, const char *word, const char *arg)
{
	if (!strcmp(word, "kill")) {
		a->action = ACT_KILL;
		return !arg;
	}
	if (!arg)
		return false;
	if (!strcmp(word, "error")) {
		a->action = ACT_ERROR;
		return parse_errno(arg, &a->arg);
	}
	a->action = !strcmp(word, "short") ? ACT_SHORT : ACT_DELAY;
	return (!strcmp(word, "short") || !strcmp(word, "delay")) && number_parse(arg, UINT64_MAX, &a->arg);
}

/* Cuts s at the last c. Returns what follows it, or NULL. */
static char *cut(char *s, char c)
{
	char *at = strrchr(s, c);
	if (!at)
		return NULL;
	*at = 0;
	return at + 1;
}

/* One NAME=ACTION[:ARG][@N]. */
static int parse_one(char *text, struct armed *a, struct err *err)
{
	AUTO_FREE char *whole = strdup(text);
	if (!whole)
		return err_set(err, -ENOMEM, "out of memory");
	char *hit = cut(text, '@');
	char *action = cut(text, '=');
	char *arg = action ? cut(action, ':') : NULL;
	if (!action || !parse_action(a, action, arg))
		return err_set(err, -EINVAL, "'%s' is not NAME=error:ERRNO|short:BYTES|delay:MILLISECONDS|kill[@N]",
			       whole);
	if (hit && (!number_parse(hit, UINT64_MAX, &a->at) || !a->at))
		return err_set(err, -EINVAL, "'%s': '@%s' is not a hit counted from 1", whole, hit);
	a->name = find_name(text);
	return a->name ? 0 : err_set(err, -ENOENT, "there is no failpoint '%s'", text);
}

int failpoint_arm(const char *spec, struct err *err)
{
	armed_count = 0;
	AUTO_FREE char *copy = strdup(spec ? spec : "");
	if (!copy)
		return err_set(err, -ENOMEM, "out of memory");
	char *rest = copy, *one;
	size_t n = 0;
	while ((one = strsep(&rest, ",")) != NULL) {
		if (!*one)
			continue;
		if (n == ARMED_MAX)
			return err_set(err, -E2BIG, "more than %d failpoints", ARMED_MAX);
		armed[n] = (struct armed){0};
		int rc = parse_one(one, &armed[n], err);
		if (rc < 0)
			return rc;
		n++;
	}
	armed_count = n;
	return 0;
}

__attribute__((constructor)) static void arm_from_environment(void)
{
	struct err err;
	if (failpoint_arm(getenv("CKPT_FAILPOINTS"), &err) < 0) {
		dprintf(STDERR_FILENO, "CKPT_FAILPOINTS: %s\n", err.text);
		_exit(2);
	}
}
#endif
