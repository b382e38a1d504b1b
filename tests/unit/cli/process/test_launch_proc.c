#include "process/launch_proc.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static struct proc start(const char *script, int out)
{
	char *argv[] = {(char *)"sh", (char *)"-c", (char *)script, NULL};
	struct proc_spec spec = {.argv = argv, .env = environ, .out = out, .err = -1, .death_signal = SIGKILL};
	struct proc proc;
	struct err err = {""};
	cr_assert_eq(proc_start(&proc, &spec, &err), 0, "%s", err.text);
	return proc;
}

static void await_end(const struct proc *proc)
{
	struct pollfd p = {.fd = proc->pidfd, .events = POLLIN};
	cr_assert_eq(poll(&p, 1, 20000), 1);
}

static void read_line(int fd, char *dst, size_t size)
{
	size_t n = 0;
	while (n + 1 < size) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		cr_assert_eq(poll(&p, 1, 20000), 1);
		if (read(fd, dst + n, 1) != 1 || dst[n] == '\n')
			break;
		n++;
	}
	dst[n] = 0;
}

Test(launch_proc, reports_how_a_process_ended)
{
	char text[80];
	struct proc proc = start("exit 3", -1);
	await_end(&proc);
	cr_assert_eq(proc_next_ended(), proc.pid);
	int status = proc_reap(&proc, proc.pid);
	cr_expect_eq(proc.pid, 0);
	cr_expect_eq(proc_next_ended(), 0);
	cr_expect_str_eq(proc_status_text(text, sizeof(text), status), "exited with status 3");
	proc = start("kill -9 $$", -1);
	await_end(&proc);
	status = proc_reap(&proc, proc.pid);
	cr_expect_str_eq(proc_status_text(text, sizeof(text), status), "was killed by signal 9 (Killed)");
}

Test(launch_proc, says_that_a_command_does_not_exist)
{
	char *argv[] = {(char *)"no-such-command-at-all", NULL};
	struct proc_spec spec = {.argv = argv, .env = environ, .out = -1, .err = -1, .death_signal = SIGKILL};
	struct proc proc;
	struct err err = {""};
	cr_expect_eq(proc_start(&proc, &spec, &err), -ENOENT);
	cr_expect(strstr(err.text, "no-such-command-at-all"), "%s", err.text);
	cr_expect_eq(proc_next_ended(), 0);
}

/* What a process sees of its signals: "SigBlk:...SigIgn:...". Its group is its own. */
static void signals_of_a_process(char line[128])
{
	int ends[2];
	char want[64];
	cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
	struct proc proc = start(
		"cut -d' ' -f5 /proc/$$/stat; grep -E 'Sig(Ign|Blk)' /proc/$$/status | tr -d '\\n'; echo", ends[1]);
	read_line(ends[0], line, 128);
	snprintf(want, sizeof(want), "%d", (int)proc.pid);
	cr_expect_str_eq(line, want);
	read_line(ends[0], line, 128);
	await_end(&proc);
	proc_reap(&proc, proc.pid);
	close(ends[0]);
	close(ends[1]);
}

Test(launch_proc, gives_each_process_a_group_and_clean_signals)
{
	char line[128];
	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_DFL);
	signals_of_a_process(line);
	cr_expect_str_eq(line, "SigBlk:\t0000000000000000SigIgn:\t0000000000000000");
}

/* Of a launcher that was started with nohup, the processes outlive the terminal, too. */
Test(launch_proc, hands_on_that_hangups_are_ignored)
{
	char line[128];
	signal(SIGHUP, SIG_IGN);
	signals_of_a_process(line);
	cr_expect_str_eq(line, "SigBlk:\t0000000000000000SigIgn:\t0000000000000001");
}

Test(launch_proc, kills_what_a_dead_leader_leaves_behind)
{
	int ends[2];
	char line[32];
	cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
	struct proc proc = start("sleep 1000 & echo $!; exit 0", ends[1]);
	close(ends[1]);
	read_line(ends[0], line, sizeof(line));
	await_end(&proc);
	proc_reap(&proc, proc.pid);
	/* The pipe ends when the last process that holds it is gone. */
	struct pollfd p = {.fd = ends[0], .events = POLLIN};
	cr_assert_eq(poll(&p, 1, 20000), 1);
	cr_expect_eq(read(ends[0], line, 1), 0);
	close(ends[0]);
}

Test(launch_proc, finds_processes_that_have_left_their_group)
{
	int ends[2];
	char line[32];
	proc_become_subreaper();
	cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
	struct proc proc = start("setsid sh -c 'echo here; exec sleep 1000' & sleep 1000", ends[1]);
	close(ends[1]);
	read_line(ends[0], line, sizeof(line));
	proc_signal(&proc, SIGKILL);
	await_end(&proc);
	proc_reap(&proc, proc.pid);
	cr_expect(proc_kill_all(clock_deadline(10 * CLOCK_NS_PER_S)));
	struct pollfd p = {.fd = ends[0], .events = POLLIN};
	cr_assert_eq(poll(&p, 1, 20000), 1);
	cr_expect_eq(read(ends[0], line, 1), 0);
	close(ends[0]);
}

Test(launch_proc, knows_a_stopped_process)
{
	struct proc none = {.pid = 0}, proc = start("exec sleep 1000", -1);
	cr_expect_not(proc_stopped(&none));
	cr_expect_not(proc_stopped(&proc));
	proc_signal(&proc, SIGSTOP);
	siginfo_t info;
	cr_assert_eq(waitid(P_PID, (id_t)proc.pid, &info, WSTOPPED), 0);
	cr_expect(proc_stopped(&proc));
	proc_signal(&proc, SIGKILL);
	await_end(&proc);
	cr_expect_not(proc_stopped(&proc));
	proc_reap(&proc, proc.pid);
}
