/* Every function of ckpt.h with every wrong argument: what it returns, and its sentence. tests/tidy/test_arguments.py reads the rows:
 * no function of ckpt.map may be missing, and each code must stand in ckpt.h. */
#include "ranks.h"
#include "refusals.h"

#include "client/session/session.h"
#include "format/arena/sized_blob.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

static struct ranks c;
static ckpt *s; /* of rank 0 of 1 */

/* What has no error to return. */
#define RETURNS(call, value) cr_assert_eq(call, value, "%s", #call)

static void open_one(void)
{
	ranks_open(&c, 1, NULL);
	s = c.s[0];
}

static void join_one(void)
{
	ranks_up(&c, 1, NULL);
	s = c.s[0];
}

static void close_one(void)
{
	ranks_down(&c);
}

TestSuite(arguments, .init = open_one, .fini = close_one);
TestSuite(arguments_joined, .init = join_one, .fini = close_one);

static char why[400];
static float data[64];
static const uint64_t shape[] = {8, 8}, offset[] = {0, 4}, extent[] = {8, 4};
static ckpt_snapshot *snap = (ckpt_snapshot *)&why;
static char long_name[600];

static const char *name_of(size_t bytes)
{
	memset(long_name, 'x', sizeof(long_name) - 1);
	long_name[bytes] = 0;
	return long_name;
}

/* ---- open -------------------------------------------------------------------------------------------------------- */

static const ckpt_options *options(ckpt_options o)
{
	static ckpt_options kept;
	kept = o;
	if (!kept.size)
		kept.size = sizeof(kept);
	if (!kept.socket)
		kept.socket = fake_socket(c.f);
	if (!kept.world)
		kept.world = 1;
	return &kept;
}

static int open_with(ckpt_options o)
{
	ckpt *none = s;
	int rc = ckpt_open(options(o), &none, why, sizeof(why));
	cr_assert_null(none);
	return rc;
}

Test(arguments, of_open)
{
	ckpt *none = s;
	REFUSES_IN_WHY(ckpt_open(NULL, NULL, why, sizeof(why)), -EINVAL, "`out` is NULL");
	cr_assert_eq(ckpt_open(NULL, NULL, NULL, 0), -EINVAL);
	cr_assert_eq(ckpt_open(options((ckpt_options){.rank = 9}), &none, NULL, 7), -EINVAL);
	cr_assert_null(none);
	REFUSES_IN_WHY(open_with((ckpt_options){.size = 8}), -EINVAL, "ckpt_options.size is 8");
	REFUSES_IN_WHY(open_with((ckpt_options){.size = SIZE_MAX}), -EINVAL, "CKPT_INIT(ckpt_options)");
	REFUSES_IN_WHY(open_with((ckpt_options){.job = ""}), -EINVAL, "ckpt_options.job: job name is empty");
	REFUSES_IN_WHY(open_with((ckpt_options){.job = "a/b"}), -EINVAL, "job name \"a/b\": byte 1");
	REFUSES_IN_WHY(open_with((ckpt_options){.job = "a\n\xff"}), -EINVAL, "job name \"a\\n\\xff\": byte 1");
	REFUSES_IN_WHY(open_with((ckpt_options){.job = name_of(64)}), -EINVAL, "longer than 63 bytes");
	REFUSES_IN_WHY(open_with((ckpt_options){.job = name_of(512)}), -EINVAL, "longer than 63 bytes");
	REFUSES_IN_WHY(open_with((ckpt_options){.socket = name_of(300)}), -EINVAL, "socket has 300 bytes");
	REFUSES_IN_WHY(open_with((ckpt_options){.world = -1}), -EINVAL, "world is -1");
	REFUSES_IN_WHY(open_with((ckpt_options){.rank = -1}), -EINVAL, "rank is -1");
	REFUSES_IN_WHY(open_with((ckpt_options){.rank = 1}), -EINVAL, "rank is 1, not from 0 to 0");
	REFUSES_IN_WHY(open_with((ckpt_options){.local_world = -1}), -EINVAL, "local_world is -1");
	REFUSES_IN_WHY(open_with((ckpt_options){.local_world = 2}), -EINVAL, "2 ranks on this node");
	REFUSES_IN_WHY(open_with((ckpt_options){.strict = 2}), -EINVAL, "strict is 2");
	REFUSES_IN_WHY(open_with((ckpt_options){.timeout_ms = -1}), -EINVAL, "timeout_ms is -1");
	REFUSES_IN_WHY(open_with((ckpt_options){.slots = 2}), -EINVAL, "slots is 2");
	REFUSES_IN_WHY(open_with((ckpt_options){.slots = 9}), -EINVAL, "slots is 9");
	REFUSES_IN_WHY(open_with((ckpt_options){.staging = -1}), -EINVAL, "staging is -1");
	REFUSES_IN_WHY(open_with((ckpt_options){.vote = 2}), -EINVAL, "vote is 2");
	struct {
		ckpt_options known;
		uint64_t newer;
	} later = {.known = {.size = sizeof(later)}, .newer = 1};
	REFUSES_IN_WHY(ckpt_open(&later.known, &none, why, sizeof(why)), -E2BIG, "ckpt_options has fields");
}

