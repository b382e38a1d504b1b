/* Restore on CUDA: the state goes to the device in pieces, several at a time in flight; behind each the device digests what has arrived there,
 * and the host compares the digests with those of the capture while the next pieces are on their way. What a kernel packed a kernel unpacks,
 * from spare memory of the device that lives as long as the piece. Waits ask with pauses, so that a device that hangs is noticed. */
#include "cuda_route.h"

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "format/tensor/digest.h"

#include <inttypes.h>
#include <stdlib.h>

enum { PIECE = 64 << 20, FLYING = 4, PAGE = 4096 };

/* A piece: some units of the table, from some place of some span on. */
struct piece {
	uint64_t unit, units;
};

struct restore {
	struct device *dev;
	const char *base;
	const struct span_list *list;
	const uint64_t *leaves; /* expected; NULL: nothing is compared */
	struct span *numbered;  /* the spans with their leaves counted from 0 */
	uint64_t *arrived;      /* registered: the digests of the device, by unit */
	bool registered, lost;  /* lost: a device that hangs may write to it yet */
	struct cuda_table table;
	struct rt_event *events[FLYING];
	struct piece flying[FLYING];
	uint64_t issued, awaited; /* pieces */
	size_t span;              /* where the next piece begins */
	uint64_t at, unit;
	struct {
		uint64_t arena_at, bytes, unit, units;
	} packed; /* adjacent bytes of the current piece that are to be unpacked */
};

/* ---- what it needs ----------------------------------------------------------------------------------------------- */

static int number_spans(struct restore *r, uint64_t *units, struct err *err)
{
	r->numbered = calloc(r->list->n + 1, sizeof(*r->numbered));
	if (!r->numbered)
		return err_set(err, -ENOMEM, "out of memory for %zu spans", r->list->n);
	*units = 0;
	for (size_t i = 0; i < r->list->n; i++) {
		r->numbered[i] = r->list->spans[i];
		r->numbered[i].first_leaf = *units;
		*units += leaf_count(span_bytes(&r->list->spans[i]));
	}
	return 0;
}

static int make_digests(struct restore *r, uint64_t units, struct err *err)
{
	struct device *dev = r->dev;
	size_t size = align_up(units * sizeof(uint64_t) + 1, PAGE);
	r->arrived = aligned_alloc(PAGE, size);
	if (!r->arrived)
		return err_set(err, -ENOMEM, "out of memory for the digests of what is restored");
	int rc = cuda_check(dev, dev->rt->host_register(dev->rt, r->arrived, size), "pinning room for digests", err);
	r->registered = rc == 0;
	return rc;
}

static int make(struct restore *r, struct err *err)
{
	struct device *dev = r->dev;
	uint64_t units = 0;
	int rc = number_spans(r, &units, err);
	if (rc == 0 && r->leaves)
		rc = make_digests(r, units, err);
	if (rc == 0 && dev->rt->unpack)
		rc = cuda_table_init(dev, &r->table, r->numbered, r->list->n, err);
	for (int i = 0; rc == 0 && i < FLYING; i++)
		rc = cuda_check(dev, dev->rt->event_create(dev->rt, &r->events[i]), "creating an event", err);
	return rc;
}

static void warn_if(struct device *dev, int code, const char *what)
{
	struct err err;
	if (cuda_check(dev, code, what, &err) < 0)
		log_warn("%s", err.text);
}

/* The stream is empty, or lost. */
static void drop(struct restore *r)
{
	struct device *dev = r->dev;
	for (int i = 0; i < FLYING; i++)
		if (r->events[i])
			warn_if(dev, dev->rt->event_destroy(dev->rt, r->events[i]), "destroying an event");
	cuda_table_free(dev, &r->table);
	if (r->lost)
		cuda_lose(dev, r->arrived, r->registered);
	else if (r->registered)
		warn_if(dev, dev->rt->host_unregister(dev->rt, r->arrived), "unpinning the room for digests");
	if (!r->lost)
		free(r->arrived);
	free(r->numbered);
}

/* ---- the way ----------------------------------------------------------------------------------------------------- */

/* Ordered by the stream, like all around it: the memory is there when the copy comes, and goes when the kernel is done. */
static int unpack(struct restore *r, struct err *err)
{
	struct device *dev = r->dev;
	struct cuda_rt *rt = dev->rt;
	void *spare;
	uint64_t bytes = r->packed.bytes;
	r->packed.bytes = 0;
	if (!bytes)
		return 0;
	int rc = cuda_check(dev, rt->alloc(rt, &spare, bytes, dev->copies), "taking memory to unpack from", err);
	if (rc < 0)
		return rc;
	rc = cuda_check(dev, rt->copy(rt, spare, r->base + r->packed.arena_at, bytes, dev->copies), "starting a copy",
			err);
	const char *base = (const char *)((uintptr_t)spare - r->packed.arena_at);
	if (rc == 0)
		rc = cuda_check(dev, rt->unpack(rt, dev->copies, &r->table.gpu, r->packed.unit, r->packed.units, base),
				"starting to unpack", err);
	int freed =
		cuda_check(dev, rt->free(rt, spare, dev->copies), "freeing memory to unpack from", rc < 0 ? NULL : err);
	return rc < 0 ? rc : freed;
}

/* Part of a span that a kernel writes; what is adjacent in the arena goes together. */
static int add_packed(struct restore *r, uint64_t arena_at, uint64_t n, uint64_t unit, struct err *err)
{
	int rc = r->packed.bytes && r->packed.arena_at + r->packed.bytes == arena_at ? 0 : unpack(r, err);
	if (!r->packed.bytes) {
		r->packed.arena_at = arena_at;
		r->packed.unit = unit;
		r->packed.units = 0;
	}
	r->packed.bytes += n;
	r->packed.units += leaf_count(n);
	return rc;
}

