#include "spawn.h"

#include "arena/room.h"
#include "base/cleanup.h"
#include "identity.h"
#include "service/room.h"
#include "template.h"

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { REPORT_FD = 5, HIGH_FD = 64, ADDED_MAX = 32 };

/* What a worker needs beyond its arenas, for its control group. */
#define MEMORY_SLACK (512ull << 20)

/* ---- in the child -------------------------------------------------------------------------------------------------- */

static void report(uint32_t kind, int rc, const char *text, const struct share *share)
{
	struct post post = {.kind = kind, .rc = rc};
	snprintf(post.text, sizeof(post.text), "%s", text);
	if (share) {
		post.a = share->memory_limit;
		post.b = share->write_bandwidth;
		post.c = share->read_bandwidth;
	}
	(void)!write(REPORT_FD, &post, sizeof(post));
}

static _Noreturn void refuse(int rc, const struct err *err)
{
	report(POST_REFUSED, rc, err->text, NULL);
	_exit(1);
}

/* Every descriptor in its place, all others closed at once: others still hold what users sent. */
static void arrange(const int ends[4])
{
	int high[4], null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int i = 0; i < 4; i++)
		high[i] = fcntl(ends[i], F_DUPFD_CLOEXEC, HIGH_FD);
	dup2(null, STDIN_FILENO);
	dup2(high[3], STDOUT_FILENO);
	dup2(high[3], STDERR_FILENO);
	dup2(high[0], POST_CHANNEL_FD);
	dup2(high[1], POST_LEDGER_FD);
	dup2(high[2], REPORT_FD);
	close_range(REPORT_FD + 1, ~0u, 0);
	fcntl(REPORT_FD, F_SETFD, FD_CLOEXEC);
}

