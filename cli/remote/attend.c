#include "remote/environment.h"
#include "remote/host.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/number.h"
#include "frame/output.h"
#include "process/launch_proc.h"
#include "process/left_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

/* The end of a daemon. */
#define GRACE_NS (30 * CLOCK_NS_PER_S)
#define KILLED_NS (10 * CLOCK_NS_PER_S)

enum { VARIABLES_MAX = 16, LETTERS_MAX = 64 };

struct attended {
	struct proc proc;
	uint64_t heard_ns;
	uint64_t kill_at;       /* UINT64_MAX: it is not to end */
	char letter;            /* when it is left alone */
	bool alone;             /* it is */
	const char *tag, *path; /* path: of what is noted of memory */
	struct left_memory memory;
};

static void note_one(void *arg, const char *pid)
{
	uint64_t number;
	if (number_parse(pid, INT_MAX, &number))
		(void)left_memory_note(arg, (pid_t)number);
}

/* What cannot be written is noted the next time. */
static void note_memory(struct attended *a)
{
	size_t before = a->memory.n;
	host_each_tagged(a->tag, note_one, &a->memory);
	if (a->memory.n > before && left_memory_append(&a->memory, before, a->path))
		a->memory.n = before;
}

static void obey(struct attended *a, char letter)
{
	if (letter == 'T' || letter == 'I')
		proc_signal(&a->proc, letter == 'T' ? SIGTERM : SIGINT);
	if (letter == 'K')
		proc_signal(&a->proc, SIGKILL);
	if (letter == 'N')
		note_memory(a);
}

static void leave_alone(struct attended *a, uint64_t now)
{
	a->alone = true;
	a->kill_at = now + GRACE_NS;
	obey(a, a->letter);
}

static void hear(struct attended *a, uint64_t now)
{
	char letters[LETTERS_MAX];
	ssize_t n = read(STDIN_FILENO, letters, sizeof(letters));
	if (!n || (n < 0 && errno != EAGAIN && errno != EINTR)) {
		leave_alone(a, now);
		return;
	}
	for (ssize_t i = 0; i < n; i++) {
		a->heard_ns = now;
		obey(a, letters[i]);
	}
}

/* The process has ended, and is not reaped. */
static bool has_ended(const struct attended *a)
{
	siginfo_t info = {.si_pid = 0};
	return !waitid(P_PID, (id_t)a->proc.pid, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid;
}

static void reap_others(const struct attended *a)
{
	for (pid_t pid; (pid = proc_next_ended()) && pid != a->proc.pid;)
		proc_reap(NULL, pid);
}

/* Its wait status. */
static int attend(struct attended *a)
{
	struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = a->proc.pidfd, .events = POLLIN}};
	enum { TURN_MS = 1000 };
	while (!has_ended(a)) {
		fds[0].fd = a->alone ? -1 : STDIN_FILENO;
		poll(fds, 2, a->proc.pidfd < 0 ? TURN_MS / 20 : TURN_MS);
		uint64_t now = clock_now();
		if (!a->alone && fds[0].revents)
			hear(a, now);
		if (!a->alone && now - a->heard_ns > HOST_SILENCE_NS)
			leave_alone(a, now);
		if (now >= a->kill_at)
			proc_signal(&a->proc, SIGKILL);
		reap_others(a);
	}
	return proc_reap(&a->proc, a->proc.pid);
}

/* A path may have the sign, too. */
static bool is_variable(const char *word)
{
	size_t name = strcspn(word, "=/");
	return name && word[name] == '=';
}

/* Those of the command line, and the tag; the rest is the command. */
static int set_of(struct cli *cli, char *set[VARIABLES_MAX], char tag[ENVIRONMENT_TEXT_MAX], int *command)
{
	int n = 0, i = 4;
	snprintf(tag, ENVIRONMENT_TEXT_MAX, HOST_TAG "=%s", cli->args[1]);
	set[n++] = tag;
	for (; i < cli->nargs && is_variable(cli->args[i]) && n < VARIABLES_MAX; i++)
		set[n++] = cli->args[i];
	*command = i;
	return n;
}

int host_run(struct cli *cli)
{
	struct attended a = {.letter = *cli->args[2],
			     .heard_ns = clock_now(),
			     .kill_at = UINT64_MAX,
			     .tag = cli->args[1],
			     .path = cli->args[3]};
	char *set[VARIABLES_MAX], tag[ENVIRONMENT_TEXT_MAX];
	struct err err = {""};
	int command, n = set_of(cli, set, tag, &command);
	if (command >= cli->nargs)
		return cli_fail(cli, EXIT_USAGE, "host run: no command");
	AUTO_FREE char **env = environment_with(set, n);
	struct proc_spec spec = {
		.argv = cli->args + command, .env = env, .out = -1, .err = -1, .death_signal = SIGTERM};
	proc_become_subreaper();
	if (!env || proc_start(&a.proc, &spec, &err))
		return cli_fail(cli, EXIT_FAILED, "%s", env ? err.text : "out of memory");
	fcntl(STDIN_FILENO, F_SETFL, fcntl(STDIN_FILENO, F_GETFL) | O_NONBLOCK);
	int status = attend(&a);
	left_memory_free(&a.memory);
	if (!proc_kill_all(clock_deadline(KILLED_NS)))
		return cli_fail(cli, EXIT_FAILED, "a process below %s does not die", cli->args[command]);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
