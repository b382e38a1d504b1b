/* Plans: which spans each device captures, for each slot, and where they stand now. */
#include "base/cleanup.h"
#include "base/log.h"
#include "ckpt.h"
#include "client/capture/capture.h"
#include "client/capture/spans.h"

#include <string.h>

/* Bytes between two steps of the progress counter. On a GPU each step costs the host some microseconds at each begin (4.4 on an H200), so a
 * large state has no more of them than this; the daemon can still begin when an eighth is there. */
#define GRANULE (64ull << 20)
enum { GPU_STEPS = 8 };

uint64_t capture_granule(int ordinal, uint64_t bytes)
{
	return ordinal == CKPT_HOST ? GRANULE : max_u64(GRANULE, div_up(bytes, GPU_STEPS));
}

/* ---- spans --------------------------------------------------------------------------------------------------------- */

/* Files of a group stand together. The device layer tells so many groups apart: the rest is one. */
static uint32_t group_of_file(const struct layout *layout, uint32_t file)
{
	uint32_t group = 0;
	for (uint32_t i = 1; i <= file; i++)
		group += strcmp(layout->files[i].group, layout->files[i - 1].group) != 0;
	return group < PLAN_GROUPS_MAX ? group : PLAN_GROUPS_MAX - 1;
}

int capture_group(const struct capture *c, const char *name)
{
	const struct layout *layout = &c->arena->layout;
	for (uint32_t i = 0; i < layout->nfiles; i++)
		if (!strcmp(layout->files[i].group, name))
			return (int)group_of_file(layout, i);
	return -1;
}

int capture_span_of_piece(const struct table *table, const struct layout_piece *p, uint32_t group, struct span *out,
			  struct err *err)
{
	const struct entry *e = &table->reg.entries[p->entry];
	char where[128];
	if (span_of(&e->shape, dtype_size(e->dtype), &e->pieces[p->source], &table->held[p->entry].places[p->source],
		    &p->region, out))
		return err_set(err, -EBADMSG,
			       "the layout captures %s of tensor %s, which its registered piece cannot give",
			       region_text(&e->shape, &p->region, where, sizeof(where)), e->name);
	out->arena_at = p->slot_at;
	out->first_leaf = p->first_leaf;
	out->group = group;
	return 0;
}

int capture_span_of_witness(const struct table *table, const struct witness_piece *p, struct span *out, struct err *err)
{
	const struct entry *e = &table->reg.entries[p->entry];
	const struct region *whole = &e->pieces[p->source];
	if (span_of(&e->shape, dtype_size(e->dtype), whole, &table->held[p->entry].places[p->source], whole, out))
		return err_set(err, -EBADMSG, "tensor %s cannot be read as it is registered", e->name);
	out->first_leaf = p->first_leaf;
	out->group = SPAN_WITNESS;
	return 0;
}

bool capture_takes_piece(const struct capture *c, uint32_t device, uint32_t piece)
{
	return c->piece_device[piece] == device && c->arena->layout.pieces[piece].bytes;
}

bool capture_takes_witness(const struct capture *c, const struct table *table, uint32_t device, uint32_t witness)
{
	const struct witness_piece *p = &c->witnesses.pieces[witness];
	return p->own && c->devices[device].ordinal == table->held[p->entry].device;
}

/* The spans of one device, in the order of the layout. */
static int spans_of_device(const struct capture *c, const struct table *table, uint32_t device, struct span *spans,
			   size_t *n, struct err *err)
{
	const struct layout *layout = &c->arena->layout;
	uint32_t file = 0, group = 0;
	*n = 0;
	for (uint32_t i = 0; i < layout->npieces; i++) {
		if (layout->pieces[i].file != file)
			group = group_of_file(layout, file = layout->pieces[i].file);
		if (!capture_takes_piece(c, device, i))
			continue;
		int rc = capture_span_of_piece(table, &layout->pieces[i], group, &spans[*n], err);
		if (rc)
			return rc;
		++*n;
	}
	return 0;
}

