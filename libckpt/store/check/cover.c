#include "store/check/cover.h"

#include "base/cleanup.h"
#include "base/quoted.h"

#include <stdlib.h>
#include <string.h>

/* One tensor as one node knows it, or one piece of it. */
struct part {
	const struct manifest_tensor *tensor;
	const struct region *region; /* NULL: the entry of a node's list of tensors */
	uint32_t rank;
	const char *node;
};

static int by_name(const void *a, const void *b)
{
	const struct part *x = a, *y = b;
	int order = strcmp(x->tensor->name, y->tensor->name);
	if (order)
		return order;
	return (x->region != NULL) - (y->region != NULL);
}

static size_t count_parts(const struct checkpoint *ck)
{
	size_t n = 0;
	for (uint32_t i = 0; i < ck->nnodes; i++) {
		n += ck->nodes[i].ntensors;
		for (uint32_t f = 0; f < ck->nodes[i].nfiles; f++)
			n += ck->nodes[i].files[f].npieces;
	}
	return n;
}

static void fill_parts(const struct checkpoint *ck, struct part *p)
{
	for (uint32_t i = 0; i < ck->nnodes; i++) {
		const struct node_manifest *node = &ck->nodes[i];
		for (uint32_t t = 0; t < node->ntensors; t++)
			*p++ = (struct part){.tensor = &node->tensors[t], .node = node->node};
		for (uint32_t f = 0; f < node->nfiles; f++) {
			const struct manifest_file *file = &node->files[f];
			for (uint32_t k = 0; k < file->npieces; k++)
				*p++ = (struct part){&node->tensors[file->pieces[k].tensor], &file->pieces[k].region,
						     file->rank, node->node};
		}
	}
}

static bool same_tensor(const struct manifest_tensor *a, const struct manifest_tensor *b)
{
	return a->kind == b->kind && a->sized == b->sized && a->dtype == b->dtype && shape_equal(&a->shape, &b->shape);
}

/* parts[0..n) are of one name, the nodes' entries first. 0, also when something was told. */
static int check_tensor(const struct part *parts, size_t n, const struct region **regions, uint32_t *ranks,
			const struct cover_tell *tell, struct err *err)
{
	struct err why = {0};
	const struct manifest_tensor *t = parts[0].tensor;
	size_t k = 0;
	for (size_t i = 0; i < n; i++) {
		if (!same_tensor(t, parts[i].tensor)) {
			err_set(&why, -EINVAL, "tensor %s: nodes %s and %s know it with another type or shape",
				quoted(t->name).text, parts[0].node, parts[i].node);
			tell->fn(tell->arg, t->name, why.text);
			return 0;
		}
		if (!parts[i].region)
			continue;
		regions[k] = parts[i].region;
		ranks[k++] = parts[i].rank;
	}
	int rc = region_cover(&t->shape, t->name, regions, ranks, k, &why);
	if (rc == -EEXIST || rc == -ENODATA) {
		tell->fn(tell->arg, t->name, why.text);
		return 0;
	}
	return rc < 0 ? err_set(err, rc, "%s", why.text) : 0;
}

int cover_check(const struct checkpoint *ck, const struct cover_tell *tell, struct err *err)
{
	size_t n = count_parts(ck);
	AUTO_FREE struct part *parts = calloc(n + 1, sizeof(*parts));
	AUTO_FREE const struct region **regions = calloc(n + 1, sizeof(struct region *));
	AUTO_FREE uint32_t *ranks = calloc(n + 1, sizeof(*ranks));
	if (!parts || !regions || !ranks)
		return err_set(err, -ENOMEM, "no memory to compare %zu pieces", n);
	fill_parts(ck, parts);
	qsort(parts, n, sizeof(*parts), by_name);
	int rc = 0;
	for (size_t i = 0, end; i < n && !rc; i = end) {
		for (end = i + 1; end < n && !strcmp(parts[end].tensor->name, parts[i].tensor->name);)
			end++;
		rc = check_tensor(parts + i, end - i, regions, ranks, tell, err);
	}
	return rc;
}
