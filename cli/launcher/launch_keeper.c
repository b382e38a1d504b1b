#include "launcher/launch_keeper.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RESTARTS_MAX = 20 };
#define RESTARTS_WINDOW_NS (60 * CLOCK_NS_PER_S)

static bool make_dir(struct keeper *keeper, const char *parent)
{
	static const char name[] = "/ckpt-run-XXXXXX", file[] = "/ckptd.sock";
	if (!parent || !*parent || strlen(parent) + sizeof(name) + sizeof(file) > sizeof(keeper->socket))
		return false; /* the path of a socket is short */
	snprintf(keeper->dir, sizeof(keeper->dir), "%s%s", parent, name);
	if (!mkdtemp(keeper->dir)) {
		keeper->dir[0] = 0;
		return false;
	}
	memcpy(keeper->socket, keeper->dir, strlen(keeper->dir));
	memcpy(keeper->socket + strlen(keeper->dir), file, sizeof(file));
	return true;
}

int keeper_private_socket(struct keeper *keeper, struct err *err)
{
	if (make_dir(keeper, getenv("XDG_RUNTIME_DIR")) || make_dir(keeper, getenv("TMPDIR")) ||
	    make_dir(keeper, "/tmp"))
		return 0;
	return err_set(err, -errno,
		       "no directory for the daemon's socket can be made below XDG_RUNTIME_DIR, TMPDIR or /tmp "
		       "(%s): give --socket",
		       err_name(errno));
}

static void find_binary(struct keeper *keeper)
{
	ssize_t n = readlink("/proc/self/exe", keeper->binary, sizeof(keeper->binary) - 1);
	char *slash = n > 0 ? memrchr(keeper->binary, '/', (size_t)n) : NULL;
	if (slash && (size_t)(slash - keeper->binary) + sizeof("/ckptd") <= sizeof(keeper->binary)) {
		memcpy(slash, "/ckptd", sizeof("/ckptd"));
		if (!access(keeper->binary, X_OK))
			return;
	}
	snprintf(keeper->binary, sizeof(keeper->binary), "ckptd");
}

void keeper_own(struct keeper *keeper, const char *store)
{
	int n = 0;
	find_binary(keeper);
	keeper->owned = true;
	keeper->store = store;
	keeper->budget.max = RESTARTS_MAX;
	keeper->budget.window_ns = RESTARTS_WINDOW_NS;
	keeper->argv[n++] = keeper->binary;
	keeper->argv[n++] = (char *)"--socket";
	keeper->argv[n++] = keeper->socket;
	if (store) {
		keeper->argv[n++] = (char *)"--store";
		keeper->argv[n++] = (char *)store;
	}
	keeper->argv[n] = NULL;
}

int keeper_start(struct keeper *keeper, char *const *env, struct err *err)
{
	/* SIGTERM: should the launcher be killed, the daemon still ends in good order. */
	struct proc_spec spec = {
		.argv = keeper->argv, .env = env, .out = STDERR_FILENO, .err = -1, .death_signal = SIGTERM};
	keeper->start_at = UINT64_MAX;
	keeper->starts++;
	return proc_start(&keeper->proc, &spec, err);
}

bool keeper_ended(struct keeper *keeper, bool ready, uint64_t now)
{
	uint64_t pause = 0;
	keeper->status = proc_reap(&keeper->proc, keeper->proc.pid);
	bool again = true;
	if (ready)
		streak_ended(&keeper->streak);
	else
		again = streak_failed(&keeper->streak, now, &pause);
	again = again && budget_take(&keeper->budget, now);
	keeper->given_up = !again;
	keeper->start_at = again ? now + pause : UINT64_MAX;
	return again;
}

/* A path that the caller has named may be of something else, for which the daemon has refused to start. */
static bool is_ours(const struct keeper *keeper)
{
	struct stat st;
	return keeper->dir[0] || (keeper->answered && !lstat(keeper->socket, &st) && S_ISSOCK(st.st_mode));
}

static void remove_socket(const struct keeper *keeper)
{
	if (is_ours(keeper))
		unlink(keeper->socket);
	if (keeper->dir[0])
		rmdir(keeper->dir);
}

void keeper_stop(struct keeper *keeper, uint64_t deadline)
{
	if (!keeper->owned)
		return;
	if (keeper->proc.pid) {
		struct pollfd p = {.fd = keeper->proc.pidfd, .events = POLLIN};
		proc_signal(&keeper->proc, SIGCONT); /* should it be stopped */
		proc_signal(&keeper->proc, SIGTERM);
		while (p.fd >= 0 && poll(&p, 1, clock_ms_until(deadline)) < 0 && errno == EINTR)
			;
		/* One that has ended is a zombie: this kills only one that is late. */
		proc_signal(&keeper->proc, SIGKILL);
		keeper->status = proc_reap(&keeper->proc, keeper->proc.pid);
	}
	remove_socket(keeper);
}
