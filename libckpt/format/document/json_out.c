#include "format/document/json_out.h"

#include <string.h>

void jout_raw(struct wbuf *out, const char *text)
{
	wbuf_put(out, text, strlen(text));
}

void jout_u64(struct wbuf *out, uint64_t v)
{
	char text[20];
	size_t at = sizeof(text);
	do {
		text[--at] = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	wbuf_put(out, text + at, sizeof(text) - at);
}

void jout_array(struct wbuf *out, const uint64_t *v, uint32_t n)
{
	wbuf_u8(out, '[');
	for (uint32_t i = 0; i < n; i++) {
		if (i)
			wbuf_u8(out, ',');
		jout_u64(out, v[i]);
	}
	wbuf_u8(out, ']');
}

enum { ESCAPED_MAX = 6, CHUNK = 512 };

static inline bool plain(uint8_t c)
{
	return c >= 0x20 && c != '"' && c != '\\' && c != 0x7f;
}

static size_t escape_code(char to[ESCAPED_MAX], uint8_t c)
{
	static const char hex[] = "0123456789abcdef";
	const char code[ESCAPED_MAX] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
	memcpy(to, code, sizeof(code));
	return sizeof(code);
}

/* How many bytes it has become. */
static inline size_t escape(char to[ESCAPED_MAX], uint8_t c)
{
	if (plain(c)) {
		to[0] = (char)c;
		return 1;
	}
	if (c == '"' || c == '\\') {
		to[0] = '\\';
		to[1] = (char)c;
		return 2;
	}
	return escape_code(to, c);
}

/* In chunks: headers of a hundred megabytes are escaped twice. */
void jout_bytes(struct wbuf *out, const void *s, size_t len)
{
	const uint8_t *p = s;
	char chunk[CHUNK];
	size_t n = 0;
	wbuf_u8(out, '"');
	for (size_t i = 0; i < len; i++) {
		if (n > sizeof(chunk) - ESCAPED_MAX) {
			wbuf_put(out, chunk, n);
			n = 0;
		}
		n += escape(chunk + n, p[i]);
	}
	wbuf_put(out, chunk, n);
	wbuf_u8(out, '"');
}

void jout_string(struct wbuf *out, const char *s)
{
	jout_bytes(out, s, strlen(s));
}

void jout_text(struct wbuf *out, const char *s)
{
	size_t len = strlen(s);
	char escaped[ESCAPED_MAX];
	wbuf_u8(out, '"');
	for (size_t i = 0; i < len;) {
		size_t n = utf8_sequence(s + i, len - i);
		if (!n)
			wbuf_u8(out, '?');
		else if (plain((uint8_t)s[i]))
			wbuf_put(out, s + i, n);
		else
			wbuf_put(out, escaped, escape(escaped, (uint8_t)s[i]));
		i += n ? n : 1;
	}
	wbuf_u8(out, '"');
}
