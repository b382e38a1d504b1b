#include "cuda_route.h"

#include "base/bytes.h"
#include "cuda/cuda_pinned.h"
#include "format/tensor/digest.h"

#include <stdlib.h>

/* Copies in one plan that no kernel can pack. */
enum { CALLS_MAX = 1 << 20 };
/* What is smaller is packed: a copy of its own costs the device microseconds, whatever its size. Not measured yet. */
enum { PACK_BELOW = 256 << 10, PACK_ROWS_BELOW = 4096 };

bool cuda_packs(const struct device *dev, const struct span *span)
{
	uint64_t bytes = span_bytes(span);
	if (!dev->rt->pack || !bytes)
		return false;
	return bytes < PACK_BELOW || cuda_copy_calls(dev, span, 2) > 1 ||
	       (span->ndim && span->row_bytes < PACK_ROWS_BELOW);
}

enum { BATCH_MAX = 1024 };

static int make_batch(struct cuda_route *route, struct err *err)
{
	struct cuda_batch *b = &route->batch;
	if (!route->dev->rt->copy_batch)
		return 0;
	b->dst = calloc(BATCH_MAX, sizeof(*b->dst));
	b->src = calloc(BATCH_MAX, sizeof(*b->src));
	b->bytes = calloc(BATCH_MAX, sizeof(*b->bytes));
	return b->dst && b->src && b->bytes ? 0 : err_set(err, -ENOMEM, "out of memory for a batch of copies");
}

static int check_calls(const struct cuda_route *route, struct err *err)
{
	uint64_t left = CALLS_MAX;
	for (size_t i = 0; i < route->n; i++) {
		uint64_t calls = route->unit[i] == COPIED ? cuda_copy_calls(route->dev, &route->spans[i], left) : 0;
		if (calls == left)
			return err_set(
				err, -E2BIG,
				"the state needs more than %d copies: register packed memory instead of span %zu",
				CALLS_MAX, i);
		left -= calls;
	}
	return 0;
}

static bool is_packed(const struct cuda_route *route, const struct span *span)
{
	const char *memory = span->memory;
	return memory >= route->room && memory < route->room + route->room_size;
}

/* Which spans are packed, as a list of their own for the kernel. */
static int make_table(struct cuda_route *route, struct err *err)
{
	struct span *chosen = calloc(route->n + 1, sizeof(*chosen));
	size_t n = 0;
	uint64_t units = 0;
	if (!chosen)
		return err_set(err, -ENOMEM, "out of memory for %zu spans", route->n);
	for (size_t i = 0; i < route->n; i++) {
		const struct span *span = &route->spans[i];
		route->unit[i] = COPIED;
		if (is_packed(route, span) || !cuda_packs(route->dev, span))
			continue;
		route->unit[i] = units;
		units += leaf_count(span_bytes(span));
		chosen[n++] = *span;
	}
	int rc = cuda_table_init(route->dev, &route->packed, chosen, n, err);
	free(chosen);
	return rc;
}

int cuda_route_init(struct cuda_route *route, struct device *dev, void *base, uint64_t granule, struct err *err)
{
	route->dev = dev;
	route->base = base;
	route->granule = granule;
	route->unit = calloc(route->n + 1, sizeof(*route->unit));
	if (!route->unit)
		return err_set(err, -ENOMEM, "out of memory for %zu spans", route->n);
	int rc = make_table(route, err);
	if (rc == 0)
		rc = check_calls(route, err);
	return rc < 0 ? rc : make_batch(route, err);
}

void cuda_route_free(struct cuda_route *route)
{
	if (route->dev)
		cuda_table_free(route->dev, &route->packed);
	free(route->batch.dst);
	free(route->batch.src);
	free(route->batch.bytes);
	free(route->unit);
	free(route->spans);
	*route = (struct cuda_route){0};
}

/* What goes on between two steps of the counter. */
struct step {
	uint64_t told, arrived, end;
	uint64_t unit, units; /* to be packed with one launch */
	_Atomic uint64_t *progress;
};

