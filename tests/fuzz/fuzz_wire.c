/* libFuzzer entry point: the control protocol: a message's type in one byte, then its body. What is accepted is written so that it is
 * accepted again, and then written the same. The bodies of REGISTER are those of fuzz_registration. */
#include "sealed.h"

#include "format/message/wire.h"

static void drop(void *m)
{
	(void)m;
}

#define ROUND_TRIP(message, release)                                                                                   \
	static void round_trip_##message(const uint8_t *data, size_t size)                                             \
	{                                                                                                              \
		struct wire_##message m, again;                                                                        \
		struct wbuf body = {0}, copy = {0};                                                                    \
		struct err err;                                                                                        \
		if (wire_##message##_decode(data, size, &m, &err))                                                     \
			return;                                                                                        \
		if (wire_##message##_encode(&m, &body) == 0) {                                                         \
			int rc = wire_##message##_decode(body.data, body.len, &again, &err);                           \
			if (rc && rc != -ENOMEM)                                                                       \
				abort();                                                                               \
			if (!rc && wire_##message##_encode(&again, &copy) == 0)                                        \
				same_text_or_abort(&body, &copy);                                                      \
			if (!rc)                                                                                       \
				release(&again);                                                                       \
		}                                                                                                      \
		wbuf_free(&body);                                                                                      \
		wbuf_free(&copy);                                                                                      \
		release(&m);                                                                                           \
	}
ROUND_TRIP(hello, drop)
ROUND_TRIP(welcome, drop)
ROUND_TRIP(error, drop)
ROUND_TRIP(arena, drop)
ROUND_TRIP(join, drop)
ROUND_TRIP(joined, wire_joined_free)
ROUND_TRIP(restore, drop)
ROUND_TRIP(restored, drop)
ROUND_TRIP(event, drop)
ROUND_TRIP(epoch, drop)
ROUND_TRIP(arena_of, drop)
ROUND_TRIP(spawned, drop)
ROUND_TRIP(exited, drop)
ROUND_TRIP(command, drop)
ROUND_TRIP(user, drop)
ROUND_TRIP(mark, drop)
ROUND_TRIP(moved, drop)
ROUND_TRIP(offer, drop)
ROUND_TRIP(plan, drop)

static void (*const round_trips[WIRE_TYPE_END])(const uint8_t *, size_t) = {
	[WIRE_HELLO] = round_trip_hello,     [WIRE_WELCOME] = round_trip_welcome,   [WIRE_ERROR] = round_trip_error,
	[WIRE_ARENA] = round_trip_arena,     [WIRE_JOIN] = round_trip_join,         [WIRE_JOINED] = round_trip_joined,
	[WIRE_RESTORE] = round_trip_restore, [WIRE_RESTORED] = round_trip_restored, [WIRE_EVENT] = round_trip_event,
	[WIRE_EPOCH] = round_trip_epoch,     [WIRE_HOLD] = round_trip_arena_of,     [WIRE_RETURN] = round_trip_arena_of,
	[WIRE_SPAWNED] = round_trip_spawned, [WIRE_EXITED] = round_trip_exited,     [WIRE_COMMAND] = round_trip_command,
	[WIRE_USER] = round_trip_user,       [WIRE_MOVED] = round_trip_moved,       [WIRE_OFFER] = round_trip_offer,
	[WIRE_PLAN] = round_trip_plan,       [WIRE_MARK] = round_trip_mark,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size && data[0] < WIRE_TYPE_END && round_trips[data[0]])
		round_trips[data[0]](data + 1, size - 1);
	return 0;
}
