/* JSON, read: a strict pull reader over text in memory. It builds no tree, so that a hostile document costs no more than
 * what its reader keeps (a tree of small objects takes 20 to 100 times the text: 50 GB for the largest manifest).
 *
 * The first failure is remembered in `rc` (-EBADMSG, or -ENOMEM), its text names the path ("files[3].pieces[7].e"), and from
 * then on every call returns false or 0 and reads nothing. Typical use:
 *
 *   static const char *const keys[] = {"name", "size", NULL};
 *   uint32_t seen = 0;
 *   jin_object(in);
 *   for (int k; (k = jin_member(in, keys, &seen)) >= 0;)
 *           if (k == 0) jin_string(in, ...); else ... = jin_u64(in, max);
 *   jin_require(in, keys, seen, 3);
 */
#ifndef CKPT_FORMAT_JSON_IN_H
#define CKPT_FORMAT_JSON_IN_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	JIN_DEPTH_MAX = 24,
	JIN_KEY_MAX = 1024, /* with the NUL; longer keys are refused */
};

struct jin_level {
	const char *key; /* in the text, still escaped; NULL in an array or before the first key */
	size_t key_len;
	uint64_t index; /* elements or members before the current one */
	char close;
	bool first;
};

struct jin {
	const char *text;
	size_t len, pos;
	const char *what; /* the document, for messages */
	struct err *err;
	int rc;
	uint32_t depth;
	struct jin_level levels[JIN_DEPTH_MAX];
};

/* text, what and err outlive the reader. */
void jin_open(struct jin *in, const void *text, size_t len, const char *what, struct err *err);
/* rc, after a check that only white space is left. */
int jin_close(struct jin *in);

/* Enters the object or array that stands here. */
bool jin_object(struct jin *in);
bool jin_array(struct jin *in);
/* The next element of the array; false: none left (the array is closed). */
bool jin_element(struct jin *in);
/* The next member of the object whose key is in `keys` (NULL-terminated, at most 32): its index, and its bit in *seen;
 * -1: none left. Others are skipped. A key of `keys` that stands twice is a failure. */
int jin_member(struct jin *in, const char *const *keys, uint32_t *seen);
/* The next member of an object with keys of any name; false: none left. */
bool jin_any_member(struct jin *in, char key[JIN_KEY_MAX]);
/* A failure naming the first bit of `required` that is not in `seen`. Called where the object has just been closed. */
void jin_require(struct jin *in, const char *const *keys, uint32_t seen, uint32_t required);

/* A whole number from 0 to max. */
uint64_t jin_u64(struct jin *in, uint64_t max);
/* An array of at most cap whole numbers; returns their count. */
uint32_t jin_u64_array(struct jin *in, uint64_t *v, uint32_t cap);
/* A string of valid UTF-8 without NUL that fits dst with its NUL; "" after a failure. */
void jin_string(struct jin *in, char *dst, size_t size);
/* Checks the value's grammar and goes past it; the second wants a string, of any length. */
void jin_skip(struct jin *in);
void jin_skip_string(struct jin *in);

/* Room for an element more in an array of n: capacities are powers of two. On failure the array that was given. */
void *jin_grow(struct jin *in, void *array, uint32_t n, size_t size);
/* Records the failure "what: path: ..." (-EBADMSG) unless there is one already. */
void jin_fail(struct jin *in, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same with the text that is in *in->err, when rc is a failure of a check of the value. */
void jin_check(struct jin *in, int rc);

#endif
