#include "client/capture/span_index.h"

#include <stdlib.h>

int span_index_init(struct span_index *index, const struct registration *reg)
{
	*index = (struct span_index){.first = calloc((size_t)reg->nentries + 1, sizeof(*index->first))};
	if (!index->first)
		return -ENOMEM;
	for (uint32_t i = 0; i < reg->nentries; i++) {
		index->first[i] = index->npieces;
		index->npieces += reg->entries[i].npieces;
	}
	index->start = calloc((size_t)index->npieces + 2, sizeof(*index->start));
	if (index->start)
		return 0;
	span_index_free(index);
	return -ENOMEM;
}

/* One place further on: span_index_put moves each start to where it belongs. */
void span_index_count(struct span_index *index, uint32_t entry, uint32_t piece)
{
	index->start[index->first[entry] + piece + 2]++;
}

int span_index_ready(struct span_index *index)
{
	for (uint32_t i = 2; i < index->npieces + 2; i++)
		index->start[i] += index->start[i - 1];
	index->refs = calloc((size_t)index->start[index->npieces + 1] + 1, sizeof(*index->refs));
	return index->refs ? 0 : -ENOMEM;
}

void span_index_put(struct span_index *index, uint32_t entry, uint32_t piece, struct span_ref ref)
{
	index->refs[index->start[index->first[entry] + piece + 1]++] = ref;
}

void span_index_free(struct span_index *index)
{
	free(index->first);
	free(index->start);
	free(index->refs);
	*index = (struct span_index){0};
}

uint32_t span_index_of(const struct span_index *index, uint32_t entry, uint32_t piece, const struct span_ref **refs)
{
	uint32_t at = index->first[entry] + piece;
	*refs = index->refs + index->start[at];
	return index->start[at + 1] - index->start[at];
}
