/* The calls of the fake: what the real runtime checks is checked, the rest goes to the machine. */
#include "cuda_fake_machine.h"

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "format/tensor/digest.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int fake_enter_call(struct cuda_fake *fake, const char *name, int gpu)
{
	int *sticky = &fake->gpus[gpu].sticky;
	fake->calls++;
	if (*sticky)
		return *sticky;
	if (fake->calls != fake->fail_call)
		return 0;
	fake->failed = name;
	if (fake->fail_sticky)
		*sticky = FAKE_STICKY;
	pthread_cond_broadcast(&fake->changed);
	return fake->fail_sticky ? FAKE_STICKY : FAKE_CALL_FAILS;
}

int fake_enter_driver(struct cuda_fake *fake, const char *name)
{
	if (++fake->calls != fake->fail_call)
		return 0;
	fake->failed = name;
	return FAKE_CALL_FAILS;
}

/* Whoever calls the runtime has a context from then on. */
int fake_touch(struct cuda_fake *fake, const struct rt_stream *stream)
{
	(void)fake_gpu(fake);
	return stream->gpu;
}

static int fake_errno_of(struct cuda_rt *rt, int code)
{
	(void)rt;
	switch (code) {
	case FAKE_CALL_FAILS:
		return -ENOMEM;
	case CODE_NO_DEVICE:
	case CODE_NO_IMAGE:
		return -ENODEV;
	case CODE_INVALID_VALUE:
	case CODE_INVALID_DEVICE:
	case CODE_INVALID_HANDLE:
		return -EINVAL;
	case CODE_UNSUPPORTED:
		return -EOPNOTSUPP;
	case CODE_REGISTERED:
		return -EEXIST;
	default:
		return -EIO;
	}
}

static const char *fake_text_of(struct cuda_rt *rt, int code)
{
	(void)rt;
	switch (code) {
	case FAKE_CALL_FAILS:
		return "out of memory (injected)";
	case FAKE_STICKY:
		return "an illegal memory access was encountered (injected)";
	case CODE_NO_IMAGE:
		return "no kernel image is available for execution on the device";
	case CODE_NO_DEVICE:
		return "no CUDA-capable device is detected";
	case CODE_INVALID_HANDLE:
		return "invalid resource handle";
	case CODE_RECORDING:
		return "operation not permitted when stream is capturing";
	case CODE_RECORDED_EVENT:
		return "operation not permitted on an event last recorded in a capturing stream";
	case CODE_REGISTERED:
		return "part or all of the requested memory range is already mapped";
	default:
		return "invalid argument";
	}
}

static int fake_count(struct cuda_rt *rt, int *devices)
{
	DRIVER_CALL(rt, fake, code);
	if (!code)
		*devices = FAKE_GPUS;
	return code;
}

static int fake_context_retain(struct cuda_rt *rt, int ordinal, struct rt_context **context)
{
	DRIVER_CALL(rt, fake, code);
	if (!code && (ordinal < 0 || ordinal >= FAKE_GPUS))
		code = CODE_INVALID_DEVICE;
	if (code)
		return code;
	*context = &fake->contexts[ordinal];
	(*context)->made = true;
	(*context)->retained++;
	fake->live++;
	return 0;
}

static int fake_context_release(struct cuda_rt *rt, int ordinal)
{
	DRIVER_CALL(rt, fake, code);
	if (!fake->contexts[ordinal].retained)
		return CODE_INVALID_VALUE;
	fake->contexts[ordinal].retained--;
	fake->live--;
	return code;
}

static int fake_current(struct cuda_rt *rt, struct rt_context **context)
{
	DRIVER_CALL(rt, fake, code);
	*context = fake_context;
	return code;
}

static int fake_make_current(struct cuda_rt *rt, struct rt_context *context)
{
	DRIVER_CALL(rt, fake, code);
	if (!code)
		fake_context = context;
	return code;
}

static int fake_stream_context(struct cuda_rt *rt, struct rt_stream *stream, struct rt_context **context)
{
	DRIVER_CALL(rt, fake, code);
	if (!code)
		*context = &fake->contexts[fake_stream_of(fake, stream)->gpu];
	return code;
}

