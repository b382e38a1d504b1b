#include "format/tensor/region.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int shape_volume(const struct shape *shape, uint64_t *volume)
{
	if (shape->ndim > NDIM_MAX)
		return -EINVAL;
	uint64_t all = 1, strides = 1;
	for (uint32_t d = 0; d < shape->ndim; d++) {
		uint64_t dim = shape->dim[d];
		if (__builtin_mul_overflow(strides, dim ? dim : 1, &strides) || strides > INT64_MAX / 16)
			return -EOVERFLOW;
		all *= dim;
	}
	*volume = all;
	return 0;
}

bool shape_equal(const struct shape *a, const struct shape *b)
{
	return a->ndim == b->ndim && !memcmp(a->dim, b->dim, a->ndim * sizeof(a->dim[0]));
}

/* Appends to a text of at least 4 bytes; one that is full ends in "...". */
static void __attribute__((format(printf, 4, 5))) append(char *dst, size_t size, size_t *len, const char *fmt, ...)
{
	if (*len >= size)
		return;
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(dst + *len, size - *len, fmt, ap);
	va_end(ap);
	*len += n > 0 ? (size_t)n : 0;
	if (*len >= size)
		memcpy(dst + size - 4, "...", 4);
}

char *shape_text(const struct shape *shape, char *dst, size_t size)
{
	size_t len = 0;
	append(dst, size, &len, "[");
	for (uint32_t d = 0; d < shape->ndim && d < NDIM_MAX; d++)
		append(dst, size, &len, "%s%llu", d ? ", " : "", (unsigned long long)shape->dim[d]);
	append(dst, size, &len, "]");
	return dst;
}

char *region_text(const struct shape *shape, const struct region *r, char *dst, size_t size)
{
	size_t len = 0;
	if (r->kind == REGION_FLAT) {
		append(dst, size, &len, "flat %llu:%llu", (unsigned long long)r->start,
		       (unsigned long long)(r->start + r->count));
		return dst;
	}
	append(dst, size, &len, "[");
	for (uint32_t d = 0; d < shape->ndim && d < NDIM_MAX; d++)
		append(dst, size, &len, "%s%llu:%llu", d ? ", " : "", (unsigned long long)r->offset[d],
		       (unsigned long long)(r->offset[d] + r->extent[d]));
	append(dst, size, &len, "]");
	return dst;
}

struct region region_whole(const struct shape *shape)
{
	struct region r = {.kind = REGION_BOX};
	memcpy(r.extent, shape->dim, shape->ndim * sizeof(r.extent[0]));
	return r;
}

struct region region_flat(uint64_t start, uint64_t count)
{
	return (struct region){.kind = REGION_FLAT, .start = start, .count = count};
}

static int check_flat(const struct shape *shape, const struct region *r, struct err *err)
{
	uint64_t volume = 0;
	int rc = shape_volume(shape, &volume);
	if (rc < 0)
		return err_set(err, rc, "the shape is too large");
	if (r->count <= volume && r->start <= volume - r->count)
		return 0;
	char text[128];
	return err_set(err, -ERANGE, "flat range start %llu + count %llu is beyond the %llu elements of shape %s",
		       (unsigned long long)r->start, (unsigned long long)r->count, (unsigned long long)volume,
		       shape_text(shape, text, sizeof(text)));
}

int region_check(const struct shape *shape, const struct region *r, struct err *err)
{
	if (r->kind == REGION_FLAT)
		return check_flat(shape, r, err);
	if (r->kind != REGION_BOX)
		return err_set(err, -EINVAL, "a region is neither a box nor a flat range (kind %u)", (unsigned)r->kind);
	for (uint32_t d = 0; d < shape->ndim; d++) {
		uint64_t dim = shape->dim[d];
		if (r->extent[d] <= dim && r->offset[d] <= dim - r->extent[d])
			continue;
		char text[128];
		return err_set(err, -ERANGE, "box offset %llu + extent %llu is beyond %llu in dimension %u of shape %s",
			       (unsigned long long)r->offset[d], (unsigned long long)r->extent[d],
			       (unsigned long long)dim, d, shape_text(shape, text, sizeof(text)));
	}
	return 0;
}

