/* Faults at the daemon's process, which is found by its socket. */
#include "faults/fault_request.h"

#include "base/channel.h"
#include "base/cleanup.h"
#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EFFECT_NS (5 * CLOCK_NS_PER_S)

static int signal_process(int pidfd, int sig, pid_t pid, struct err *err)
{
	if (syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0) == 0)
		return 0;
	int rc = -errno;
	return err_set(err, rc, "cannot signal the daemon, process %d: %s", (int)pid, err_name(rc));
}

/* The letter of its state in /proc; 0: there is no such process. */
static char state_of(pid_t pid)
{
	char path[32], line[512];
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	FILE *stat = fopen(path, "re");
	const char *end = stat && fgets(line, sizeof(line), stat) ? strrchr(line, ')') : NULL;
	if (stat)
		fclose(stat);
	return end && end[1] == ' ' ? end[2] : 0;
}

static int await_stopped(pid_t pid, struct err *err)
{
	uint64_t deadline = clock_deadline(EFFECT_NS);
	while (state_of(pid) != 'T') {
		if (clock_now() >= deadline)
			return err_set(err, -ETIMEDOUT, "the daemon, process %d, has not stopped", (int)pid);
		poll(NULL, 0, 1);
	}
	return 0;
}

/* Whatever happens here, it goes on. */
static int stop(const struct fault_request *q, int pidfd, pid_t pid, char text[WIRE_REASON_MAX], struct err *err)
{
	struct err ignored = {""};
	int rc = signal_process(pidfd, SIGSTOP, pid, err);
	uint64_t from = clock_now();
	if (!rc)
		rc = await_stopped(pid, err);
	if (!rc)
		poll(NULL, 0, (int)min_u64(q->for_ms, INT32_MAX)); /* a signal ends it early */
	int resumed = signal_process(pidfd, SIGCONT, pid, &ignored);
	if (!rc && resumed)
		rc = err_set(err, resumed, "%s", ignored.text);
	snprintf(text, WIRE_REASON_MAX, "process %d was stopped for %lu ms", (int)pid,
		 (unsigned long)((clock_now() - from) / CLOCK_NS_PER_MS));
	return rc;
}

/* Until it has ended, whatever interrupts the wait. False: it goes on. */
static bool await_end(int pidfd, uint32_t within_ms)
{
	struct pollfd fd = {.fd = pidfd, .events = POLLIN};
	uint64_t deadline = clock_deadline(within_ms * CLOCK_NS_PER_MS);
	int n = poll(&fd, 1, (int)within_ms);
	while (n < 0 && errno == EINTR)
		n = poll(&fd, 1, clock_ms_until(deadline));
	return n == 1;
}

static int await_death(int pidfd, pid_t pid, uint32_t within_ms, struct err *err)
{
	if (await_end(pidfd, within_ms))
		return 0;
	return err_set(err, -ETIMEDOUT, "the daemon, process %d, has not ended", (int)pid);
}

int fault_open_daemon(const struct fault_request *q, pid_t *pid, struct err *err)
{
	struct peer peer;
	AUTO_CLOSE int sock = channel_connect(q->socket, clock_deadline(EFFECT_NS), err);
	if (sock < 0)
		return sock;
	int rc = channel_peer(sock, &peer);
	if (rc)
		return err_set(err, rc, "cannot find the daemon's process: %s", err_name(rc));
	if (pid)
		*pid = peer.pid;
	int pidfd = (int)syscall(SYS_pidfd_open, peer.pid, 0);
	rc = pidfd < 0 ? -errno : 0;
	return rc ? err_set(err, rc, "cannot open the daemon, process %d: %s", (int)peer.pid, err_name(rc)) : pidfd;
}

void fault_await_daemon(const struct fault_request *q, int pidfd, struct fault_result *result)
{
	if (await_end(pidfd, q->entry->fires_ms))
		return;
	result->outcome = FAULT_NOT_FIRED;
	snprintf(result->text, sizeof(result->text), "the daemon has answered, and has not ended");
}

int fault_signal_daemon(const struct fault_request *q, char text[WIRE_REASON_MAX], struct err *err)
{
	pid_t pid = 0;
	AUTO_CLOSE int pidfd = fault_open_daemon(q, &pid, err);
	if (pidfd < 0)
		return pidfd;
	if (q->entry->kind == FAULT_STOP_DAEMON)
		return stop(q, pidfd, pid, text, err);
	int rc = signal_process(pidfd, q->entry->signal, pid, err);
	if (!rc)
		rc = await_death(pidfd, pid, q->entry->fires_ms, err);
	snprintf(text, WIRE_REASON_MAX, "process %d has %s", (int)pid, q->entry->signal == SIGTERM ? "ended" : "died");
	return rc;
}
