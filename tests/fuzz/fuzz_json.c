/* libFuzzer entry point: the JSON reader, held against Jansson, which reads the same texts in its own way: what is read here value by
 * value, and what is passed over whole, Jansson must accept, and the other way round within the bounds of ours. */
#include "format/document/json_in.h"
#include "format/document/json_scalar.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 1 << 17 };

/* true: it has numbers that Jansson has no room for. */
static bool read_value(struct jin *in, char *text)
{
	bool big = false;
	char key[JIN_KEY_MAX], c = jin_peek(in);
	if (c == '{') {
		jin_object(in);
		while (jin_any_member(in, key))
			big |= read_value(in, text);
	} else if (c == '[') {
		jin_array(in);
		while (jin_element(in))
			big |= read_value(in, text);
	} else if (c == '"') {
		jin_string(in, text, TEXT_MAX);
	} else if (c >= '0' && c <= '9') {
		big = jin_u64(in, UINT64_MAX) > INT64_MAX;
	} else {
		big = c == '-';
		jin_skip(in);
	}
	return big;
}

static size_t depth_of(const json_t *value)
{
	size_t deepest = 0, i, depth;
	const char *key;
	json_t *child;
	if (json_is_object(value))
		json_object_foreach((json_t *)value, key, child) deepest =
			(depth = depth_of(child)) > deepest ? depth : deepest;
	if (json_is_array(value))
		json_array_foreach((json_t *)value, i, child) deepest =
			(depth = depth_of(child)) > deepest ? depth : deepest;
	return deepest + (json_is_object(value) || json_is_array(value));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err err;
	struct jin in;
	json_error_t error;
	if (size >= TEXT_MAX)
		return 0;
	char *text = malloc(TEXT_MAX);
	json_t *theirs = json_loadb((const char *)data, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
	jin_open(&in, data, size, "text", &err);
	bool big = read_value(&in, text);
	bool walked = jin_close(&in) == 0;
	jin_open(&in, data, size, "text", &err);
	jin_skip(&in);
	bool skipped = jin_close(&in) == 0;
	if ((walked && !theirs && !big) || (walked && !skipped))
		abort();
	/* Jansson takes a byte of zero for the end of the text. */
	if (theirs && !skipped && !memchr(data, 0, size) && depth_of(theirs) <= JIN_DEPTH_MAX)
		abort();
	json_decref(theirs);
	free(text);
	return 0;
}
