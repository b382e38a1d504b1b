#include "remote/bridge.h"

#include "base/clock.h"
#include "scratch.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define WAIT clock_deadline(60 * CLOCK_NS_PER_S)

static char folder[SCRATCH_MAX], path[SCRATCH_MAX + 16];
static int listener, near_end, near_to_far[2], far_to_near[2];
static struct bridge near, far;
static struct err err;

/* A daemon's socket behind the far end; one connection at the near end, whose client is near_end. */
static void setup(void)
{
	int pair[2];
	scratch_new(folder);
	snprintf(path, sizeof(path), "%s/s", folder);
	listener = channel_listen(path, &err);
	cr_assert(listener >= 0, "%s", err.text);
	cr_assert(!pipe(near_to_far) && !pipe(far_to_near) && !socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair));
	bridge_init(&near, far_to_near[0], near_to_far[1], NULL);
	bridge_init(&far, near_to_far[0], far_to_near[1], path);
	near_end = pair[0];
	bridge_add(&near, 7, pair[1]);
}

static void teardown(void)
{
	bridge_close(&near);
	bridge_close(&far);
	scratch_remove(folder);
}

TestSuite(bridge, .init = setup, .fini = teardown);

/* One event at this end. */
static int turn(struct bridge *b)
{
	struct pollfd fds[BRIDGE_FDS];
	nfds_t n = bridge_poll(b, fds);
	cr_assert(poll(fds, n, clock_ms_until(WAIT)) > 0, "nothing has come");
	return bridge_turn(b, fds);
}

static int accept_daemon(void)
{
	struct pollfd p = {.fd = listener, .events = POLLIN};
	cr_assert_eq(poll(&p, 1, clock_ms_until(WAIT)), 1, "nobody connects to the daemon");
	return accept(listener, NULL, NULL);
}

static int question(void)
{
	cr_assert_eq(channel_send(near_end, 3, 11, "what", 4, NULL, 0, WAIT), 0);
	cr_assert_eq(turn(&near), 0);
	cr_assert_eq(turn(&far), 0);
	return accept_daemon();
}

Test(bridge, a_frame_arrives_with_its_type_and_number)
{
	struct frame f;
	int daemon = question();
	cr_assert_eq(channel_recv(daemon, &f, WAIT), 0);
	cr_expect(f.type == 3 && f.seq == 11 && f.len == 4 && !memcmp(f.body, "what", 4));
	frame_free(&f);
}

static int greet_after(const char *before, size_t len)
{
	near.waits = true;
	cr_assert_eq(write(far_to_near[1], before, len), (ssize_t)len);
	cr_assert_eq(bridge_greet(&far), 0);
	return turn(&near);
}

Test(bridge, what_a_login_says_before_the_greeting_is_passed_over)
{
	struct frame f;
	cr_assert_eq(greet_after("Welcome\n\0\1\0\0\0\2\0\0\0", 17), 0);
	cr_expect(!near.waits && !near.used);
	int daemon = question();
	cr_assert_eq(channel_send(daemon, 4, 12, "that", 4, NULL, 0, WAIT), 0);
	cr_assert_eq(turn(&far), 0);
	cr_assert_eq(turn(&near), 0);
	cr_assert_eq(channel_recv(near_end, &f, WAIT), 0);
	cr_expect(f.type == 4 && f.seq == 12 && f.len == 4 && !memcmp(f.body, "that", 4));
	frame_free(&f);
}

Test(bridge, a_login_that_never_ceases_is_no_bridge)
{
	static char before[BRIDGE_BEFORE_MAX / 2 + 64];
	int rc = 0;
	near.waits = true;
	for (int i = 0; !rc && i < 2; i++) {
		cr_assert_eq(write(far_to_near[1], before, sizeof(before)), (ssize_t)sizeof(before));
		rc = turn(&near);
	}
	cr_expect_eq(rc, -EBADMSG);
}

/* It comes in a memfd, and in many pieces of the pipe. */
Test(bridge, a_large_answer_arrives_whole)
{
	enum { BYTES = 40000 };
	uint8_t *body = malloc(BYTES);
	struct frame f;
	int daemon = question();
	for (size_t i = 0; i < BYTES; i++)
		body[i] = (uint8_t)(i * 31);
	cr_assert_eq(channel_send(daemon, 4, 12, body, BYTES, NULL, 0, WAIT), 0);
	cr_assert_eq(turn(&far), 0);
	struct pollfd p = {.fd = near_end, .events = POLLIN};
	while (!poll(&p, 1, 0))
		cr_assert_eq(turn(&near), 0);
	cr_assert_eq(channel_recv(near_end, &f, WAIT), 0);
	cr_expect(f.type == 4 && f.seq == 12 && f.len == BYTES && !memcmp(f.body, body, BYTES));
	frame_free(&f);
	free(body);
}

/* A pipe that is full, and that nobody reads from. */
Test(bridge, an_end_that_takes_nothing_is_as_one_that_is_gone)
{
	enum { BYTES = 1 << 20 };
	uint8_t *body = calloc(1, BYTES);
	int daemon = question();
	cr_assert_eq(channel_send(daemon, 4, 12, body, BYTES, NULL, 0, WAIT), 0);
	far.send_ns = CLOCK_NS_PER_S / 100;
	cr_expect_eq(turn(&far), -EPIPE);
	free(body);
}

Test(bridge, the_end_of_a_connection_arrives_either_way)
{
	struct frame f;
	int daemon = question();
	close(daemon);
	cr_assert_eq(turn(&far), 0);
	cr_assert_eq(turn(&near), 0);
	cr_expect_eq(channel_recv(near_end, &f, WAIT), -EPIPE);
}

Test(bridge, who_asks_a_daemon_that_is_not_there_is_told)
{
	struct frame f;
	close(listener);
	unlink(path);
	cr_assert_eq(channel_send(near_end, 3, 11, "what", 4, NULL, 0, WAIT), 0);
	cr_assert_eq(turn(&near), 0);
	cr_assert_eq(turn(&far), 0);
	cr_assert_eq(turn(&near), 0);
	cr_expect_eq(channel_recv(near_end, &f, WAIT), -EPIPE);
}

Test(bridge, the_end_of_the_way_and_what_is_no_record_are_errors)
{
	close(far_to_near[1]);
	cr_expect_eq(turn(&near), -EPIPE);
	char text[64] = "Welcome to gpu1! Last login: today, from there, and all that";
	cr_assert_eq(write(near_to_far[1], text, sizeof(text)), (ssize_t)sizeof(text));
	cr_expect_eq(turn(&far), -EBADMSG);
}