/* ---- no session, no snapshot --------------------------------------------------------------------------------------- */

Test(arguments, without_a_session)
{
	const char says[] = "the session is NULL";
	char name[24];
	uint64_t ms;
	const ckpt_tensor t = {.size = sizeof(t)};
	ckpt_snapshot *out = snap;
	REFUSES_WITHOUT(ckpt_rank(NULL), -EINVAL, says);
	REFUSES_WITHOUT(ckpt_world(NULL), -EINVAL, says);
	REFUSES_WITHOUT(ckpt_epoch(NULL), 0, says);
	REFUSES_WITHOUT(ckpt_epoch_fd(NULL), -EINVAL, says);
	REFUSES_WITHOUT(ckpt_has_storage(NULL), -EINVAL, says);
	REFUSES_WITHOUT(ckpt_register_tensor(NULL, &t), -EINVAL, says);
	REFUSES_WITHOUT(ckpt_register_tensor(NULL, NULL), -EINVAL, says);
	REFUSES_WITHOUT(ckpt_register_blob(NULL, "b", CKPT_SCOPE_JOB, data, 4), -EINVAL, says);
	REFUSES_WITHOUT(ckpt_register_device_blob(NULL, "b", CKPT_SCOPE_JOB, data, 4, CKPT_HOST), -EINVAL, says);
	REFUSES_WITHOUT(ckpt_register_sized_blob(NULL, "b", CKPT_SCOPE_JOB, 4), -EINVAL, says);
	REFUSES_WITHOUT(ckpt_set_blob(NULL, "b", data, 4), -EINVAL, says);
	REFUSES_WITHOUT(ckpt_get_blob(NULL, "b", data, 4), -EINVAL, says);
	REFUSES_WITHOUT(ckpt_rebind(NULL, "w", 0, data), -EINVAL, says);
	REFUSES_WITHOUT(ckpt_join(NULL, NULL, 0, NULL, 0), -EINVAL, says);
	REFUSES_WITHOUT(ckpt_due(NULL, 1), -EINVAL, says);
	REFUSES_WITHOUT(ckpt_begin(NULL, 1, CKPT_MEMORY, NULL, &out), -EINVAL, says);
	cr_assert_null(out);
	REFUSES_WITHOUT(ckpt_begin(NULL, 1, CKPT_MEMORY, NULL, NULL), -EINVAL, says);
	REFUSES_WITHOUT(ckpt_wait_slot(NULL, 0), -EINVAL, says);
	REFUSES_WITHOUT(ckpt_restore(NULL, 1, NULL, NULL, 0), -EINVAL, says);
	REFUSES_WITHOUT(ckpt_restore_progress(NULL, NULL), -EINVAL, says);
	REFUSES_WITHOUT(ckpt_mark(NULL, 1, 1, CKPT_HEALTHY, NULL, 0), -EINVAL, says);
	REFUSES_WITHOUT(ckpt_fence(NULL, NULL), -EINVAL, "the snapshot is NULL");
	REFUSES_WITHOUT(ckpt_fence_group(NULL, "params", NULL), -EINVAL, "the snapshot is NULL");
	REFUSES_WITHOUT(ckpt_fence_group(NULL, NULL, NULL), -EINVAL, "the snapshot is NULL");
	REFUSES_WITHOUT(ckpt_poll(NULL), -EINVAL, "the snapshot is NULL");
	REFUSES_WITHOUT(ckpt_wait(NULL, CKPT_CAPTURED, 0), -EINVAL, "the snapshot is NULL");
	RETURNS(ckpt_snapshot_step(NULL), UINT64_MAX);
	RETURNS(ckpt_close(NULL), 0);
	RETURNS(ckpt_should_stop(NULL), 0);
	RETURNS(ckpt_fault(NULL, name, sizeof(name), &ms), 0);
	RETURNS((ckpt_snapshot_free(NULL), 0), 0);
	RETURNS((ckpt_beat(NULL, 1, CKPT_PHASE_IDLE), 0), 0);
	RETURNS((ckpt_beat_loss(NULL, 1, CKPT_PHASE_IDLE, 2.5, -1), 0), 0);
	RETURNS((ckpt_collective_enter(NULL, NULL, 1, 1), 0), 0);
	RETURNS((ckpt_collective_enter_typed(NULL, NULL, CKPT_F32, 1, 1), 0), 0);
	RETURNS((ckpt_collective_leave(NULL), 0), 0);
	RETURNS(ckpt_version()[0], '0');
	RETURNS(ckpt_error(NULL)[0], 't');
}

