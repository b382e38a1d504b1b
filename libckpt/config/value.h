/* Value: what a setting is set to, between its text and the field that ckptd reads. */
#ifndef CKPT_CONFIG_VALUE_H
#define CKPT_CONFIG_VALUE_H

#include "base/err.h"
#include "config/setting.h"

struct value {
	uint64_t number;  /* bytes, milliseconds, count, 0 or 1, index of the choice */
	const char *text; /* path, name: the caller's memory; NULL: none */
};

/* -EINVAL: err says what is allowed. A text in *out is the one that was passed. */
int value_parse(const struct setting *setting, const char *text, struct value *out, struct err *err);
/* As it could stand in a file, in the largest unit that is exact; "none" for a path that is not there. Returns dst. */
char *value_print(const struct setting *setting, const struct value *value, char *dst, size_t size);
/* "a size such as 8G or 512M, 64K to 1024T, or 0". Returns dst. */
char *value_allowed(const struct setting *setting, char *dst, size_t size);

/* Into and out of the struct config or struct policy at `base`. */
void value_store(const struct setting *setting, const struct value *value, void *base);
struct value value_load(const struct setting *setting, const void *base);
bool value_equal(const struct setting *setting, const struct value *a, const struct value *b);

#endif
