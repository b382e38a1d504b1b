#include "span.h"

#include "base/bytes.h"
#include "format/tensor/digest.h"

#include <string.h>

static uint64_t image_bytes(const struct span *span)
{
	uint64_t bytes = span->row_bytes;
	for (uint32_t d = 0; d < span->ndim; d++)
		bytes *= span->count[d];
	return bytes;
}

uint64_t span_bytes(const struct span *span)
{
	return span->take ? span->take : image_bytes(span) - span->skip;
}

struct span span_part(const struct span *span, uint64_t at, uint64_t len)
{
	struct span part = *span;
	if (at || len < span_bytes(span)) {
		part.skip += at;
		part.take = len;
	}
	part.arena_at += at;
	part.first_leaf += at / LEAF_SIZE;
	return part;
}

/* Loops that run once go; an innermost loop over adjacent rows becomes a longer row. */
static void drop_loops(struct span *span)
{
	uint32_t kept = 0;
	for (uint32_t d = 0; d < span->ndim; d++) {
		if (span->count[d] == 1)
			continue;
		span->count[kept] = span->count[d];
		span->stride[kept++] = span->stride[d];
	}
	span->ndim = kept;
	while (span->ndim && span->stride[span->ndim - 1] == (int64_t)span->row_bytes)
		span->row_bytes *= span->count[--span->ndim];
}

/* An outer loop that goes on where the inner one ends is one loop with it. */
static void merge_loops(struct span *span)
{
	for (uint32_t d = span->ndim; d-- > 1;) {
		int64_t reach;
		if (__builtin_mul_overflow((int64_t)span->count[d], span->stride[d], &reach) ||
		    reach != span->stride[d - 1])
			continue;
		span->count[d - 1] *= span->count[d];
		span->stride[d - 1] = span->stride[d];
		for (uint32_t k = d; k + 1 < span->ndim; k++) {
			span->count[k] = span->count[k + 1];
			span->stride[k] = span->stride[k + 1];
		}
		span->ndim--;
	}
}

void span_simplify(struct span *span)
{
	uint64_t bytes = span_bytes(span);
	if (bytes) {
		drop_loops(span);
		merge_loops(span);
	} else {
		span->ndim = 0;
	}
	if (span->ndim)
		return;
	if (span->skip)
		span->memory = (char *)span->memory + span->skip;
	span->row_bytes = bytes;
	span->skip = span->take = 0;
}

void span_walk_init(struct span_walk *walk, const struct span *span, uint64_t at, uint64_t len)
{
	*walk = (struct span_walk){.span = span, .left = len};
	if (!len)
		return;
	at += span->skip;
	walk->in_row = at % span->row_bytes;
	uint64_t row = at / span->row_bytes;
	for (uint32_t d = span->ndim; d-- > 0;) {
		walk->index[d] = row % span->count[d];
		row /= span->count[d];
		walk->offset += (int64_t)walk->index[d] * span->stride[d];
	}
}

static void advance(struct span_walk *walk, uint32_t d, uint64_t n)
{
	const struct span *span = walk->span;
	walk->index[d] += n;
	walk->offset += (int64_t)n * span->stride[d];
	for (; d > 0 && walk->index[d] == span->count[d]; d--) {
		walk->offset += span->stride[d - 1] - (int64_t)span->count[d] * span->stride[d];
		walk->index[d] = 0;
		walk->index[d - 1]++;
	}
}

/* What is left of the current row, or of the walk inside it. */
static void part_of_row(struct span_walk *walk, struct span_run *run)
{
	uint64_t n = min_u64(walk->span->row_bytes - walk->in_row, walk->left);
	run->memory += walk->in_row;
	run->bytes = n;
	walk->left -= n;
	walk->in_row += n;
	if (walk->in_row < walk->span->row_bytes)
		return;
	walk->in_row = 0;
	if (walk->span->ndim)
		advance(walk, walk->span->ndim - 1, 1);
}

bool span_walk_next(struct span_walk *walk, struct span_run *run)
{
	const struct span *span = walk->span;
	if (!walk->left)
		return false;
	*run = (struct span_run){
		.memory = (char *)span->memory + walk->offset, .loops = 1, .rows = 1, .bytes = span->row_bytes};
	if (!span->ndim || walk->in_row || walk->left < span->row_bytes) {
		part_of_row(walk, run);
		return true;
	}
	uint32_t inner = span->ndim - 1;
	uint64_t loop_bytes = span->count[inner] * span->row_bytes;
	run->stride = span->stride[inner];
	if (inner && !walk->index[inner] && walk->left >= loop_bytes) {
		run->rows = span->count[inner];
		run->loops = min_u64(span->count[inner - 1] - walk->index[inner - 1], walk->left / loop_bytes);
		run->loop_stride = span->stride[inner - 1];
		walk->left -= run->loops * loop_bytes;
		advance(walk, inner - 1, run->loops);
		return true;
	}
	run->rows = min_u64(span->count[inner] - walk->index[inner], walk->left / span->row_bytes);
	walk->left -= run->rows * span->row_bytes;
	advance(walk, inner, run->rows);
	return true;
}