static void forget_signals(void)
{
	sigset_t none;
	sigemptyset(&none);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* A folder is made for a user only where nobody but root could have put something in its place. Elsewhere the user makes it. */
static int make_folder(const char *path, const struct identity *id, struct err *err)
{
	struct stat st;
	char previous[SETTING_TEXT_MAX];
	snprintf(previous, sizeof(previous), "%s", path);
	for (size_t len = strlen(previous); len > 1 && previous[len - 1] == '/';)
		previous[--len] = '\0';
	char *slash = strrchr(previous, '/');
	if (!slash || slash == previous)
		return 0;
	char name[NAME_MAX + 1];
	if (snprintf(name, sizeof(name), "%s", slash + 1) >= (int)sizeof(name))
		return err_set(err, -ENAMETOOLONG, "%s: the name is too long", path);
	*slash = '\0';
	AUTO_CLOSE int dir = open(previous, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0 || fstat(dir, &st) || st.st_uid != 0 || (st.st_mode & 022) || mkdirat(dir, name, 0700))
		return 0;
	AUTO_CLOSE int made = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (made < 0 || fchown(made, id->uid, id->gid))
		return err_set(err, -errno, "cannot give %s to user %s: %s", path, id->name, err_name(errno));
	return 0;
}

static void become(const struct identity *id)
{
	struct err err = {{0}};
	uid_t r, e, s;
	if (setgroups((size_t)id->ngroups, id->groups) || setresgid(id->gid, id->gid, id->gid) ||
	    setresuid(id->uid, id->uid, id->uid) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		refuse(-errno, (err_set(&err, -errno, "cannot become user %s: %s", id->name, err_name(errno)), &err));
	if (getresuid(&r, &e, &s) || r != id->uid || e != id->uid || s != id->uid || (id->uid && !setuid(0)))
		refuse(-EPERM, (err_set(&err, -EPERM, "root's rights cannot be given up for user %s", id->name), &err));
}

static void set_environment(const struct identity *id)
{
	static const char *const dropped[] = {"NOTIFY_SOCKET",   "WATCHDOG_PID",    "WATCHDOG_USEC",
					      "LISTEN_PID",      "LISTEN_FDS",      "LISTEN_FDNAMES",
					      "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "MAIL",
					      "CKPT_LOG_FORMAT", "STATE_DIRECTORY", "CREDENTIALS_DIRECTORY"};
	for (size_t i = 0; i < sizeof(dropped) / sizeof(dropped[0]); i++)
		unsetenv(dropped[i]);
	setenv("HOME", id->home, 1);
	setenv("USER", id->name, 1);
	setenv("LOGNAME", id->name, 1);
	setenv(POST_VARIABLE, "1", 1);
	umask(077);
}

struct added {
	char *argv[ADDED_MAX];
	int n;
};

static void add(struct added *a, const char *flag, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static void add(struct added *a, const char *flag, const char *fmt, ...)
{
	va_list ap;
	char *value = NULL;
	va_start(ap, fmt);
	if (vasprintf(&value, fmt, ap) < 0)
		_exit(1);
	va_end(ap);
	a->argv[a->n++] = (char *)flag;
	a->argv[a->n++] = value;
}

static int add_path(struct added *a, const char *flag, const char *text, const struct identity *id, char *dst,
		    struct err *err)
{
	struct template_user user = {id->name, id->home, id->uid};
	int rc = template_expand(text, &user, dst, SETTING_TEXT_MAX, err);
	if (!rc)
		add(a, flag, "%s", dst);
	return rc;
}

/* What the warden decides for the worker, as flags: they win over files and environment. Limits that depend on others come with
 * POST_BEGIN. */
static int decide(const struct spawn *s, const struct identity *id, struct added *a, struct err *err)
{
	struct config c;
	char path[SETTING_TEXT_MAX];
	int rc = 0;
	sources_fill(s->sources, SCOPE_NODE, NULL, &c);
	const struct setting *huge_pages = setting_find(SCOPE_NODE, "huge-pages");
	const struct given *pages = sources_find(s->sources, huge_pages, NULL);
	if (c.store)
		rc = add_path(a, "--store", c.store, id, path, err);
	if (!rc && c.store)
		rc = make_folder(path, id, err);
	if (!rc && c.span_log)
		rc = add_path(a, "--span-log", c.span_log, id, path, err);
	add(a, "--http", "off");
	/* The warden tells of the user's own limit, with the arithmetic. */
	add(a, "--memory-limit", "%lu", (unsigned long)c.memory_limit);
	/* The kernel's pool is one for all users. */
	add(a, "--huge-pages", "%s",
	    pages->origin == ORIGIN_DEFAULT ? "transparent" : huge_pages->choices[pages->value.number]);
	return rc;
}

static _Noreturn void run(const struct spawn *s, const struct added *added, const struct identity *id)
{
	struct err err = {{0}};
	char **argv = calloc((size_t)s->argc + (size_t)added->n + 1, sizeof(*argv));
	if (!argv)
		_exit(1);
	memcpy(argv, s->argv, (size_t)s->argc * sizeof(*argv));
	memcpy(argv + s->argc, added->argv, (size_t)added->n * sizeof(*argv));
	if (chdir("/"))
		_exit(1);
	execv("/proc/self/exe", argv);
	refuse(-errno, (err_set(&err, -errno, "cannot start ckptd for user %s: %s", id->name, err_name(errno)), &err));
}

static _Noreturn void child(const struct spawn *s, const int ends[4])
{
	struct err err = {{0}};
	struct share share;
	struct added added = {.n = 0};
	arrange(ends);
	forget_signals();
	struct identity *id = calloc(1, sizeof(*id));
	int rc = id ? identity_find(s->uid, id, &err) : err_set(&err, -ENOMEM, "out of memory");
	if (!rc)
		rc = identity_share(id, s->sources, &share, &err);
	if (rc)
		refuse(rc, &err);
	report(POST_WHO, 0, id->name, &share);
	rc = decide(s, id, &added, &err);
	struct config c;
	sources_fill(s->sources, SCOPE_NODE, NULL, &c);
	uint64_t most = share.memory_limit && share.memory_limit < c.memory_limit ? share.memory_limit : c.memory_limit;
	if (!rc)
		rc = confine_enter(s->confine, s->uid, most + MEMORY_SLACK, &err);
	if (rc)
		refuse(rc, &err);
	become(id);
	set_environment(id);
	run(s, &added, id);
}

/* ---- in the warden ------------------------------------------------------------------------------------------------- */

/* Reading ends never wait here; the writing end of the log never keeps the worker. */
static int log_pipe(int ends[2])
{
	return pipe2(ends, O_CLOEXEC | O_NONBLOCK) ? -errno : 0;
}

static void close_all(int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		cleanup_close(&fds[i]);
}

int spawn_worker(const struct spawn *s, struct spawned *out, struct err *err)
{
	/* ours, theirs: channel, ledger, report, log */
	int fds[8] = {-1, -1, -1, -1, -1, -1, -1, -1};
	int rc = post_pair(fds);
	if (!rc)
		rc = post_pair(fds + 2);
	if (!rc)
		rc = log_pipe(fds + 4);
	if (!rc)
		rc = log_pipe(fds + 6);
	pid_t pid = rc ? -1 : fork();
	if (!pid)
		child(s, (int[]){fds[1], fds[3], fds[5], fds[7]});
	if (!rc && pid < 0)
		rc = -errno;
	int pidfd = rc ? -1 : (int)syscall(SYS_pidfd_open, pid, 0);
	if (rc) {
		close_all(fds, 8);
		return err_set(err, rc, "cannot make a process for user %u: %s", s->uid, err_name(rc));
	}
	close(fds[1]);
	close(fds[3]);
	close(fds[5]);
	close(fds[7]);
	*out = (struct spawned){
		.pid = pid, .pidfd = pidfd, .channel = fds[0], .ledger = fds[2], .report = fds[4], .log = fds[6]};
	return 0;
}
