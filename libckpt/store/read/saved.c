#include "store/read/saved.h"

#include "base/bytes.h"
#include "base/cleanup.h"
#include "format/tensor/digest.h"

#include <stdlib.h>
#include <string.h>

#define NOBODY UINT32_MAX

/* Wanted names → index into saved.tensors, open addressing. */
struct names {
	uint32_t *slots;
	uint64_t mask;
};

static uint32_t *names_slot(const struct names *names, const struct saved *saved, const char *name)
{
	uint64_t at = digest_bytes(name, strlen(name)).low;
	for (;; at++) {
		uint32_t *slot = &names->slots[at & names->mask];
		if (*slot == NOBODY || !strcmp(saved->tensors[*slot].name, name))
			return slot;
	}
}

static int names_new(struct names *names, size_t n)
{
	uint64_t size = 16;
	while (size < n * 2)
		size *= 2;
	names->slots = malloc(size * sizeof(*names->slots));
	if (!names->slots)
		return -ENOMEM;
	memset(names->slots, 0xff, size * sizeof(*names->slots));
	names->mask = size - 1;
	return 0;
}

/* The tensors that are wanted, and the wants of each. */
static int group_wants(struct saved *saved, const struct want *wants, size_t n, struct names *names)
{
	AUTO_FREE uint32_t *tensor_of = malloc((n + 1) * sizeof(*tensor_of));
	saved->tensors = calloc(n + 1, sizeof(*saved->tensors));
	saved->wants = malloc((n + 1) * sizeof(*saved->wants));
	if (!tensor_of || !saved->tensors || !saved->wants)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		uint32_t *slot = names_slot(names, saved, wants[i].tensor);
		if (*slot == NOBODY) {
			*slot = saved->ntensors++;
			saved->tensors[*slot].name = wants[i].tensor;
		}
		tensor_of[i] = *slot;
		saved->tensors[*slot].nwants++;
	}
	uint64_t at = 0;
	for (uint32_t t = 0; t < saved->ntensors; t++) {
		saved->tensors[t].first_want = at;
		at += saved->tensors[t].nwants;
		saved->tensors[t].nwants = 0;
	}
	for (size_t i = 0; i < n; i++) {
		struct saved_tensor *t = &saved->tensors[tensor_of[i]];
		saved->wants[t->first_want + t->nwants++] = i;
	}
	return 0;
}

/* Which wanted tensor each tensor of the node is. `map` has room for the node's tensors. */
static int map_node(struct saved *saved, const struct node_manifest *node, const struct names *names, uint32_t *map,
		    struct err *err)
{
	for (uint32_t i = 0; i < node->ntensors; i++) {
		const struct manifest_tensor *meta = &node->tensors[i];
		map[i] = *names_slot(names, saved, meta->name);
		if (map[i] == NOBODY)
			continue;
		struct saved_tensor *t = &saved->tensors[map[i]];
		if (!t->meta)
			t->meta = meta;
		char a[128], b[128];
		if (t->meta->dtype != meta->dtype || !shape_equal(&t->meta->shape, &meta->shape))
			return err_set(err, -EBADMSG, "node %s saved tensor %s as %s %s, another node as %s %s",
				       node->node, meta->name, dtype_name(meta->dtype),
				       shape_text(&meta->shape, a, sizeof(a)), dtype_name(t->meta->dtype),
				       shape_text(&t->meta->shape, b, sizeof(b)));
	}
	return 0;
}

/* First pass (saved->pieces NULL): counts the pieces of each wanted tensor; second pass: fills them in. */
static int visit_file(struct saved *saved, uint32_t file, const struct node_manifest *node, const uint32_t *map,
		      struct err *err)
{
	const struct manifest_file *f = saved->files[file];
	for (uint32_t p = 0; p < f->npieces; p++) {
		uint32_t tensor = f->pieces[p].tensor;
		if (tensor >= node->ntensors)
			return err_set(err, -EBADMSG, "node %s, file %s: piece %u belongs to no tensor", node->node,
				       f->name, p);
		if (map[tensor] == NOBODY)
			continue;
		struct saved_tensor *t = &saved->tensors[map[tensor]];
		if (saved->pieces)
			saved->pieces[t->first_piece + t->npieces] = (struct saved_piece){file, p};
		t->npieces++;
	}
	return 0;
}

static int visit_pieces(struct saved *saved, const struct checkpoint *ck, const struct names *names, struct err *err)
{
	uint32_t file = 0;
	for (uint32_t n = 0; n < ck->nnodes; n++) {
		const struct node_manifest *node = &ck->nodes[n];
		AUTO_FREE uint32_t *map = malloc((node->ntensors + 1ull) * sizeof(*map));
		if (!map)
			return err_set(err, -ENOMEM, "no memory for a map of %u tensors", node->ntensors);
		int rc = map_node(saved, node, names, map, err);
		for (uint32_t f = 0; rc == 0 && f < node->nfiles; f++, file++) {
			saved->files[file] = &node->files[f];
			rc = visit_file(saved, file, node, map, err);
		}
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int collect_pieces(struct saved *saved, const struct checkpoint *ck, const struct names *names, struct err *err)
{
	uint64_t nfiles = 0, at = 0;
	for (uint32_t n = 0; n < ck->nnodes; n++)
		nfiles += ck->nodes[n].nfiles;
	if (nfiles >= NOBODY)
		return err_set(err, -EBADMSG, "the checkpoint lists %llu files", (unsigned long long)nfiles);
	saved->nfiles = (uint32_t)nfiles;
	saved->files = calloc(nfiles + 1, sizeof(struct manifest_file *));
	if (!saved->files)
		return err_set(err, -ENOMEM, "no memory for a list of %u files", saved->nfiles);
	int rc = visit_pieces(saved, ck, names, err);
	if (rc < 0)
		return rc;
	for (uint32_t t = 0; t < saved->ntensors; t++) {
		saved->tensors[t].first_piece = at;
		at += saved->tensors[t].npieces;
		saved->tensors[t].npieces = 0;
	}
	saved->pieces = malloc((at + 1) * sizeof(*saved->pieces));
	if (!saved->pieces)
		return err_set(err, -ENOMEM, "no memory for an index of %llu pieces", (unsigned long long)at);
	return visit_pieces(saved, ck, names, err);
}

int saved_make(const struct checkpoint *ck, const struct want *wants, size_t n, struct saved *saved, struct err *err)
{
	*saved = (struct saved){0};
	struct names names = {0};
	if (n >= NOBODY)
		return err_set(err, -E2BIG, "%zu destinations are too many", n);
	int rc = names_new(&names, n);
	if (rc == 0)
		rc = group_wants(saved, wants, n, &names);
	if (rc < 0)
		err_set(err, rc, "no memory for an index of %zu destinations", n);
	if (rc == 0)
		rc = collect_pieces(saved, ck, &names, err);
	free(names.slots);
	if (rc < 0)
		saved_free(saved);
	return rc;
}

void saved_free(struct saved *saved)
{
	free(saved->pieces);
	free(saved->files);
	free(saved->wants);
	free(saved->tensors);
	*saved = (struct saved){0};
}
