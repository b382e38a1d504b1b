#include "base/quoted.h"

#include "base/utf8.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Code points from U+0080 to U+009f: control characters, too. */
static bool is_control(const unsigned char *s, size_t n)
{
	return n == 1 ? s[0] < 0x20 || s[0] == 0x7f : n == 2 && s[0] == 0xc2 && s[1] < 0xa0;
}

/* One character of n bytes; 0: a byte that is none. Returns how long it stands in dst, of at least 16 bytes. */
static size_t put(char *dst, const unsigned char *s, size_t n, bool quotes)
{
	if (n == 1 && ((*s == '"' && quotes) || *s == '\\'))
		return (size_t)snprintf(dst, 16, "\\%c", *s);
	if (*s == '\n')
		return (size_t)snprintf(dst, 16, "\\n");
	if (n && !is_control(s, n)) {
		memcpy(dst, s, n);
		return n;
	}
	size_t at = 0;
	for (size_t i = 0; i < (n ? n : 1); i++)
		at += (size_t)snprintf(dst + at, 16 - at, "\\x%02x", s[i]);
	return at;
}

/* Fills less than max bytes from *at on; false: the name goes on. */
static bool escape(char *dst, size_t max, size_t *at, const char *name, size_t len, bool quotes)
{
	const unsigned char *s = (const unsigned char *)name;
	size_t i = 0;
	while (i < len) {
		char one[16];
		size_t n = utf8_sequence(s + i, len - i), width = put(one, s + i, n, quotes);
		if (*at + width >= max)
			break;
		memcpy(dst + *at, one, width);
		*at += width;
		i += n ? n : 1;
	}
	return i == len;
}

struct quoted quoted_part(const char *name, size_t len)
{
	struct quoted q = {.text = "NULL"};
	if (!name)
		return q;
	size_t at = 0, most = QUOTED_TEXT_MAX + 4; /* nothing behind a name that is too long is read */
	q.text[at++] = '"';
	bool whole = escape(q.text, QUOTED_TEXT_MAX, &at, name, strnlen(name, len < most ? len : most), true);
	snprintf(q.text + at, sizeof(q.text) - at, "\"%s", whole ? "" : "...");
	return q;
}

struct quoted quoted(const char *name)
{
	return quoted_part(name, SIZE_MAX);
}

struct shown_path shown_path(const char *path)
{
	struct shown_path p = {.text = "NULL"};
	size_t at = 0;
	if (!path)
		return p;
	bool whole = escape(p.text, SHOWN_PATH_MAX, &at, path, strnlen(path, SHOWN_PATH_MAX + 4), false);
	snprintf(p.text + at, sizeof(p.text) - at, "%s", whole ? "" : "...");
	return p;
}
