#include "format/arena/registration.h"

#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>

void registration_free(struct registration *reg)
{
	for (uint32_t i = 0; reg->entries && i < reg->nentries; i++) {
		free(reg->entries[i].name);
		free(reg->entries[i].pieces);
	}
	free(reg->entries);
	free(reg->by_name);
	*reg = (struct registration){0};
}

static void encode_entry(const struct entry *e, struct wbuf *out)
{
	wbuf_str(out, e->name);
	wbuf_u8(out, (uint8_t)((unsigned)e->kind | (e->sized ? ENTRY_SIZED : 0u)));
	wbuf_u8(out, (uint8_t)e->dtype);
	wbuf_u8(out, (uint8_t)e->shape.ndim);
	for (uint32_t d = 0; d < e->shape.ndim; d++)
		wbuf_u64(out, e->shape.dim[d]);
	wbuf_str(out, e->group);
	wbuf_str(out, e->replica);
	wbuf_u32(out, e->npieces);
	for (uint32_t p = 0; p < e->npieces; p++)
		region_put(out, &e->shape, &e->pieces[p]);
}

int registration_encode(const struct registration *reg, struct wbuf *out)
{
	wbuf_u32(out, reg->rank);
	wbuf_u32(out, reg->world);
	wbuf_u32(out, reg->nentries);
	for (uint32_t i = 0; i < reg->nentries; i++)
		encode_entry(&reg->entries[i], out);
	return wbuf_finish(out);
}

static int by_name(const void *a, const void *b, void *entries)
{
	const struct entry *all = entries;
	return strcmp(all[*(const uint32_t *)a].name, all[*(const uint32_t *)b].name);
}

int registration_index(struct registration *reg, struct err *err)
{
	free(reg->by_name);
	reg->by_name = NULL;
	AUTO_FREE uint32_t *index = calloc((size_t)reg->nentries + 1, sizeof(*index));
	if (!index)
		return err_set(err, -ENOMEM, "no memory to index %u entries", reg->nentries);
	for (uint32_t i = 0; i < reg->nentries; i++)
		index[i] = i;
	qsort_r(index, reg->nentries, sizeof(*index), by_name, reg->entries);
	for (uint32_t i = 1; i < reg->nentries; i++) {
		const char *name = reg->entries[index[i]].name;
		if (!strcmp(name, reg->entries[index[i - 1]].name))
			return err_set(err, -EEXIST,
				       "\"%.200s\" is registered twice; register it once, with all its pieces", name);
	}
	reg->by_name = steal_ptr(&index);
	return 0;
}

const struct entry *registration_find(const struct registration *reg, const char *name)
{
	if (!reg->by_name) {
		for (uint32_t i = 0; i < reg->nentries; i++)
			if (!strcmp(reg->entries[i].name, name))
				return &reg->entries[i];
		return NULL;
	}
	uint32_t low = 0, high = reg->nentries;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const struct entry *e = &reg->entries[reg->by_name[middle]];
		int order = strcmp(name, e->name);
		if (order == 0)
			return e;
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}
