#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "collective/ring_wire.h"
#include "common/deadline.h"
#include "trainer/ring_ranks.h"

static int barrier(struct rank *r)
{
	return ring_barrier(r->ring, deadline_in_ms(10000));
}

Test(ring_connect, address_is_short_printable_text)
{
	struct ring *ring;

	cr_assert_eq(ring_listen("127.0.0.1", &ring), 0);
	cr_assert_lt(strlen(ring_address(ring)), RING_ADDRESS_SIZE);
	cr_assert_eq(strncmp(ring_address(ring), "127.0.0.1:", 10), 0);
	cr_assert_null(strchr(ring_address(ring), ' '));
	ring_free(ring);
}

Test(ring_connect, unusable_addresses_are_refused)
{
	struct ring *ring;

	cr_assert_eq(ring_listen("0.0.0.0", &ring), -EINVAL);
	cr_assert_eq(ring_listen("::", &ring), -EINVAL);
	cr_assert_eq(ring_listen("localhost", &ring), -EINVAL);
	cr_assert_eq(ring_listen("", &ring), -EINVAL);
	cr_assert_eq(ring_listen("192.0.2.1", &ring), -EADDRNOTAVAIL);
}

static int connect_to(const char *address, int64_t ms)
{
	const char *addresses[2] = {NULL, address};
	struct ring_group group = {.rank = 0, .world = 2, .addresses = addresses, .epoch = 1, .cancel_fd = -1};
	struct ring *ring;

	cr_assert_eq(ring_listen(NULL, &ring), 0);
	int rc = ring_connect(ring, &group, deadline_in_ms(ms));
	if (rc < 0)
		cr_assert_gt(strlen(ring_error(ring)), 0);
	ring_free(ring);
	return rc;
}

Test(ring_connect, malformed_addresses_are_refused)
{
	static const char *const bad[] = {
		"",
		"/",
		":",
		"127.0.0.1",
		"127.0.0.1:80",
		"127.0.0.1:80/",
		"127.0.0.1:80/00",
		"127.0.0.1:0/00112233445566778899aabbccddeeff",
		"127.0.0.1:65536/00112233445566778899aabbccddeeff",
		"127.0.0.1:+1/00112233445566778899aabbccddeeff",
		"0.0.0.0:80/00112233445566778899aabbccddeeff",
		"127.0.0.1:80/00112233445566778899aabbccddeefg",
		"[::1:80/00112233445566778899aabbccddeeff",
	};
	char endless[1000];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_assert_eq(connect_to(bad[i], 100), -EINVAL, "%s", bad[i]);
	memset(endless, '1', sizeof(endless)); /* not even terminated */
	cr_assert_eq(connect_to(endless, 100), -EINVAL);
}

Test(ring_connect, nobody_listening_is_said_at_once)
{
	char address[RING_ADDRESS_SIZE];
	struct ring *ring;
	int64_t start = monotonic_ns();

	cr_assert_eq(ring_listen(NULL, &ring), 0);
	snprintf(address, sizeof(address), "%s", ring_address(ring));
	ring_free(ring);
	cr_assert_eq(connect_to(address, 20000), -ECONNREFUSED);
	cr_assert_lt(monotonic_ns() - start, INT64_C(10000000000));
}

Test(ring_connect, silent_peer_runs_into_the_deadline)
{
	struct ring *silent;

	cr_assert_eq(ring_listen(NULL, &silent), 0); /* listens, but never connects nor answers */
	cr_assert_eq(connect_to(ring_address(silent), 100), -ETIMEDOUT);
	ring_free(silent);
}

Test(ring_connect, cancel_wakes_a_connecting_rank)
{
	struct ranks ranks = {0};
	struct timespec pause = {0, 50000000};

	ranks_listen(&ranks, 2);
	ranks_start(&ranks, 1, barrier); /* rank 1 never comes */
	nanosleep(&pause, NULL);
	int64_t start = monotonic_ns();
	eventfd_write(ranks.cancel_fd, 1);
	ranks_join(&ranks, 1);
	cr_assert_lt(monotonic_ns() - start, INT64_C(10000000000)); /* of 20 s */
	cr_assert_eq(ranks.rank[0].connected, -ECANCELED);
	ranks_free(&ranks);
}