enum { CACHE_LINE = 64 };

/* The two loops of a run in the order in which memory is touched. Where a row is a part of a cache line, the loop with
 * the smaller stride runs inside, so that a line is used up while it is there (a transposed matrix is read along its
 * rows). */
struct order {
	uint64_t outer, inner;               /* counts */
	int64_t outer_memory, inner_memory;  /* bytes per step in memory */
	uint64_t outer_packed, inner_packed; /* and in the packed bytes */
};

static uint64_t magnitude(int64_t v)
{
	return v < 0 ? -(uint64_t)v : (uint64_t)v;
}

static struct order order_of(const struct span_run *run)
{
	uint64_t loop = run->rows * run->bytes;
	if (run->bytes < CACHE_LINE && run->loops > 1 && magnitude(run->loop_stride) < magnitude(run->stride))
		return (struct order){run->rows, run->loops, run->stride, run->loop_stride, run->bytes, loop};
	return (struct order){run->loops, run->rows, run->loop_stride, run->stride, loop, run->bytes};
}

/* With a constant n the compiler turns the copy of a row into a load and a store. */
static inline __attribute__((always_inline)) void gather(char *dst, const char *memory, const struct order *o, size_t n)
{
	for (uint64_t i = 0; i < o->outer; i++, dst += o->outer_packed, memory += o->outer_memory) {
		const char *row = memory;
		char *to = dst;
		for (uint64_t k = 0; k < o->inner; k++, row += o->inner_memory, to += o->inner_packed)
			memcpy(to, row, n);
	}
}

static inline __attribute__((always_inline)) void scatter(const char *src, char *memory, const struct order *o,
							  size_t n)
{
	for (uint64_t i = 0; i < o->outer; i++, src += o->outer_packed, memory += o->outer_memory) {
		const char *from = src;
		char *row = memory;
		for (uint64_t k = 0; k < o->inner; k++, row += o->inner_memory, from += o->inner_packed)
			memcpy(row, from, n);
	}
}

static void gather_run(char *dst, const struct span_run *run)
{
	struct order o = order_of(run);
	switch (run->bytes) {
	case 1:
		return gather(dst, run->memory, &o, 1);
	case 2:
		return gather(dst, run->memory, &o, 2);
	case 4:
		return gather(dst, run->memory, &o, 4);
	case 8:
		return gather(dst, run->memory, &o, 8);
	case 16:
		return gather(dst, run->memory, &o, 16);
	case 32:
		return gather(dst, run->memory, &o, 32);
	case 64:
		return gather(dst, run->memory, &o, 64);
	default:
		return gather(dst, run->memory, &o, run->bytes);
	}
}

static void scatter_run(const char *src, const struct span_run *run)
{
	struct order o = order_of(run);
	switch (run->bytes) {
	case 1:
		return scatter(src, run->memory, &o, 1);
	case 2:
		return scatter(src, run->memory, &o, 2);
	case 4:
		return scatter(src, run->memory, &o, 4);
	case 8:
		return scatter(src, run->memory, &o, 8);
	case 16:
		return scatter(src, run->memory, &o, 16);
	case 32:
		return scatter(src, run->memory, &o, 32);
	case 64:
		return scatter(src, run->memory, &o, 64);
	default:
		return scatter(src, run->memory, &o, run->bytes);
	}
}

static uint64_t run_bytes(const struct span_run *run)
{
	return run->loops * run->rows * run->bytes;
}

void span_pack(const struct span *span, void *dst, uint64_t at, uint64_t len)
{
	struct span simple = *span;
	struct span_walk walk;
	struct span_run run;
	span_simplify(&simple);
	span_walk_init(&walk, &simple, at, len);
	for (char *to = dst; span_walk_next(&walk, &run); to += run_bytes(&run))
		gather_run(to, &run);
}

void span_unpack(const struct span *span, const void *src, uint64_t at, uint64_t len)
{
	struct span simple = *span;
	struct span_walk walk;
	struct span_run run;
	span_simplify(&simple);
	span_walk_init(&walk, &simple, at, len);
	for (const char *from = src; span_walk_next(&walk, &run); from += run_bytes(&run))
		scatter_run(from, &run);
}
