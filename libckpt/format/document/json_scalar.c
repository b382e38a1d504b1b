/* Strings and numbers of the JSON reader. */
#include "format/document/json_scalar.h"

#include "format/document/json_out.h"

#include <string.h>

static int hex4(const char *p)
{
	int v = 0;
	for (int i = 0; i < 4; i++) {
		char c = p[i];
		int d = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
		if (d < 0)
			return -1;
		v = v << 4 | d;
	}
	return v;
}

/* The \uXXXX (or pair of surrogates) whose 'u' is at pos, as UTF-8. Returns its bytes, 0 on failure. */
static size_t unescape_unicode(struct jin *in, char utf8[4])
{
	int32_t c = in->len - in->pos >= 5 ? hex4(in->text + in->pos + 1) : -1;
	in->pos += 5;
	if (c >= 0xd800 && c < 0xdc00) {
		bool pair = in->len - in->pos >= 6 && in->text[in->pos] == '\\' && in->text[in->pos + 1] == 'u';
		int32_t low = pair ? hex4(in->text + in->pos + 2) : -1;
		c = low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00) : -1;
		in->pos += 6;
	}
	if (c <= 0 || (c >= 0xd800 && c < 0xe000))
		return 0;
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	static const uint8_t lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
	for (size_t i = n; i-- > 1; c >>= 6)
		utf8[i] = (char)(0x80 | (c & 0x3f));
	utf8[0] = (char)(lead[n] | c);
	return n;
}

/* The escape whose letter is at pos. Returns its bytes, 0 on failure. */
static size_t unescape(struct jin *in, char utf8[4])
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	char c = in->pos < in->len ? in->text[in->pos] : 0;
	if (c == 'u')
		return unescape_unicode(in, utf8);
	const char *at = c ? strchr(from, c) : NULL;
	if (!at)
		return 0;
	utf8[0] = to[at - from];
	in->pos++;
	return 1;
}

/* Bytes from pos that stand for themselves; fewer where they are not UTF-8. */
static size_t plain_run(const struct jin *in)
{
	size_t at = in->pos, n = 1;
	while (n && at < in->len && (uint8_t)in->text[at] >= 0x20 && in->text[at] != '"' && in->text[at] != '\\') {
		n = (uint8_t)in->text[at] < 0x80 ? 1 : utf8_sequence(in->text + at, in->len - at);
		at += n;
	}
	return at - in->pos;
}

/* Reads a string into dst, or past it when dst is NULL. Its length; on failure 0. */
static size_t read_string(struct jin *in, char *dst, size_t size)
{
	size_t used = 0;
	if (!jin_accept(in, '"')) {
		jin_fail(in, "is not a string (byte %zu)", in->pos);
		return 0;
	}
	for (;;) {
		char utf8[4];
		const char *src = in->text + in->pos;
		size_t n = plain_run(in);
		in->pos += n;
		if (!n && in->pos < in->len && *src == '"')
			break;
		if (!n && in->pos < in->len && *src == '\\') {
			in->pos++;
			n = unescape(in, utf8);
			src = utf8;
		}
		if (!n) {
			jin_fail(in, "unterminated string, control character, wrong escape or not UTF-8 at byte %zu",
				 in->pos);
			return 0;
		}
		if (dst && n >= size - used) {
			jin_fail(in, "longer than %zu bytes", size - 1);
			return 0;
		}
		if (dst)
			memcpy(dst + used, src, n);
		used += n;
	}
	in->pos++;
	return used;
}

void jin_string(struct jin *in, char *dst, size_t size)
{
	dst[0] = 0;
	size_t len = read_string(in, dst, size);
	dst[in->rc ? 0 : len] = 0;
}

void jin_skip_string(struct jin *in)
{
	read_string(in, NULL, 0);
}

uint64_t jin_u64(struct jin *in, uint64_t max)
{
	if (in->rc)
		return 0;
	jin_peek(in);
	size_t start = in->pos;
	uint64_t v = 0;
	bool overflow = false;
	for (; in->pos < in->len && in->text[in->pos] >= '0' && in->text[in->pos] <= '9'; in->pos++)
		overflow |= __builtin_mul_overflow(v, 10, &v) ||
			    __builtin_add_overflow(v, (uint64_t)(in->text[in->pos] - '0'), &v);
	char after = in->pos < in->len ? in->text[in->pos] : 0;
	if (in->pos == start || after == '.' || after == 'e' || after == 'E')
		jin_fail(in, "is not a whole number from 0 (byte %zu)", start);
	else if (in->text[start] == '0' && in->pos - start > 1)
		jin_fail(in, "has a leading zero (byte %zu)", start);
	else if (overflow || v > max)
		jin_fail(in, "is above %llu", (unsigned long long)max);
	return in->rc ? 0 : v;
}

static size_t skip_digits(struct jin *in)
{
	size_t start = in->pos;
	while (in->pos < in->len && in->text[in->pos] >= '0' && in->text[in->pos] <= '9')
		in->pos++;
	return in->pos - start;
}

/* -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)? */
bool jin_skip_number(struct jin *in)
{
	jin_accept(in, '-');
	size_t start = in->pos, digits = skip_digits(in);
	if (!digits || (digits > 1 && in->text[start] == '0'))
		return false;
	if (in->pos < in->len && in->text[in->pos] == '.') {
		in->pos++;
		if (!skip_digits(in))
			return false;
	}
	if (in->pos < in->len && (in->text[in->pos] | 32) == 'e') {
		in->pos++;
		if (in->pos < in->len && (in->text[in->pos] == '+' || in->text[in->pos] == '-'))
			in->pos++;
		return skip_digits(in) > 0;
	}
	return true;
}

bool jin_skip_word(struct jin *in)
{
	static const char *const words[] = {"true", "false", "null"};
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		size_t n = strlen(words[i]);
		if (in->len - in->pos >= n && !memcmp(in->text + in->pos, words[i], n)) {
			in->pos += n;
			return true;
		}
	}
	return false;
}
