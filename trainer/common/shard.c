#include "common/shard.h"

#include <stdio.h>

enum { GRAIN = 16 }; /* one cache line of floats: two ranks never write to the same one */

static size_t min_size(size_t a, size_t b)
{
	return a < b ? a : b;
}

static size_t max_size(size_t a, size_t b)
{
	return a > b ? a : b;
}

struct shard_range shard_range(size_t size, int rank, int world)
{
	size_t grains = size / GRAIN + (size % GRAIN != 0);
	size_t length = (grains / (size_t)world + (grains % (size_t)world != 0)) * GRAIN;

	return (struct shard_range){min_size(size, length * (size_t)rank), min_size(size, length * ((size_t)rank + 1))};
}

size_t shard_segments(const struct tensor *table, size_t count, struct shard_range range,
		      struct shard_segment *segments, size_t capacity)
{
	size_t found = 0;

	for (size_t i = 0; i < count; i++) {
		size_t begin = max_size(range.begin, table[i].offset);
		size_t end = min_size(range.end, table[i].offset + table[i].count);

		if (begin >= end)
			continue;
		if (found < capacity)
			segments[found] =
				(struct shard_segment){i, begin - table[i].offset, end - begin, begin - range.begin};
		found++;
	}
	return found;
}

void shard_state_name(char name[SHARD_NAME_SIZE], enum shard_state state, const struct tensor *tensor)
{
	snprintf(name, SHARD_NAME_SIZE, "%s.%s", state == SHARD_EXP_AVG ? "optim.exp_avg" : "optim.exp_avg_sq",
		 tensor->name);
}