static int fake_load(struct cuda_rt *rt)
{
	CALL(rt, fake, code);
	return code ? code : fake->no_image ? CODE_NO_IMAGE : 0;
}

static int fake_traits(struct cuda_rt *rt, int ordinal, struct rt_traits *traits)
{
	DRIVER_CALL(rt, fake, code);
	if (!code && (ordinal < 0 || ordinal >= FAKE_GPUS))
		code = CODE_INVALID_DEVICE;
	*traits = (struct rt_traits){
		.writes = !fake->no_writes, .major = fake->no_image ? 7 : 9, .minor = fake->no_image ? 5 : 0};
	return code;
}

static int fake_pitch_max(struct cuda_rt *rt, size_t *bytes)
{
	CALL(rt, fake, code);
	*bytes = fake->pitch;
	return code;
}

static int fake_stream_create(struct cuda_rt *rt, struct rt_stream **stream)
{
	CALL(rt, fake, code);
	if (!code)
		*stream = fake_stream_new(fake, fake_gpu(fake));
	if (!code)
		(*stream)->urgent = true;
	return code;
}

/* A destroy that reports an error has released its object nevertheless: there is nothing that a caller could do again.
 * */
static int fake_stream_destroy(struct cuda_rt *rt, struct rt_stream *stream)
{
	CALL_STREAM(rt, fake, code);
	stream->destroyed = true;
	if (list_empty(&stream->ops) || fake_is_lost(fake, stream))
		fake_stream_drop(fake, stream);
	return code;
}

static int fake_stream_query(struct cuda_rt *rt, struct rt_stream *stream)
{
	CALL_STREAM(rt, fake, code);
	stream = fake_stream_of(fake, stream);
	code = code ? code : fake_unsafe(fake);
	code = code ? code : fake_implicit(fake, stream);
	if (!code && stream->recording) {
		stream->recording->broken = CODE_RECORDING_BROKEN;
		code = CODE_RECORDING;
	}
	return code ? code : list_empty(&stream->ops) ? 0 : RT_NOT_READY;
}

static int fake_stream_device(struct cuda_rt *rt, struct rt_stream *stream, int *ordinal)
{
	CALL_STREAM(rt, fake, code);
	*ordinal = fake_stream_of(fake, stream)->gpu;
	return code;
}

/* A stream that waits for what another one records is drawn into the recording, which cannot be ended before it is joined again. */
static int wait_recorded(struct rt_stream *stream, const struct rt_event *event)
{
	if (stream->recording == event->recorded_in)
		return 0;
	if (stream->recording)
		return stream->recording->broken = event->recorded_in ? CODE_MERGE : CODE_ISOLATION;
	stream->recording = event->recorded_in;
	stream->recording->broken = CODE_UNJOINED;
	return 0;
}

static int fake_stream_wait(struct cuda_rt *rt, struct rt_stream *stream, struct rt_event *event)
{
	CALL_STREAM(rt, fake, code);
	struct op op = {.kind = OP_WAIT, .event = event, .turn = event->recorded};
	if (!code)
		code = fake->gpus[event->gpu].sticky;
	if (!code)
		code = wait_recorded(fake_stream_of(fake, stream), event);
	return code ? code : fake_enqueue(fake, stream, &op);
}

static int fake_event_create(struct cuda_rt *rt, struct rt_event **event)
{
	CALL(rt, fake, code);
	if (code)
		return code;
	*event = calloc(1, sizeof(**event));
	assert(*event);
	(*event)->holders = 1;
	(*event)->gpu = fake_gpu(fake);
	fake->live++;
	return 0;
}

static int fake_event_destroy(struct cuda_rt *rt, struct rt_event *event)
{
	CALL_ON(rt, fake, code, event->gpu);
	fake_event_put(event);
	fake->live--;
	return code;
}

static int fake_event_record(struct cuda_rt *rt, struct rt_event *event, struct rt_stream *stream)
{
	CALL_STREAM(rt, fake, code);
	if (!code && event->gpu != fake_stream_of(fake, stream)->gpu)
		code = CODE_INVALID_HANDLE;
	struct op op = {.kind = OP_RECORD, .event = event, .turn = event->recorded + 1};
	if (!code)
		code = fake_enqueue(fake, stream, &op);
	if (code)
		return code;
	event->recorded++;
	event->recorded_in = fake_stream_of(fake, stream)->recording;
	return 0;
}

