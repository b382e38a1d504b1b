#include "prepare.h"

#include "base/cleanup.h"
#include "format/manifest.h"

#include <string.h>

/* Entries of all ranks under one name are one tensor of the manifest. */
struct name_index {
	const char *name;
	uint32_t rank, entry;
	uint32_t tensor;
};

static int by_name(const void *a, const void *b)
{
	const struct name_index *x = a, *y = b;
	int order = strcmp(x->name, y->name);
	return order ? order : (x->rank > y->rank) - (x->rank < y->rank);
}

struct tensors {
	struct manifest_tensor *list; /* names borrowed from the registrations */
	uint32_t n;
	uint32_t **of; /* per rank, per entry: index into list */
};

static void tensors_free(struct tensors *t, uint32_t nranks)
{
	for (uint32_t r = 0; t->of && r < nranks; r++)
		free(t->of[r]);
	free(t->of);
	free(t->list);
}

static int index_entries(const struct commit *c, struct name_index *index, struct tensors *t)
{
	size_t at = 0;
	for (uint32_t r = 0; r < c->nranks; r++) {
		const struct registration *reg = &c->ranks[r].mem->reg;
		t->of[r] = calloc(reg->nentries ? reg->nentries : 1, sizeof(**t->of));
		if (!t->of[r])
			return -ENOMEM;
		for (uint32_t e = 0; e < reg->nentries; e++)
			index[at++] = (struct name_index){.name = reg->entries[e].name, .rank = r, .entry = e};
	}
	qsort(index, at, sizeof(*index), by_name);
	return 0;
}

static int collect_tensors(const struct commit *c, struct tensors *t)
{
	size_t total = 0;
	for (uint32_t r = 0; r < c->nranks; r++)
		total += c->ranks[r].mem->reg.nentries;
	AUTO_FREE struct name_index *index = calloc(total ? total : 1, sizeof(*index));
	t->list = calloc(total ? total : 1, sizeof(*t->list));
	t->of = calloc(c->nranks, sizeof(*t->of));
	int rc = index && t->list && t->of ? index_entries(c, index, t) : -ENOMEM;
	if (rc)
		return rc;
	for (size_t i = 0; i < total; i++) {
		if (!i || strcmp(index[i].name, index[i - 1].name) != 0) {
			const struct entry *e = &c->ranks[index[i].rank].mem->reg.entries[index[i].entry];
			t->list[t->n++] = (struct manifest_tensor){
				.name = e->name, .kind = e->kind, .dtype = e->dtype, .shape = e->shape};
		}
		t->of[index[i].rank][index[i].entry] = t->n - 1;
	}
	return 0;
}

static int fill_file(const struct commit *c, const struct commit_file *f, const uint32_t *tensor_of,
		     struct manifest_file *out)
{
	const struct memory *mem = f->rank->mem;
	const struct layout_file *lf = &mem->layout.files[f->file];
	*out = (struct manifest_file){.rank = mem->reg.rank,
				      .part = lf->part,
				      .data_at = mem->heads[f->file].len,
				      .sidecar_size = f->sidecar.len,
				      .npieces = lf->npieces,
				      .sidecar = digest_bytes(f->sidecar.data, f->sidecar.len)};
	out->size = out->data_at + lf->data_size;
	memcpy(out->group, lf->group, sizeof(out->group));
	name_data(mem->reg.rank, c->world, lf->group, lf->part, out->name);
	name_sidecar(mem->reg.rank, c->world, lf->group, lf->part, out->sidecar_name);
	out->pieces = calloc(lf->npieces ? lf->npieces : 1, sizeof(*out->pieces));
	if (!out->pieces)
		return -ENOMEM;
	for (uint32_t p = 0; p < lf->npieces; p++) {
		const struct layout_piece *piece = &mem->layout.pieces[lf->first_piece + p];
		out->pieces[p] = (struct manifest_piece){.tensor = tensor_of[piece->entry],
							 .region = piece->region,
							 .at = piece->at,
							 .bytes = piece->bytes};
	}
	return 0;
}

static int build_node(struct commit *c, const struct tensors *t, struct manifest_file *files)
{
	for (uint32_t i = 0; i < c->nfiles; i++) {
		const struct commit_file *f = &c->cfiles[i];
		int rc = fill_file(c, f, t->of[f->rank - c->ranks], &files[i]);
		if (rc)
			return rc;
	}
	struct node_manifest m = {.id = c->id,
				  .world = c->world,
				  .ntensors = t->n,
				  .nfiles = c->nfiles,
				  .tensors = t->list,
				  .files = files};
	memcpy(m.job, c->job, sizeof(m.job));
	memcpy(m.node, c->node, sizeof(m.node));
	int rc = node_manifest_encode(&m, &c->node_text);
	if (rc)
		return rc;
	struct node_text text = {.m = &m, .text = c->node_text.data, .len = c->node_text.len};
	return manifest_build(&text, 1, &c->manifest_text, &c->err);
}

int prepare_documents(struct commit *c, struct err *err)
{
	struct tensors t = {0};
	AUTO_FREE struct manifest_file *files = calloc(c->nfiles ? c->nfiles : 1, sizeof(*files));
	int rc = files ? collect_tensors(c, &t) : -ENOMEM;
	if (!rc)
		rc = build_node(c, &t, files);
	for (uint32_t i = 0; files && i < c->nfiles; i++)
		free(files[i].pieces);
	tensors_free(&t, c->nranks);
	return rc ? err_set(err, rc, "cannot build the manifests of %s/%s: %s", c->job, c->name, err_name(rc)) : 0;
}
