#include "format/files/manifest_make.h"

#include "base/cleanup.h"

#include <string.h>

/* An entry of a rank, to be found by name. */
struct name_index {
	const char *name;
	uint32_t rank, entry; /* rank: index into tensors.of */
};

static int by_name(const void *a, const void *b)
{
	const struct name_index *x = a, *y = b;
	int order = strcmp(x->name, y->name);
	return order ? order : (x->rank > y->rank) - (x->rank < y->rank);
}

/* The ranks in the order of their files, and the tensors of all of them. */
struct tensors {
	const struct registration **regs;
	uint32_t nranks;
	struct manifest_tensor *list; /* names borrowed from the registrations */
	uint32_t n;
	uint32_t **of; /* per rank, per entry: index into list */
};

static void tensors_free(struct tensors *t)
{
	for (uint32_t r = 0; t->of && r < t->nranks; r++)
		free(t->of[r]);
	free(t->of);
	free(t->list);
	free(t->regs);
}

static int list_ranks(const struct made_node *made, struct tensors *t)
{
	t->regs = calloc(made->nfiles + 1ull, sizeof(*t->regs));
	if (!t->regs)
		return -ENOMEM;
	for (uint32_t f = 0; f < made->nfiles; f++)
		if (!f || made->files[f].reg != made->files[f - 1].reg)
			t->regs[t->nranks++] = made->files[f].reg;
	return 0;
}

static int index_entries(const struct tensors *t, struct name_index *index)
{
	size_t at = 0;
	for (uint32_t r = 0; r < t->nranks; r++) {
		uint32_t n = t->regs[r]->nentries;
		t->of[r] = calloc(n ? n : 1, sizeof(**t->of));
		if (!t->of[r])
			return -ENOMEM;
		for (uint32_t e = 0; e < n; e++)
			index[at++] = (struct name_index){.name = t->regs[r]->entries[e].name, .rank = r, .entry = e};
	}
	if (at)
		qsort(index, at, sizeof(*index), by_name);
	return 0;
}

static int collect_tensors(const struct made_node *made, struct tensors *t)
{
	size_t total = 0;
	int rc = list_ranks(made, t);
	if (rc)
		return rc;
	for (uint32_t r = 0; r < t->nranks; r++)
		total += t->regs[r]->nentries;
	AUTO_FREE struct name_index *index = calloc(total ? total : 1, sizeof(*index));
	t->list = calloc(total ? total : 1, sizeof(*t->list));
	t->of = calloc(t->nranks ? t->nranks : 1, sizeof(*t->of));
	rc = index && t->list && t->of ? index_entries(t, index) : -ENOMEM;
	if (rc)
		return rc;
	for (size_t i = 0; i < total; i++) {
		if (!i || strcmp(index[i].name, index[i - 1].name) != 0) {
			const struct entry *e = &t->regs[index[i].rank]->entries[index[i].entry];
			t->list[t->n++] = (struct manifest_tensor){.name = e->name,
								   .kind = e->kind,
								   .sized = e->sized,
								   .dtype = e->dtype,
								   .shape = e->shape};
		}
		t->of[index[i].rank][index[i].entry] = t->n - 1;
	}
	return 0;
}

static int fill_file(const struct made_file *f, const uint32_t *tensor_of, struct manifest_file *out)
{
	const struct layout_file *lf = &f->layout->files[f->file];
	*out = (struct manifest_file){.rank = f->reg->rank,
				      .part = lf->part,
				      .data_at = f->data_at,
				      .sidecar_size = f->sidecar->len,
				      .npieces = lf->npieces,
				      .packed = f->packed,
				      .sidecar = digest_bytes(f->sidecar->data, f->sidecar->len)};
	out->size = out->data_at + lf->data_size;
	memcpy(out->group, lf->group, sizeof(out->group));
	(f->packed.index_size ? name_packed : name_data)(f->reg->rank, f->reg->world, lf->group, lf->part, out->name);
	name_sidecar(f->reg->rank, f->reg->world, lf->group, lf->part, out->sidecar_name);
	out->pieces = calloc(lf->npieces ? lf->npieces : 1, sizeof(*out->pieces));
	if (!out->pieces)
		return -ENOMEM;
	for (uint32_t p = 0; p < lf->npieces; p++) {
		const struct layout_piece *piece = &f->layout->pieces[lf->first_piece + p];
		out->pieces[p] = (struct manifest_piece){.tensor = tensor_of[piece->entry],
							 .region = piece->region,
							 .at = piece->at,
							 .bytes = piece->bytes};
	}
	return 0;
}

static int fill_files(const struct made_node *made, const struct tensors *t, struct manifest_file *files)
{
	uint32_t rank = 0;
	for (uint32_t f = 0; f < made->nfiles; f++) {
		rank += made->files[f].reg != t->regs[rank];
		int rc = fill_file(&made->files[f], t->of[rank], &files[f]);
		if (rc)
			return rc;
	}
	return 0;
}

static int encode(const struct made_node *made, const struct tensors *t, struct manifest_file *files, struct wbuf *text,
		  struct wbuf *root, struct err *err)
{
	struct node_manifest m = {.id = made->id,
				  .began = made->began,
				  .world = made->world,
				  .ntensors = t->n,
				  .nfiles = made->nfiles,
				  .tensors = t->list,
				  .files = files};
	memcpy(m.job, made->job, strnlen(made->job, sizeof(m.job) - 1));
	memcpy(m.node, made->node, strnlen(made->node, sizeof(m.node) - 1));
	int rc = node_manifest_encode(&m, text);
	if (rc || !root)
		return rc;
	struct node_text node = {.m = &m, .text = text->data, .len = text->len};
	return manifest_build(&node, 1, root, err);
}

int manifest_make(const struct made_node *made, struct wbuf *text, struct wbuf *root, struct err *err)
{
	struct tensors t = {0};
	struct err why = {{0}};
	AUTO_FREE struct manifest_file *files = calloc(made->nfiles ? made->nfiles : 1, sizeof(*files));
	int rc = files ? collect_tensors(made, &t) : -ENOMEM;
	if (!rc)
		rc = fill_files(made, &t, files);
	if (!rc)
		rc = encode(made, &t, files, text, root, &why);
	for (uint32_t i = 0; files && i < made->nfiles; i++)
		free(files[i].pieces);
	tensors_free(&t);
	return rc ? err_set(err, rc, "cannot build the manifests: %s", why.text[0] ? why.text : err_name(rc)) : 0;
}
