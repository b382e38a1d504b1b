#include "report/report.h"

#include <stdlib.h>
#include <string.h>

void *report_more(void *list, size_t *n, size_t *room, size_t size, size_t most)
{
	void *first; /* copied: it is of another type there */
	memcpy(&first, list, sizeof(first));
	if (*n == *room) {
		size_t more = *room ? 2 * *room : 64;
		first = *n < most ? reallocarray(first, more, size) : NULL;
		if (!first)
			return NULL;
		memcpy(list, &first, sizeof(first));
		*room = more;
	}
	return memset((char *)first + (*n)++ * size, 0, size);
}

size_t report_since(const void *list, size_t n, size_t size, size_t offset, uint64_t at)
{
	size_t from = 0, to = n;
	while (from < to) {
		size_t middle = (from + to) / 2;
		uint64_t is;
		memcpy(&is, (const char *)list + middle * size + offset, sizeof(is));
		if (is < at)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}
