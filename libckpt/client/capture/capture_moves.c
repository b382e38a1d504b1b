/* Moves: the plans of a slot follow the pieces that have another address, at a cost that does not grow with the pieces that have not. */
#include "client/capture/capture.h"

#include <stdlib.h>

/* For each span of the capture, as capture_plans.c makes them. */
static void each_span(const struct capture *c, const struct table *table, struct span_index *index,
		      void (*visit)(struct span_index *index, uint32_t entry, uint32_t piece, struct span_ref ref))
{
	const struct layout *layout = &c->arena->layout;
	for (uint32_t device = 0; device < c->nactive; device++) {
		struct span_ref ref = {.device = device};
		for (ref.source = 0; ref.source < layout->npieces; ref.source++)
			if (capture_takes_piece(c, device, ref.source)) {
				const struct layout_piece *p = &layout->pieces[ref.source];
				visit(index, p->entry, p->source, ref);
				ref.at++;
			}
		for (uint32_t i = 0; c->votes && i < c->witnesses.npieces; i++)
			if (capture_takes_witness(c, table, device, i)) {
				const struct witness_piece *p = &c->witnesses.pieces[i];
				ref.source = layout->npieces + i;
				visit(index, p->entry, p->source, ref);
				ref.at++;
			}
	}
}

static void count(struct span_index *index, uint32_t entry, uint32_t piece, struct span_ref ref)
{
	(void)ref;
	span_index_count(index, entry, piece);
}

static int make_index(struct capture *c, const struct table *table)
{
	if (c->index.refs)
		return 0;
	int rc = span_index_init(&c->index, &table->reg);
	if (rc)
		return rc;
	each_span(c, table, &c->index, count);
	rc = span_index_ready(&c->index);
	if (rc)
		span_index_free(&c->index);
	else
		each_span(c, table, &c->index, span_index_put);
	return rc;
}

/* What has moved, on all devices; a piece that moved twice is there twice, and the same both times. */
struct moves {
	struct span *spans;
	uint32_t *which;
	size_t n;
};

static int span_now(const struct capture *c, const struct table *table, const struct span_ref *ref, struct span *out,
		    struct err *err)
{
	const struct layout *layout = &c->arena->layout;
	if (ref->source >= layout->npieces)
		return capture_span_of_witness(table, &c->witnesses.pieces[ref->source - layout->npieces], out, err);
	return capture_span_of_piece(table, &layout->pieces[ref->source], c->spans[ref->device][ref->at].group, out,
				     err);
}

/* Of one device. m has room. */
static int collect(const struct capture *c, const struct table *table, uint32_t slot, uint32_t device, struct moves *m,
		   struct err *err)
{
	int rc = 0;
	m->n = 0;
	for (uint64_t k = c->bound[slot]; k < table->moves && !rc; k++) {
		const struct moved *moved = &table->moved[k % TABLE_MOVES];
		const struct span_ref *refs;
		uint32_t n = span_index_of(&c->index, moved->entry, moved->piece, &refs);
		for (uint32_t i = 0; i < n && !rc; i++) {
			if (refs[i].device != device)
				continue;
			rc = span_now(c, table, &refs[i], &m->spans[m->n], err);
			m->which[m->n++] = refs[i].at;
		}
	}
	return rc;
}

static size_t room_needed(const struct capture *c, const struct table *table, uint32_t slot)
{
	size_t most = 0;
	for (uint64_t k = c->bound[slot]; k < table->moves; k++) {
		const struct span_ref *refs;
		most += span_index_of(&c->index, table->moved[k % TABLE_MOVES].entry,
				      table->moved[k % TABLE_MOVES].piece, &refs);
	}
	return most;
}

/* *known false: a device on which something has moved can only be told all. */
static int move_all(struct capture *c, const struct table *table, uint32_t slot, struct moves *m, bool *known,
		    struct err *err)
{
	int rc = 0;
	for (uint32_t device = 0; device < c->nactive && !rc; device++) {
		const struct capture_device *d = &c->devices[device];
		rc = collect(c, table, slot, device, m, err);
		*known = rc || !m->n || d->ops->plan_move;
		if (!*known)
			return 0;
		if (!rc && m->n)
			rc = d->ops->plan_move(d->plans[slot], m->spans, m->which, m->n, err);
	}
	return rc;
}

int capture_plans_move(struct capture *c, const struct table *table, uint32_t slot, bool *known, struct err *err)
{
	*known = false;
	if (!table_moves_known(table, c->bound[slot]) || make_index(c, table))
		return 0;
	size_t most = room_needed(c, table, slot);
	struct moves m = {.spans = calloc(most + 1, sizeof(*m.spans)), .which = calloc(most + 1, sizeof(*m.which))};
	int rc = 0;
	if (m.spans && m.which)
		rc = move_all(c, table, slot, &m, known, err);
	free(m.spans);
	free(m.which);
	return rc;
}
