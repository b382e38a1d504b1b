/* One error domain: every function returns 0 (or a count) or -errno. The reason in words goes into a struct err
 * that the caller owns; it is never needed to decide what to do, only to tell a person. */
#ifndef CKPT_BASE_ERR_H
#define CKPT_BASE_ERR_H

#include <errno.h>
#include <stdarg.h>

enum { ERR_TEXT_MAX = 512 };

struct err {
	char text[ERR_TEXT_MAX]; /* NUL-terminated, cut with "..." when too long */
};

/* Writes the text (err may be NULL) and returns rc, so that `return err_set(e, -EINVAL, "...")` reads as one step. */
int err_set(struct err *err, int rc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Puts "context: " before the text that is there. Returns rc. */
int err_prefix(struct err *err, int rc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The text of -errno or errno ("Input/output error"). Thread-safe; static storage, never NULL. */
const char *err_name(int rc);

#endif