Test(arguments, a_failure_without_a_session_is_the_last_one_of_every_session_until_its_next)
{
	leave_another_sentence(s);
	cr_assert_eq(ckpt_poll(NULL), -EINVAL);
	cr_assert(strstr(ckpt_error(s), "snapshot is NULL"), "%s", ckpt_error(s));
	leave_another_sentence(s);
	cr_assert(strstr(ckpt_error(NULL), "snapshot is NULL"));
	struct ranks later;
	ranks_open(&later, 1, NULL);
	cr_assert_str_eq(ckpt_error(later.s[0]), "", "it was not there yet");
	ranks_down(&later);
}

Test(arguments, of_a_range)
{
	const uint64_t huge[] = {1ull << 33, 1ull << 33};
	ckpt_box boxes[CKPT_BOXES_MAX];
	REFUSES_WITHOUT(ckpt_range_boxes(-1, offset, extent, 0, 1, boxes), -EINVAL, "ndim is -1");
	REFUSES_WITHOUT(ckpt_range_boxes(9, offset, extent, 0, 1, boxes), -EINVAL, "ndim is 9");
	REFUSES_WITHOUT(ckpt_range_boxes(2, offset, NULL, 0, 1, boxes), -EINVAL, "extent of the box is NULL");
	REFUSES_WITHOUT(ckpt_range_boxes(2, offset, extent, 0, 1, NULL), -EINVAL, "`boxes` is NULL");
	REFUSES_WITHOUT(ckpt_range_boxes(2, offset, extent, 0, 33, boxes), -ERANGE, "33 elements from 0 on");
	REFUSES_WITHOUT(ckpt_range_boxes(2, offset, extent, 33, 0, boxes), -ERANGE, "not within the 32");
	REFUSES_WITHOUT(ckpt_range_boxes(2, offset, extent, UINT64_MAX, UINT64_MAX, boxes), -ERANGE, "not within");
	REFUSES_WITHOUT(ckpt_range_boxes(2, NULL, huge, 0, 1, boxes), -EOVERFLOW, "2^64 elements");
	RETURNS(ckpt_range_boxes(0, NULL, NULL, 0, 1, boxes), 1);
}