static int fake_event_query(struct cuda_rt *rt, struct rt_event *event)
{
	CALL_ON(rt, fake, code, event->gpu);
	code = code ? code : fake_unsafe(fake);
	if (!code && event->recorded_in)
		code = CODE_RECORDED_EVENT;
	return code ? code : event->completed >= event->recorded ? 0 : RT_NOT_READY;
}

/* A user's buffer, which stands for memory of a GPU, and memory of the host that is not pinned. */
static void note_pageable(struct cuda_fake *fake, const void *dst, const void *src, size_t row_bytes, size_t rows)
{
	if (!fake_is_registered(fake, dst, row_bytes) && !fake_is_registered(fake, src, row_bytes))
		fake->pageable += row_bytes * rows;
}

static int fake_copy(struct cuda_rt *rt, void *dst, const void *src, size_t n, struct rt_stream *stream)
{
	CALL_STREAM(rt, fake, code);
	struct op op = {.kind = OP_COPY, .dst = dst, .src = src, .row_bytes = n, .rows = 1};
	if (!code)
		code = fake_leaves_allocation(fake, src, n);
	if (!code)
		code = fake_leaves_allocation(fake, dst, n);
	note_pageable(fake, dst, src, n, 1);
	if (!code)
		code = fake_leaves_registration(fake, src, n);
	if (!code)
		code = fake_leaves_registration(fake, dst, n);
	return code ? code : fake_enqueue(fake, stream, &op);
}

static int fake_copy2d(struct cuda_rt *rt, void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
		       size_t row_bytes, size_t rows, struct rt_stream *stream)
{
	CALL_STREAM(rt, fake, code);
	struct op op = {.kind = OP_COPY,
			.dst = dst,
			.src = src,
			.dst_pitch = dst_pitch,
			.src_pitch = src_pitch,
			.row_bytes = row_bytes,
			.rows = rows};
	note_pageable(fake, dst, src, row_bytes, rows);
	if (!code)
		code = fake_leaves_registration(fake, src, src_pitch * (rows - 1) + row_bytes);
	if (!code)
		code = fake_leaves_registration(fake, dst, dst_pitch * (rows - 1) + row_bytes);
	if (!code &&
	    (dst_pitch < row_bytes || src_pitch < row_bytes || dst_pitch > fake->pitch || src_pitch > fake->pitch))
		code = CODE_INVALID_VALUE;
	return code ? code : fake_enqueue(fake, stream, &op);
}

/* In another order than they were given. */
static int fake_copy_batch(struct cuda_rt *rt, void **dst, const void **src, const size_t *bytes, size_t n,
			   struct rt_stream *stream)
{
	CALL_STREAM(rt, fake, code);
	if (!code && fake_stream_of(fake, stream)->recording)
		code = CODE_UNSUPPORTED;
	for (size_t i = 0; !code && i < n; i++)
		code = fake_leaves_allocation(fake, src[i], bytes[i])
			       ? CODE_INVALID_VALUE
			       : fake_leaves_registration(fake, dst[i], bytes[i]);
	for (size_t i = n; !code && i-- > 0;)
		code = fake_enqueue(
			fake, stream,
			&(struct op){.kind = OP_COPY, .dst = dst[i], .src = src[i], .row_bytes = bytes[i], .rows = 1});
	return code;
}

static int write_value(struct cuda_fake *fake, int code, struct rt_stream *stream, void *at, uint64_t value,
		       size_t width)
{
	struct op op = {.kind = OP_WRITE, .dst = at, .value = value, .width = width};
	if (!code && (!fake_is_registered(fake, at, width) || (uintptr_t)at % width))
		code = CODE_INVALID_VALUE;
	return code ? code : fake_enqueue(fake, stream, &op);
}

static int fake_write64(struct cuda_rt *rt, struct rt_stream *stream, void *at, uint64_t value)
{
	CALL_STREAM(rt, fake, code);
	return write_value(fake, fake->no_writes ? CODE_UNSUPPORTED : code, stream, at, value, 8);
}

