#include "format/files/share_numbers.h"

#include "base/cleanup.h"
#include "format/tensor/digest.h"

#include <stdlib.h>
#include <string.h>

/* ---- what a node has --------------------------------------------------------------------------------------------- */

/* A registered piece that is replicated. */
struct unit {
	uint32_t share;
	uint64_t sum;
	uint64_t bytes; /* 0: they are not contiguous */
};

static int chain(uint64_t *sum, struct wbuf *text)
{
	wbuf_u64(text, *sum);
	int rc = wbuf_finish(text);
	if (!rc)
		*sum = digest_bytes(text->data, text->len).low;
	return rc;
}

static void put_piece(struct wbuf *text, const struct entry *e, const struct region *region)
{
	wbuf_str(text, e->name);
	wbuf_u8(text, (uint8_t)e->dtype);
	region_put(text, &e->shape, region);
}

static int chain_file(uint64_t *sum, const struct layout *layout, const struct registration *reg,
		      const struct layout_file *f)
{
	AUTO_WBUF struct wbuf text = {0};
	for (uint32_t i = 0; i < f->npieces; i++) {
		const struct layout_piece *p = &layout->pieces[f->first_piece + i];
		put_piece(&text, &reg->entries[p->entry], &p->region);
	}
	return chain(sum, &text);
}

static int by_unit(const void *a, const void *b)
{
	const struct unit *x = a, *y = b;
	if (x->share != y->share)
		return x->share < y->share ? -1 : 1;
	return x->sum < y->sum ? -1 : x->sum > y->sum;
}

static uint64_t bytes_of(const struct entry *e, uint32_t piece)
{
	uint64_t count = 0;
	bool whole = region_contiguous(&e->shape, &e->pieces[piece], NULL, &count);
	return whole ? count * dtype_size(e->dtype) : 0;
}

/* Pieces without elements are in no share. */
static int add_units(struct share_numbers *numbers, const struct registration *reg, struct unit *units, size_t *n)
{
	for (uint32_t e = 0; e < reg->nentries; e++) {
		const struct entry *entry = &reg->entries[e];
		uint64_t share = layout_share_of(entry);
		for (uint32_t p = 0; share && p < entry->npieces; p++) {
			AUTO_WBUF struct wbuf text = {0};
			if (!region_volume(&entry->shape, &entry->pieces[p]))
				continue;
			struct unit unit = {.share = share_number(numbers, share), .bytes = bytes_of(entry, p)};
			put_piece(&text, entry, &entry->pieces[p]);
			if (chain(&unit.sum, &text))
				return -ENOMEM;
			units[(*n)++] = unit;
		}
	}
	return 0;
}

/* Sorted, so that replicas follow each other. */
static void add_bytes(const struct share_numbers *numbers, const struct unit *units, size_t n, struct shares *out)
{
	bool divides[SHARES_MAX];
	for (uint32_t i = 0; i < SHARES_MAX; i++)
		divides[i] = share_is_single(numbers, i);
	for (size_t i = 0; i < n; i++) {
		if (i && !by_unit(&units[i - 1], &units[i]))
			continue;
		out->of[units[i].share].bytes += units[i].bytes;
		divides[units[i].share] &= units[i].bytes > 0;
	}
	for (uint32_t i = 0; i < SHARES_MAX; i++)
		if (!divides[i])
			out->of[i].bytes = 0;
}

static int sum_units(struct share_numbers *numbers, const struct registration *const *regs, uint32_t nregs,
		     struct shares *out)
{
	size_t most = 1, n = 0;
	for (uint32_t i = 0; i < nregs; i++)
		for (uint32_t e = 0; e < regs[i]->nentries; e++)
			most += regs[i]->entries[e].npieces;
	AUTO_FREE struct unit *units = calloc(most, sizeof(*units));
	int rc = units ? 0 : -ENOMEM;
	for (uint32_t i = 0; !rc && i < nregs; i++)
		rc = add_units(numbers, regs[i], units, &n);
	if (rc)
		return rc;
	qsort(units, n, sizeof(*units), by_unit);
	add_bytes(numbers, units, n, out);
	for (size_t i = 0; !rc && i < n; i++) {
		AUTO_WBUF struct wbuf text = {0};
		if (i && !by_unit(&units[i - 1], &units[i]))
			continue; /* another rank's replica */
		wbuf_u64(&text, units[i].sum);
		rc = chain(&out->of[units[i].share].what, &text);
	}
	return rc;
}

