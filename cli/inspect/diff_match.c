#include "inspect/diff.h"

#include "base/cleanup.h"
#include "frame/filter.h"

#include <inttypes.h>
#include <string.h>

const char *diff_state_name(enum diff_state state)
{
	static const char *const names[] = {
		[DIFF_SAME] = "same",       [DIFF_CHANGED] = "changed", [DIFF_ADDED] = "added",
		[DIFF_REMOVED] = "removed", [DIFF_RETYPED] = "retyped",
	};
	return names[state];
}

int diff_advance(struct diff *d, uint64_t bytes, struct err *err)
{
	d->done += bytes;
	if (!d->progress || !d->progress(d->arg, d->done, d->total))
		return 0;
	return err_set(err, -ECANCELED, "cancelled after %" PRIu64 " of %" PRIu64 " bytes", d->done, d->total);
}

/* ---- tensors */

static int by_name(const void *a, const void *b)
{
	const struct manifest_tensor *const *x = a, *const *y = b;
	return strcmp((*x)->name, (*y)->name);
}

static bool alike(const struct manifest_tensor *x, const struct manifest_tensor *y)
{
	return x->kind == y->kind && x->dtype == y->dtype && shape_equal(&x->shape, &y->shape);
}

/* The tensors of all nodes, once each, by name. */
static int list_tensors(const struct checkpoint *ck, const char *const *globs, const struct manifest_tensor ***out,
			size_t *n, struct err *err)
{
	size_t all = 0, kept = 0;
	for (uint32_t i = 0; i < ck->nnodes; i++)
		all += ck->nodes[i].ntensors;
	const struct manifest_tensor **list = calloc(all + 1, sizeof(*list));
	if (!list)
		return err_set(err, -ENOMEM, "no memory for %zu tensors", all);
	all = 0;
	for (uint32_t i = 0; i < ck->nnodes; i++)
		for (uint32_t t = 0; t < ck->nodes[i].ntensors; t++)
			if (filter_matches(globs, ck->nodes[i].tensors[t].name))
				list[all++] = &ck->nodes[i].tensors[t];
	if (all)
		qsort(list, all, sizeof(*list), by_name);
	for (size_t i = 0; i < all; i++) {
		if (kept && !by_name(&list[kept - 1], &list[i])) {
			if (alike(list[kept - 1], list[i]))
				continue;
			err_set(err, -EBADMSG, "the nodes of step %" PRIu64 " contradict each other about tensor %s",
				ck->ref.id.step, list[i]->name);
			free(list);
			return -EBADMSG;
		}
		list[kept++] = list[i];
	}
	*out = list;
	*n = kept;
	return 0;
}

static uint64_t tensor_bytes(const struct manifest_tensor *t)
{
	uint64_t volume = 0;
	shape_volume(&t->shape, &volume);
	return volume * dtype_size(t->dtype);
}

static int join(struct diff *d, const struct manifest_tensor **a, size_t na, const struct manifest_tensor **b,
		size_t nb, struct err *err)
{
	d->tensors = calloc(na + nb + 1, sizeof(*d->tensors));
	if (!d->tensors)
		return err_set(err, -ENOMEM, "no memory for %zu tensors", na + nb);
	for (size_t i = 0, k = 0; i < na || k < nb;) {
		struct diff_tensor *t = &d->tensors[d->ntensors++];
		int order = i == na ? 1 : k == nb ? -1 : by_name(&a[i], &b[k]);
		t->a = order <= 0 ? a[i++] : NULL;
		t->b = order >= 0 ? b[k++] : NULL;
		t->bytes = tensor_bytes(t->b ? t->b : t->a);
		t->state = order < 0           ? DIFF_REMOVED
			   : order > 0         ? DIFF_ADDED
			   : alike(t->a, t->b) ? DIFF_SAME
					       : DIFF_RETYPED;
		d->total += t->state == DIFF_SAME ? t->bytes : 0;
	}
	return 0;
}

/* ---- pieces */

static int tensor_named(const void *key, const void *element)
{
	const struct diff_tensor *t = element;
	return strcmp(key, (t->a ? t->a : t->b)->name);
}

/* The index of the tensor among those that are compared; -1: it is not. */
static int64_t compared(const struct diff *d, const char *name)
{
	const struct diff_tensor *t = bsearch(name, d->tensors, d->ntensors, sizeof(*d->tensors), tensor_named);
	return t && t->state == DIFF_SAME ? t - d->tensors : -1;
}

