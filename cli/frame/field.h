/* Fields of a JSON document. A daemon of another version may leave out what this one knows: that is "-", or 0. */
#ifndef CKPT_CLI_FIELD_H
#define CKPT_CLI_FIELD_H

#include "frame/output.h"

static inline const json_t *field(const json_t *object, const char *key)
{
	return json_object_get(object, key);
}

static inline const char *field_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(field(object, key));
	return text ? text : "-";
}

static inline int64_t field_number(const json_t *object, const char *key)
{
	return json_integer_value(field(object, key));
}

#endif
