#include "base/bytes.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void wbuf_free(struct wbuf *w)
{
	if (!w->borrowed)
		free(w->data);
	*w = (struct wbuf){0};
}

static bool reserve(struct wbuf *w, size_t n)
{
	if (w->failed)
		return false;
	if (n <= w->cap - w->len)
		return true;
	if (w->borrowed) {
		w->failed = true;
		return false;
	}
	size_t cap = w->cap ? w->cap : 256;
	while (cap - w->len < n && cap <= SIZE_MAX / 2)
		cap *= 2;
	uint8_t *data = cap - w->len < n ? NULL : realloc(w->data, cap);
	if (!data) {
		w->failed = true;
		return false;
	}
	w->data = data;
	w->cap = cap;
	return true;
}

void wbuf_put(struct wbuf *w, const void *p, size_t n)
{
	if (!n || (!w->counts && !reserve(w, n)))
		return;
	if (!w->counts)
		memcpy(w->data + w->len, p, n);
	w->len += n;
}

void wbuf_u8(struct wbuf *w, uint8_t v)
{
	wbuf_put(w, &v, sizeof(v));
}

void wbuf_u16(struct wbuf *w, uint16_t v)
{
	v = htole16(v);
	wbuf_put(w, &v, sizeof(v));
}

void wbuf_u32(struct wbuf *w, uint32_t v)
{
	v = htole32(v);
	wbuf_put(w, &v, sizeof(v));
}

void wbuf_u64(struct wbuf *w, uint64_t v)
{
	v = htole64(v);
	wbuf_put(w, &v, sizeof(v));
}

void wbuf_str(struct wbuf *w, const char *s)
{
	size_t n = strlen(s);
	if (n > UINT16_MAX) {
		w->failed = true;
		return;
	}
	wbuf_u16(w, (uint16_t)n);
	wbuf_put(w, s, n);
}

int wbuf_finish(const struct wbuf *w)
{
	return w->failed ? -ENOMEM : 0;
}

const void *rbuf_take(struct rbuf *r, size_t n)
{
	if (r->failed || n > r->len - r->pos) {
		r->failed = true;
		return NULL;
	}
	const void *p = r->data + r->pos;
	r->pos += n;
	return p;
}

void rbuf_get(struct rbuf *r, void *p, size_t n)
{
	const void *src = rbuf_take(r, n);
	if (src && n)
		memcpy(p, src, n);
	else if (n)
		memset(p, 0, n);
}

uint8_t rbuf_u8(struct rbuf *r)
{
	uint8_t v;
	rbuf_get(r, &v, sizeof(v));
	return v;
}

uint16_t rbuf_u16(struct rbuf *r)
{
	uint16_t v;
	rbuf_get(r, &v, sizeof(v));
	return le16toh(v);
}

uint32_t rbuf_u32(struct rbuf *r)
{
	uint32_t v;
	rbuf_get(r, &v, sizeof(v));
	return le32toh(v);
}

uint64_t rbuf_u64(struct rbuf *r)
{
	uint64_t v;
	rbuf_get(r, &v, sizeof(v));
	return le64toh(v);
}

void rbuf_str(struct rbuf *r, char *dst, size_t size)
{
	uint16_t n = rbuf_u16(r);
	const char *p = rbuf_take(r, n);
	dst[0] = 0;
	if (!p)
		return;
	if (n >= size || memchr(p, 0, n)) {
		r->failed = true;
		return;
	}
	memcpy(dst, p, n);
	dst[n] = 0;
}

int rbuf_finish(const struct rbuf *r)
{
	return r->failed || r->pos != r->len ? -EBADMSG : 0;
}

char *bytes_human(char *dst, size_t size, uint64_t n)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double v = (double)n;
	size_t u = 0;
	while (v >= 1024 && u + 1 < sizeof(units) / sizeof(units[0])) {
		v /= 1024;
		u++;
	}
	snprintf(dst, size, u ? "%.1f %s" : "%.0f %s", v, units[u]);
	return dst;
}