uint64_t region_volume(const struct shape *shape, const struct region *r)
{
	if (r->kind == REGION_FLAT)
		return r->count;
	uint64_t volume = 1;
	for (uint32_t d = 0; d < shape->ndim; d++)
		volume *= r->extent[d];
	return volume;
}

bool region_contiguous(const struct shape *shape, const struct region *r, uint64_t *start, uint64_t *count)
{
	uint64_t first = r->start, volume = region_volume(shape, r);
	if (r->kind == REGION_BOX && volume) {
		uint64_t stride = 1;
		bool cut = false; /* a dimension further in is not held in full */
		first = 0;
		for (uint32_t d = shape->ndim; d-- > 0;) {
			if (cut && r->extent[d] != 1)
				return false;
			cut = cut || r->extent[d] != shape->dim[d];
			first += r->offset[d] * stride;
			stride *= shape->dim[d];
		}
	}
	if (start)
		*start = volume ? first : 0;
	if (count)
		*count = volume;
	return true;
}

uint64_t region_first(const struct shape *shape, const struct region *r)
{
	if (region_volume(shape, r) == 0)
		return 0;
	if (r->kind == REGION_FLAT)
		return r->start;
	uint64_t index = 0;
	for (uint32_t d = 0; d < shape->ndim; d++)
		index = index * shape->dim[d] + r->offset[d];
	return index;
}

bool region_equal(const struct shape *shape, const struct region *a, const struct region *b)
{
	uint64_t a_start, a_count, b_start, b_count;
	bool a_flat = region_contiguous(shape, a, &a_start, &a_count);
	bool b_flat = region_contiguous(shape, b, &b_start, &b_count);
	if (a_flat || b_flat)
		return a_flat && b_flat && a_start == b_start && a_count == b_count;
	size_t n = shape->ndim * sizeof(a->offset[0]);
	return !memcmp(a->offset, b->offset, n) && !memcmp(a->extent, b->extent, n);
}

uint64_t region_rank(const struct shape *shape, const struct region *r, uint64_t index)
{
	if (r->kind == REGION_FLAT)
		return index <= r->start ? 0 : min_u64(index - r->start, r->count);
	uint64_t below = region_volume(shape, r), stride = 1, rank = 0;
	if (!below)
		return 0;
	for (uint32_t d = 0; d < shape->ndim; d++)
		stride *= shape->dim[d];
	if (index >= stride)
		return below;
	for (uint32_t d = 0; d < shape->ndim; d++) {
		stride /= shape->dim[d];
		below /= r->extent[d];
		uint64_t at = index / stride;
		index %= stride;
		if (at < r->offset[d])
			return rank;
		if (at - r->offset[d] >= r->extent[d])
			return rank + r->extent[d] * below;
		rank += (at - r->offset[d]) * below;
	}
	return rank;
}

void region_put(struct wbuf *out, const struct shape *shape, const struct region *r)
{
	wbuf_u8(out, (uint8_t)r->kind);
	if (r->kind == REGION_FLAT) {
		wbuf_u64(out, r->start);
		wbuf_u64(out, r->count);
		return;
	}
	for (uint32_t d = 0; d < shape->ndim; d++) {
		wbuf_u64(out, r->offset[d]);
		wbuf_u64(out, r->extent[d]);
	}
}

void region_get(struct rbuf *in, const struct shape *shape, struct region *r)
{
	*r = (struct region){.kind = rbuf_u8(in)};
	if (r->kind == REGION_FLAT) {
		r->start = rbuf_u64(in);
		r->count = rbuf_u64(in);
		return;
	}
	if (r->kind != REGION_BOX)
		in->failed = true;
	for (uint32_t d = 0; d < shape->ndim; d++) {
		r->offset[d] = rbuf_u64(in);
		r->extent[d] = rbuf_u64(in);
	}
}