/* ---- registration -------------------------------------------------------------------------------------------------- */

static ckpt_tensor tensor(void)
{
	static ckpt_piece whole;
	whole = (ckpt_piece){.data = data};
	return (ckpt_tensor){.size = sizeof(ckpt_tensor),
			     .name = "w",
			     .dtype = CKPT_F32,
			     .ndim = 2,
			     .shape = shape,
			     .pieces = &whole,
			     .npieces = 1,
			     .device = CKPT_HOST};
}

#define TENSOR(...)                                                                                                    \
	({                                                                                                             \
		ckpt_tensor t = tensor();                                                                              \
		t __VA_ARGS__;                                                                                         \
		ckpt_register_tensor(s, &t);                                                                           \
	})

Test(arguments, of_a_tensor)
{
	REFUSES(ckpt_register_tensor(s, NULL), -EINVAL, "the ckpt_tensor is NULL");
	REFUSES(TENSOR(.size = 0), -EINVAL, "CKPT_INIT(ckpt_tensor)");
	REFUSES(TENSOR(.size = 1 << 20), -EINVAL, "CKPT_INIT(ckpt_tensor)");
	REFUSES(TENSOR(.name = NULL), -EINVAL, "name is NULL");
	REFUSES(TENSOR(.name = ""), -EINVAL, "tensor name is empty");
	REFUSES(TENSOR(.name = "a\nb"), -EINVAL, "tensor name \"a\\nb\": byte 1 is a control character");
	REFUSES(TENSOR(.name = "a\xff"), -EINVAL, "tensor name \"a\\xff\": byte 1 is not UTF-8");
	REFUSES(TENSOR(.name = name_of(512)), -EINVAL, "longer than 511 bytes");
	REFUSES(TENSOR(.name = "__metadata__"), -EINVAL, "reserved");
	REFUSES(TENSOR(.dtype = (ckpt_dtype)0), -EINVAL, "tensor \"w\": dtype 0");
	REFUSES(TENSOR(.dtype = (ckpt_dtype)99), -EINVAL, "dtype 99");
	REFUSES(TENSOR(.ndim = -1), -EINVAL, "ndim is -1, not 0 to 8");
	REFUSES(TENSOR(.ndim = 9), -EINVAL, "ndim is 9, not 0 to 8");
	REFUSES(TENSOR(.shape = NULL), -EINVAL, "the shape is NULL");
	REFUSES(TENSOR(.shape = ((uint64_t[]){1ull << 40, 1ull << 40})), -EOVERFLOW, "too large");
	REFUSES(TENSOR(.npieces = -1), -EINVAL, "npieces is -1");
	REFUSES(TENSOR(.npieces = INT_MAX), -EINVAL, "npieces is 2147483647");
	REFUSES(TENSOR(.pieces = NULL), -EINVAL, "pieces is NULL");
	REFUSES(TENSOR(.ndim = 0; t.npieces = 2), -EINVAL, "a scalar has one element");
	REFUSES(TENSOR(.group = ""), -EINVAL, "group name is empty");
	REFUSES(TENSOR(.group = "../x\n"), -EINVAL, "group name \"../x\\n\"");
	REFUSES(TENSOR(.group = "a.part-0001"), -EINVAL, "part of a group");
	REFUSES(TENSOR(.group = name_of(48)), -EINVAL, "longer than 47 bytes");
	REFUSES(TENSOR(.replica = ""), -EINVAL, "replica group name is empty");
	REFUSES(TENSOR(.replica = "\x01"), -EINVAL, "replica group name \"\\x01\"");
	REFUSES(TENSOR(.replica = name_of(48)), -EINVAL, "longer than 47 bytes");
	REFUSES(TENSOR(.device = -2), -EINVAL, "device is -2");
	s->layers.cuda = NULL;
	REFUSES(TENSOR(.device = 0), -ENODEV, "no CUDA");
	struct {
		ckpt_tensor known;
		uint64_t newer;
	} later = {.known = tensor(), .newer = 1};
	later.known.size = sizeof(later);
	REFUSES(ckpt_register_tensor(s, &later.known), -E2BIG, "ckpt_tensor has fields");
	RETURNS(ckpt_register_tensor(s, &(ckpt_tensor){.size = sizeof(ckpt_tensor),
						       .name = "w",
						       .dtype = CKPT_F32,
						       .device = CKPT_HOST}),
		0);
	REFUSES(TENSOR(.ndim = 2), -EEXIST, "tensor \"w\": the name \"w\" is taken");
}

