#include "report/report_read.h"

#include "base/bytes.h"

#include <math.h>
#include <string.h>

uint64_t line_whole(const json_t *line, const char *key)
{
	json_int_t value = json_integer_value(json_object_get(line, key));
	return value > 0 ? (uint64_t)value : 0;
}

double line_number(const json_t *line, const char *key)
{
	const json_t *value = json_object_get(line, key);
	return json_is_number(value) ? json_number_value(value) : NAN;
}

bool line_is(const json_t *line, const char *key, const char *text)
{
	const char *value = json_string_value(json_object_get(line, key));
	return value && !strcmp(value, text);
}

void line_copy(char *dst, size_t size, const json_t *line, const char *key)
{
	const char *text = json_string_value(json_object_get(line, key));
	size_t n = text ? strnlen(text, size - 1) : 0;
	while (n && text[n] && ((unsigned char)text[n] & 0xc0) == 0x80)
		n--;
	if (n)
		memcpy(dst, text, n);
	dst[n] = '\0';
}

uint64_t line_time(struct report *r, const json_t *line, const char *key)
{
	uint64_t ns = line_whole(line, key);
	r->last = max_u64(r->last, ns);
	return ns;
}

uint64_t line_time_of_day(struct report *r, const json_t *line, const char *key)
{
	uint64_t ns = line_whole(line, key);
	if (r->last && ns > r->last + FAULT_JUMP_NS / 2)
		ns -= FAULT_JUMP_NS;
	r->last = max_u64(r->last, ns);
	return ns;
}

uint64_t time_before(uint64_t ns, double ms)
{
	uint64_t back = ms > 0 ? (uint64_t)(fmin(ms, LONGEST_MS) * 1e6) : 0;
	return ns > back ? ns - back : 0;
}
