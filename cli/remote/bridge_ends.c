/* The two ends of a bridge: `host bridge` beside the daemon, and `host serve` on the machine of the campaign. */
#include "remote/bridge.h"
#include "remote/host.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "frame/output.h"
#include "process/launch_proc.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define AGAIN_NS CLOCK_NS_PER_S

extern char **environ;

int host_bridge(struct cli *cli)
{
	struct bridge b;
	struct pollfd fds[BRIDGE_FDS];
	int rc = 0;
	signal(SIGPIPE, SIG_IGN);
	bridge_init(&b, STDIN_FILENO, STDOUT_FILENO, cli->args[1]);
	rc = bridge_greet(&b);
	while (!rc) {
		nfds_t n = bridge_poll(&b, fds);
		int come = poll(fds, n, HOST_SILENCE_NS / CLOCK_NS_PER_MS);
		rc = come > 0 ? bridge_turn(&b, fds) : come ? 0 : -EPIPE;
	}
	bridge_close(&b);
	return rc == -EPIPE ? EXIT_OK : cli_fail(cli, EXIT_FAILED, "the bridge broke: %s", err_name(rc));
}

struct server {
	struct bridge bridge;
	char *const *argv; /* what reaches the other end */
	struct proc proc;
	int in, out, listener;
	uint64_t start_at;
	uint32_t last; /* connection */
};

static int start(struct server *s, struct err *err)
{
	int to[2] = {-1, -1}, from[2] = {-1, -1};
	int bad = pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC);
	AUTO_CLOSE int to_read = to[0], to_write = to[1];
	AUTO_CLOSE int from_read = from[0], from_write = from[1];
	struct proc_spec spec = {
		.argv = s->argv, .env = environ, .in = to_read, .out = from_write, .err = -1, .death_signal = SIGTERM};
	int rc = bad ? err_set(err, -errno, "pipe: %s", err_name(errno)) : proc_start(&s->proc, &spec, err);
	if (rc)
		return rc;
	s->out = steal_fd(&to_write);
	s->in = steal_fd(&from_read);
	bridge_init(&s->bridge, s->in, s->out, NULL);
	s->bridge.waits = true;
	return 0;
}

static void stop(struct server *s)
{
	proc_signal(&s->proc, SIGKILL);
	if (s->proc.pid)
		proc_reap(&s->proc, s->proc.pid);
	bridge_close(&s->bridge);
	cleanup_close(&s->in);
	cleanup_close(&s->out);
	s->in = s->out = -1;
	bridge_init(&s->bridge, -1, -1, NULL);
	s->start_at = clock_deadline(AGAIN_NS);
}

/* Who connects while nobody is reached is told at once. */
static void accept_one(struct server *s)
{
	int sock = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (sock >= 0 && s->in < 0)
		close(sock);
	else if (sock >= 0)
		bridge_add(&s->bridge, ++s->last ? s->last : ++s->last, sock);
}

static void turn(struct server *s)
{
	struct pollfd fds[BRIDGE_FDS + 1];
	struct err ignored = {""};
	if (s->in < 0 && clock_now() >= s->start_at && start(s, &ignored))
		stop(s);
	nfds_t n = bridge_poll(&s->bridge, fds);
	fds[n] = (struct pollfd){.fd = s->listener, .events = POLLIN};
	if (poll(fds, n + 1, s->in < 0 ? clock_ms_until(s->start_at) : -1) <= 0)
		return;
	if (fds[n].revents)
		accept_one(s);
	if (s->in >= 0 && bridge_turn(&s->bridge, fds))
		stop(s);
}

/* Until it is ended by a signal. */
int host_serve(struct cli *cli)
{
	struct err err = {""};
	struct server s = {.argv = cli->args + 2, .in = -1, .out = -1, .proc.pidfd = -1};
	signal(SIGPIPE, SIG_IGN);
	bridge_init(&s.bridge, -1, -1, NULL);
	s.listener = channel_listen(cli->args[1], &err);
	if (s.listener < 0)
		return cli_fail(cli, EXIT_FAILED, "%s", err.text);
	for (;;)
		turn(&s);
}
