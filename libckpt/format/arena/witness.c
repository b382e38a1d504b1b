#include "format/arena/witness.h"

#include "base/cleanup.h"
#include "format/tensor/digest.h"

#include <stdlib.h>
#include <string.h>

bool witness_wanted(const struct entry *e)
{
	return e->kind == ENTRY_TENSOR && e->replica[0];
}

static uint64_t leaves_of(const struct entry *e, const struct region *r)
{
	return leaf_count(region_volume(&e->shape, r) * dtype_size(e->dtype));
}

static bool captured_whole(const struct registration *reg, const struct layout_piece *p)
{
	const struct entry *e = &reg->entries[p->entry];
	return witness_wanted(e) && region_equal(&e->shape, &p->region, &e->pieces[p->source]);
}

uint64_t witness_leaves(const struct registration *reg, const struct layout *layout)
{
	uint64_t all = 0, captured = 0;
	for (uint32_t i = 0; i < reg->nentries; i++)
		for (uint32_t p = 0; witness_wanted(&reg->entries[i]) && p < reg->entries[i].npieces; p++)
			all += leaves_of(&reg->entries[i], &reg->entries[i].pieces[p]);
	for (uint32_t i = 0; i < layout->npieces; i++)
		if (captured_whole(reg, &layout->pieces[i]))
			captured += leaf_count(layout->pieces[i].bytes);
	return all > captured ? all - captured : 0;
}

/* A piece on its way into the order. */
struct sorted {
	const struct entry *entry;
	uint64_t at; /* index of its first element */
	struct witness_piece piece;
};

static int by_set(const void *a, const void *b)
{
	const struct sorted *x = a, *y = b;
	int order = strcmp(x->entry->replica, y->entry->replica);
	if (!order)
		order = strcmp(x->entry->name, y->entry->name);
	return order ? order : x->at < y->at ? -1 : x->at > y->at;
}

/* captured[]: by entry, then source, the first leaf of a piece that is captured whole; UINT64_MAX: it is not. */
static uint32_t gather(const struct registration *reg, const uint64_t *captured, struct sorted *out)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < reg->nentries; i++) {
		const struct entry *e = &reg->entries[i];
		for (uint32_t p = 0; p < e->npieces; p++, captured++) {
			if (!witness_wanted(e) || !leaves_of(e, &e->pieces[p]))
				continue;
			out[n++] = (struct sorted){e,
						   region_first(&e->shape, &e->pieces[p]),
						   {.entry = i,
						    .source = p,
						    .first_leaf = *captured,
						    .nleaves = leaves_of(e, &e->pieces[p]),
						    .own = *captured == UINT64_MAX}};
		}
	}
	qsort(out, n, sizeof(*out), by_set);
	return n;
}

static size_t npieces(const struct registration *reg, uint32_t entries)
{
	size_t n = 0;
	for (uint32_t i = 0; i < entries; i++)
		n += reg->entries[i].npieces;
	return n;
}

static uint64_t *find_captured(const struct registration *reg, const struct layout *layout)
{
	size_t all = npieces(reg, reg->nentries);
	uint64_t *captured = malloc((all + 1) * sizeof(*captured));
	AUTO_FREE size_t *first = calloc((size_t)reg->nentries + 1, sizeof(*first));
	if (!captured || !first) {
		free(captured);
		return NULL;
	}
	memset(captured, 0xff, all * sizeof(*captured));
	for (uint32_t i = 0; i < reg->nentries; i++)
		first[i + 1] = first[i] + reg->entries[i].npieces;
	for (uint32_t i = 0; i < layout->npieces; i++) {
		const struct layout_piece *p = &layout->pieces[i];
		if (captured_whole(reg, p))
			captured[first[p->entry] + p->source] = p->first_leaf;
	}
	return captured;
}

static void put_piece(struct wbuf *text, const struct sorted *s)
{
	const struct entry *e = s->entry;
	wbuf_str(text, e->name);
	wbuf_u8(text, (uint8_t)e->dtype);
	wbuf_u8(text, (uint8_t)e->shape.ndim);
	for (uint32_t d = 0; d < e->shape.ndim; d++)
		wbuf_u64(text, e->shape.dim[d]);
	region_put(text, &e->shape, &e->pieces[s->piece.source]);
}

static int add_set(const struct sorted *pieces, uint32_t first, uint32_t n, struct witnesses *w)
{
	AUTO_WBUF struct wbuf text = {0};
	wbuf_str(&text, pieces[first].entry->replica);
	for (uint32_t i = 0; i < n; i++)
		put_piece(&text, &pieces[first + i]);
	int rc = wbuf_finish(&text);
	if (!rc)
		w->sets[w->nsets++] = (struct witness_set){digest_bytes(text.data, text.len).low, first, n};
	return rc;
}

static int make_sets(const struct sorted *pieces, struct witnesses *w)
{
	int rc = 0;
	for (uint32_t first = 0, n; !rc && first < w->npieces; first += n) {
		n = 1;
		while (first + n < w->npieces &&
		       !strcmp(pieces[first + n].entry->replica, pieces[first].entry->replica))
			n++;
		rc = add_set(pieces, first, n, w);
	}
	return rc;
}

static int fill(const struct registration *reg, const struct layout *layout, const uint64_t *captured,
		struct sorted *pieces, struct witnesses *w)
{
	uint64_t next = layout->nleaves;
	w->npieces = gather(reg, captured, pieces);
	w->pieces = calloc((size_t)w->npieces + 1, sizeof(*w->pieces));
	w->sets = calloc((size_t)w->npieces + 1, sizeof(*w->sets));
	if (!w->pieces || !w->sets)
		return -ENOMEM;
	for (uint32_t i = 0; i < w->npieces; i++) {
		w->pieces[i] = pieces[i].piece;
		if (!w->pieces[i].own)
			continue;
		w->pieces[i].first_leaf = next;
		next += w->pieces[i].nleaves;
	}
	return make_sets(pieces, w);
}

int witnesses_make(const struct registration *reg, const struct layout *layout, struct witnesses *out)
{
	AUTO_FREE uint64_t *captured = find_captured(reg, layout);
	AUTO_FREE struct sorted *pieces = calloc(npieces(reg, reg->nentries) + 1, sizeof(*pieces));
	*out = (struct witnesses){0};
	int rc = captured && pieces ? fill(reg, layout, captured, pieces, out) : -ENOMEM;
	if (rc)
		witnesses_free(out);
	return rc;
}

void witnesses_free(struct witnesses *w)
{
	free(w->pieces);
	free(w->sets);
	*w = (struct witnesses){0};
}

void witness_sums(const struct witnesses *w, const uint64_t *leaves, uint64_t *sums)
{
	for (uint32_t i = 0; i < w->npieces; i++)
		sums[i] = digest_piece(leaves + w->pieces[i].first_leaf, w->pieces[i].nleaves).low;
}

uint64_t witness_sum(const uint64_t *sums, uint32_t n)
{
	return digest_bytes(sums, n * sizeof(*sums)).low;
}
