/* Bytes: alignment, a growable writer and a bounded reader of little-endian fields. Every size that comes from outside
 * goes through the reader, which never reads past its end and remembers the first failure. */
#ifndef CKPT_BASE_BYTES_H
#define CKPT_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline uint64_t align_up(uint64_t n, uint64_t to)
{
	return (n + to - 1) / to * to;
}

static inline uint64_t div_up(uint64_t n, uint64_t by)
{
	return n / by + (n % by != 0);
}

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Growable writer. After an allocation failure (or when borrowed memory is full) `failed` is set, later puts do nothing, and
 * wbuf_finish says -ENOMEM. */
struct wbuf {
	uint8_t *data;
	size_t len, cap;
	bool failed;
	bool borrowed; /* data is somebody else's memory: cap bytes, and no more */
	bool counts;   /* only len grows: what it would take */
};

static inline struct wbuf wbuf_over(void *data, size_t cap)
{
	return (struct wbuf){.data = data, .cap = cap, .borrowed = true};
}

static inline struct wbuf wbuf_counting(void)
{
	return (struct wbuf){.counts = true};
}

void wbuf_free(struct wbuf *w);
void wbuf_put(struct wbuf *w, const void *p, size_t n);
void wbuf_u8(struct wbuf *w, uint8_t v);
void wbuf_u16(struct wbuf *w, uint16_t v);
void wbuf_u32(struct wbuf *w, uint32_t v);
void wbuf_u64(struct wbuf *w, uint64_t v);
/* u16 length, then the bytes without a NUL. Strings above 65535 bytes set `failed`. */
void wbuf_str(struct wbuf *w, const char *s);
/* 0 or -ENOMEM. */
int wbuf_finish(const struct wbuf *w);

#define AUTO_WBUF __attribute__((cleanup(wbuf_free)))

/* Bounded reader over memory that it does not own. After the first short read `failed` is set; every get returns 0. */
struct rbuf {
	const uint8_t *data;
	size_t len, pos;
	bool failed;
};

static inline struct rbuf rbuf_of(const void *data, size_t len)
{
	return (struct rbuf){.data = data, .len = len};
}

static inline size_t rbuf_left(const struct rbuf *r)
{
	return r->failed ? 0 : r->len - r->pos;
}

/* The next n bytes in place, or NULL (and failed). */
const void *rbuf_take(struct rbuf *r, size_t n);
void rbuf_get(struct rbuf *r, void *p, size_t n); /* zero-fills p on failure */
uint8_t rbuf_u8(struct rbuf *r);
uint16_t rbuf_u16(struct rbuf *r);
uint32_t rbuf_u32(struct rbuf *r);
uint64_t rbuf_u64(struct rbuf *r);
/* A string of wbuf_str into dst[size], NUL-terminated. Too long for dst, or with a NUL inside: failed. */
void rbuf_str(struct rbuf *r, char *dst, size_t size);
/* 0 if every read was in bounds and all bytes were used, else -EBADMSG. */
int rbuf_finish(const struct rbuf *r);

/* "1.5 GiB"; dst at least 16 bytes. Returns dst. */
char *bytes_human(char *dst, size_t size, uint64_t n);

#endif
