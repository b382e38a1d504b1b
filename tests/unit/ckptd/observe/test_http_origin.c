#include "observe/http_origin.h"

#include "base/cleanup.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

static int listener, asker;
static struct sockaddr_in to;

static void setup(void)
{
	socklen_t len = sizeof(to);
	to = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(listener, (struct sockaddr *)&to, sizeof(to)), 0);
	cr_assert_eq(listen(listener, 8), 0);
	cr_assert_eq(getsockname(listener, (struct sockaddr *)&to, &len), 0);
	asker = http_origin_asker();
}

static void teardown(void)
{
	close(listener);
	if (asker >= 0)
		close(asker);
}

TestSuite(http_origin, .init = setup, .fini = teardown);

static int connect_from(in_addr_t host)
{
	struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(host)};
	int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(s, (struct sockaddr *)&from, sizeof(from)), 0);
	cr_assert_eq(connect(s, (struct sockaddr *)&to, sizeof(to)), 0);
	return s;
}

/* Of the connection that waits. */
static struct http_origin accepted(int with)
{
	struct http_origin origin;
	AUTO_CLOSE int sock = accept(listener, NULL, NULL);
	cr_assert_geq(sock, 0);
	http_origin_of(with, sock, &origin);
	return origin;
}

static void need_asker(void)
{
	if (asker < 0)
		cr_skip_test("the kernel does not tell whose a socket is");
}

Test(http_origin, is_the_user_from_whatever_address_of_this_machine)
{
	need_asker();
	AUTO_CLOSE int one = connect_from(INADDR_LOOPBACK);
	struct http_origin a = accepted(asker);
	AUTO_CLOSE int two = connect_from(INADDR_LOOPBACK + 1);
	struct http_origin b = accepted(asker);
	cr_expect_eq(a.user, geteuid());
	cr_expect(http_origin_same(&a, &b));
}

Test(http_origin, of_two_users_is_not_the_same)
{
	need_asker();
	if (geteuid())
		cr_skip_test("only root can be another user");
	AUTO_CLOSE int one = connect_from(INADDR_LOOPBACK);
	struct http_origin a = accepted(asker);
	cr_assert_eq(seteuid(65534), 0);
	AUTO_CLOSE int two = connect_from(INADDR_LOOPBACK);
	cr_assert_eq(seteuid(0), 0);
	struct http_origin b = accepted(asker);
	cr_expect_eq(b.user, 65534);
	cr_expect_not(http_origin_same(&a, &b));
}

Test(http_origin, of_one_that_is_closed_already_is_nobody_of_this_machine)
{
	need_asker();
	close(connect_from(INADDR_LOOPBACK));
	struct http_origin a = accepted(asker);
	close(connect_from(INADDR_LOOPBACK + 1));
	struct http_origin b = accepted(asker);
	cr_expect_eq(a.user, HTTP_ORIGIN_NO_USER, "and not root");
	cr_expect(http_origin_same(&a, &b));
}

Test(http_origin, is_the_host_where_the_kernel_does_not_tell)
{
	AUTO_CLOSE int one = connect_from(INADDR_LOOPBACK);
	struct http_origin a = accepted(-EACCES);
	AUTO_CLOSE int two = connect_from(INADDR_LOOPBACK);
	struct http_origin b = accepted(-EACCES);
	AUTO_CLOSE int three = connect_from(INADDR_LOOPBACK + 1);
	struct http_origin c = accepted(-EACCES);
	cr_expect(http_origin_same(&a, &b));
	cr_expect_not(http_origin_same(&a, &c));
}
