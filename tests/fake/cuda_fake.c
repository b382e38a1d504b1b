#include "cuda_fake_machine.h"

#include "base/bytes.h"
#include "base/cleanup.h"
#include "format/tensor/digest.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 24 << 10, BURSTS = 10 }; /* the most that is copied at once; bursts of 1 to 2^9 steps */

_Thread_local struct rt_context *fake_context;

int fake_gpu(struct cuda_fake *fake)
{
	if (!fake_context)
		fake_context = &fake->contexts[0];
	fake_context->made = true;
	return fake_context->gpu;
}

static uint64_t draw(struct cuda_fake *fake, uint64_t n)
{
	fake->rng ^= fake->rng << 13;
	fake->rng ^= fake->rng >> 7;
	fake->rng ^= fake->rng << 17;
	return fake->rng % n;
}

/* ---- operations ---- */

void fake_event_put(struct rt_event *event)
{
	if (!--event->holders)
		free(event);
}

static void op_free(struct op *op)
{
	if (op->event)
		fake_event_put(op->event);
	if (op->kind == OP_FREE)
		free(op->dst);
	free(op);
}

static struct op *op_copy(const struct op *from)
{
	struct op *op = malloc(sizeof(*op));
	assert(op);
	*op = *from;
	list_init(&op->entry);
	if (op->event)
		op->event->holders++;
	return op;
}

void fake_ops_free(struct list *ops)
{
	for (struct list *it; (it = list_pop(ops));)
		op_free(list_entry(it, struct op, entry));
}

struct rt_stream *fake_stream_of(struct cuda_fake *fake, struct rt_stream *stream)
{
	return stream ? stream : fake->gpus[fake_gpu(fake)].standard;
}

int fake_enqueue(struct cuda_fake *fake, struct rt_stream *stream, const struct op *op)
{
	stream = fake_stream_of(fake, stream);
	int code = fake_implicit(fake, stream);
	if (code)
		return code;
	if (stream->gpu != fake_gpu(fake) && op->kind != OP_WAIT && op->kind != OP_RECORD)
		return CODE_INVALID_HANDLE;
	if (stream->recording) {
		list_push(&stream->recording->ops, &op_copy(op)->entry);
		return 0;
	}
	struct op *mine = op_copy(op);
	mine->turn_in_queue = ++fake->enqueued;
	list_push(&stream->ops, &mine->entry);
	fake->pending++;
	fake->frees += op->kind == OP_FREE;
	pthread_cond_broadcast(&fake->changed);
	return 0;
}

static void step_copy(struct cuda_fake *fake, struct op *op)
{
	size_t all = op->rows * op->row_bytes, n = 1 + draw(fake, PIECE);
	for (size_t part; n && op->moved < all; n -= part, op->moved += part) {
		size_t row = op->moved / op->row_bytes, at = op->moved % op->row_bytes;
		part = op->row_bytes - at < n ? op->row_bytes - at : n;
		memcpy(op->dst + row * op->dst_pitch + at, op->src + row * op->src_pitch + at, part);
	}
}

static void refer_digest(const struct op *op, uint64_t *place, uint64_t digest)
{
	if (op->changed)
		op->changed[op->unit] = *place != digest;
	*place = digest;
}

/* What the kernels do, by their references; they are as good, and a hundred times quicker than in the emulator. */
static void refer(const struct op *op)
{
	size_t i = 0;
	while (op->table.before[i + 1] <= op->unit)
		i++;
	const struct gpu_span *from = &op->table.spans[i];
	struct span span = {.memory = from->memory,
			    .row_bytes = from->row_bytes,
			    .ndim = from->ndim,
			    .skip = from->skip,
			    .take = from->bytes};
	memcpy(span.count, from->count, sizeof(span.count));
	memcpy(span.stride, from->stride, sizeof(span.stride));
	uint64_t leaf = op->unit - op->table.before[i], at = leaf * LEAF_SIZE,
		 len = min_u64(from->bytes - at, LEAF_SIZE);
	char packed[LEAF_SIZE];
	if (op->kind == OP_UNPACK)
		return span_unpack(&span, op->src + from->arena_at + at, at, len);
	span_pack(&span, packed, at, len);
	if (op->kind == OP_DIGEST)
		refer_digest(op, &op->leaves[from->first_leaf + leaf], digest_leaf(packed, len));
	else if (!op->changed || op->changed[op->unit])
		memcpy(op->dst + from->arena_at + at, packed, len);
}

