#include "reader/reader.h"

#include "base/args.h"
#include "base/quoted.h"

#include <stdlib.h>
#include <string.h>

_Static_assert((int)CKPT_F8_E5M2FNUZ == (int)DTYPE_END - 1 && (int)CKPT_NDIM_MAX == (int)NDIM_MAX,
	       "element types of the API and of the format are the same numbers");

/* The rank of a blob "name@00007". */
static int rank_of(const struct content *c)
{
	const char *at = c->meta->kind == ENTRY_RANK_BLOB ? strrchr(c->meta->name, '@') : NULL;
	return at ? (int)strtoul(at + 1, NULL, 10) : -1;
}

static ckpt_reader_tensor face_of(const struct content *c)
{
	return (ckpt_reader_tensor){.size = sizeof(ckpt_reader_tensor),
				    .name = c->meta->name,
				    .scope = c->meta->kind == ENTRY_JOB_BLOB    ? CKPT_SCOPE_JOB
					     : c->meta->kind == ENTRY_RANK_BLOB ? CKPT_SCOPE_RANK
										: (ckpt_scope)0,
				    .rank = rank_of(c),
				    .group = c->group,
				    .dtype = (ckpt_dtype)c->meta->dtype,
				    .ndim = (int)c->meta->shape.ndim,
				    .shape = c->meta->shape.dim,
				    .element = (int)dtype_size(c->meta->dtype),
				    .bytes = content_bytes(c),
				    .npieces = (int)c->npieces,
				    .sized = c->meta->sized};
}

int reader_tensors_make(ckpt_reader *r, struct err *err)
{
	int rc = contents_make(&r->ck, &r->contents, err);
	if (rc)
		return rc;
	r->tensors = calloc(r->contents.n + 1, sizeof(*r->tensors));
	if (!r->tensors)
		return err_set(err, -ENOMEM, "no memory for a list of %zu tensors", r->contents.n);
	for (size_t i = 0; i < r->contents.n; i++)
		r->tensors[i] = face_of(&r->contents.list[i]);
	return 0;
}

size_t ckpt_reader_count(const ckpt_reader *r)
{
	return r ? r->contents.n : 0;
}

const ckpt_reader_tensor *ckpt_reader_tensor_at(const ckpt_reader *r, size_t index)
{
	struct err err = {0};
	if (r && index < r->contents.n)
		return &r->tensors[index];
	reader_fail(r ? err_set(&err, -ERANGE, "the checkpoint has %zu tensors and blobs: there is no index %zu",
				r->contents.n, index)
		      : reader_check(r, &err),
		    &err);
	return NULL;
}

const ckpt_reader_tensor *ckpt_reader_find(const ckpt_reader *r, const char *name)
{
	struct err err = {0};
	const struct content *c = r && name ? contents_find(&r->contents, name) : NULL;
	if (c)
		return &r->tensors[c - r->contents.list];
	if (!r)
		reader_fail(reader_check(r, &err), &err);
	else if (!name)
		reader_fail(err_set(&err, -EINVAL, "the name is NULL"), &err);
	else
		reader_fail(err_set(&err, -ENOENT, "the checkpoint has no tensor %s", quoted(name).text), &err);
	return NULL;
}

/* The pointer must be one that this reader gave. */
static int index_of(const ckpt_reader *r, const ckpt_reader_tensor *tensor, size_t *index, struct err *err)
{
	uintptr_t first = (uintptr_t)r->tensors, at = (uintptr_t)tensor;
	*index = (at - first) / sizeof(*tensor);
	if (at >= first && *index < r->contents.n && !((at - first) % sizeof(*tensor)))
		return 0;
	return err_set(err, -EINVAL, tensor ? "the tensor is not one of this reader" : "the tensor is NULL");
}

static void describe(const struct content *c, const struct content_piece *p, ckpt_reader_piece *out)
{
	const struct region *region = &p->piece->region;
	ckpt_reader_piece piece = {.rank = (int)p->file->rank,
				   .file = p->file->name,
				   .at = p->file->data_at + p->piece->at,
				   .bytes = p->piece->bytes,
				   .compressed = p->file->packed.index_size != 0};
	for (uint32_t d = 0; region->kind == REGION_BOX && d < c->meta->shape.ndim; d++) {
		piece.offset[d] = region->offset[d];
		piece.extent[d] = region->extent[d];
	}
	if (region->kind == REGION_FLAT) {
		piece.start = region->start;
		piece.count = region->count;
	}
	args_give(out, &piece, sizeof(piece));
}

int ckpt_reader_piece_at(const ckpt_reader *r, const ckpt_reader_tensor *tensor, int index, ckpt_reader_piece *out)
{
	struct err err = {0};
	ckpt_reader_piece known;
	size_t at;
	int rc = reader_check(r, &err);
	if (!rc)
		rc = index_of(r, tensor, &at, &err);
	if (!rc)
		rc = args_take(&known, sizeof(known), sizeof(known), out, "ckpt_reader_piece", &err);
	if (!rc && (index < 0 || index >= r->tensors[at].npieces))
		rc = err_set(&err, -ERANGE, "%s has %d pieces: there is no piece %d", quoted(r->tensors[at].name).text,
			     r->tensors[at].npieces, index);
	if (rc)
		return reader_fail(rc, &err);
	describe(&r->contents.list[at], &r->contents.list[at].pieces[index], out);
	return 0;
}