/* The pieces of compared tensors; empty ones are left out. */
static size_t gather(const struct diff *d, const struct checkpoint *ck, struct diff_place *places)
{
	size_t n = 0;
	for (uint32_t i = 0; i < ck->nnodes; i++) {
		const struct node_manifest *node = &ck->nodes[i];
		for (uint32_t f = 0; f < node->nfiles; f++)
			for (uint32_t p = 0; p < node->files[f].npieces; p++) {
				const struct manifest_piece *piece = &node->files[f].pieces[p];
				int64_t t = piece->bytes ? compared(d, node->tensors[piece->tensor].name) : -1;
				if (t < 0)
					continue;
				if (places)
					places[n] = (struct diff_place){(uint32_t)t, &node->files[f], piece, p};
				n++;
			}
	}
	return n;
}

static int by_region(const void *a, const void *b, void *arg)
{
	const struct diff *d = arg;
	const struct diff_place *x = a, *y = b;
	if (x->tensor != y->tensor)
		return x->tensor < y->tensor ? -1 : 1;
	const struct shape *shape = &d->tensors[x->tensor].a->shape;
	uint64_t u = region_first(shape, &x->piece->region), v = region_first(shape, &y->piece->region);
	return u < v ? -1 : u > v;
}

static int list_places(struct diff *d, const struct checkpoint *ck, struct diff_place **out, size_t *n, struct err *err)
{
	*n = gather(d, ck, NULL);
	*out = calloc(*n + 1, sizeof(**out));
	if (!*out)
		return err_set(err, -ENOMEM, "no memory for %zu pieces", *n);
	gather(d, ck, *out);
	if (*n)
		qsort_r(*out, *n, sizeof(**out), by_region, d);
	return 0;
}

static size_t run_of(const struct diff_place *places, size_t n, size_t from, uint32_t tensor)
{
	size_t end = from;
	while (end < n && places[end].tensor == tensor)
		end++;
	return end - from;
}

static bool cut_alike(const struct shape *shape, const struct diff_place *a, const struct diff_place *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!region_equal(shape, &a[i].piece->region, &b[i].piece->region))
			return false;
	return true;
}

static void pair_up(struct diff *d, const struct diff_place *a, size_t na, const struct diff_place *b, size_t nb)
{
	size_t i = 0, k = 0;
	for (uint32_t t = 0; t < d->ntensors; t++) {
		size_t ra = run_of(a, na, i, t), rb = run_of(b, nb, k, t);
		bool alike_cut = ra == rb && (!ra || cut_alike(&d->tensors[t].a->shape, a + i, b + k, ra));
		for (size_t p = 0; alike_cut && p < ra; p++)
			d->pairs[d->npairs++] = (struct diff_pair){a[i + p], b[k + p]};
		if (!alike_cut)
			d->whole[d->nwhole++] = t;
		i += ra;
		k += rb;
	}
}

static int by_file(const void *a, const void *b)
{
	const struct diff_pair *x = a, *y = b;
	if (x->a.file != y->a.file)
		return x->a.file < y->a.file ? -1 : 1;
	return x->a.index < y->a.index ? -1 : x->a.index > y->a.index;
}

static int match_pieces(struct diff *d, struct err *err)
{
	AUTO_FREE struct diff_place *a = NULL;
	AUTO_FREE struct diff_place *b = NULL;
	size_t na, nb;
	int rc = list_places(d, d->a, &a, &na, err);
	if (!rc)
		rc = list_places(d, d->b, &b, &nb, err);
	if (rc < 0)
		return rc;
	d->pairs = calloc(na + 1, sizeof(*d->pairs));
	d->whole = calloc(d->ntensors + 1ull, sizeof(*d->whole));
	if (!d->pairs || !d->whole)
		return err_set(err, -ENOMEM, "no memory for %zu pieces", na);
	pair_up(d, a, na, b, nb);
	if (d->npairs)
		qsort(d->pairs, d->npairs, sizeof(*d->pairs), by_file);
	return 0;
}

int diff_match(struct checkpoint *a, struct checkpoint *b, const char *const *globs, struct diff *d, struct err *err)
{
	AUTO_FREE const struct manifest_tensor **ta = NULL;
	AUTO_FREE const struct manifest_tensor **tb = NULL;
	size_t na, nb;
	*d = (struct diff){.a = a, .b = b};
	int rc = list_tensors(a, globs, &ta, &na, err);
	if (!rc)
		rc = list_tensors(b, globs, &tb, &nb, err);
	if (!rc)
		rc = join(d, ta, na, tb, nb, err);
	if (!rc)
		rc = match_pieces(d, err);
	if (rc < 0)
		diff_free(d);
	return rc;
}

void diff_free(struct diff *d)
{
	free(d->whole);
	free(d->pairs);
	free(d->tensors);
	*d = (struct diff){0};
}
