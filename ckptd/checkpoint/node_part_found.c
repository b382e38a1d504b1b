/* This node's manifest is in the directory already: is it what this commit would write? How files were packed that were there before is
 * not asked (another version of zstd may have done it): that is taken from what is there, and then the documents must be equal. */
#include "checkpoint/node_part_private.h"

#include "checkpoint/node_manifest.h"

#include <stdlib.h>
#include <string.h>

void commit_open_found(struct commit *c)
{
	name_node(c->node, c->writer.name);
	commit_submit(c, (struct disk_op){.kind = DISK_OPEN, .dir = c->dir, .name = c->writer.name});
}

void commit_read_found(struct commit *c)
{
	c->found = malloc(NODE_MANIFEST_BYTES_MAX);
	if (!c->found) {
		commit_advance(c, -ENOMEM);
		return;
	}
	commit_submit(
		c, (struct disk_op){
			   .kind = DISK_READ, .file = c->node_file, .buf = c->found, .len = NODE_MANIFEST_BYTES_MAX});
}

static void adopt_packed(struct commit *c, const struct manifest_file *found)
{
	for (uint32_t i = 0; i < c->nfiles; i++) {
		struct commit_file *f = &c->cfiles[i];
		const struct memory *mem = f->rank->mem;
		const struct layout_file *lf = &mem->layout.files[f->file];
		if (found->rank == mem->table->reg.rank && found->part == lf->part && !strcmp(found->group, lf->group))
			f->packed = found->packed;
	}
}

static void adopt_node(struct commit *c)
{
	struct node_manifest node;
	struct err ignored = {{0}};
	if (node_manifest_decode(c->found, c->found_len, &node, &ignored) < 0)
		return; /* the documents will not be equal */
	for (uint32_t i = 0; i < node.nfiles; i++)
		adopt_packed(c, &node.files[i]);
	node_manifest_free(&node);
}

int commit_compare_found(struct commit *c)
{
	adopt_node(c);
	int rc = prepare_node(c, &c->err);
	if (rc)
		return rc;
	if (c->node_text.len == c->found_len && !memcmp(c->node_text.data, c->found, c->found_len))
		return 0;
	commit_fail(c, -EEXIST, "writing over another checkpoint");
	return -EEXIST;
}