/* A leaf at a time. */
static bool step_kernel(struct cuda_fake *fake, struct op *op)
{
	int code = 0;
	if (!op->units)
		return true;
	if (!fake->emulate)
		refer(op);
	else if (op->kind == OP_DIGEST)
		code = gpu_digest(&op->table, op->unit, 1, op->leaves, op->changed, 1, NULL);
	else if (op->kind == OP_PACK)
		code = gpu_pack(&op->table, op->unit, 1, op->changed, op->dst, 1, NULL);
	else
		code = gpu_unpack(&op->table, op->unit, 1, op->src, 1, NULL);
	assert(code == 0);
	op->unit++;
	return !--op->units;
}

/* Runs a piece of the operation; true when it is over. */
static bool step(struct cuda_fake *fake, struct op *op)
{
	switch (op->kind) {
	case OP_COPY:
		step_copy(fake, op);
		return op->moved == op->rows * op->row_bytes;
	case OP_WRITE:
		if (op->width == 8)
			atomic_store((_Atomic uint64_t *)(void *)op->dst, op->value);
		else
			atomic_store((_Atomic uint32_t *)(void *)op->dst, (uint32_t)op->value);
		return true;
	case OP_RECORD:
		if (op->event->completed < op->turn)
			op->event->completed = op->turn;
		return true;
	case OP_WAIT:
		return true;
	case OP_DIGEST:
	case OP_PACK:
	case OP_UNPACK:
		return step_kernel(fake, op);
	case OP_FREE: /* with the operation */
		return true;
	case OP_CALL:
		op->fn(op->arg);
		return true;
	}
	return true;
}

static struct op *head(struct rt_stream *stream)
{
	return list_empty(&stream->ops) ? NULL : list_entry(stream->ops.next, struct op, entry);
}

static bool share_a_queue(const struct cuda_fake *fake, const struct rt_stream *a, const struct rt_stream *b)
{
	return a == b || (fake->connections && a->gpu == b->gpu && a->urgent == b->urgent &&
			  a->number % fake->connections == b->number % fake->connections);
}

/* Something that was put into the same hardware queue before it has not started. */
static bool queued(const struct cuda_fake *fake, const struct rt_stream *stream, const struct op *op)
{
	list_for(s, &fake->streams) {
		const struct rt_stream *other = list_entry(s, struct rt_stream, entry);
		if (!fake->connections || other == stream || !share_a_queue(fake, stream, other))
			continue;
		list_for(it, &other->ops) {
			const struct op *before = list_entry(it, struct op, entry);
			if (!before->started && before->turn_in_queue < op->turn_in_queue)
				return true;
		}
	}
	return false;
}

static bool is_kernel(const struct op *op)
{
	return op->kind == OP_DIGEST || op->kind == OP_PACK || op->kind == OP_UNPACK;
}

static bool runnable(const struct cuda_fake *fake, struct rt_stream *stream, int gpu)
{
	struct op *op = head(stream);
	if (op && fake->full && stream->urgent && is_kernel(op) && !op->started)
		return false;
	return op && stream->gpu == gpu && (op->kind != OP_WAIT || op->event->completed >= op->turn) &&
	       (op->started || !queued(fake, stream, op));
}

/* Any stream that can go on, for a burst between one step and many, so that one gets far ahead of the others. */
static struct rt_stream *pick(struct executor *gpu)
{
	struct cuda_fake *fake = gpu->fake;
	uint64_t n = 0, chosen;
	bool stay = false;
	list_for(it, &fake->streams) {
		struct rt_stream *stream = list_entry(it, struct rt_stream, entry);
		n += runnable(fake, stream, gpu->gpu);
		stay |= stream == gpu->favourite && runnable(fake, stream, gpu->gpu);
	}
	if (!n)
		return NULL;
	if (stay && gpu->burst && gpu->burst--)
		return gpu->favourite;
	gpu->burst = 1ull << draw(fake, BURSTS);
	chosen = draw(fake, n);
	list_for(it, &fake->streams) {
		struct rt_stream *stream = list_entry(it, struct rt_stream, entry);
		if (runnable(fake, stream, gpu->gpu) && !chosen--)
			return gpu->favourite = stream;
	}
	return NULL;
}

void fake_stream_drop(struct cuda_fake *fake, struct rt_stream *stream)
{
	for (int i = 0; i < FAKE_GPUS; i++)
		if (fake->gpus[i].favourite == stream)
			fake->gpus[i].favourite = NULL;
	list_for(it, &stream->ops) {
		fake->pending--;
		fake->frees -= list_entry(it, struct op, entry)->kind == OP_FREE;
	}
	fake_ops_free(&stream->ops);
	list_remove(&stream->entry);
	free(stream);
	fake->live--;
}