Test(ring_connect, ipv6_works)
{
	const char *addresses[1] = {NULL};
	struct ring_group group = {.rank = 0, .world = 1, .addresses = addresses, .epoch = 1, .cancel_fd = -1};
	struct ring *ring;

	if (ring_listen("::1", &ring) < 0)
		cr_skip_test("no IPv6 loopback here");
	cr_assert_eq(strncmp(ring_address(ring), "[::1]:", 6), 0);
	cr_assert_eq(ring_connect(ring, &group, deadline_in_ms(1000)), 0);
	ring_free(ring);
}

Test(ring_connect, group_is_checked)
{
	struct ring_group group = {.rank = 2, .world = 2, .cancel_fd = -1};
	struct ring *ring;

	cr_assert_eq(ring_listen(NULL, &ring), 0);
	cr_assert_eq(ring_connect(ring, &group, deadline_in_ms(100)), -EINVAL);
	group.rank = -1;
	cr_assert_eq(ring_connect(ring, &group, deadline_in_ms(100)), -EINVAL);
	ring_free(ring);
}

Test(ring_connect, collectives_before_it_are_refused)
{
	struct ring *ring;

	cr_assert_eq(ring_listen(NULL, &ring), 0);
	cr_assert_eq(ring_barrier(ring, deadline_in_ms(100)), -ENOTCONN);
	ring_free(ring);
}

/* How many of two ranks are told that they are not in the other's epoch. */
static int told_of_another_epoch(int64_t connect_ms)
{
	struct ranks ranks = {0};
	int stale = 0;

	ranks_listen(&ranks, 2);
	ranks.epoch[0] = 4;
	ranks.epoch[1] = 5;
	ranks.connect_ms = connect_ms;
	ranks_start(&ranks, 2, barrier);
	ranks_join(&ranks, 2);
	for (int i = 0; i < 2; i++) {
		cr_assert_lt(ranks.rank[i].connected, 0);
		stale += ranks.rank[i].connected == -ESTALE;
	}
	if (ranks.rank[0].connected == -ESTALE)
		cr_assert_str_eq(ring_error(ranks.rank[0].ring), "rank 1 refused epoch 4: it is at epoch 5");
	ranks_free(&ranks);
	return stale;
}

/* Who is not told waits to the end of that time; on a busy machine one may have given up before the other has begun. */
Test(ring_connect, stale_epoch_is_refused_and_told)
{
	int stale = 0;

	for (int64_t ms = 500; !stale && ms <= 32000; ms *= 8)
		stale = told_of_another_epoch(ms);
	cr_assert_geq(stale, 1);
}

/* A plain connection to a ring's port. */
static int dial(const char *address)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	to.sin_port = htons((uint16_t)strtoul(strchr(address, ':') + 1, NULL, 10));
	cr_assert_eq(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

Test(ring_connect, strangers_do_no_harm)
{
	struct ranks ranks = {0};
	int fds[9];

	ranks_listen(&ranks, 3);
	for (int i = 0; i < 9; i++) {
		fds[i] = dial(ranks.addresses[1]);
		if (i % 3 == 1)
			cr_assert_eq(write(fds[i], "GET / HTTP/1.0\r\n\r\nand more than a hello has", 43), 43);
		if (i % 3 == 2)
			shutdown(fds[i], SHUT_WR);
	}
	ranks_start(&ranks, 3, barrier);
	ranks_join(&ranks, 3);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(ranks.rank[i].result, 0, "rank %d: %s", i, ring_error(ranks.rank[i].ring));
	for (int i = 0; i < 9; i++)
		close(fds[i]);
	ranks_free(&ranks);
}

Test(ring_connect, stale_peer_does_not_disturb_the_new_ring)
{
	struct ranks ranks = {0};
	struct ring_hello hello = {.magic = RING_MAGIC, .version = RING_VERSION, .rank = 0, .world = 3, .epoch = 0};
	struct ring_reply reply;

	ranks_listen(&ranks, 3);
	int fd = dial(ranks.addresses[1]);
	cr_assert_eq(write(fd, &hello, sizeof(hello)), (ssize_t)sizeof(hello));
	ranks_start(&ranks, 3, barrier);
	ranks_join(&ranks, 3);
	cr_assert_eq(recv(fd, &reply, sizeof(reply), MSG_WAITALL), (ssize_t)sizeof(reply));
	cr_assert_eq(reply.outcome, RING_OTHER_EPOCH);
	cr_assert_eq(reply.epoch, 1);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(ranks.rank[i].result, 0);
	close(fd);
	ranks_free(&ranks);
}