static int issue_packing(struct cuda_route *route, struct step *step, struct err *err)
{
	struct cuda_rt *rt = route->dev->rt;
	uint64_t units = step->units;
	step->units = 0;
	if (!units)
		return 0;
	return cuda_check(
		route->dev,
		rt->pack(rt, route->dev->copies, &route->packed.gpu, step->unit, units, NULL, route->base, false),
		"starting to pack", err);
}

static int issue_batch(struct cuda_route *route, struct err *err)
{
	struct cuda_rt *rt = route->dev->rt;
	struct cuda_batch *b = &route->batch;
	size_t n = b->n;
	b->n = 0;
	if (!n)
		return 0;
	return cuda_check(route->dev, rt->copy_batch(rt, b->dst, b->src, b->bytes, n, route->dev->copies),
			  "starting a batch of copies", err);
}

static int tell(struct cuda_route *route, struct step *step, struct err *err)
{
	int rc = issue_batch(route, err);
	if (rc == 0)
		rc = issue_packing(route, step, err);
	if (rc == 0 && step->progress)
		rc = cuda_tell(route->dev, (void *)step->progress, step->arrived, 8, "writing its progress", err);
	step->told = step->arrived;
	return rc;
}

/* How much of the `left` bytes of a span comes before the next step; what a kernel packs is cut between leaves. */
static uint64_t until_step(const struct cuda_route *route, const struct step *step, uint64_t left, bool packed)
{
	uint64_t room = step->told + route->granule - step->arrived;
	if (left <= room || !packed)
		return min_u64(left, room);
	if (room < LEAF_SIZE && step->arrived == step->told)
		return min_u64(left, LEAF_SIZE); /* a granule smaller than a leaf */
	return room - room % LEAF_SIZE;
}

static int issue_copy(struct cuda_route *route, const struct span *span, uint64_t at, uint64_t n, struct err *err)
{
	struct cuda_batch *b = &route->batch;
	char *packed = route->base + span->arena_at + at;
	if (!b->dst || span->ndim || cuda_pinned_run(packed, n) < n)
		return cuda_copy_span(route->dev, span, packed, at, n, CUDA_TO_ARENA, route->dev->copies, err);
	b->dst[b->n] = packed;
	b->src[b->n] = (char *)span->memory + span->skip + at;
	b->bytes[b->n++] = n;
	return b->n == BATCH_MAX ? issue_batch(route, err) : 0;
}

static int issue_part(struct cuda_route *route, struct step *step, size_t i, uint64_t at, uint64_t n, struct err *err)
{
	const struct span *span = &route->spans[i];
	if (route->unit[i] == COPIED)
		return issue_copy(route, span, at, n, err);
	if (!step->units)
		step->unit = route->unit[i] + at / LEAF_SIZE;
	step->units += leaf_count(n);
	return 0;
}

static int issue_span(struct cuda_route *route, struct step *step, size_t i, struct err *err)
{
	uint64_t bytes = span_bytes(&route->spans[i]);
	int rc = 0;
	for (uint64_t at = 0, n; rc == 0 && at < bytes; at += n) {
		n = until_step(route, step, bytes - at, route->unit[i] != COPIED);
		if (n)
			rc = issue_part(route, step, i, at, n, err);
		step->arrived += n;
		if (rc == 0 && (!n || step->arrived - step->told >= route->granule || step->arrived == step->end))
			rc = tell(route, step, err);
	}
	return rc;
}

int cuda_route_issue(struct cuda_route *route, size_t part, uint64_t told, _Atomic uint64_t *progress, struct err *err)
{
	const struct cuda_part *p = &route->parts[part];
	struct step step = {.told = told, .arrived = told, .end = told, .progress = progress};
	int rc = 0;
	route->batch.n = 0; /* of an issue that failed */
	for (size_t i = p->first; i < p->first + p->n; i++)
		step.end += span_bytes(&route->spans[i]);
	for (size_t i = p->first; rc == 0 && i < p->first + p->n; i++)
		rc = issue_span(route, &step, i, err);
	return rc;
}
