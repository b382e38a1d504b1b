#include "base/quoted.h"

#include "base/utf8.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Code points from U+0080 to U+009f: control characters, too. */
static bool is_control(const unsigned char *s, size_t n)
{
	return n == 1 ? s[0] < 0x20 || s[0] == 0x7f : n == 2 && s[0] == 0xc2 && s[1] < 0xa0;
}

/* One character of n bytes; 0: a byte that is none. Returns how long it stands in dst, of at least 16 bytes. */
static size_t put(char *dst, const unsigned char *s, size_t n)
{
	if (n == 1 && (*s == '"' || *s == '\\'))
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

struct quoted quoted(const char *name)
{
	struct quoted q = {.text = "NULL"};
	if (!name)
		return q;
	/* Nothing behind a name that is too long is read. */
	size_t len = strnlen(name, QUOTED_TEXT_MAX + 4), at = 0, i = 0;
	const unsigned char *s = (const unsigned char *)name;
	q.text[at++] = '"';
	while (i < len) {
		char one[16];
		size_t n = utf8_sequence(s + i, len - i), width = put(one, s + i, n);
		if (at + width >= QUOTED_TEXT_MAX)
			break;
		memcpy(q.text + at, one, width);
		at += width;
		i += n ? n : 1;
	}
	snprintf(q.text + at, sizeof(q.text) - at, "\"%s", i < len ? "..." : "");
	return q;
}
