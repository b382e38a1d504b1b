#include "cuda_load.h"

#include "base/bytes.h"
#include "base/cleanup.h"
#include "cuda/cuda_pinned.h"
#include "format/tensor/digest.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- what it needs ----------------------------------------------------------------------------------------------- */

static int number_spans(struct cuda_load *b, struct err *err)
{
	uint64_t units = 0;
	b->numbered = calloc(b->list.n + 1, sizeof(*b->numbered));
	if (!b->numbered)
		return err_set(err, -ENOMEM, "out of memory for %zu spans", b->list.n);
	for (size_t i = 0; i < b->list.n; i++) {
		b->numbered[i] = b->list.spans[i];
		b->numbered[i].first_leaf = units;
		units += leaf_count(span_bytes(&b->list.spans[i]));
	}
	return 0;
}

/* All of a load stands in one slot of one arena: as its first byte, so the others. */
static bool is_pinned(const struct cuda_load *b)
{
	uint64_t from = UINT64_MAX, to = 0;
	for (size_t i = 0; i < b->list.n; i++) {
		const struct span *span = &b->list.spans[i];
		from = min_u64(from, span->arena_at);
		to = max_u64(to, span->arena_at + span_bytes(span));
	}
	return from >= to || cuda_is_pinned(b->base + from, to - from);
}

int cuda_load_new(struct device *dev, const void *base, const struct span *spans, size_t n, const uint64_t *leaves,
		  const void *origin, struct cuda_load **out, struct err *err)
{
	struct cuda_load *b = *out = calloc(1, sizeof(*b));
	if (!b)
		return err_set(err, -ENOMEM, "out of memory for a restore");
	*b = (struct cuda_load){.base = base, .leaves = leaves, .origin = origin};
	int rc = span_list_init(&b->list, spans, n, err);
	if (rc == 0)
		rc = number_spans(b, err);
	if (rc == 0 && dev->rt->unpack)
		rc = cuda_table_start(dev, &b->table, b->numbered, b->list.n, &b->filled, err);
	b->bounced = !is_pinned(b);
	*out = b;
	return rc;
}

void cuda_load_free(struct device *dev, struct cuda_load *load, bool lost)
{
	cuda_table_free(dev, &load->table);
	if (lost)
		cuda_lose(dev, load->filled, false);
	else
		free(load->filled);
	span_list_free(&load->list);
	free(load->numbered);
	free(load);
}

/* ---- the way ----------------------------------------------------------------------------------------------------- */

/* Ordered by the stream, like all around it: the memory is there when the copy comes, and goes when the kernel is done. */
static int unpack(struct device *dev, struct cuda_load *b, struct err *err)
{
	struct cuda_rt *rt = dev->rt;
	void *spare;
	uint64_t bytes = b->packed.bytes;
	b->packed.bytes = 0;
	if (!bytes)
		return 0;
	int rc = cuda_check(dev, rt->alloc(rt, &spare, bytes, dev->copies), "taking memory to unpack from", err);
	if (rc < 0)
		return rc;
	rc = cuda_check(dev, cuda_copy_row(dev, spare, (char *)b->packed.from, bytes, CUDA_TO_MEMORY, dev->copies),
			"starting a copy", err);
	const char *base = (const char *)((uintptr_t)spare - b->packed.arena_at);
	if (rc == 0)
		rc = cuda_check(dev, rt->unpack(rt, dev->copies, &b->table.gpu, b->packed.unit, b->packed.units, base),
				"starting to unpack", err);
	int freed =
		cuda_check(dev, rt->free(rt, spare, dev->copies), "freeing memory to unpack from", rc < 0 ? NULL : err);
	return rc < 0 ? rc : freed;
}

/* Part of a span that a kernel writes; what is adjacent in the arena goes together. */
static int add_packed(struct device *dev, struct cuda_load *b, const char *from, uint64_t arena_at, uint64_t n,
		      uint64_t unit, struct err *err)
{
	bool adjacent = b->packed.arena_at + b->packed.bytes == arena_at && b->packed.from + b->packed.bytes == from;
	int rc = b->packed.bytes && adjacent ? 0 : unpack(dev, b, err);
	if (!b->packed.bytes) {
		b->packed.from = from;
		b->packed.arena_at = arena_at;
		b->packed.unit = unit;
		b->packed.units = 0;
	}
	b->packed.bytes += n;
	b->packed.units += leaf_count(n);
	return rc;
}

