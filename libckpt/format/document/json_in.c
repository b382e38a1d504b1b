/* The structure: objects, arrays, members, paths of messages. Strings and numbers are in json_scalar.c. */
#include "format/document/json_scalar.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_MAX_TEXT = 192, PATH_KEY_MAX = 48 };

void jin_open(struct jin *in, const void *text, size_t len, const char *what, struct err *err)
{
	in->text = text;
	in->len = len;
	in->pos = 0;
	in->what = what;
	in->err = err;
	in->rc = 0;
	in->depth = 0;
}

/* "files[3].pieces[7].e"; "" at the top. Bytes that a terminal would act on become '?'. */
static void path_text(const struct jin *in, char *dst, size_t size)
{
	size_t at = 0;
	dst[0] = 0;
	for (uint32_t i = 0; i < in->depth && at + 1 < size; i++) {
		const struct jin_level *l = &in->levels[i];
		int n = 0;
		if (l->close == ']')
			n = snprintf(dst + at, size - at, "[%llu]", (unsigned long long)l->index);
		else if (l->key)
			n = snprintf(dst + at, size - at, "%s%.*s", at ? "." : "",
				     (int)(l->key_len < PATH_KEY_MAX ? l->key_len : PATH_KEY_MAX), l->key);
		at += n > 0 ? (size_t)n : 0;
	}
	for (char *p = dst; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = '?';
}

void jin_fail(struct jin *in, const char *fmt, ...)
{
	if (in->rc)
		return;
	char path[PATH_MAX_TEXT], reason[ERR_TEXT_MAX];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(reason, sizeof(reason), fmt, ap);
	va_end(ap);
	path_text(in, path, sizeof(path));
	in->rc = err_set(in->err, -EBADMSG, "%s: %s%s%s", in->what, path, path[0] ? ": " : "", reason);
}

void jin_check(struct jin *in, int rc)
{
	if (!rc || in->rc)
		return;
	struct err reason = in->err ? *in->err : (struct err){0};
	jin_fail(in, "%s", reason.text);
}

void *jin_grow(struct jin *in, void *array, uint32_t n, size_t size)
{
	if (in->rc || (n & (n - 1)))
		return array;
	void *grown = reallocarray(array, n ? (size_t)n * 2 : 1, size);
	if (grown)
		return grown;
	in->rc = err_set(in->err, -ENOMEM, "%s: no memory for %u elements", in->what, n);
	return array;
}

int jin_close(struct jin *in)
{
	jin_peek(in);
	if (!in->rc && in->pos != in->len)
		jin_fail(in, "%zu bytes after the end, at byte %zu", in->len - in->pos, in->pos);
	return in->rc;
}

static bool enter(struct jin *in, char open, char close, const char *what)
{
	if (in->rc)
		return false;
	if (jin_peek(in) != open) {
		jin_fail(in, "is not %s (byte %zu)", what, in->pos);
		return false;
	}
	if (in->depth == JIN_DEPTH_MAX) {
		jin_fail(in, "nested deeper than %d", JIN_DEPTH_MAX);
		return false;
	}
	in->pos++;
	in->levels[in->depth++] = (struct jin_level){.close = close, .first = true};
	return true;
}

bool jin_object(struct jin *in)
{
	return enter(in, '{', '}', "an object");
}

bool jin_array(struct jin *in)
{
	return enter(in, '[', ']', "an array");
}

/* Goes to the next element or member of the innermost level, or closes it. */
static bool next(struct jin *in)
{
	if (in->rc)
		return false;
	struct jin_level *l = &in->levels[in->depth - 1];
	if (jin_accept(in, l->close)) {
		in->depth--;
		return false;
	}
	if (!l->first && !jin_accept(in, ',')) {
		jin_fail(in, "expected ',' or '%c' at byte %zu", l->close, in->pos);
		return false;
	}
	l->index += !l->first;
	l->first = false;
	return true;
}

bool jin_element(struct jin *in)
{
	return next(in);
}

bool jin_any_member(struct jin *in, char key[JIN_KEY_MAX])
{
	key[0] = 0;
	if (!next(in))
		return false;
	struct jin_level *l = &in->levels[in->depth - 1];
	l->key = NULL;
	jin_peek(in);
	const char *start = in->text + in->pos;
	jin_string(in, key, JIN_KEY_MAX);
	if (in->rc)
		return false;
	l->key = start + 1;
	l->key_len = (size_t)(in->text + in->pos - start) - 2;
	if (jin_accept(in, ':'))
		return true;
	jin_fail(in, "expected ':' at byte %zu", in->pos);
	return false;
}

int jin_member(struct jin *in, const char *const *keys, uint32_t *seen)
{
	char key[JIN_KEY_MAX];
	while (jin_any_member(in, key)) {
		int k = 0;
		while (keys[k] && strcmp(keys[k], key) != 0)
			k++;
		if (!keys[k]) {
			jin_skip(in);
			continue;
		}
		if (*seen & 1u << k) {
			jin_fail(in, "stands twice");
			return -1;
		}
		*seen |= 1u << k;
		return k;
	}
	return -1;
}

void jin_require(struct jin *in, const char *const *keys, uint32_t seen, uint32_t required)
{
	uint32_t missing = required & ~seen;
	if (missing && !in->rc)
		jin_fail(in, "\"%s\" is missing", keys[__builtin_ctz(missing)]);
}

uint32_t jin_u64_array(struct jin *in, uint64_t *v, uint32_t cap)
{
	uint32_t n = 0;
	jin_array(in);
	while (jin_element(in)) {
		if (n == cap) {
			jin_fail(in, "more than %u elements", cap);
			return 0;
		}
		v[n++] = jin_u64(in, INT64_MAX);
	}
	return in->rc ? 0 : n;
}

static void skip_object(struct jin *in)
{
	static const char *const none[] = {NULL};
	uint32_t seen = 0;
	jin_object(in);
	jin_member(in, none, &seen);
}

void jin_skip(struct jin *in)
{
	if (in->rc)
		return;
	char c = jin_peek(in);
	switch (c) {
	case '{':
		skip_object(in);
		break;
	case '[':
		jin_array(in);
		while (jin_element(in))
			jin_skip(in);
		break;
	case '"':
		jin_skip_string(in);
		break;
	default:
		if (c == '-' || (c >= '0' && c <= '9') ? !jin_skip_number(in) : !jin_skip_word(in))
			jin_fail(in, "is not a JSON value (byte %zu)", in->pos);
	}
}