static void run_step(struct cuda_fake *fake, struct rt_stream *stream)
{
	struct op *op = head(stream);
	if (fake->fail_op && fake->ops + 1 == fake->fail_op) {
		fake->failed = "op";
		fake->fail_op = 0; /* of one GPU */
		fake->gpus[stream->gpu].sticky = FAKE_STICKY;
		pthread_cond_broadcast(&fake->changed);
		return;
	}
	op->started = true;
	bool over = step(fake, op);
	if (fake->watch)
		fake->watch(fake->watch_arg);
	if (!over)
		return;
	fake->ops++;
	/* An event may let another GPU go on; the last operation ends a wait for all. */
	fake->frees -= op->kind == OP_FREE;
	if (!--fake->pending || op->kind == OP_RECORD)
		pthread_cond_broadcast(&fake->changed);
	list_remove(&op->entry);
	op_free(op);
	if (stream->destroyed && list_empty(&stream->ops))
		fake_stream_drop(fake, stream);
}

/* Whether a GPU that lives has anything to do. */
bool fake_can_go_on(struct cuda_fake *fake)
{
	list_for(it, &fake->streams) {
		struct rt_stream *stream = list_entry(it, struct rt_stream, entry);
		if (!fake->gpus[stream->gpu].sticky && runnable(fake, stream, stream->gpu))
			return true;
	}
	return false;
}

bool fake_is_lost(struct cuda_fake *fake, struct rt_stream *stream)
{
	struct op *op = head(stream);
	return fake->gpus[stream->gpu].sticky ||
	       (op && op->kind == OP_WAIT && !runnable(fake, stream, stream->gpu) && fake->gpus[op->event->gpu].sticky);
}

void *fake_execute(void *arg)
{
	struct executor *gpu = arg;
	struct cuda_fake *fake = gpu->fake;
	LOCK_SCOPE(&fake->lock);
	while (!fake->stop) {
		struct rt_stream *stream = fake->held || gpu->sticky ? NULL : pick(gpu);
		if (stream)
			run_step(fake, stream);
		else
			pthread_cond_wait(&fake->changed, &fake->lock);
		if (stream && !fake_can_go_on(fake))
			pthread_cond_broadcast(&fake->changed);
	}
	return NULL;
}

struct rt_stream *fake_stream_new(struct cuda_fake *fake, int gpu)
{
	struct rt_stream *stream = calloc(1, sizeof(*stream));
	assert(stream);
	list_init(&stream->ops);
	stream->gpu = gpu;
	stream->number = fake->nstreams++;
	list_push(&fake->streams, &stream->entry);
	fake->live++;
	return stream;
}

static bool overlap(const char *a, size_t na, const char *b, size_t nb)
{
	return (uintptr_t)a < (uintptr_t)b + nb && (uintptr_t)b < (uintptr_t)a + na;
}

/* The packed side of what a kernel does, or where its digests go. */
static bool kernel_touches(const struct op *op, const char *base, size_t size)
{
	const char *packed = op->kind == OP_PACK ? op->dst : op->src;
	for (size_t i = 0; i < op->table.n; i++) {
		const struct gpu_span *span = &op->table.spans[i];
		uint64_t units = op->table.before[i + 1] - op->table.before[i];
		if (op->table.before[i] >= op->unit + op->units || op->table.before[i + 1] <= op->unit)
			continue;
		if (op->kind == OP_DIGEST
			    ? overlap((const char *)(op->leaves + span->first_leaf), units * 8, base, size)
			    : overlap((const char *)((uintptr_t)packed + span->arena_at), span->bytes, base, size))
			return true;
	}
	return false;
}

static bool touches(const struct op *op, const char *base, size_t size)
{
	switch (op->kind) {
	case OP_COPY:
		return overlap(op->dst, (op->rows - 1) * op->dst_pitch + op->row_bytes, base, size) ||
		       overlap(op->src, (op->rows - 1) * op->src_pitch + op->row_bytes, base, size);
	case OP_WRITE:
		return overlap(op->dst, op->width, base, size);
	case OP_DIGEST:
	case OP_PACK:
	case OP_UNPACK:
		return kernel_touches(op, base, size);
	default:
		return false;
	}
}

bool fake_in_use(struct cuda_fake *fake, const char *base, size_t size)
{
	list_for(s, &fake->streams) {
		struct rt_stream *stream = list_entry(s, struct rt_stream, entry);
		list_for(it, &stream->ops) {
			if (!fake->gpus[stream->gpu].sticky && touches(list_entry(it, struct op, entry), base, size))
				return true;
		}
	}
	return false;
}
