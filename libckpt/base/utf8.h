/* UTF-8, as far as it matters here: what is well-formed. */
#ifndef CKPT_BASE_UTF8_H
#define CKPT_BASE_UTF8_H

#include <stddef.h>

/* Length of the valid UTF-8 sequence at p (1 to 4), 0 when there is none. */
size_t utf8_sequence(const void *p, size_t n);

#endif