#define PIECE(...) TENSOR(.pieces = &(ckpt_piece){__VA_ARGS__})
#define BOX .data = data, .offset = offset, .extent = extent
#define STRIDES(...)                                                                                                   \
	.stride = (int64_t[])                                                                                          \
	{                                                                                                              \
		__VA_ARGS__                                                                                            \
	}

Test(arguments, of_a_piece)
{
	REFUSES(PIECE(.data = NULL), -EINVAL, "tensor \"w\": piece 0: its data is NULL");
	REFUSES(PIECE(.data = data, .offset = offset), -EINVAL, "both offset and extent");
	REFUSES(PIECE(.data = data, .extent = extent), -EINVAL, "both offset and extent");
	REFUSES(PIECE(BOX, .count = 3), -EINVAL, "flat");
	REFUSES(PIECE(.data = data, .start = 3), -EINVAL, "no elements");
	REFUSES(PIECE(.data = data, .start = 60, .count = 5), -ERANGE, "60");
	REFUSES(PIECE(.data = data, .start = UINT64_MAX, .count = UINT64_MAX), -ERANGE, "beyond");
	REFUSES(PIECE(.data = data, .offset = offset, .extent = shape), -ERANGE, "dimension 1");
	REFUSES(PIECE(.data = data, .start = 3, .count = 5, STRIDES(1)), -EINVAL, "stride");
	REFUSES(PIECE(BOX, STRIDES(0, 4)), -EINVAL, "stride 0 in dimension 0");
	REFUSES(PIECE(BOX, STRIDES(16, 1)), -EINVAL, "stride 1 in dimension 1: what lies within takes 4 bytes");
	REFUSES(PIECE(BOX, STRIDES(16, 2)), -EINVAL, "stride 2 in dimension 1");
	REFUSES(PIECE(BOX, STRIDES(16, -3)), -EINVAL, "stride -3 in dimension 1");
	REFUSES(PIECE(BOX, STRIDES(12, 4)), -EINVAL, "stride 12 in dimension 0: what lies within takes 16 bytes");
	REFUSES(PIECE(BOX, STRIDES(4, 31)), -EINVAL, "stride 31 in dimension 1: what lies within takes 32 bytes");
	REFUSES(PIECE(BOX, STRIDES(INT64_MAX, 4)), -EINVAL, "more than memory can be");
	REFUSES(PIECE(BOX, STRIDES(INT64_MIN, 4)), -EINVAL, "more than memory can be");
	REFUSES(PIECE(BOX, STRIDES(INT64_MAX / 7, 4)), -EINVAL, "more than memory can be");
}

