/* A whole number as text. */
#ifndef CKPT_BASE_NUMBER_H
#define CKPT_BASE_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* Decimal digits from the first character to the last: a sign, a blank, "0x" or nothing is no number. false: it is none,
 * or above `most`; *out is 0 then. */
bool number_parse(const char *text, uint64_t most, uint64_t *out);

#endif
