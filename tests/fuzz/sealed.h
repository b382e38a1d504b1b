/* What the entry points for sealed documents share: the input as it is, and with a seal that matches, so that what comes after the
 * first check is reached. */
#ifndef TESTS_FUZZ_SEALED_H
#define TESTS_FUZZ_SEALED_H

#include "format/files/manifest.h"

#include <stdlib.h>
#include <string.h>

static inline void sealed_and_bare(void (*decode)(const uint8_t *, size_t), const uint8_t *data, size_t size)
{
	struct wbuf sealed = {0};
	decode(data, size);
	wbuf_put(&sealed, data, size);
	seal_append(&sealed);
	if (!sealed.failed)
		decode(sealed.data, sealed.len);
	wbuf_free(&sealed);
}

/* Both are freed. */
static inline void same_text_or_abort(struct wbuf *a, struct wbuf *b)
{
	if (!a->failed && !b->failed && (a->len != b->len || memcmp(a->data, b->data, a->len)))
		abort();
	wbuf_free(a);
	wbuf_free(b);
}

#endif
