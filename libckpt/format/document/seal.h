/* The seal of a document: its last member, by which damage and truncation show. */
#ifndef CKPT_FORMAT_SEAL_H
#define CKPT_FORMAT_SEAL_H

#include "base/bytes.h"
#include "base/err.h"

#include <stddef.h>

/* The seal, shared with the marks (HEALTH.json, PINNED). `out` holds a JSON object without its closing brace. */
void seal_append(struct wbuf *out);
/* -EBADMSG when the seal is missing or does not match. */
int seal_check(const void *text, size_t len, struct err *err);

#endif
