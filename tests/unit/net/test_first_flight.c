/* What is looked at of a call before OpenSSL sees a byte of it. */
#include "cluster/link/first_flight.h"

#include "base/cleanup.h"
#include "pair.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct line {
	int call, answer;
};

static struct line connect_line(void)
{
	union address at;
	AUTO_CLOSE int door = listening(&at);
	struct line l = {.call = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
	cr_assert_eq(connect(l.call, &at.any, sizeof(at.v4)), 0);
	l.answer = accepted(door);
	first_flight_await(l.answer);
	return l;
}

static void end_line(struct line *l)
{
	close(l->call);
	close(l->answer);
}

static void say(struct line *l, const void *bytes, size_t len)
{
	cr_assert_eq(send(l->call, bytes, len, MSG_NOSIGNAL), (ssize_t)len);
}

static bool readable(const struct line *l, int ms)
{
	struct pollfd fd = {l->answer, POLLIN, 0};
	return poll(&fd, 1, ms) > 0;
}

/* What it makes of these bytes when they are all that comes. */
static int look_at(const void *bytes, size_t len)
{
	struct line l = connect_line();
	say(&l, bytes, len);
	int rc = readable(&l, 2000) ? first_flight_come(l.answer) : 0;
	end_line(&l);
	return rc;
}

/* A record with a message of these lengths, without its bytes. */
static void heads(uint8_t out[9], unsigned record, unsigned message)
{
	const uint8_t made[9] = {22,
				 3,
				 1,
				 (uint8_t)(record >> 8),
				 (uint8_t)record,
				 1,
				 (uint8_t)(message >> 16),
				 (uint8_t)(message >> 8),
				 (uint8_t)message};
	memcpy(out, made, sizeof(made));
}

Test(first_flight, it_is_there_when_its_last_byte_is)
{
	uint8_t call[5 + 300] = {0};
	struct line l = connect_line();
	heads(call, 300, 296);
	for (size_t at = 0, n; at < sizeof(call); at += n) {
		n = at < 8 ? 4 : (sizeof(call) - at + 1) / 2;
		cr_expect_eq(first_flight_come(l.answer), 0, "after %zu bytes", at);
		cr_expect(!readable(&l, 0), "nobody is woken in vain");
		say(&l, call + at, n);
	}
	cr_assert(readable(&l, 2000));
	cr_expect_eq(first_flight_come(l.answer), 1);
	cr_expect_eq(recv(l.answer, call, 1, 0), 1, "it is left for who reads it");
	cr_expect_eq(recv(l.answer, call, sizeof(call), 0), (ssize_t)sizeof(call) - 1);
	say(&l, call, 1);
	cr_expect(readable(&l, 2000), "each byte that follows is told of");
	end_line(&l);
}

Test(first_flight, what_claims_to_be_longer_than_a_nodes_is_none)
{
	uint8_t head[9];
	const struct {
		unsigned record, message;
	} wrong[] = {{FIRST_FLIGHT_MAX, 100}, {16384, 100}, {300, 297}, {300, 131396}, {4000, 0xffffff}, {3, 0}};
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		heads(head, wrong[i].record, wrong[i].message);
		cr_expect_eq(look_at(head, sizeof(head)), -EACCES, "case %u", i);
	}
}

Test(first_flight, another_record_or_another_message_is_none)
{
	uint8_t head[9];
	heads(head, 300, 296);
	head[0] = 23;
	cr_expect_eq(look_at(head, sizeof(head)), -EACCES);
	heads(head, 300, 296);
	head[5] = 2;
	cr_expect_eq(look_at(head, sizeof(head)), -EACCES);
	cr_expect_eq(look_at("GET / HTTP/1.1\r\n", 16), -EACCES);
}

Test(first_flight, who_leaves_before_it_is_whole_has_left)
{
	uint8_t head[9];
	heads(head, 300, 296);
	for (size_t said = 0; said <= sizeof(head); said += 3) {
		struct line l = connect_line();
		if (said)
			say(&l, head, said);
		shutdown(l.call, SHUT_WR);
		cr_assert(readable(&l, 2000));
		cr_expect_eq(first_flight_come(l.answer), -ECONNRESET, "after %zu bytes", said);
		end_line(&l);
	}
}
