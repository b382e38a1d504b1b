#include "format/arena/arena.h"
#include "format/message/wire.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int decode_fn(const void *body, size_t len, void *m, struct err *err);

/* Every strict prefix and one byte too many must be refused; the copy is of exact size so that ASan sees any overrun. */
static void refuse_every_other_length(const struct wbuf *w, decode_fn *decode, size_t size)
{
	void *m = malloc(size);
	struct err err;
	for (size_t len = 0; len <= w->len + 1; len++) {
		if (len == w->len)
			continue;
		uint8_t *body = calloc(1, len ? len : 1);
		memcpy(body, w->data, len < w->len ? len : w->len);
		cr_assert_eq(decode(body, len, m, &err), -EBADMSG, "length %zu of %zu", len, w->len);
		cr_assert(*err.text);
		free(body);
	}
	free(m);
}

#define DECODE(name)                                                                                                   \
	static int decode_##name(const void *body, size_t len, void *m, struct err *err)                               \
	{                                                                                                              \
		return wire_##name##_decode(body, len, m, err);                                                        \
	}
DECODE(hello)
DECODE(welcome)
DECODE(error)
DECODE(arena)
DECODE(join)
DECODE(joined)
DECODE(restore)
DECODE(restored)
DECODE(event)
DECODE(epoch)
DECODE(arena_of)
DECODE(spawned)
DECODE(exited)
DECODE(command)
DECODE(answer)

