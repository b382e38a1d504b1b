/* Spans as runtime copies, and restore. */
#include "device_cuda.h"

#include "base/bytes.h"
#include "base/cleanup.h"
#include "format/digest.h"

#include <inttypes.h>
#include <stdlib.h>

/* A loop of rows that the runtime's pitched copy can take in one call. */
static bool pitched(const struct span_run *run)
{
	return run->rows > 1 && run->stride >= (int64_t)run->bytes;
}

static int copy_loop(struct device *dev, const struct span_run *run, char *memory, char *packed,
		     enum cuda_direction direction, struct rt_stream *stream)
{
	struct cuda_rt *rt = dev->rt;
	bool out = direction == CUDA_TO_ARENA;
	size_t n = run->bytes;
	if (pitched(run)) {
		size_t pitch = (size_t)run->stride;
		return out ? rt->copy2d(rt, packed, n, memory, pitch, n, run->rows, stream)
			   : rt->copy2d(rt, memory, pitch, packed, n, n, run->rows, stream);
	}
	int code = 0;
	for (uint64_t i = 0; !code && i < run->rows; i++, memory += run->stride, packed += n)
		code = rt->copy(rt, out ? packed : memory, out ? memory : packed, n, stream);
	return code;
}

int cuda_copy_span(struct device *dev, const struct span *span, char *packed, uint64_t at, uint64_t len,
		   enum cuda_direction direction, struct rt_stream *stream, struct err *err)
{
	struct span_walk walk;
	struct span_run run;
	span_walk_init(&walk, span, at, len);
	while (span_walk_next(&walk, &run)) {
		char *memory = run.memory;
		for (uint64_t i = 0; i < run.loops; i++, memory += run.loop_stride, packed += run.rows * run.bytes) {
			int code = copy_loop(dev, &run, memory, packed, direction, stream);
			if (code)
				return cuda_check(dev, code, "starting a copy", err);
		}
	}
	return 0;
}

uint64_t cuda_copy_calls(const struct span *span, uint64_t most)
{
	struct span_walk walk;
	struct span_run run;
	uint64_t calls = 0;
	span_walk_init(&walk, span, 0, span_bytes(span));
	while (calls < most && span_walk_next(&walk, &run))
		calls += run.loops * (pitched(&run) ? 1 : run.rows);
	return min_u64(calls, most);
}

/* ---- restore: in pieces, each awaited, so that the runtime's queue is bounded and a device that hangs is noticed ----
 * */

enum { RESTORE_PIECE = 64 << 20, READ_BACK_LEAVES = 64, READ_BACK = READ_BACK_LEAVES * LEAF_SIZE };

static int send_span(struct device *dev, const struct span *span, const char *base, struct err *err)
{
	uint64_t bytes = span_bytes(span);
	int rc = 0;
	for (uint64_t at = 0, n; rc == 0 && at < bytes; at += n) {
		n = min_u64(bytes - at, RESTORE_PIECE);
		/* The packed side is only read in this direction. */
		char *packed = (char *)base + span->arena_at + at;
		rc = cuda_copy_span(dev, span, packed, at, n, CUDA_TO_MEMORY, dev->copies, err);
		int drained = cuda_drain(dev, dev->copies, rc < 0 ? NULL : err);
		rc = rc < 0 ? rc : drained;
	}
	return rc;
}

/* Reads back what stands in device memory and digests it here. buffer: READ_BACK bytes. */
static int check_span(struct device *dev, const struct span *span, const uint64_t *leaves, char *buffer,
		      uint64_t *bad_leaf, struct err *err)
{
	uint64_t bytes = span_bytes(span), digests[READ_BACK_LEAVES], leaf = span->first_leaf;
	for (uint64_t at = 0, n; at < bytes; at += n) {
		n = min_u64(bytes - at, READ_BACK);
		int rc = cuda_copy_span(dev, span, buffer, at, n, CUDA_TO_ARENA, dev->copies, err);
		int drained = cuda_drain(dev, dev->copies, rc < 0 ? NULL : err);
		if (rc < 0 || drained < 0)
			return rc < 0 ? rc : drained;
		digest_leaves(buffer, n, digests);
		for (uint64_t i = 0; i < leaf_count(n); i++, leaf++) {
			if (digests[i] == leaves[leaf])
				continue;
			if (bad_leaf)
				*bad_leaf = leaf;
			return err_set(err, -EBADMSG,
				       "leaf %" PRIu64 " arrived with another digest than it was captured with", leaf);
		}
	}
	return 0;
}

static int restore_list(struct device *dev, const char *base, const struct span_list *list, const uint64_t *leaves,
			struct rt_stream *stream, uint64_t *bad_leaf, struct err *err)
{
	struct cuda_rt *rt = dev->rt;
	AUTO_FREE char *buffer = leaves ? malloc(READ_BACK) : NULL;
	if (leaves && !buffer)
		return err_set(err, -ENOMEM, "out of memory for reading back what was restored");
	int rc = cuda_check(dev, rt->event_record(rt, dev->order, stream), "recording an event", err);
	if (rc == 0)
		rc = cuda_check(dev, rt->stream_wait(rt, dev->copies, dev->order), "waiting for an event", err);
	for (size_t i = 0; rc == 0 && i < list->n; i++)
		rc = send_span(dev, &list->spans[i], base, err);
	for (size_t i = 0; rc == 0 && leaves && i < list->n; i++)
		rc = check_span(dev, &list->spans[i], leaves, buffer, bad_leaf, err);
	if (rc == -ETIMEDOUT)
		(void)steal_ptr(&buffer); /* lost: a device that hangs may write to it yet */
	return rc;
}

int cuda_restore(struct device *dev, const void *base, const struct span *spans, size_t n, const uint64_t *leaves,
		 void *stream, uint64_t *bad_leaf, struct err *err)
{
	struct span_list list;
	int former, rc = span_list_init(&list, spans, n, err);
	if (rc < 0)
		return rc;
	rc = cuda_enter(dev, &former, err);
	if (rc == 0) {
		rc = restore_list(dev, base, &list, leaves, stream, bad_leaf, err);
		cuda_leave(dev, former);
	}
	span_list_free(&list);
	return rc;
}
