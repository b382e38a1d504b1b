/* JSON, written: text goes straight into a wbuf, with escaping and exact integers. A document of 100,000 pieces costs its
 * own size and nothing else. The caller writes braces and commas through jout_raw; failures are those of the wbuf. */
#ifndef CKPT_FORMAT_JSON_OUT_H
#define CKPT_FORMAT_JSON_OUT_H

#include "base/bytes.h"
#include "base/utf8.h"

/* A piece of JSON as it is: punctuation and keys that need no escaping. */
void jout_raw(struct wbuf *out, const char *text);
void jout_u64(struct wbuf *out, uint64_t v);
/* [1,2,3] */
void jout_array(struct wbuf *out, const uint64_t *v, uint32_t n);
/* A quoted string: '"', '\' and control characters are escaped. s is valid UTF-8. */
void jout_string(struct wbuf *out, const char *s);
void jout_bytes(struct wbuf *out, const void *s, size_t len);
/* As jout_string, for text that people wrote or that was cut: bytes that are not UTF-8 become '?'. */
void jout_text(struct wbuf *out, const char *s);

#endif
