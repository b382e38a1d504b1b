#include "undertaker.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "service/room.h"

#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { GRAVES = 256, KEEP_MS = 1000, NOBODY = 65534, TRIES = 2 };

/* ---- the child ----------------------------------------------------------------------------------------------------- */

struct grave {
	int fd;
	uint64_t since;
};

/* A ring: the oldest goes first. */
struct yard {
	struct grave graves[GRAVES];
	unsigned first, n;
};

static void close_first(struct yard *y)
{
	close(y->graves[y->first].fd);
	y->first = (y->first + 1) % GRAVES;
	y->n--;
}

static void lay(void *arg, int fd)
{
	struct yard *y = arg;
	if (y->n == GRAVES)
		close_first(y);
	y->graves[(y->first + y->n++) % GRAVES] = (struct grave){fd, clock_now()};
}

static void work(int sock)
{
	struct yard yard = {.n = 0};
	for (;;) {
		struct pollfd p = {.fd = sock, .events = POLLIN};
		struct post post;
		int fd = -1, rc = -EAGAIN;
		if (poll(&p, 1, KEEP_MS / 4) > 0)
			rc = post_recv(sock, &post, &fd, lay, &yard);
		if (rc == -EPIPE)
			return;
		if (fd >= 0)
			lay(&yard, fd);
		while (yard.n && clock_now() - yard.graves[yard.first].since > KEEP_MS * CLOCK_NS_PER_MS)
			close_first(&yard);
	}
}

static void become_nobody(int sock)
{
	sigset_t none;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(sock, POST_CHANNEL_FD);
	close_range(POST_CHANNEL_FD + 1, ~0u, 0);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	/* Whom it works for is the only one who may look into it. */
	if (setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY) ||
	    prctl(PR_SET_DUMPABLE, 0))
		_exit(1);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* forgotten with the privileges */
	prctl(PR_SET_NAME, "ckptd-close");
}

/* ---- the warden ---------------------------------------------------------------------------------------------------- */

void undertaker_init(struct undertaker *u)
{
	*u = (struct undertaker){.sock = -1};
}

static int hire(struct undertaker *u)
{
	int ends[2], rc = post_pair(ends);
	if (rc)
		return rc;
	pid_t pid = fork();
	if (!pid) {
		become_nobody(ends[1]);
		work(POST_CHANNEL_FD);
		_exit(0);
	}
	close(ends[1]);
	if (pid < 0) {
		close(ends[0]);
		return -errno;
	}
	u->sock = ends[0];
	u->pid = pid;
	return 0;
}

void undertaker_tick(struct undertaker *u)
{
	for (unsigned i = 0; i < u->nstrays;) {
		if (waitpid(u->strays[i], NULL, WNOHANG) == 0)
			i++;
		else
			u->strays[i] = u->strays[--u->nstrays];
	}
}

/* Its end is not waited for: what it closes just now may keep it. Closing our end is safe: it is still the child's, too. */
static void dismiss(struct undertaker *u)
{
	if (u->sock < 0)
		return;
	close(u->sock);
	u->sock = -1;
	kill(u->pid, SIGKILL);
	undertaker_tick(u);
	u->strays[u->nstrays++] = u->pid;
}

void undertaker_bury(struct undertaker *u, int fd)
{
	struct post post = {.kind = POST_CONNECTION};
	bool buried = false;
	if (fd < 0)
		return;
	for (int i = 0; i < TRIES && !buried; i++) {
		if (u->sock < 0 && (u->nstrays == sizeof(u->strays) / sizeof(u->strays[0]) || hire(u)))
			break;
		buried = post_send(u->sock, &post, fd) == 0;
		if (!buried)
			dismiss(u);
	}
	if (!buried)
		log_warn("nobody is there to close a descriptor: it is closed here");
	close(fd);
}

void undertaker_free(struct undertaker *u)
{
	dismiss(u);
	undertaker_tick(u);
}
