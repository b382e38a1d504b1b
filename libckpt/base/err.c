#include "base/err.h"

#include <stdio.h>
#include <string.h>

static void put(char *dst, size_t size, const char *fmt, va_list ap)
{
	int n = vsnprintf(dst, size, fmt, ap);
	if (n >= 0 && (size_t)n >= size && size > 4)
		memcpy(dst + size - 4, "...", 4);
}

int err_set(struct err *err, int rc, const char *fmt, ...)
{
	if (err) {
		va_list ap;
		va_start(ap, fmt);
		put(err->text, sizeof(err->text), fmt, ap);
		va_end(ap);
	}
	return rc;
}

int err_prefix(struct err *err, int rc, const char *fmt, ...)
{
	if (err) {
		struct err old = *err;
		char head[ERR_TEXT_MAX];
		va_list ap;
		va_start(ap, fmt);
		put(head, sizeof(head), fmt, ap);
		va_end(ap);
		err_set(err, rc, "%s: %s", head, old.text);
	}
	return rc;
}

const char *err_name(int rc)
{
	const char *text = strerrordesc_np(rc < 0 ? -rc : rc);
	return text ? text : "unknown error";
}