Test(arguments, of_a_blob)
{
	const ckpt_scope job = CKPT_SCOPE_JOB, rank = CKPT_SCOPE_RANK;
	REFUSES(ckpt_register_blob(s, NULL, job, data, 4), -EINVAL, "name of the blob is NULL");
	REFUSES(ckpt_register_blob(s, "", job, data, 4), -EINVAL, "blob name is empty");
	REFUSES(ckpt_register_blob(s, "", rank, data, 4), -EINVAL, "blob name is empty");
	REFUSES(ckpt_register_blob(s, "b\n", rank, data, 4), -EINVAL, "blob name \"b\\n\"");
	REFUSES(ckpt_register_blob(s, name_of(512), job, data, 4), -EINVAL, "longer than 511 bytes");
	REFUSES(ckpt_register_blob(s, name_of(505), rank, data, 4), -EINVAL, "longer than 504 bytes");
	REFUSES(ckpt_register_blob(s, "__metadata__", rank, data, 4), -EINVAL, "reserved");
	REFUSES(ckpt_register_blob(s, "b", (ckpt_scope)3, data, 4), -EINVAL, "blob \"b\": scope 3");
	REFUSES(ckpt_register_blob(s, "b", job, NULL, 4), -EINVAL, "blob \"b\": its data is NULL");
	REFUSES(ckpt_register_blob(s, "b", job, data, 0), -EINVAL, "blob \"b\" has 0 bytes");
	REFUSES(ckpt_register_blob(s, "b", job, data, SIZE_MAX), -EOVERFLOW, "18446744073709551615 bytes are too many");
	REFUSES(ckpt_register_device_blob(s, "b", job, data, 4, -2), -EINVAL, "device is -2");
	s->layers.cuda = NULL;
	REFUSES(ckpt_register_device_blob(s, "b", job, data, 4, 0), -ENODEV, "no CUDA");
	RETURNS(ckpt_register_blob(s, name_of(504), rank, data, 4), 0);
	RETURNS(ckpt_register_blob(s, name_of(511), job, data, 4), 0);
	REFUSES(ckpt_register_blob(s, name_of(511), job, data, 4), -EEXIST, "is taken");
}

Test(arguments, of_a_blob_of_changing_size)
{
	const ckpt_scope job = CKPT_SCOPE_JOB, rank = CKPT_SCOPE_RANK;
	REFUSES(ckpt_register_sized_blob(s, NULL, job, 4), -EINVAL, "name of the blob is NULL");
	REFUSES(ckpt_register_sized_blob(s, "b\n", job, 4), -EINVAL, "blob name \"b\\n\"");
	REFUSES(ckpt_register_sized_blob(s, name_of(505), rank, 4), -EINVAL, "longer than 504 bytes");
	REFUSES(ckpt_register_sized_blob(s, "b", (ckpt_scope)3, 4), -EINVAL, "blob \"b\": scope 3");
	REFUSES(ckpt_register_sized_blob(s, "b", job, 0), -EINVAL, "blob \"b\" has 0 bytes");
	REFUSES(ckpt_register_sized_blob(s, "b", job, SIZE_MAX), -EOVERFLOW, "bytes are too many");
	RETURNS(ckpt_register_sized_blob(s, "b", rank, 4), 0);
	RETURNS(ckpt_register_blob(s, "fixed", job, data, 4), 0);
	REFUSES(ckpt_register_sized_blob(s, "b", rank, 4), -EEXIST, "is taken");
	REFUSES(ckpt_set_blob(s, NULL, data, 4), -EINVAL, "name of the blob is NULL");
	REFUSES(ckpt_set_blob(s, "c\n", data, 4), -ENOENT, "registered as \"c\\n\"");
	REFUSES(ckpt_set_blob(s, "fixed", data, 4), -EINVAL, "\"fixed\" is no blob of changing size");
	REFUSES(ckpt_set_blob(s, "b", NULL, 4), -EINVAL, "its data is NULL");
	REFUSES(ckpt_set_blob(s, "b", data, 5), -ENOSPC, "5 bytes are more than the 4 that were registered");
	REFUSES(ckpt_get_blob(s, NULL, data, 4), -EINVAL, "name of the blob is NULL");
	REFUSES(ckpt_get_blob(s, "c", data, 4), -ENOENT, "registered as \"c\"");
	REFUSES(ckpt_get_blob(s, "fixed", data, 4), -EINVAL, "no blob of changing size");
	RETURNS(ckpt_get_blob(s, "b", data, 0), 0);
	RETURNS(ckpt_set_blob(s, "b", data, 4), 0);
	RETURNS(ckpt_get_blob(s, "b", NULL, 0), 4);
	REFUSES(ckpt_get_blob(s, "b", data, 3), -ENOSPC, "has 4 bytes, and there is room for 3");
	sized_set_length(s->table.held[0].own, 5);
	REFUSES(ckpt_get_blob(s, "b", data, 9), -EBADMSG, "says that it has 5 bytes, in a room of 4");
	REFUSES(ckpt_rebind(s, "b", 0, data), -EINVAL, "the library has its memory");
}

