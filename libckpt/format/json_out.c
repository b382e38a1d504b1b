#include "format/json_out.h"

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

static void put_escaped(struct wbuf *out, uint8_t c)
{
	static const char hex[] = "0123456789abcdef";
	const char escape[] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
	if (c == '"' || c == '\\') {
		wbuf_u8(out, '\\');
		wbuf_u8(out, c);
	} else {
		wbuf_put(out, escape, sizeof(escape));
	}
}

static bool plain(uint8_t c)
{
	return c >= 0x20 && c != '"' && c != '\\' && c != 0x7f;
}

void jout_bytes(struct wbuf *out, const void *s, size_t len)
{
	const uint8_t *p = s;
	wbuf_u8(out, '"');
	for (size_t i = 0; i < len;) {
		size_t run = i;
		while (run < len && plain(p[run]))
			run++;
		wbuf_put(out, p + i, run - i);
		if (run < len)
			put_escaped(out, p[run++]);
		i = run;
	}
	wbuf_u8(out, '"');
}

void jout_string(struct wbuf *out, const char *s)
{
	jout_bytes(out, s, strlen(s));
}

void jout_text(struct wbuf *out, const char *s)
{
	size_t len = strlen(s);
	wbuf_u8(out, '"');
	for (size_t i = 0; i < len;) {
		size_t n = utf8_sequence(s + i, len - i);
		if (!n)
			wbuf_u8(out, '?');
		else if (plain((uint8_t)s[i]))
			wbuf_put(out, s + i, n);
		else
			put_escaped(out, (uint8_t)s[i]);
		i += n ? n : 1;
	}
	wbuf_u8(out, '"');
}
