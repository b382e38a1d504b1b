#include "format/files/share_units.h"

#include "base/cleanup.h"
#include "format/tensor/digest.h"

#include <stdlib.h>
#include <string.h>

/* ---- what a node has --------------------------------------------------------------------------------------------- */

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

/* Sorted by share. */
static int add_units(const struct share_numbers *numbers, const struct share_unit *units, size_t n, struct shares *out)
{
	bool divides[SHARES_MAX];
	int rc = 0;
	for (uint32_t i = 0; i < SHARES_MAX; i++)
		divides[i] = share_is_single(numbers, i);
	for (size_t i = 0; !rc && i < n; i++) {
		struct held_share *of = &out->of[units[i].share];
		AUTO_WBUF struct wbuf text = {0};
		wbuf_u64(&text, units[i].sum);
		rc = chain(&of->what, &text);
		of->bytes += units[i].bytes;
		of->units++;
		divides[units[i].share] &= units[i].divides;
	}
	for (uint32_t i = 0; i < SHARES_MAX; i++)
		if (!divides[i])
			out->of[i].bytes = 0;
	return rc;
}

static int list_units(const struct share_unit *units, size_t n, uint32_t list, struct wbuf *out)
{
	for (size_t i = 0; i < n; i++)
		if (list & 1u << units[i].share)
			share_unit_put(out, &units[i]);
	return wbuf_finish(out);
}

static int put_units(struct share_numbers *numbers, const struct registration *const *regs, uint32_t n, uint32_t list,
		     struct shares *out, struct wbuf *listed)
{
	AUTO_FREE struct share_unit *units = NULL;
	size_t nunits = 0;
	int rc = share_units_make(numbers, regs, n, &units, &nunits);
	if (!rc)
		rc = add_units(numbers, units, nunits, out);
	out->n = numbers->n;
	for (uint32_t i = 0; i < out->n; i++)
		out->of[i].key = share_is_single(numbers, i) ? numbers->of[i] : 0;
	out->listed = list & ((1u << out->n) - 1);
	if (shares_units(out, out->listed) > SHARE_UNITS_MAX)
		out->listed = 0;
	if (!rc && out->listed)
		rc = list_units(units, nunits, out->listed, listed);
	out->units = out->listed ? listed->data : NULL;
	return rc;
}

int shares_make(const struct layout *const *layouts, const struct registration *const *regs, uint32_t n, uint32_t list,
		struct shares *out, struct wbuf *listed)
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
	return rc ? rc : put_units(&numbers, regs, n, list, out, listed);
}

uint64_t shares_units(const struct shares *s, uint32_t mask)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < s->n; i++)
		sum += mask & 1u << i ? s->of[i].units : 0;
	return sum;
}

/* ---- in messages -------------------------------------------------------------------------------------------------- */

void shares_put(struct wbuf *out, const struct shares *s)
{
	wbuf_u32(out, s->n);
	for (uint32_t i = 0; i < s->n; i++) {
		wbuf_u64(out, s->of[i].what);
		wbuf_u64(out, s->of[i].cut);
		wbuf_u64(out, s->of[i].bytes);
		wbuf_u64(out, s->of[i].key);
		wbuf_u32(out, s->of[i].units);
	}
	wbuf_u32(out, s->listed);
	wbuf_put(out, s->units, (size_t)shares_units(s, s->listed) * SHARE_UNIT_SIZE);
}

static uint32_t get_count(struct rbuf *r)
{
	uint32_t n = rbuf_u32(r);
	if (n > SHARES_MAX)
		r->failed = true;
	return r->failed ? 0 : n;
}

static void get_units(struct rbuf *r, struct shares *s)
{
	s->listed = rbuf_u32(r);
	if (s->listed >> s->n || shares_units(s, s->listed) > SHARE_UNITS_MAX)
		r->failed = true;
	s->units = s->listed ? rbuf_take(r, (size_t)shares_units(s, s->listed) * SHARE_UNIT_SIZE) : NULL;
	if (r->failed)
		*s = (struct shares){0};
}

void shares_get(struct rbuf *r, struct shares *s)
{
	*s = (struct shares){.n = get_count(r)};
	for (uint32_t i = 0; i < s->n; i++) {
		s->of[i].what = rbuf_u64(r);
		s->of[i].cut = rbuf_u64(r);
		s->of[i].bytes = rbuf_u64(r);
		s->of[i].key = rbuf_u64(r);
		s->of[i].units = rbuf_u32(r);
	}
	get_units(r, s);
}

void share_parts_put(struct wbuf *out, const struct share_parts *p)
{
	wbuf_u32(out, p->n);
	for (uint32_t i = 0; i < p->n; i++) {
		wbuf_u32(out, p->of[i].part);
		wbuf_u32(out, p->of[i].parts);
	}
	wbuf_u32(out, p->nruns);
	wbuf_put(out, p->runs, (size_t)p->nruns * SHARE_RUN_SIZE);
}

static void get_runs(struct rbuf *r, struct share_parts *p)
{
	p->nruns = rbuf_u32(r);
	if (p->nruns > SHARE_UNITS_MAX)
		r->failed = true;
	p->runs = p->nruns ? rbuf_take(r, (size_t)p->nruns * SHARE_RUN_SIZE) : NULL;
	for (uint32_t i = 0; !r->failed && i < p->nruns; i++) {
		struct share_run run = share_run_get(p->runs, i);
		if (!run.units || run.units > SHARE_UNITS_MAX || run.from > run.to)
			r->failed = true;
	}
	if (r->failed)
		*p = (struct share_parts){0};
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
	get_runs(r, p);
}

void share_run_put(struct wbuf *out, const struct share_run *run)
{
	wbuf_u32(out, run->units);
	wbuf_u64(out, run->from);
	wbuf_u64(out, run->to);
}

struct share_run share_run_get(const uint8_t *runs, uint32_t i)
{
	struct rbuf r = rbuf_of(runs + (size_t)i * SHARE_RUN_SIZE, SHARE_RUN_SIZE);
	struct share_run run = {.units = rbuf_u32(&r)};
	run.from = rbuf_u64(&r);
	run.to = rbuf_u64(&r);
	return run;
}

int share_parts_copy(struct share_parts *to, const struct share_parts *from)
{
	size_t len = (size_t)from->nruns * SHARE_RUN_SIZE;
	uint8_t *runs = len ? malloc(len) : NULL;
	if (len && !runs)
		return -ENOMEM;
	if (len)
		memcpy(runs, from->runs, len);
	*to = *from;
	to->runs = runs;
	return 0;
}

void share_parts_free(struct share_parts *p)
{
	free((void *)p->runs);
	*p = (struct share_parts){0};
}

bool share_parts_equal(const struct share_parts *a, const struct share_parts *b)
{
	bool same = a->n == b->n && a->nruns == b->nruns;
	for (uint32_t i = 0; same && i < a->n; i++)
		same = a->of[i].part == b->of[i].part && a->of[i].parts == b->of[i].parts;
	return same && (!a->nruns || !memcmp(a->runs, b->runs, (size_t)a->nruns * SHARE_RUN_SIZE));
}