/* Where the device can read n bytes of the arena from: there, or where this thread copies them now. */
static char *reachable(struct cuda_load *b, uint64_t arena_at, uint64_t n, char *bounce)
{
	const char *there = b->base + arena_at;
	if (!b->bounced)
		return (char *)there; /* is only read */
	char *here = bounce + b->bounced_bytes;
	memcpy(here, there, n);
	b->bounced_bytes += n;
	return here;
}

static int send_part(struct device *dev, struct cuda_load *b, uint64_t n, uint64_t unit, char *bounce, struct err *err)
{
	const struct span *span = &b->list.spans[b->span];
	uint64_t arena_at = span->arena_at + b->at;
	char *from = reachable(b, arena_at, n, bounce);
	if (dev->rt->unpack && cuda_packs(dev, span))
		return add_packed(dev, b, from, arena_at, n, unit, err);
	return cuda_copy_span(dev, span, from, b->at, n, CUDA_TO_MEMORY, dev->copies, err);
}

/* How much of the current span goes into the piece: whole leaves, or all that is left. */
static uint64_t part_bytes(const struct cuda_load *b, const struct cuda_piece *piece, uint64_t sent)
{
	uint64_t most = b->bounced ? PIECE_BOUNCED : PIECE_PINNED, left = span_bytes(&b->list.spans[b->span]) - b->at;
	left = min_u64(left, most - sent / LEAF_SIZE * LEAF_SIZE);
	return min_u64(left, (SCRATCH_DIGESTS - piece->units) * LEAF_SIZE);
}

int cuda_load_send(struct device *dev, struct cuda_load *load, const struct cuda_scratch *scratch, uint64_t number,
		   struct cuda_piece *piece, struct err *err)
{
	uint64_t sent = 0, most = load->bounced ? PIECE_BOUNCED : PIECE_PINNED;
	char *bounce = load->bounced ? cuda_scratch_bounce(scratch, number) : NULL;
	int rc = 0;
	*piece = (struct cuda_piece){.load = load, .unit = load->unit};
	load->bounced_bytes = 0;
	while (rc == 0 && !cuda_load_sent(load) && sent < most && piece->units < SCRATCH_DIGESTS) {
		uint64_t n = part_bytes(load, piece, sent);
		if (n)
			rc = send_part(dev, load, n, load->unit + piece->units, bounce, err);
		sent += n;
		piece->units += leaf_count(n);
		load->at += n;
		if (load->at < span_bytes(&load->list.spans[load->span]))
			continue;
		load->span++;
		load->at = 0;
	}
	load->unit += piece->units;
	return rc < 0 ? rc : unpack(dev, load, err);
}

/* ---- what has arrived -------------------------------------------------------------------------------------------- */

/* The span of a unit: the last one that begins at it or before, and is not empty. */
static size_t span_at(const struct cuda_load *b, uint64_t unit)
{
	size_t low = 0, high = b->list.n;
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;
		if (b->numbered[middle].first_leaf <= unit)
			low = middle;
		else
			high = middle;
	}
	return low;
}

int cuda_load_compare(const struct cuda_piece *piece, const uint64_t *arrived, uint64_t *bad_leaf, struct err *err)
{
	const struct cuda_load *b = piece->load;
	for (uint64_t i = 0; b->leaves && i < piece->units; i++) {
		uint64_t unit = piece->unit + i;
		size_t span = span_at(b, unit);
		uint64_t leaf = b->list.spans[span].first_leaf + unit - b->numbered[span].first_leaf;
		if (arrived[i] == b->leaves[leaf])
			continue;
		*bad_leaf = leaf;
		return err_set(err, -EBADMSG, "leaf %" PRIu64 " arrived with another digest than it was captured with",
			       leaf);
	}
	return 0;
}
