/* Plain JSON: values of the daemon's documents. */
#ifndef CKPTD_RUNTIME_JSON_VALUES_H
#define CKPTD_RUNTIME_JSON_VALUES_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Sentences can be cut in the middle of a character, and paths are any bytes: JSON takes UTF-8 only. What is not becomes '?'. */
json_t *plain_json_text(const char *text);
/* null when it is not known. */
json_t *plain_json_ms(bool known, uint64_t ns);

#endif