Test(arguments, of_another_address)
{
	REFUSES(ckpt_rebind(s, NULL, 0, data), -EINVAL, "the name is NULL");
	REFUSES(ckpt_rebind(s, "w", 0, data), -ENOENT, "nothing is registered as \"w\"");
	REFUSES(ckpt_rebind(s, "", 0, data), -ENOENT, "nothing is registered as \"\"");
	REFUSES(ckpt_rebind(s, name_of(599), 0, data), -ENOENT, "nothing is registered as \"xxx");
	RETURNS(TENSOR(.name = "w"), 0);
	REFUSES(ckpt_rebind(s, "w\n", 0, data), -ENOENT, "registered as \"w\\n\"");
	REFUSES(ckpt_rebind(s, "w", -1, data), -ERANGE, "\"w\" has 1 pieces here: there is no piece -1");
	REFUSES(ckpt_rebind(s, "w", 1, data), -ERANGE, "there is no piece 1");
	REFUSES(ckpt_rebind(s, "w", 0, NULL), -EINVAL, "piece 0 of \"w\": its data is NULL");
	RETURNS(ckpt_rebind(s, "w", 0, data + 1), 0);
}

/* ---- before and after the join --------------------------------------------------------------------------------------- */

Test(arguments, before_the_join)
{
	ckpt_snapshot *out = snap;
	REFUSES(ckpt_begin(s, 1, CKPT_MEMORY, NULL, &out), -EINVAL, "call ckpt_join");
	cr_assert_null(out);
	REFUSES(ckpt_wait_slot(s, 0), -EINVAL, "call ckpt_join");
	REFUSES(ckpt_due(s, 1), -EINVAL, "call ckpt_join");
	REFUSES(ckpt_restore(s, CKPT_LATEST, NULL, NULL, 0), -EINVAL, "call ckpt_join");
	REFUSES(ckpt_mark(s, 1, 0, CKPT_HEALTHY, NULL, 0), -EINVAL, "call ckpt_join");
	REFUSES(ckpt_join(s, NULL, 5, NULL, 0), -EINVAL, "the address is NULL, and is to have 5 bytes");
	REFUSES(ckpt_join(s, data, 257, NULL, 0), -EINVAL, "at most 256 bytes, not 257");
	REFUSES(ckpt_join(s, data, SIZE_MAX, NULL, 0), -EINVAL, "at most 256 bytes");
}