int shares_make(const struct layout *const *layouts, const struct registration *const *regs, uint32_t n,
		struct shares *out)
{
	struct share_numbers numbers = {0};
	int rc = 0;
	*out = (struct shares){0};
	for (uint32_t i = 0; !rc && i < n; i++) {
		for (uint32_t f = 0; !rc && f < layouts[i]->nfiles; f++) {
			const struct layout_file *file = &layouts[i]->files[f];
			if (file->share)
				rc = chain_file(&out->of[share_number(&numbers, file->share)].cut, layouts[i], regs[i],
						file);
		}
	}
	out->n = numbers.n;
	return rc ? rc : sum_units(&numbers, regs, n, out);
}

/* ---- who writes what ---------------------------------------------------------------------------------------------- */

struct claim {
	struct held_share share;
	uint32_t node, at; /* shares[node].of[at] */
};

static int by_share(const void *a, const void *b)
{
	const struct claim *x = a, *y = b;
	if (x->share.what != y->share.what)
		return x->share.what < y->share.what ? -1 : 1;
	return x->node < y->node ? -1 : x->node > y->node;
}

/* By files: claims[0..n) are of one share. */
static void share_out_files(const struct claim *claims, size_t n, struct share_parts *const *parts)
{
	uint32_t writers = 0, part = 0;
	for (size_t i = 0; i < n; i++)
		writers += claims[i].share.cut == claims[0].share.cut;
	for (size_t i = 0; i < n; i++) {
		bool writes = claims[i].share.cut == claims[0].share.cut;
		parts[claims[i].node]->of[claims[i].at] = (struct share_part){
			.part = writes ? part : 0,
			.parts = writes ? writers : 0,
		};
		part += writes;
	}
}

/* By bytes. *turn: the first to write, so that small shares are not all written by the same node. */
static void share_out(const struct claim *claims, size_t n, struct share_parts *const *parts, uint64_t part_min,
		      uint64_t *turn)
{
	uint64_t most = claims[0].share.bytes / part_min;
	uint32_t writers = (uint32_t)(most > n ? n : most ? most : 1);
	for (size_t i = 0; i < n; i++) {
		uint32_t part = (uint32_t)((i + n - *turn % n) % n);
		bool writes = part < writers;
		parts[claims[i].node]->of[claims[i].at] =
			(struct share_part){.part = writes ? part : 0, .parts = writes ? writers : 0};
	}
	*turn += writers;
}

int shares_assign(const struct shares *const *shares, struct share_parts *const *parts, uint32_t n, uint64_t part_min)
{
	size_t most = 1, m = 0;
	uint64_t turn = 0;
	for (uint32_t i = 0; i < n; i++)
		most += shares[i]->n;
	AUTO_FREE struct claim *claims = calloc(most, sizeof(*claims));
	if (!claims)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		parts[i]->n = shares[i]->n;
		for (uint32_t k = 0; k < shares[i]->n; k++)
			claims[m++] = (struct claim){.share = shares[i]->of[k], .node = i, .at = k};
	}
	qsort(claims, m, sizeof(*claims), by_share);
	for (size_t i = 0, end; i < m; i = end) {
		for (end = i + 1; end < m && claims[end].share.what == claims[i].share.what;)
			end++;
		if (claims[i].share.bytes)
			share_out(claims + i, end - i, parts, part_min, &turn);
		else
			share_out_files(claims + i, end - i, parts);
	}
	return 0;
}

/* ---- in messages -------------------------------------------------------------------------------------------------- */

void shares_put(struct wbuf *out, const struct shares *s)
{
	wbuf_u32(out, s->n);
	for (uint32_t i = 0; i < s->n; i++) {
		wbuf_u64(out, s->of[i].what);
		wbuf_u64(out, s->of[i].cut);
		wbuf_u64(out, s->of[i].bytes);
	}
}

static uint32_t get_count(struct rbuf *r)
{
	uint32_t n = rbuf_u32(r);
	if (n > SHARES_MAX)
		r->failed = true;
	return r->failed ? 0 : n;
}

void shares_get(struct rbuf *r, struct shares *s)
{
	*s = (struct shares){.n = get_count(r)};
	for (uint32_t i = 0; i < s->n; i++) {
		s->of[i].what = rbuf_u64(r);
		s->of[i].cut = rbuf_u64(r);
		s->of[i].bytes = rbuf_u64(r);
	}
}

void share_parts_put(struct wbuf *out, const struct share_parts *p)
{
	wbuf_u32(out, p->n);
	for (uint32_t i = 0; i < p->n; i++) {
		wbuf_u32(out, p->of[i].part);
		wbuf_u32(out, p->of[i].parts);
	}
}

void share_parts_get(struct rbuf *r, struct share_parts *p)
{
	*p = (struct share_parts){.n = get_count(r)};
	for (uint32_t i = 0; i < p->n; i++) {
		struct share_part *of = &p->of[i];
		of->part = rbuf_u32(r);
		of->parts = rbuf_u32(r);
		if (of->part && of->part >= of->parts)
			r->failed = true;
	}
}
