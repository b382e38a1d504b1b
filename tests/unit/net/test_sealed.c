/* Bytes of a lane that go sealed over TCP of loopback: whole, in order, under keys of their own. */
#include "cluster/link/sealed.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "pair.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

TestSuite(sealed, .init = pair_setup, .fini = pair_teardown);

static struct pair open_sealed_pair(void)
{
	struct pair p = open_pair();
	cr_assert(link_seal(p.call) && link_seal(p.answer));
	return p;
}

/* Sends so many bytes in pieces of every length, and reads them at the other end in others. */
static void stream_sealed(struct link *from, struct link *to, size_t count)
{
	static uint8_t sent[100000], got[sizeof(sent)];
	uint64_t deadline = clock_deadline(20 * CLOCK_NS_PER_S);
	size_t out = 0, in = 0;
	int n = 1;
	for (size_t i = 0; i < sizeof(sent); i++)
		sent[i] = (uint8_t)(i * 131 >> 4);
	while (in < count && clock_now() < deadline) {
		for (n = 1; out < count && n > 0; out += (size_t)n) {
			size_t at = out % sizeof(sent), len = min_u64(1 + out * 7 % 40000, sizeof(sent) - at);
			n = link_put(from, sent + at, min_u64(len, count - out));
		}
		cr_assert(n >= 0 && !link_push(from));
		settle(from, to);
		for (n = 1; n > 0; in += (size_t)n) {
			size_t at = in % sizeof(sent), len = min_u64(1 + in * 11 % 30000, sizeof(sent) - at);
			n = link_get(to, got, len);
			cr_assert_geq(n, 0);
			cr_assert_arr_eq(got, sent + at, (size_t)n);
		}
	}
	cr_assert_eq(in, count);
}

Test(sealed, sealed_bytes_arrive_whole_and_in_order)
{
	struct pair p = open_sealed_pair();
	stream_sealed(p.call, p.answer, 8 << 20);
	stream_sealed(p.answer, p.call, 8 << 20);
	end_pair(&p);
}

Test(sealed, keys_of_a_seal_are_renewed_on_the_way)
{
	struct pair p = open_sealed_pair();
	for (unsigned i = 0; i < 3; i++) {
		p.call->sealed->sent.sealer.records = p.answer->sealed->heard.sealer.records = SEALER_RECORDS - 3;
		stream_sealed(p.call, p.answer, 200000);
		cr_expect_lt(p.call->sealed->sent.sealer.records, 1000);
		cr_expect_eq(p.call->sealed->sent.keys, i + 2);
	}
	end_pair(&p);
}

Test(sealed, what_there_is_room_for_is_taken_whole)
{
	static uint8_t bytes[64 << 10], got[sizeof(bytes)];
	struct pair p = open_sealed_pair();
	unsigned pieces = 0;
	size_t in = 0;
	int n;
	while ((n = link_room(p.call, 8 + sizeof(bytes))) == 1 && ++pieces < 10000) {
		cr_assert_eq(link_put(p.call, "12345678", 8), 8);
		for (size_t at = 0; at < sizeof(bytes); at += (size_t)n)
			cr_assert_gt(n = link_put(p.call, bytes + at, sizeof(bytes) - at), 0);
	}
	cr_assert_eq(n, 0, "the network takes no more");
	cr_expect(link_wants(p.call) & EPOLLOUT);
	uint64_t deadline = clock_deadline(20 * CLOCK_NS_PER_S);
	while (in < pieces * (8 + sizeof(bytes)) && clock_now() < deadline) {
		cr_assert_eq(link_push(p.call), 0);
		cr_assert_geq(n = link_get(p.answer, got, sizeof(got)), 0);
		in += (size_t)n;
	}
	cr_expect_eq(in, pieces * (8 + sizeof(bytes)));
	cr_expect_eq(link_room(p.call, 8 + sizeof(bytes)), 1);
	end_pair(&p);
}

/* Each direction has keys of its own: what an end has said opens nothing when it comes back. */
Test(sealed, sealed_bytes_that_come_back_are_not_taken)
{
	uint8_t bytes[1024], out[16];
	struct pair p = open_sealed_pair();
	cr_assert(link_put(p.call, "0123456789abcdef", 16) == 16 && !link_push(p.call));
	ssize_t n = recv(p.answer->fd, bytes, sizeof(bytes), 0);
	cr_assert_eq(n, 16 + SEALER_MORE);
	cr_assert_eq(send(p.answer->fd, bytes, (size_t)n, MSG_NOSIGNAL), n);
	settle(p.call, p.call);
	cr_expect_eq(link_get(p.call, out, sizeof(out)), -EPROTO);
	cr_expect_eq(p.call->state, LINK_OVER);
	end_pair(&p);
}
