#include "base/bytes.h"
#include "format/files/sidecar.h"
#include "store/read/plan.h"

#include <stdlib.h>
#include <string.h>

/* Calls mark(arg, first, end) for the leaves that hold something of the link's overlap, in order. */
static void link_leaves(const struct restore_plan *plan, const struct plan_link *link,
			void (*mark)(void *arg, uint32_t first, uint32_t end), void *arg)
{
	const struct want *want = &plan->wants[link->want];
	uint64_t in_leaf = LEAF_SIZE / dtype_size(want->dtype); /* elements: leaves do not cut any */
	struct overlap o;
	struct region_run run;
	overlap_init(&o, &want->shape, saved_region(&plan->saved, (struct saved_piece){link->file, link->piece}),
		     &want->region);
	while (overlap_next(&o, &run)) {
		uint64_t end = (run.src + run.count - 1) / in_leaf + 1;
		mark(arg, (uint32_t)(run.src / in_leaf), (uint32_t)end);
		overlap_seek(&o, end * in_leaf);
	}
}

static void mark_ends(void *arg, uint32_t first, uint32_t end)
{
	struct plan_link *link = arg;
	link->first = link->end ? link->first : first;
	link->end = end;
}

struct bits {
	uint64_t *words;
	uint64_t base; /* of leaf 0; wraps */
};

static void mark_bits(void *arg, uint32_t first, uint32_t end)
{
	const struct bits *bits = arg;
	uint64_t from = bits->base + first, to = bits->base + end;
	for (uint64_t i = from; i < to; i++) {
		if (i % 64 == 0 && to - i >= 64) {
			bits->words[i / 64] = UINT64_MAX;
			i += 63;
		} else {
			bits->words[i / 64] |= 1ull << (i % 64);
		}
	}
}

/* Room for `n` more leaves in the pool. */
static int pool_grow(struct restore_plan *plan, uint64_t n)
{
	uint64_t want = plan->pool + n, cap = plan->pool_cap;
	if (want <= cap)
		return 0;
	cap = max_u64(align_up(want, 64), cap + cap / 2 / 64 * 64);
	uint64_t *digests = realloc(plan->digests, cap * sizeof(*digests));
	plan->digests = digests ? digests : plan->digests;
	uint64_t *needed = digests ? realloc(plan->needed, cap / 64 * sizeof(*needed)) : NULL;
	if (!needed)
		return -ENOMEM;
	memset(needed + plan->pool_cap / 64, 0, (cap - plan->pool_cap) / 64 * sizeof(*needed));
	plan->needed = needed;
	plan->pool_cap = cap;
	return 0;
}

/* The file's manifest and sidecar agree about the piece, and so the leaves of the piece are bounded by what was read. */
static int check_piece(const struct restore_plan *plan, const struct plan_piece *p, const struct sidecar *sc,
		       struct err *err)
{
	const struct manifest_file *file = plan_file(plan, p->file);
	const struct manifest_piece *saved = plan_saved(plan, p);
	const struct sidecar_piece *sp = p->piece < sc->npieces ? &sc->pieces[p->piece] : NULL;
	if (sp && sp->at == saved->at && sp->bytes == saved->bytes && sp->first_leaf <= sc->nleaves &&
	    leaf_count(sp->bytes) <= sc->nleaves - sp->first_leaf && leaf_count(sp->bytes) < UINT32_MAX)
		return 0;
	return err_set(err, -EBADMSG, "%s: piece %u is not the one that the manifest lists for %s", file->sidecar_name,
		       p->piece, file->name);
}

/* Adds the piece of the links from `first` on; returns the number of its links, or -errno. */
static int64_t add_piece(struct restore_plan *plan, size_t first, const struct sidecar *sc, struct err *err)
{
	struct plan_link *link = &plan->links[first], *end = plan->links + plan->nlinks;
	struct plan_piece *p = &plan->pieces[plan->npieces];
	*p = (struct plan_piece){link->file, link->piece, first, 0, UINT32_MAX, 0, plan->pool};
	int rc = check_piece(plan, p, sc, err);
	if (rc < 0)
		return rc;
	for (; link < end && link->file == p->file && link->piece == p->piece; link++, p->nlinks++) {
		link_leaves(plan, link, mark_ends, link);
		p->first = link->first < p->first ? link->first : p->first;
		p->end = link->end > p->end ? link->end : p->end;
	}
	uint32_t leaves = p->end - p->first;
	if (pool_grow(plan, leaves) < 0)
		return err_set(err, -ENOMEM, "no memory for the digests of %u leaves", leaves);
	memcpy(plan->digests + p->pool, sc->leaves + sc->pieces[p->piece].first_leaf + p->first,
	       leaves * sizeof(*plan->digests));
	struct bits bits = {plan->needed, p->pool - p->first};
	for (uint32_t l = 0; l < p->nlinks; l++)
		link_leaves(plan, &plan->links[first + l], mark_bits, &bits);
	plan->pool += leaves;
	plan->npieces++;
	return p->nlinks;
}

/* Adds all pieces of the file of link *next, with one look at its sidecar. */
static int add_file(struct restore_plan *plan, size_t *next, struct err *err)
{
	struct sidecar sc;
	uint32_t file = plan->links[*next].file;
	int rc = checkpoint_sidecar(plan->ck, plan_file(plan, file), &sc, err);
	if (rc < 0)
		return rc;
	rc = checkpoint_load_index(plan->ck, plan_file(plan, file), &plan->indexes[file], err);
	while (rc == 0 && *next < plan->nlinks && plan->links[*next].file == file) {
		int64_t n = add_piece(plan, *next, &sc, err);
		*next += n > 0 ? (size_t)n : 0;
		rc = n < 0 ? (int)n : 0;
	}
	sidecar_free(&sc);
	return rc;
}

int plan_leaves(struct restore_plan *plan, struct err *err)
{
	plan->pieces = malloc((plan->nlinks + 1) * sizeof(*plan->pieces));
	plan->indexes = calloc(plan->saved.nfiles + 1ull, sizeof(*plan->indexes));
	if (!plan->pieces || !plan->indexes)
		return err_set(err, -ENOMEM, "no memory for a plan of %zu copies", plan->nlinks);
	int rc = 0;
	for (size_t next = 0; rc == 0 && next < plan->nlinks;)
		rc = add_file(plan, &next, err);
	return rc;
}
