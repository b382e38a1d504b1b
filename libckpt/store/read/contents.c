#include "store/read/contents.h"

#include "base/cleanup.h"
#include "base/quoted.h"

#include <stdlib.h>
#include <string.h>

/* One piece, or (file NULL) that a node knows the tensor. */
struct part {
	const struct manifest_tensor *tensor;
	struct content_piece at;
};

static int by_tensor(const void *a, const void *b)
{
	const struct part *x = a, *y = b;
	int order = strcmp(x->tensor->name, y->tensor->name);
	if (order)
		return order;
	if (!x->at.file || !y->at.file)
		return (x->at.file != NULL) - (y->at.file != NULL);
	if (x->at.file->rank != y->at.file->rank)
		return x->at.file->rank < y->at.file->rank ? -1 : 1;
	return x->at.piece->at < y->at.piece->at ? -1 : x->at.piece->at > y->at.piece->at;
}

/* Returns how many there are; parts NULL: only counts. */
static size_t gather(const struct checkpoint *ck, struct part *parts)
{
	size_t n = 0;
	for (uint32_t i = 0; i < ck->nnodes; i++) {
		const struct node_manifest *node = &ck->nodes[i];
		for (uint32_t t = 0; t < node->ntensors; t++, n++)
			if (parts)
				parts[n] = (struct part){.tensor = &node->tensors[t]};
		for (uint32_t f = 0; f < node->nfiles; f++) {
			const struct manifest_file *file = &node->files[f];
			for (uint32_t p = 0; p < file->npieces; p++, n++)
				if (parts)
					parts[n] = (struct part){&node->tensors[file->pieces[p].tensor],
								 {file, &file->pieces[p]}};
		}
	}
	return n;
}

static int check_alike(const struct manifest_tensor *a, const struct manifest_tensor *b, struct err *err)
{
	char x[128], y[128];
	if (a->kind == b->kind && a->sized == b->sized && a->dtype == b->dtype && shape_equal(&a->shape, &b->shape))
		return 0;
	return err_set(err, -EBADMSG, "one node saved %s as %s %s, another as %s %s", quoted(a->name).text,
		       dtype_name(a->dtype), shape_text(&a->shape, x, sizeof(x)), dtype_name(b->dtype),
		       shape_text(&b->shape, y, sizeof(y)));
}

/* Parts of one tensor stand together, those without a piece first. */
static int add_parts(struct contents *c, const struct part *parts, size_t n, struct err *err)
{
	size_t npieces = 0;
	for (size_t i = 0; i < n; i++) {
		if (!i || strcmp(parts[i].tensor->name, parts[i - 1].tensor->name) != 0)
			c->list[c->n++] = (struct content){.meta = parts[i].tensor, .pieces = c->pieces + npieces};
		struct content *content = &c->list[c->n - 1];
		int rc = check_alike(content->meta, parts[i].tensor, err);
		if (rc)
			return rc;
		if (!parts[i].at.file)
			continue;
		if (!content->group)
			content->group = parts[i].at.file->group;
		c->pieces[npieces++] = parts[i].at;
		content->npieces++;
	}
	return 0;
}

int contents_make(const struct checkpoint *ck, struct contents *contents, struct err *err)
{
	size_t n = gather(ck, NULL);
	AUTO_FREE struct part *parts = calloc(n + 1, sizeof(*parts));
	*contents = (struct contents){.list = calloc(n + 1, sizeof(*contents->list)),
				      .pieces = calloc(n + 1, sizeof(*contents->pieces))};
	int rc = parts && contents->list && contents->pieces
			 ? 0
			 : err_set(err, -ENOMEM, "no memory for a list of %zu pieces", n);
	if (!rc) {
		gather(ck, parts);
		qsort(parts, n, sizeof(*parts), by_tensor);
		rc = add_parts(contents, parts, n, err);
	}
	if (rc)
		contents_free(contents);
	return rc;
}

void contents_free(struct contents *contents)
{
	free(contents->list);
	free(contents->pieces);
	*contents = (struct contents){0};
}

static int by_name(const void *name, const void *content)
{
	return strcmp(name, ((const struct content *)content)->meta->name);
}

const struct content *contents_find(const struct contents *contents, const char *name)
{
	return contents->n ? bsearch(name, contents->list, contents->n, sizeof(*contents->list), by_name) : NULL;
}

uint64_t content_bytes(const struct content *content)
{
	uint64_t volume = 0;
	shape_volume(&content->meta->shape, &volume);
	return volume * dtype_size(content->meta->dtype);
}
