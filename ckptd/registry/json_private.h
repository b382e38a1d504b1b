/* Json: what etcd's gateway writes, read strictly. No member comes twice. Numbers of 64 bits stand in quotes (int64 of
 * protobuf) or without. Members that are left out are 0, false or nothing. Every getter says -EBADMSG of what is of
 * another type. */
#ifndef CKPTD_REGISTRY_JSON_PRIVATE_H
#define CKPTD_REGISTRY_JSON_PRIVATE_H

#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* An object, or NULL with a sentence. */
json_t *json_read(const void *text, size_t len, struct err *err);
static inline void json_release(json_t **value)
{
	json_decref(*value);
}
#define AUTO_JSON __attribute__((cleanup(json_release)))

/* Of an object, or of nothing (NULL): 0, and *out as if it had been left out. */
int json_u64(const json_t *object, const char *name, uint64_t *out);
int json_flag(const json_t *object, const char *name, bool *out);
/* An object or an array; NULL where it is left out. */
int json_part(const json_t *object, const char *name, json_type type, json_t **out);
/* Bytes out of base64, the caller's to free, with a NUL behind them that does not count; never NULL, and *len 0 where it
 * is left out. -EMSGSIZE: more than max; -ENOMEM. */
int json_bytes(const json_t *object, const char *name, size_t max, void **out, size_t *len);
/* A text, cut to fit; "" where it is left out. */
int json_text(const json_t *object, const char *name, char *dst, size_t size);

#endif
