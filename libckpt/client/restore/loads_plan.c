#include "client/restore/loads.h"

#include "client/capture/spans.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool replicated(const struct entry *e)
{
	return e->kind == ENTRY_JOB_BLOB || (e->kind == ENTRY_TENSOR && e->replica[0]);
}

/* My piece of which `theirs`, captured by a neighbour, is all or a part: the same entry, the same piece, the same replica group.
 * NULL: it is not mine. */
static const struct region *mine_of(const struct table *table, const struct arena *from,
				    const struct layout_piece *theirs, uint32_t *entry, uint32_t *piece)
{
	const struct entry *their = &from->reg.entries[theirs->entry];
	int64_t at = replicated(their) ? table_find(table, their->name) : -ENOENT;
	if (at < 0)
		return NULL;
	const struct entry *e = &table->reg.entries[at];
	if (e->kind != their->kind || e->dtype != their->dtype || strcmp(e->replica, their->replica) != 0 ||
	    !shape_equal(&e->shape, &their->shape))
		return NULL;
	for (uint32_t p = 0; p < e->npieces; p++) {
		if (!region_equal(&e->shape, &e->pieces[p], &their->pieces[theirs->source]))
			continue;
		*entry = (uint32_t)at;
		*piece = p;
		return &e->pieces[p];
	}
	return NULL;
}

static const struct region *held_of(const struct stage *stage, const struct table *table, const struct arena *from,
				    const struct layout_piece *p, uint32_t *entry, uint32_t *piece)
{
	if (from != stage->arenas.own)
		return mine_of(table, from, p, entry, piece);
	*entry = p->entry;
	*piece = p->source;
	return &table->reg.entries[p->entry].pieces[p->source];
}

/* Appends the piece when it is mine and lives on this device. */
static int plan_piece(const struct stage *stage, const struct table *table, const struct arena *from,
		      const struct layout_piece *p, struct load *load, uint64_t *bytes, struct err *err)
{
	uint32_t entry, piece;
	const struct region *held = held_of(stage, table, from, p, &entry, &piece);
	if (!held || !p->bytes || table->held[entry].device != load->to->ordinal)
		return 0;
	const struct entry *e = &table->reg.entries[entry];
	struct span *span = &load->spans[load->n];
	if (span_of(&e->shape, dtype_size(e->dtype), held, &table->held[entry].places[piece], &p->region, span))
		return err_set(err, -EBADMSG, "tensor %s: a captured piece of rank %u does not fit what is registered",
			       e->name, from->rank);
	span->arena_at = p->slot_at;
	span->first_leaf = p->first_leaf;
	load->rank_blob[load->n++] = e->kind == ENTRY_RANK_BLOB;
	*bytes += p->bytes;
	return 0;
}

static int plan_load(const struct stage *stage, const struct table *table, const struct arena *from, struct load *load,
		     uint64_t *bytes, struct err *err)
{
	const struct layout *layout = &from->layout;
	load->spans = calloc((size_t)layout->npieces + 1, sizeof(*load->spans));
	load->rank_blob = calloc((size_t)layout->npieces + 1, sizeof(*load->rank_blob));
	if (!load->spans || !load->rank_blob)
		return err_set(err, -ENOMEM, "no memory for %u spans", layout->npieces);
	for (uint32_t i = 0; i < layout->npieces; i++) {
		int rc = plan_piece(stage, table, from, &layout->pieces[i], load, bytes, err);
		if (rc)
			return rc;
	}
	return 0;
}

static uint64_t registered_bytes(const struct table *table)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < table->reg.nentries; i++) {
		const struct entry *e = &table->reg.entries[i];
		for (uint32_t p = 0; p < e->npieces; p++)
			sum += region_volume(&e->shape, &e->pieces[p]) * dtype_size(e->dtype);
	}
	return sum;
}

static int plan_origin(struct origin *o, const ckpt *s, const struct stage *stage, uint64_t *bytes, struct err *err)
{
	int rc = 0;
	for (uint32_t d = 0; d < stage->capture.ndevices && !rc; d++) {
		struct load *load = &o->loads[o->nloads++];
		load->to = &stage->capture.devices[d];
		rc = plan_load(stage, &s->table, o->from, load, bytes, err);
	}
	return rc;
}

/* A piece is cut at most at both ends of each run of granules. */
static int make_batch(struct loads *loads, struct err *err)
{
	size_t most = 0;
	for (uint32_t i = 0; i < loads->n; i++)
		for (uint32_t d = 0; d < loads->origins[i].nloads; d++)
			most = max_u64(most, loads->origins[i].loads[d].n);
	loads->batch = calloc(most + ARENA_GRANULES, sizeof(*loads->batch));
	return loads->batch ? 0 : err_set(err, -ENOMEM, "no memory for %zu spans", most);
}

int loads_plan(struct loads *loads, const ckpt *s, const struct stage *stage, struct err *err)
{
	uint64_t bytes = 0, want = registered_bytes(&s->table);
	int rc = 0;
	for (uint32_t i = 0; i < loads->n && !rc; i++)
		rc = plan_origin(&loads->origins[i], s, stage, &bytes, err);
	if (!rc && bytes != want)
		rc = err_set(err, -EBADMSG,
			     "the arenas hold %" PRIu64 " of the %" PRIu64 " bytes that this rank registered", bytes,
			     want);
	if (!rc)
		rc = make_batch(loads, err);
	loads->bytes = bytes;
	atomic_store(&loads->progress->total, bytes);
	loads->planned = !rc;
	return rc;
}

int loads_init(struct loads *loads, ckpt *s, const struct stage *stage, void *stream, struct err *err)
{
	*loads = (struct loads){
		.n = stage->arenas.n, .stream = stream, .undefined = &s->undefined, .progress = &s->progress};
	atomic_store(&s->progress.total, 0);
	atomic_store(&s->progress.done, 0);
	loads->origins = calloc(loads->n, sizeof(*loads->origins));
	if (!loads->origins)
		return err_set(err, -ENOMEM, "no memory for the plan of %u arenas", loads->n);
	for (uint32_t i = 0; i < loads->n; i++) {
		struct origin *o = &loads->origins[i];
		o->from = &stage->arenas.all[i];
		o->granule = arena_granule(o->from->nleaves);
		o->before = atomic_load_explicit(&arena_head(o->from)->bring.turn, memory_order_acquire);
	}
	return 0;
}

void loads_free(struct loads *loads)
{
	struct err ignored = {0};
	if (loads->origins)
		(void)loads_end_parts(loads, &ignored);
	for (uint32_t i = 0; loads->origins && i < loads->n; i++)
		for (uint32_t d = 0; d < loads->origins[i].nloads; d++) {
			free(loads->origins[i].loads[d].spans);
			free(loads->origins[i].loads[d].rank_blob);
		}
	free(loads->origins);
	free(loads->batch);
}