/* Encodes, decodes and compares the structs (zero-initialised: padding is equal), then tries every other length. */
#define ROUND_TRIP(name, in)                                                                                           \
	do {                                                                                                           \
		AUTO_WBUF struct wbuf w_ = {0};                                                                        \
		struct err err_ = {0};                                                                                 \
		struct wire_##name back_;                                                                              \
		memset(&back_, 0, sizeof(back_));                                                                      \
		cr_assert_eq(wire_##name##_encode(&(in), &w_), 0);                                                     \
		cr_assert_eq(wire_##name##_decode(w_.data, w_.len, &back_, &err_), 0, "%s", err_.text);                \
		assert_same_##name(&(in), &back_);                                                                     \
		refuse_every_other_length(&w_, decode_##name, sizeof(back_));                                          \
	} while (0)

#define REFUSED(name, in)                                                                                              \
	do {                                                                                                           \
		AUTO_WBUF struct wbuf w_ = {0};                                                                        \
		struct err err_ = {0};                                                                                 \
		struct wire_##name back_;                                                                              \
		cr_assert_eq(wire_##name##_encode(&(in), &w_), 0);                                                     \
		cr_assert_eq(wire_##name##_decode(w_.data, w_.len, &back_, &err_), -EBADMSG);                          \
		cr_assert(*err_.text);                                                                                 \
	} while (0)

#define SAME(field) cr_assert_eq(a->field, b->field)
#define SAME_STR(field) cr_assert_str_eq(a->field, b->field)

static struct wire_hello hello(void)
{
	return (struct wire_hello){.protocol_min = 1,
				   .protocol_max = 3,
				   .role = ROLE_RANK,
				   .job = "job-1",
				   .rank = 2,
				   .world = 8,
				   .local_world = 4,
				   .epoch = 7,
				   .slots = 3,
				   .version = "0.1.0"};
}

static void assert_same_hello(const struct wire_hello *a, const struct wire_hello *b)
{
	SAME(protocol_min);
	SAME(protocol_max);
	SAME(role);
	SAME(rank);
	SAME(world);
	SAME(local_world);
	SAME(epoch);
	SAME(slots);
	SAME(plan);
	SAME_STR(job);
	SAME_STR(version);
}

Test(wire, hello_round_trip)
{
	struct wire_hello m = hello();
	ROUND_TRIP(hello, m);
}

Test(wire, hello_of_an_observer_needs_no_job)
{
	struct wire_hello m = {.protocol_min = 1, .protocol_max = 2, .role = ROLE_OBSERVER, .version = "0.1.0"};
	ROUND_TRIP(hello, m);
}

Test(wire, hello_with_bad_fields_is_refused)
{
	struct wire_hello m = hello();
	m.rank = 8;
	REFUSED(hello, m);
	m = hello();
	m.world = RANK_MAX + 1;
	REFUSED(hello, m);
	m = hello();
	m.local_world = WIRE_LOCAL_MAX + 1;
	m.world = 1000;
	REFUSED(hello, m);
	m = hello();
	m.local_world = 0;
	REFUSED(hello, m);
	m = hello();
	m.slots = 2;
	REFUSED(hello, m);
	m = hello();
	m.plan = 1;
	REFUSED(hello, m);
	m = hello();
	m.role = (enum wire_role)9;
	REFUSED(hello, m);
	m = hello();
	snprintf(m.job, sizeof(m.job), "../up");
	REFUSED(hello, m);
	m = hello();
	m.role = ROLE_LAUNCHER;
	REFUSED(hello, m);
	m.rank = 0; /* a launcher has none, but a plan */
	m.plan = 4;
	ROUND_TRIP(hello, m);
}

Test(wire, hello_of_another_protocol_names_both_sides)
{
	struct wire_hello m = hello();
	m.protocol_min = 5;
	m.protocol_max = 6;
	AUTO_WBUF struct wbuf w = {0};
	cr_assert_eq(wire_hello_encode(&m, &w), 0);
	/* Whatever follows the frozen prefix in that protocol. */
	wbuf_u64(&w, 42);
	struct err err;
	struct wire_hello back;
	cr_assert_eq(wire_hello_decode(w.data, w.len, &back, &err), -EPROTONOSUPPORT);
	cr_assert(strstr(err.text, "5 to 6"), "%s", err.text);
	cr_assert(strstr(err.text, "speaks 2: let"), "%s", err.text);
}

static void assert_same_welcome(const struct wire_welcome *a, const struct wire_welcome *b)
{
	SAME(protocol);
	SAME(epoch);
	SAME(storage);
	SAME(peers);
	SAME_STR(host);
	SAME_STR(node);
	SAME_STR(version);
}

Test(wire, welcome_round_trip)
{
	struct wire_welcome m = {.protocol = WIRE_PROTOCOL,
				 .epoch = 3,
				 .node = "n1",
				 .version = "0.1.0",
				 .storage = true,
				 .host = "10.0.0.7"};
	ROUND_TRIP(welcome, m);
	snprintf(m.node, sizeof(m.node), "a/b");
	REFUSED(welcome, m);
}

static void assert_same_error(const struct wire_error *a, const struct wire_error *b)
{
	SAME(rc);
	SAME_STR(text);
}

Test(wire, error_round_trip)
{
	struct wire_error m = {.rc = -EBUSY, .text = "rank 2 is held by process 77"};
	ROUND_TRIP(error, m);
	m.rc = 0;
	REFUSED(error, m);
	m.rc = 5;
	REFUSED(error, m);
}

Test(wire, control_characters_do_not_get_through)
{
	struct wire_error m = {.rc = -EIO, .text = "a\x1b[31mb\nc"}, back;
	AUTO_WBUF struct wbuf w = {0};
	cr_assert_eq(wire_error_encode(&m, &w), 0);
	cr_assert_eq(wire_error_decode(w.data, w.len, &back, NULL), 0);
	cr_assert_str_eq(back.text, "a [31mb c");
}

static void assert_same_arena(const struct wire_arena *a, const struct wire_arena *b)
{
	SAME(nlocal);
	cr_assert_arr_eq(a->ranks, b->ranks, sizeof(a->ranks));
	cr_assert_arr_eq(a->size, b->size, sizeof(a->size));
}

Test(wire, arena_round_trip)
{
	struct wire_arena m = {.nlocal = 2, .ranks = {4, 5}, .size = {1 << 20, 1 << 21}};
	ROUND_TRIP(arena, m);
	m.ranks[1] = 4;
	REFUSED(arena, m);
	m.ranks[1] = RANK_MAX;
	REFUSED(arena, m);
	m = (struct wire_arena){.nlocal = 1, .ranks = {4}, .size = {ARENA_HEAD - 1}};
	REFUSED(arena, m);
	m.nlocal = 0;
	REFUSED(arena, m);
}

Test(wire, a_count_above_the_bound_is_refused)
{
	AUTO_WBUF struct wbuf w = {0};
	wbuf_u32(&w, WIRE_LOCAL_MAX + 1);
	for (int i = 0; i <= WIRE_LOCAL_MAX; i++) {
		wbuf_u32(&w, (uint32_t)i);
		wbuf_u64(&w, 1 << 20);
	}
	struct wire_arena m;
	cr_assert_eq(wire_arena_decode(w.data, w.len, &m, NULL), -EBADMSG);
}

static void assert_same_join(const struct wire_join *a, const struct wire_join *b)
{
	SAME(epoch);
	SAME(address_len);
	SAME(timeout_ms);
	cr_assert_arr_eq(a->address, b->address, WIRE_ADDRESS_MAX);
}

Test(wire, join_round_trip)
{
	struct wire_join m = {.epoch = 2, .timeout_ms = 5000, .address_len = WIRE_ADDRESS_MAX};
	memset(m.address, 0xab, sizeof(m.address));
	ROUND_TRIP(join, m);
	m = (struct wire_join){0};
	ROUND_TRIP(join, m);
	m.address_len = WIRE_ADDRESS_MAX + 1;
	REFUSED(join, m);
}

Test(wire, joined_round_trip)
{
	uint32_t lens[3] = {4, 0, 256};
	uint8_t addresses[3 * WIRE_ADDRESS_MAX] = "abcd";
	memset(addresses + 2 * WIRE_ADDRESS_MAX, 7, WIRE_ADDRESS_MAX);
	struct wire_joined m = {.epoch = 9, .world = 3, .address_len = lens, .addresses = addresses}, back;
	AUTO_WBUF struct wbuf w = {0};
	cr_assert_eq(wire_joined_encode(&m, &w), 0);
	cr_assert_eq(wire_joined_decode(w.data, w.len, &back, NULL), 0);
	cr_assert_eq(back.epoch, 9);
	cr_assert_eq(back.world, 3);
	cr_assert_arr_eq(back.address_len, lens, sizeof(lens));
	cr_assert_arr_eq(back.addresses, addresses, sizeof(addresses));
	wire_joined_free(&back);
	refuse_every_other_length(&w, decode_joined, sizeof(back));
}

Test(wire, joined_allocates_nothing_for_a_world_that_the_message_cannot_hold)
{
	AUTO_WBUF struct wbuf w = {0};
	wbuf_u32(&w, 1);
	wbuf_u32(&w, RANK_MAX);
	wbuf_u16(&w, 0);
	struct wire_joined m;
	struct err err;
	cr_assert_eq(wire_joined_decode(w.data, w.len, &m, &err), -EBADMSG);
	cr_assert_null(m.addresses);
	cr_assert(strstr(err.text, "262144"), "%s", err.text);
}

static void assert_same_restore(const struct wire_restore *a, const struct wire_restore *b)
{
	SAME(epoch);
	SAME(step);
	SAME(timeout_ms);
}

Test(wire, restore_round_trip)
{
	struct wire_restore m = {.epoch = 2, .step = UINT64_MAX, .timeout_ms = 9};
	ROUND_TRIP(restore, m);
	m.step = STEP_MAX;
	ROUND_TRIP(restore, m);
	m.step = STEP_MAX + 1;
	REFUSED(restore, m);
}

static void assert_same_restored(const struct wire_restored *a, const struct wire_restored *b)
{
	SAME(step);
	SAME(epoch);
	SAME(source);
	SAME(fetch_ns);
	SAME(nlocal);
	SAME_STR(why);
	cr_assert_arr_eq(a->rank_blobs_absent, b->rank_blobs_absent, sizeof(a->rank_blobs_absent));
	cr_assert_arr_eq(a->ranks, b->ranks, sizeof(a->ranks));
	cr_assert_arr_eq(a->slots, b->slots, sizeof(a->slots));
}

Test(wire, restored_round_trip)
{
	struct wire_restored good = {.step = 120,
				     .epoch = 3,
				     .source = WIRE_FROM_STORAGE,
				     .fetch_ns = 12345,
				     .nlocal = 2,
				     .ranks = {0, 1},
				     .slots = {2, 7},
				     .rank_blobs_absent = {false, true},
				     .why = "step 121 is damaged"};
	struct wire_restored m = good;
	ROUND_TRIP(restored, m);
	m.slots[1] = ARENA_SLOTS_MAX;
	REFUSED(restored, m);
	m = good;
	m.source = 4;
	REFUSED(restored, m);
	m = good;
	m.step = STEP_MAX + 1;
	REFUSED(restored, m);
	m = good;
	m.nlocal = 0;
	REFUSED(restored, m);
}

static void assert_same_event(const struct wire_event *a, const struct wire_event *b)
{
	SAME(id.step);
	SAME(id.epoch);
	SAME(rc);
	SAME_STR(text);
}

Test(wire, event_round_trip)
{
	struct wire_event m = {.id = {120, 3}, .rc = -ENOSPC, .text = "no space on the store"};
	ROUND_TRIP(event, m);
	m.rc = 1;
	REFUSED(event, m);
}

static void assert_same_epoch(const struct wire_epoch *a, const struct wire_epoch *b)
{
	SAME(epoch);
	SAME(nlost);
	SAME(elsewhere);
	SAME_STR(reason);
	cr_assert_arr_eq(a->lost, b->lost, sizeof(a->lost));
}

Test(wire, epoch_round_trip)
{
	struct wire_epoch m = {.epoch = 4, .nlost = 2, .lost = {1, 3}, .elsewhere = true, .reason = "rank 1 died"};
	ROUND_TRIP(epoch, m);
	m.lost[1] = 1;
	REFUSED(epoch, m);
}

static void assert_same_arena_of(const struct wire_arena_of *a, const struct wire_arena_of *b)
{
	SAME(rank);
	SAME(size);
}

Test(wire, arena_of_round_trip)
{
	struct wire_arena_of m = {.rank = 1, .size = 1 << 20};
	ROUND_TRIP(arena_of, m);
	m.size = UINT64_MAX;
	REFUSED(arena_of, m);
	m = (struct wire_arena_of){.rank = RANK_MAX, .size = 1 << 20};
	REFUSED(arena_of, m);
}

static void assert_same_spawned(const struct wire_spawned *a, const struct wire_spawned *b)
{
	SAME(rank);
	SAME(pid);
}

static void assert_same_exited(const struct wire_exited *a, const struct wire_exited *b)
{
	SAME(rank);
	SAME(pid);
	SAME(status);
}

Test(wire, spawned_and_exited_round_trip)
{
	struct wire_spawned s = {.rank = 1, .pid = 77};
	ROUND_TRIP(spawned, s);
	s.pid = 0;
	REFUSED(spawned, s);
	struct wire_exited e = {.rank = 1, .pid = 77, .status = 9};
	ROUND_TRIP(exited, e);
	e.pid = -1;
	REFUSED(exited, e);
}

static void assert_same_command(const struct wire_command *a, const struct wire_command *b)
{
	SAME(kind);
	SAME(at_ns);
	cr_assert_str_eq(a->job, b->job);
	cr_assert_str_eq(a->node, b->node);
}

static void assert_same_answer(const struct wire_answer *a, const struct wire_answer *b)
{
	SAME(id.step);
	SAME(id.epoch);
	SAME(left);
	SAME(number);
	cr_assert_str_eq(a->job, b->job);
	cr_assert_str_eq(a->text, b->text);
}

Test(wire, commands_and_their_answers_round_trip)
{
	struct wire_command c = {.kind = COMMAND_HALT_BEFORE, .job = "gpt", .at_ns = 1717761600000000000};
	ROUND_TRIP(command, c);
	c.job[0] = 0;
	ROUND_TRIP(command, c);
	c.kind = COMMAND_DRAIN;
	REFUSED(command, c);
	memcpy(c.node, "n1", sizeof("n1"));
	ROUND_TRIP(command, c);
	c.kind = COMMAND_FLUSH;
	REFUSED(command, c);
	c = (struct wire_command){.kind = COMMAND_FLUSH, .job = "../x"};
	REFUSED(command, c);
	struct wire_answer a = {
		.id = {.step = 7, .epoch = 2}, .left = 3, .number = 9, .job = "gpt", .text = "step 7 is written"};
	ROUND_TRIP(answer, a);
	memcpy(a.job, "../x", sizeof("../x"));
	REFUSED(answer, a);
}

Test(wire, noise_never_decodes_into_something_out_of_bounds)
{
	static decode_fn *const decoders[] = {decode_hello,    decode_welcome, decode_error,    decode_arena,
					      decode_join,     decode_restore, decode_restored, decode_event,
					      decode_arena_of, decode_epoch,   decode_command,  decode_answer};
	static union {
		struct wire_hello hello;
		struct wire_restored restored;
		struct wire_arena arena;
		struct wire_epoch epoch;
		struct wire_welcome welcome;
		struct wire_event event;
	} m;
	uint64_t state = 88172645463325252ull;
	for (int round = 0; round < 20000; round++) {
		uint8_t body[96];
		for (size_t i = 0; i < sizeof(body); i++) {
			state ^= state << 13, state ^= state >> 7, state ^= state << 17;
			/* Mostly zeros, so that counts and lengths are often plausible. */
			body[i] = state & 0x300 ? 0 : (uint8_t)state;
		}
		size_t len = state % sizeof(body);
		int rc = decoders[(size_t)round % (sizeof(decoders) / sizeof(*decoders))](body, len, &m, NULL);
		cr_assert(rc == 0 || rc == -EBADMSG || rc == -EPROTONOSUPPORT, "%d", rc);
	}
}

Test(wire, every_type_has_a_name)
{
	for (uint16_t t = WIRE_HELLO; t < WIRE_TYPE_END; t++)
		cr_assert_str_neq(wire_name(t), "?");
	cr_assert_str_eq(wire_name(0), "?");
	cr_assert_str_eq(wire_name(WIRE_TYPE_END), "?");
}
