#include "registry/base64_private.h"

#include <errno.h>
#include <string.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_put(struct wbuf *w, const void *data, size_t len)
{
	const uint8_t *p = data;
	for (size_t at = 0; at < len; at += 3) {
		size_t n = min_u64(len - at, 3);
		uint32_t bits =
			(uint32_t)p[at] << 16 | (n > 1 ? (uint32_t)p[at + 1] << 8 : 0) | (n > 2 ? p[at + 2] : 0);
		char four[4] = {digits[bits >> 18], digits[bits >> 12 & 63], n > 1 ? digits[bits >> 6 & 63] : '=',
				n > 2 ? digits[bits & 63] : '='};
		wbuf_put(w, four, sizeof(four));
	}
}

static int value_of(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Four digits, of which the last `pad` are padding. The number of bytes, or -EBADMSG. */
static int get_four(const char *text, unsigned pad, uint8_t *dst)
{
	uint32_t bits = 0;
	for (unsigned i = 0; i < 4; i++) {
		int value = i < 4 - pad ? value_of(text[i]) : text[i] == '=' ? 0 : -1;
		if (value < 0)
			return -EBADMSG;
		bits = bits << 6 | (uint32_t)value;
	}
	if (bits & ((1u << 8 * pad) - 1))
		return -EBADMSG; /* bits that are lost */
	for (unsigned i = 0; i < 3 - pad; i++)
		dst[i] = (uint8_t)(bits >> (16 - 8 * i));
	return 3 - (int)pad;
}

long base64_get(const char *text, size_t len, void *dst)
{
	uint8_t *to = dst;
	long all = 0;
	if (len % 4)
		return -EBADMSG;
	for (size_t at = 0; at < len; at += 4) {
		bool last = at + 4 == len;
		unsigned pad = !last || text[at + 3] != '=' ? 0 : text[at + 2] == '=' ? 2 : 1;
		int n = get_four(text + at, pad, to + all);
		if (n < 0)
			return n;
		all += n;
	}
	return all;
}