Test(arguments_joined, of_saves)
{
	const uint64_t beyond = 1000000000000;
	const ckpt_tensor t = {.size = sizeof(t), .name = "t", .dtype = CKPT_F32, .device = CKPT_HOST};
	REFUSES(ckpt_register_tensor(s, &t), -EBUSY, "ended with ckpt_join");
	REFUSES(ckpt_register_blob(s, "b", CKPT_SCOPE_JOB, data, 4), -EBUSY, "ended with ckpt_join");
	REFUSES(ckpt_register_sized_blob(s, "b", CKPT_SCOPE_JOB, 4), -EBUSY, "ended with ckpt_join");
	REFUSES(ckpt_begin(s, 1, CKPT_MEMORY, NULL, NULL), -EINVAL, "`out` is NULL");
	REFUSES(ckpt_begin(s, beyond, CKPT_MEMORY, NULL, &snap), -EINVAL, "is not below 10^12");
	REFUSES(ckpt_begin(s, 1, (ckpt_target)0, NULL, &snap), -EINVAL, "target 0");
	REFUSES(ckpt_begin(s, 1, (ckpt_target)9, NULL, &snap), -EINVAL, "target 9");
	RETURNS(ckpt_begin(s, 1, CKPT_MEMORY, NULL, &snap), 0);
	REFUSES(ckpt_fence_group(snap, NULL, NULL), -EINVAL, "the group is NULL");
	REFUSES(ckpt_fence_group(snap, "no\nne", NULL), -EINVAL, "group \"no\\nne\"");
	REFUSES(ckpt_wait(snap, CKPT_PENDING, 0), -EINVAL, "level 0");
	REFUSES(ckpt_wait(snap, (ckpt_level)-1, 0), -EINVAL, "level -1");
	REFUSES(ckpt_wait(snap, (ckpt_level)5, 0), -EINVAL, "level 5");
	REFUSES(ckpt_wait(snap, CKPT_DURABLE, 0), -EINVAL, "never becomes durable");
	REFUSES(ckpt_wait(snap, CKPT_VERIFIED, 0), -EINVAL, "never becomes verified");
	REFUSES(ckpt_wait(snap, CKPT_REPLICATED, 0), -EINVAL, "no peers");
	RETURNS(ckpt_snapshot_step(snap), 1);
	RETURNS(ckpt_poll(snap), CKPT_PENDING);
	RETURNS(ckpt_fence(snap, NULL), 0);
	ckpt_snapshot *again = snap;
	REFUSES(ckpt_begin(s, 1, CKPT_MEMORY, NULL, &again), -EALREADY, "was saved in this epoch");
	cr_assert_null(again);
	ckpt_snapshot_free(snap);
}

Test(arguments_joined, of_restores_and_marks)
{
	const uint64_t beyond = 1000000000000;
	char reason[257] = "";
	memset(reason, 'r', sizeof(reason) - 1);
	REFUSES(ckpt_restore(s, beyond, NULL, NULL, 0), -EINVAL, "is not below 10^12");
	REFUSES(ckpt_restore(s, 1, NULL, &(ckpt_restored){.size = 0}, 0), -EINVAL, "CKPT_INIT(ckpt_restored)");
	REFUSES(ckpt_due(s, beyond), -EINVAL, "is not below 10^12");
	REFUSES(ckpt_mark(s, beyond, 0, CKPT_HEALTHY, NULL, 0), -EINVAL, "is not below 10^12");
	REFUSES(ckpt_mark(s, CKPT_LATEST, 0, CKPT_HEALTHY, NULL, 0), -EINVAL, "is not below 10^12");
	REFUSES(ckpt_mark(s, 1, 99, CKPT_HEALTHY, NULL, 0), -EINVAL, "there is no epoch 99");
	REFUSES(ckpt_mark(s, 1, 0, (ckpt_health)0, NULL, 0), -EINVAL, "health 0");
	REFUSES(ckpt_mark(s, 1, 0, CKPT_HEALTHY, reason, 0), -EINVAL, "at most 255 bytes, not 256");
	struct {
		ckpt_restored known;
		uint64_t newer;
	} later = {.known = {.size = sizeof(later)}, .newer = 1};
	REFUSES(ckpt_restore(s, 1, NULL, &later.known, 0), -E2BIG, "ckpt_restored has fields");
	RETURNS((ckpt_collective_enter(s, NULL, 1, 1), 0), 0);
	RETURNS((ckpt_collective_enter_typed(s, NULL, (ckpt_dtype)999, 1, 1), 0), 0);
	RETURNS((ckpt_beat(s, 1, (ckpt_phase)99), 0), 0);
	RETURNS((ckpt_beat_loss(s, 1, (ckpt_phase)99, NAN, INFINITY), 0), 0);
	RETURNS(ckpt_should_stop(s), 0);
	RETURNS(ckpt_fault(s, NULL, 0, NULL), 0);
	RETURNS(ckpt_rank(s), 0);
	RETURNS(ckpt_world(s), 1);
	RETURNS(ckpt_epoch(s), 1);
	RETURNS(ckpt_epoch_fd(s) > STDERR_FILENO, 1);
	RETURNS(ckpt_has_storage(s), 1);
}
