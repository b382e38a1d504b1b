#include "process/launch_proc.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* An exec that takes longer (a file system that does not answer) counts as started. */
#define EXEC_NS (10 * CLOCK_NS_PER_S)

/* ---- start ----------------------------------------------------------------------------------------------------- */

/* The place of a stdout that the caller has closed lets nobody write (main.c). A rank is not to fail of that. */
static void keep_writable(int fd, int null)
{
	if ((fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY)
		dup2(null, fd);
}

/* In the child: only async-signal-safe calls. */
static void become(const struct proc_spec *spec, pid_t launcher, int report)
{
	sigset_t none;
	int null = open("/dev/null", O_RDWR);
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, spec->death_signal);
	if (getppid() != launcher) /* it died before the line above */
		_exit(127);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	signal(SIGINT, SIG_DFL); /* a shell ignores them for what it runs in the background */
	signal(SIGQUIT, SIG_DFL);
	/* Not SIGHUP: who ignores it was started with nohup, and means all of it. */
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	dup2(spec->in ? spec->in : null, STDIN_FILENO);
	if (spec->out >= 0)
		dup2(spec->out, STDOUT_FILENO);
	if (spec->err >= 0)
		dup2(spec->err, STDERR_FILENO);
	keep_writable(STDOUT_FILENO, null);
	if (null > STDERR_FILENO)
		close(null);
	if (spec->descriptors)
		setrlimit(RLIMIT_NOFILE, spec->descriptors);
	execvpe(spec->argv[0], spec->argv, spec->env);
	int code = errno;
	ssize_t ignored = write(report, &code, sizeof(code));
	(void)ignored;
	_exit(127);
}

/* What the child reports before its exec closes the pipe: nothing when it worked. */
static int exec_result(int pipe_end)
{
	int code = 0;
	struct pollfd p = {.fd = pipe_end, .events = POLLIN};
	uint64_t deadline = clock_deadline(EXEC_NS);
	int n;
	do {
		n = poll(&p, 1, clock_ms_until(deadline));
	} while (n < 0 && errno == EINTR);
	if (n < 1 || read(pipe_end, &code, sizeof(code)) != sizeof(code))
		return 0;
	return -code;
}

int proc_start(struct proc *proc, const struct proc_spec *spec, struct err *err)
{
	int ends[2];
	pid_t self = getpid();
	if (pipe2(ends, O_CLOEXEC))
		return err_set(err, -errno, "pipe: %s", err_name(errno));
	AUTO_CLOSE int from = ends[0], to = ends[1];
	pid_t pid = fork();
	if (pid < 0)
		return err_set(err, -errno, "fork: %s", err_name(errno));
	if (!pid)
		become(spec, self, to);
	setpgid(pid, pid); /* also here: a signal may be sent before the child gets to it */
	close(steal_fd(&to));
	int rc = exec_result(from);
	if (rc) {
		waitpid(pid, NULL, 0);
		return err_set(err, rc, "cannot start %s: %s", spec->argv[0], err_name(rc));
	}
	*proc = (struct proc){.pid = pid, .pidfd = (int)syscall(SYS_pidfd_open, pid, 0), .started_ns = clock_now()};
	return 0;
}

bool proc_may_start_later(int rc)
{
	return rc == -EAGAIN || rc == -ENOMEM || rc == -EMFILE || rc == -ENFILE;
}

void proc_signal(const struct proc *proc, int sig)
{
	if (proc->pid)
		kill(-proc->pid, sig);
}

bool proc_stopped(const struct proc *proc)
{
	char path[64], text[512];
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)proc->pid);
	AUTO_CLOSE int fd = proc->pid ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	text[n < 0 ? 0 : n] = 0;
	const char *name_end = strrchr(text, ')'); /* the name may hold anything */
	return name_end && name_end[1] && strchr("Tt", name_end[2]) && name_end[2];
}

/* ---- end ------------------------------------------------------------------------------------------------------- */

pid_t proc_next_ended(void)
{
	siginfo_t info = {0};
	if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT))
		return 0;
	return info.si_pid;
}

int proc_reap(struct proc *proc, pid_t pid)
{
	int status = 0;
	if (proc) {
		kill(-pid, SIGKILL);
		if (proc->pidfd >= 0)
			close(proc->pidfd);
		*proc = (struct proc){.pidfd = -1};
	}
	waitpid(pid, &status, 0);
	return status;
}

void proc_become_subreaper(void)
{
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

/* SIGKILL to every child. False: there was none. */
static bool kill_children(void)
{
	char path[64];
	int pid;
	bool any = false;
	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	FILE *f = fopen(path, "re");
	if (!f)
		return false; /* a kernel without this file: only the groups were killed */
	while (fscanf(f, "%d", &pid) == 1) {
		kill(pid, SIGKILL);
		any = true;
	}
	fclose(f);
	return any;
}

bool proc_kill_all(uint64_t deadline)
{
	while (kill_children()) {
		for (pid_t pid; (pid = proc_next_ended());)
			proc_reap(NULL, pid);
		if (clock_now() >= deadline)
			return false;
		poll(NULL, 0, 1); /* death is under way; the next round sees who is left */
	}
	return true;
}

char *proc_status_text(char *dst, size_t size, int status)
{
	if (WIFSIGNALED(status))
		snprintf(dst, size, "was killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		snprintf(dst, size, "exited with status %d", WEXITSTATUS(status));
	return dst;
}
