#include "registry/json_private.h"

#include "base/cleanup.h"
#include "registry/base64_private.h"

#include <stdio.h>
#include <string.h>

json_t *json_read(const void *text, size_t len, struct err *err)
{
	json_error_t error;
	json_t *value = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
	if (value && json_is_object(value))
		return value;
	if (value)
		err_set(err, -EBADMSG, "it answers JSON that is no object");
	else
		err_set(err, -EBADMSG, "it answers no JSON: %s", error.text);
	json_decref(value);
	return NULL;
}

static int parse_u64(const char *text, size_t len, uint64_t *out)
{
	uint64_t n = 0;
	if (!len)
		return -EBADMSG;
	for (size_t i = 0; i < len; i++)
		if (text[i] < '0' || text[i] > '9' || __builtin_mul_overflow(n, 10u, &n) ||
		    __builtin_add_overflow(n, (uint64_t)(text[i] - '0'), &n))
			return -EBADMSG;
	*out = n;
	return 0;
}

int json_u64(const json_t *object, const char *name, uint64_t *out)
{
	const json_t *value = json_object_get(object, name);
	*out = 0;
	if (!value)
		return 0;
	if (json_is_string(value))
		return parse_u64(json_string_value(value), json_string_length(value), out);
	if (!json_is_integer(value) || json_integer_value(value) < 0)
		return -EBADMSG;
	*out = (uint64_t)json_integer_value(value);
	return 0;
}

int json_flag(const json_t *object, const char *name, bool *out)
{
	const json_t *value = json_object_get(object, name);
	*out = json_is_true(value);
	return !value || json_is_boolean(value) ? 0 : -EBADMSG;
}

int json_part(const json_t *object, const char *name, json_type type, json_t **out)
{
	*out = json_object_get(object, name);
	return !*out || json_typeof(*out) == type ? 0 : -EBADMSG;
}

int json_bytes(const json_t *object, const char *name, size_t max, void **out, size_t *len)
{
	const json_t *value = json_object_get(object, name);
	const char *text = value ? json_string_value(value) : "";
	if (!text)
		return -EBADMSG;
	size_t written = value ? json_string_length(value) : 0;
	if (base64_room(written) > max + 2)
		return -EMSGSIZE;
	AUTO_FREE char *bytes = malloc(base64_room(written) + 1);
	if (!bytes)
		return -ENOMEM;
	long n = base64_get(text, written, bytes);
	if (n < 0)
		return (int)n;
	if ((size_t)n > max)
		return -EMSGSIZE;
	bytes[n] = 0;
	*len = (size_t)n;
	*out = steal_ptr(&bytes);
	return 0;
}

int json_text(const json_t *object, const char *name, char *dst, size_t size)
{
	const json_t *value = json_object_get(object, name);
	const char *text = value ? json_string_value(value) : "";
	snprintf(dst, size, "%s", text ? text : "");
	return text ? 0 : -EBADMSG;
}
