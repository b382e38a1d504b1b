#include "pair.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "scratch.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[SCRATCH_MAX];
static struct roster *roster;
static struct err err;

void pair_setup(void)
{
	static const char text[] = "a 127.0.0.1:1\nb 127.0.0.1:2\nc 127.0.0.1:3\n";
	scratch_new(dir);
	cr_assert_eq(roster_parse("roster", text, strlen(text), &roster, &err), 0, "%s", err.text);
}

void pair_teardown(void)
{
	roster_free(roster);
	scratch_remove(dir);
}

struct credentials *with_key(unsigned self, const char *key)
{
	char path[SCRATCH_MAX + 8];
	struct credentials *c;
	snprintf(path, sizeof(path), "%s/key", dir);
	scratch_write(dir, "key", key, strlen(key));
	cr_assert_eq(chmod(path, 0600), 0);
	int rc = credentials_new(&(struct net_credentials){.key = path}, roster, self, &c, &err);
	cr_assert_eq(rc, 0, "%s", err.text);
	return c;
}

int listening(union address *at)
{
	socklen_t len = sizeof(*at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	*at = (union address){.v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
	cr_assert_eq(bind(fd, &at->any, sizeof(at->v4)), 0);
	cr_assert_eq(listen(fd, 8), 0);
	cr_assert_eq(getsockname(fd, &at->any, &len), 0);
	return fd;
}

int accepted(int door)
{
	int fd = accept4(door, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	cr_assert_geq(fd, 0);
	return fd;
}

struct pair connect_pair(struct credentials *caller, unsigned to, struct credentials *callee)
{
	union address at;
	AUTO_CLOSE int door = listening(&at);
	struct pair p = {.caller = caller, .callee = callee, .call = link_call(caller, to, 0, &at)};
	p.answer = link_accept(accepted(door), &at);
	cr_assert(p.call && p.answer);
	return p;
}

void end_pair(struct pair *p)
{
	link_free(p->call);
	link_free(p->answer);
	credentials_free(p->caller);
	if (p->callee != p->caller)
		credentials_free(p->callee);
}

int shake(struct link *l, struct credentials *c)
{
	return l->state == LINK_OVER ? -ECONNRESET : l->state == LINK_OPEN ? 1 : link_shake(l, c);
}

void settle(const struct link *a, const struct link *b)
{
	struct pollfd fds[] = {{a->state == LINK_OVER ? -1 : a->fd, (short)link_wants(a), 0},
			       {b->state == LINK_OVER ? -1 : b->fd, (short)link_wants(b), 0}};
	poll(fds, 2, 10);
}

void shake_hands(struct pair *p, int rc[2])
{
	uint64_t deadline = clock_deadline(10 * CLOCK_NS_PER_S);
	rc[0] = rc[1] = 0;
	while ((!rc[0] || !rc[1]) && clock_now() < deadline) {
		settle(p->call, p->answer);
		rc[0] = rc[0] ? rc[0] : shake(p->call, p->caller);
		rc[1] = rc[1] ? rc[1] : shake(p->answer, p->callee);
		if (rc[0] < 0)
			link_close(p->call);
		if (rc[1] < 0)
			link_close(p->answer);
	}
	cr_assert(rc[0] && rc[1], "nothing happens: %d, %d", rc[0], rc[1]);
}

struct pair open_pair(void)
{
	int rc[2];
	struct pair p = connect_pair(with_key(A, KEY_A), B, with_key(B, KEY_A));
	shake_hands(&p, rc);
	cr_assert(rc[0] == 1 && rc[1] == 1, "%d, %d", rc[0], rc[1]);
	return p;
}
