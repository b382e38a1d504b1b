#include "base/number.h"

#include <errno.h>
#include <stdlib.h>

bool number_parse(const char *text, uint64_t most, uint64_t *out)
{
	char *end;
	errno = 0;
	unsigned long long value = strtoull(text, &end, 10);
	bool good = *text >= '0' && *text <= '9' && !*end && !errno && value <= most;
	*out = good ? value : 0;
	return good;
}