/* What the device reads for them, behind the spans that it copies. */
static int witness_spans(const struct capture *c, const struct table *table, uint32_t device, struct span *spans,
			 size_t *n, struct err *err)
{
	for (uint32_t i = 0; c->votes && i < c->witnesses.npieces; i++) {
		if (!capture_takes_witness(c, table, device, i))
			continue;
		int rc = capture_span_of_witness(table, &c->witnesses.pieces[i], &spans[*n], err);
		if (rc)
			return rc;
		++*n;
	}
	return 0;
}

/* ---- plans --------------------------------------------------------------------------------------------------------- */

static uint64_t copied_bytes(const struct span *spans, size_t n)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < n; i++)
		bytes += spans[i].group == SPAN_WITNESS ? 0 : span_bytes(&spans[i]);
	return bytes;
}

/* Staging is a favour: without the memory for it captures go on as they do without. */
static int build_plan(struct capture *c, struct capture_device *d, uint32_t slot, const struct span *spans, size_t n,
		      struct err *err)
{
	void *base = arena_slot_data(c->arena, slot);
	uint64_t granule = capture_granule(d->ordinal, copied_bytes(spans, n));
	bool staged = c->staged && d->ordinal != CKPT_HOST;
	int rc = d->ops->plan_new(d->dev, base, spans, n, granule, staged ? PLAN_STAGED : 0, &d->plans[slot], err);
	if (!staged || rc != -ENOMEM)
		return rc;
	log_warn("captures are not staged: %s", err->text);
	c->staged = false;
	return d->ops->plan_new(d->dev, base, spans, n, granule, 0, &d->plans[slot], err);
}

/* All that a device captures: what is copied, and behind it what is only digested. */
static int all_spans(const struct capture *c, const struct table *table, uint32_t device, struct span *spans, size_t *n,
		     struct err *err)
{
	int rc = spans_of_device(c, table, device, spans, n, err);
	return rc ? rc : witness_spans(c, table, device, spans, n, err);
}

static struct span *room_for_spans(const struct capture *c, struct err *err)
{
	size_t most = (size_t)c->arena->layout.npieces + c->witnesses.npieces;
	struct span *spans = calloc(most + 1, sizeof(*spans));
	if (!spans)
		err_set(err, -ENOMEM, "no memory for %zu spans", most);
	return spans;
}

int capture_spans_make(struct capture *c, const struct table *table, struct err *err)
{
	int rc = 0;
	c->spans_of = table->moves;
	for (uint32_t i = 0; i < c->nactive && !rc; i++) {
		c->spans[i] = room_for_spans(c, err);
		rc = c->spans[i] ? all_spans(c, table, i, c->spans[i], &c->nspans[i], err) : -ENOMEM;
	}
	return rc ? err_prefix(err, rc, "capture plan") : 0;
}

int capture_plans_make(struct capture *c, uint32_t slot, struct err *err)
{
	int rc = 0;
	for (uint32_t i = 0; i < c->nactive && !rc; i++)
		rc = build_plan(c, &c->devices[i], slot, c->spans[i], c->nspans[i], err);
	c->bound[slot] = c->spans_of;
	return rc ? err_prefix(err, rc, "capture plan") : 0;
}

static int redo_plans(struct capture *c, const struct table *table, uint32_t slot, struct err *err)
{
	AUTO_FREE struct span *spans = room_for_spans(c, err);
	int rc = spans ? 0 : -ENOMEM;
	for (uint32_t i = 0; i < c->nactive && !rc; i++) {
		size_t n;
		rc = all_spans(c, table, i, spans, &n, err);
		if (!rc)
			rc = c->devices[i].ops->plan_rebind(c->devices[i].plans[slot], spans, n, err);
	}
	return rc;
}

int capture_plans_follow(struct capture *c, const struct table *table, uint32_t slot, struct err *err)
{
	bool known = false;
	if (c->bound[slot] == table->moves)
		return 0;
	int rc = capture_plans_move(c, table, slot, &known, err);
	if (!known)
		rc = redo_plans(c, table, slot, err);
	if (rc)
		return err_prefix(err, rc, "capture plan");
	c->bound[slot] = table->moves;
	return 0;
}