static int fake_write32(struct cuda_rt *rt, struct rt_stream *stream, void *at, uint32_t value)
{
	CALL_STREAM(rt, fake, code);
	return write_value(fake, fake->no_writes ? CODE_UNSUPPORTED : code, stream, at, value, 4);
}

static int fake_tell(struct cuda_rt *rt, struct rt_stream *stream, void *at, uint64_t value, unsigned width)
{
	CALL_STREAM(rt, fake, code);
	return write_value(fake, code, stream, at, value, width);
}

/* Where each unit's digest goes must be registered. */
static bool digests_fit(struct cuda_fake *fake, const struct gpu_table *table, uint64_t first, uint64_t units,
			uint64_t *leaves)
{
	for (size_t i = 0; i < table->n; i++) {
		uint64_t from = table->before[i] > first ? table->before[i] : first, end = table->before[i + 1];
		end = end < first + units ? end : first + units;
		if (from < end &&
		    !fake_is_registered(fake, leaves + table->spans[i].first_leaf + from - table->before[i],
					(end - from) * sizeof(*leaves)))
			return false;
	}
	return units > 0 && first + units <= table->before[table->n];
}

static int fake_digest(struct cuda_rt *rt, struct rt_stream *stream, const struct gpu_table *table, uint64_t first,
		       uint64_t units, uint64_t *leaves, uint8_t *changed)
{
	CALL_STREAM(rt, fake, code);
	if (!code && !digests_fit(fake, table, first, units, leaves))
		code = CODE_INVALID_VALUE;
	struct op op = {.kind = OP_DIGEST,
			.table = *table,
			.unit = first,
			.units = units,
			.leaves = leaves,
			.changed = changed};
	return code ? code : fake_enqueue(fake, stream, &op);
}

static int fake_pack(struct cuda_rt *rt, struct rt_stream *stream, const struct gpu_table *table, uint64_t first,
		     uint64_t units, const uint8_t *changed, void *base, bool wide)
{
	(void)wide;
	CALL_STREAM(rt, fake, code);
	if (!code && !units)
		code = CODE_INVALID_VALUE;
	struct op op = {.kind = OP_PACK,
			.table = *table,
			.unit = first,
			.units = units,
			.dst = base,
			.changed = (uint8_t *)changed};
	return code ? code : fake_enqueue(fake, stream, &op);
}

static int fake_unpack(struct cuda_rt *rt, struct rt_stream *stream, const struct gpu_table *table, uint64_t first,
		       uint64_t units, const void *base)
{
	CALL_STREAM(rt, fake, code);
	if (!code && !units)
		code = CODE_INVALID_VALUE;
	struct op op = {.kind = OP_UNPACK, .table = *table, .unit = first, .units = units, .src = base};
	return code ? code : fake_enqueue(fake, stream, &op);
}

const struct cuda_rt cuda_fake_table = {
	.patience = 20 * CLOCK_NS_PER_S,
	.gather_most = 1 << 20,
	.register_max = SIZE_MAX / 2 + 1,
	.errno_of = fake_errno_of,
	.text_of = fake_text_of,
	.count = fake_count,
	.context_retain = fake_context_retain,
	.context_release = fake_context_release,
	.current = fake_current,
	.make_current = fake_make_current,
	.interaction = fake_interaction_swap,
	.load = fake_load,
	.traits = fake_traits,
	.pitch_max = fake_pitch_max,
	.host_register = fake_host_register,
	.host_unregister = fake_host_unregister,
	.stream_create = fake_stream_create,
	.stream_destroy = fake_stream_destroy,
	.stream_query = fake_stream_query,
	.stream_device = fake_stream_device,
	.stream_context = fake_stream_context,
	.stream_records = fake_stream_records,
	.stream_wait = fake_stream_wait,
	.event_create = fake_event_create,
	.event_destroy = fake_event_destroy,
	.event_record = fake_event_record,
	.event_query = fake_event_query,
	.copy = fake_copy,
	.copy2d = fake_copy2d,
	.copy_batch = fake_copy_batch,
	.write64 = fake_write64,
	.write32 = fake_write32,
	.tell = fake_tell,
	.allocation = fake_allocation,
	.alloc = fake_alloc_memory,
	.free = fake_free_memory,
	.digest = fake_digest,
	.pack = fake_pack,
	.unpack = fake_unpack,
};