/* The packed side is only read in this direction. */
static int send_part(struct restore *r, const struct span *span, uint64_t n, uint64_t unit, struct err *err)
{
	char *packed = (char *)r->base + span->arena_at + r->at;
	if (r->dev->rt->unpack && cuda_packs(r->dev, span))
		return add_packed(r, span->arena_at + r->at, n, unit, err);
	return cuda_copy_span(r->dev, span, packed, r->at, n, CUDA_TO_MEMORY, r->dev->copies, err);
}

/* Puts the next piece on the stream: whole leaves, of one span or of many. */
static int send_piece(struct restore *r, struct piece *piece, struct err *err)
{
	uint64_t sent = 0;
	int rc = 0;
	*piece = (struct piece){.unit = r->unit};
	while (rc == 0 && r->span < r->list->n && sent < PIECE) {
		const struct span *span = &r->list->spans[r->span];
		uint64_t bytes = span_bytes(span), n = min_u64(bytes - r->at, PIECE - sent / LEAF_SIZE * LEAF_SIZE);
		if (n)
			rc = send_part(r, span, n, r->unit + piece->units, err);
		sent += n;
		piece->units += leaf_count(n);
		r->at += n;
		if (r->at < bytes)
			continue;
		r->span++;
		r->at = 0;
	}
	r->unit += piece->units;
	return rc < 0 ? rc : unpack(r, err);
}

static int issue_piece(struct restore *r, struct err *err)
{
	struct device *dev = r->dev;
	struct cuda_rt *rt = dev->rt;
	struct piece *piece = &r->flying[r->issued % FLYING];
	int rc = send_piece(r, piece, err);
	if (rc == 0 && r->leaves && piece->units)
		rc = cuda_check(dev,
				rt->digest(rt, dev->copies, &r->table.gpu, piece->unit, piece->units, r->arrived, NULL),
				"starting the digests", err);
	if (rc == 0)
		rc = cuda_check(dev, rt->event_record(rt, r->events[r->issued % FLYING], dev->copies),
				"recording an event", err);
	r->issued++;
	return rc;
}

/* The span of a unit: the last one that begins at it or before, and is not empty. */
static const struct span *span_at(const struct restore *r, uint64_t unit, size_t *index)
{
	size_t low = 0, high = r->list->n;
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;
		if (r->numbered[middle].first_leaf <= unit)
			low = middle;
		else
			high = middle;
	}
	*index = low;
	return &r->numbered[low];
}

static int compare(struct restore *r, const struct piece *piece, uint64_t *bad_leaf, struct err *err)
{
	for (uint64_t unit = piece->unit; r->leaves && unit < piece->unit + piece->units; unit++) {
		size_t i;
		const struct span *span = span_at(r, unit, &i);
		uint64_t leaf = r->list->spans[i].first_leaf + unit - span->first_leaf;
		if (r->arrived[unit] == r->leaves[leaf])
			continue;
		if (bad_leaf)
			*bad_leaf = leaf;
		return err_set(err, -EBADMSG, "leaf %" PRIu64 " arrived with another digest than it was captured with",
			       leaf);
	}
	return 0;
}

static int await_piece(struct restore *r, uint64_t *bad_leaf, struct err *err)
{
	uint64_t at = r->awaited++ % FLYING;
	int rc = cuda_await(r->dev, r->events[at], err);
	return rc < 0 ? rc : compare(r, &r->flying[at], bad_leaf, err);
}

static int run(struct restore *r, struct rt_stream *stream, uint64_t *bad_leaf, struct err *err)
{
	struct device *dev = r->dev;
	struct cuda_rt *rt = dev->rt;
	int rc = cuda_stand_in(dev, stream, &stream, err);
	if (rc == 0)
		rc = cuda_check(dev, rt->event_record(rt, dev->order, stream), "recording an event", err);
	if (rc == 0)
		rc = cuda_check(dev, rt->stream_wait(rt, dev->copies, dev->order), "waiting for an event", err);
	while (rc == 0 && (r->span < r->list->n || r->awaited < r->issued)) {
		bool full = r->issued - r->awaited == FLYING;
		rc = full || r->span == r->list->n ? await_piece(r, bad_leaf, err) : issue_piece(r, err);
	}
	/* Also behind an error: when this returns, nothing is under way. */
	int drained = cuda_drain(dev, dev->copies, rc < 0 ? NULL : err);
	r->lost = drained == -ETIMEDOUT;
	return rc < 0 ? rc : drained;
}

static int restore_list(struct device *dev, const void *base, const struct span_list *list, const uint64_t *leaves,
			struct rt_stream *stream, uint64_t *bad_leaf, struct err *err)
{
	struct restore r = {.dev = dev, .base = base, .list = list, .leaves = leaves};
	if (leaves && !dev->rt->digest)
		return err_set(err, -EOPNOTSUPP, "GPU %d makes no digests to compare with", dev->ordinal);
	int rc = make(&r, err);
	if (rc == 0)
		rc = run(&r, stream, bad_leaf, err);
	drop(&r);
	return rc;
}

int cuda_restore(struct device *dev, const void *base, const struct span *spans, size_t n, const uint64_t *leaves,
		 void *stream, uint64_t *bad_leaf, struct err *err)
{
	struct span_list list;
	struct cuda_former former;
	int rc = span_list_init(&list, spans, n, err);
	if (rc < 0)
		return rc;
	rc = cuda_enter(dev, &former, err);
	if (rc == 0) {
		cuda_range_begin(dev, "ckpt: restore");
		rc = restore_list(dev, base, &list, leaves, stream, bad_leaf, err);
		cuda_range_end(dev);
		cuda_leave(dev, &former);
	}
	span_list_free(&list);
	return rc;
}
