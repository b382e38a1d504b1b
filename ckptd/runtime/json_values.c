#include "runtime/json_values.h"

#include <limits.h>
#include <stdio.h>

json_t *plain_json_text(const char *text)
{
	json_t *j = json_string(text);
	if (j)
		return j;
	char plain[PATH_MAX];
	snprintf(plain, sizeof(plain), "%s", text);
	for (char *p = plain; *p; p++)
		if (*p & 0x80)
			*p = '?';
	return json_string(plain);
}

json_t *plain_json_ms(bool known, uint64_t ns)
{
	return known ? json_real((double)ns / 1e6) : json_null();
}
