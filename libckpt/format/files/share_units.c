#include "format/files/share_units.h"

#include "format/tensor/digest.h"

#include <stdlib.h>
#include <string.h>

#define WHOLE (1ull << 63) /* of the bytes of a unit in a message: it is not to be divided */

int share_order(const struct entry *a, uint64_t a_first, const struct entry *b, uint64_t b_first)
{
	unsigned a_size = dtype_size(a->dtype), b_size = dtype_size(b->dtype);
	if (a_size != b_size)
		return a_size > b_size ? -1 : 1;
	int order = strcmp(a->name, b->name);
	if (order)
		return order;
	return a_first < b_first ? -1 : a_first > b_first;
}

static int by_order(const void *a, const void *b)
{
	const struct share_unit *x = a, *y = b;
	if (x->share != y->share)
		return x->share < y->share ? -1 : 1;
	int order = share_order(x->entry, x->first, y->entry, y->first);
	return order ? order : x->sum < y->sum ? -1 : x->sum > y->sum;
}

static int sum_up(struct share_unit *unit)
{
	AUTO_WBUF struct wbuf text = {0};
	wbuf_str(&text, unit->entry->name);
	wbuf_u8(&text, (uint8_t)unit->entry->dtype);
	region_put(&text, &unit->entry->shape, unit->region);
	int rc = wbuf_finish(&text);
	if (!rc)
		unit->sum = digest_bytes(text.data, text.len).low;
	return rc;
}

static int add_entry(struct share_numbers *numbers, const struct entry *e, struct share_unit *units, size_t *n)
{
	uint64_t share = layout_share_of(e);
	int rc = 0;
	for (uint32_t p = 0; share && !rc && p < e->npieces; p++) {
		const struct region *region = &e->pieces[p];
		uint64_t volume = region_volume(&e->shape, region);
		if (!volume)
			continue;
		units[*n] = (struct share_unit){.share = share_number(numbers, share),
						.entry = e,
						.region = region,
						.first = region_first(&e->shape, region),
						.bytes = volume * dtype_size(e->dtype),
						.divides = region_contiguous(&e->shape, region, NULL, NULL)};
		rc = sum_up(&units[(*n)++]);
	}
	return rc;
}

/* Replicas follow each other. */
static size_t drop_replicas(struct share_unit *units, size_t n)
{
	size_t kept = 0;
	for (size_t i = 0; i < n; i++)
		if (!kept || units[kept - 1].share != units[i].share || units[kept - 1].sum != units[i].sum)
			units[kept++] = units[i];
	return kept;
}

int share_units_make(struct share_numbers *numbers, const struct registration *const *regs, uint32_t nregs,
		     struct share_unit **out, size_t *n)
{
	size_t most = 1, all = 0;
	int rc = 0;
	for (uint32_t r = 0; r < nregs; r++)
		for (uint32_t e = 0; e < regs[r]->nentries; e++)
			most += regs[r]->entries[e].npieces;
	struct share_unit *units = calloc(most, sizeof(*units));
	if (!units)
		return -ENOMEM;
	for (uint32_t r = 0; r < nregs; r++)
		for (uint32_t e = 0; !rc && e < regs[r]->nentries; e++)
			rc = add_entry(numbers, &regs[r]->entries[e], units, &all);
	if (rc) {
		free(units);
		return rc;
	}
	qsort(units, all, sizeof(*units), by_order);
	*n = drop_replicas(units, all);
	*out = units;
	return 0;
}

void share_unit_put(struct wbuf *out, const struct share_unit *unit)
{
	wbuf_u64(out, unit->sum);
	wbuf_u64(out, unit->bytes | (unit->divides ? 0 : WHOLE));
}

void share_unit_get(const uint8_t *units, uint32_t i, uint64_t *sum, uint64_t *bytes, bool *divides)
{
	struct rbuf r = rbuf_of(units + (size_t)i * SHARE_UNIT_SIZE, SHARE_UNIT_SIZE);
	*sum = rbuf_u64(&r);
	uint64_t said = rbuf_u64(&r);
	*bytes = said & ~WHOLE;
	*divides = !(said & WHOLE);
}
