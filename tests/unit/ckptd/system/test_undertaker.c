#include "system/undertaker.h"

#include "base/clock.h"
#include "service/post.h"

#include <criterion/criterion.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

static struct undertaker u;

static void setup(void)
{
	undertaker_init(&u);
}

static void teardown(void)
{
	undertaker_free(&u);
}

TestSuite(undertaker, .init = setup, .fini = teardown);

/* Needs root: the child becomes nobody. */
static void skip_without_root(void)
{
	if (geteuid() != 0)
		cr_skip_test("not root");
}

static bool hung_up(int sock)
{
	struct pollfd p = {.fd = sock, .events = POLLIN};
	return poll(&p, 1, 30000) == 1 && p.revents & POLLHUP;
}

Test(undertaker, what_is_buried_is_closed_after_a_moment)
{
	int ends[2];
	skip_without_root();
	cr_assert_eq(post_pair(ends), 0);
	undertaker_bury(&u, ends[0]);
	struct pollfd p = {.fd = ends[1], .events = POLLIN};
	cr_assert_eq(poll(&p, 1, 100), 0, "it is gone at once: who was refused cannot read why");
	cr_assert(hung_up(ends[1]));
}

/* A socket with what nobody reads, which lingers: who closes it last waits that long. */
enum { LINGER_S = 200 };

static int plug(void)
{
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	struct linger linger = {1, LINGER_S};
	static char junk[65536];
	socklen_t len = sizeof(addr);
	int server = socket(AF_INET, SOCK_STREAM, 0), sock = socket(AF_INET, SOCK_STREAM, 0);
	cr_assert_eq(bind(server, (struct sockaddr *)&addr, sizeof(addr)), 0);
	cr_assert_eq(listen(server, 1), 0);
	cr_assert_eq(getsockname(server, (struct sockaddr *)&addr, &len), 0);
	cr_assert_eq(connect(sock, (struct sockaddr *)&addr, sizeof(addr)), 0);
	cr_assert_geq(accept(server, NULL, NULL), 0);
	while (send(sock, junk, sizeof(junk), MSG_DONTWAIT) > 0)
		;
	setsockopt(sock, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	return sock;
}

static void bury_many(void)
{
	for (int i = 0; i < 2000; i++) {
		int ends[2];
		cr_assert_eq(post_pair(ends), 0);
		close(ends[1]);
		undertaker_bury(&u, ends[0]);
	}
}

Test(undertaker, what_makes_the_closer_wait_does_not_keep_us)
{
	skip_without_root();
	uint64_t began = clock_now();
	int stuck = plug();
	undertaker_bury(&u, stuck); /* here its child hangs */
	pid_t first = u.pid;
	while (u.pid == first && clock_now() - began < LINGER_S / 2 * CLOCK_NS_PER_S) {
		bury_many();
		poll(NULL, 0, 250); /* until the plug's time to be closed has come, and the child is given up */
	}
	cr_assert_neq(u.pid, first, "the child did not hang: this test shows nothing");
	cr_assert_lt(clock_now() - began, LINGER_S * CLOCK_NS_PER_S);
}

Test(undertaker, a_child_that_dies_is_replaced)
{
	int ends[2];
	skip_without_root();
	cr_assert_eq(post_pair(ends), 0);
	undertaker_bury(&u, dup(ends[0]));
	pid_t first = u.pid;
	kill(first, SIGKILL);
	struct pollfd p = {.fd = u.sock, .events = POLLIN};
	cr_assert_eq(poll(&p, 1, 30000), 1);
	undertaker_bury(&u, ends[0]);
	cr_assert_neq(u.pid, first);
	cr_assert(hung_up(ends[1]));
}
