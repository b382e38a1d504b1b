/* This node's manifest is in the directory already: is it what this part would write? How files were packed that were there before is
 * not asked (another version of zstd may have done it): that is taken from what is there, and then the documents must be equal. */
#include "checkpoint/node_part_private.h"

#include "checkpoint/node_manifest.h"

#include <stdlib.h>
#include <string.h>

void node_part_open_found(struct node_part *c)
{
	name_node(c->node, c->writer.name);
	node_part_submit(c, (struct disk_op){.kind = DISK_OPEN, .dir = c->dir, .name = c->writer.name});
}

void node_part_read_found(struct node_part *c)
{
	c->found = malloc(NODE_MANIFEST_BYTES_MAX);
	if (!c->found) {
		node_part_advance(c, -ENOMEM);
		return;
	}
	node_part_submit(
		c, (struct disk_op){
			   .kind = DISK_READ, .file = c->node_file, .buf = c->found, .len = NODE_MANIFEST_BYTES_MAX});
}

static void adopt_packed(struct node_part *c, const struct manifest_file *found)
{
	for (uint32_t i = 0; i < c->nfiles; i++) {
		struct node_part_file *f = &c->cfiles[i];
		const struct layout_file *lf = node_part_layout_file(f);
		if (found->rank == f->rank->mem->table->reg.rank && found->part == lf->part &&
		    !strcmp(found->group, lf->group))
			f->packed = found->packed;
	}
}

static void adopt_node(struct node_part *c)
{
	struct node_manifest node;
	struct err ignored = {{0}};
	if (node_manifest_decode(c->found, c->found_len, &node, &ignored) < 0)
		return; /* the documents will not be equal */
	for (uint32_t i = 0; i < node.nfiles; i++)
		adopt_packed(c, &node.files[i]);
	node_manifest_free(&node);
}

int node_part_compare_found(struct node_part *c)
{
	adopt_node(c);
	int rc = node_manifest_make(c, &c->err);
	if (rc)
		return rc;
	if (c->node_text.len == c->found_len && !memcmp(c->node_text.data, c->found, c->found_len))
		return 0;
	node_part_fail(c, -EEXIST, "writing over another checkpoint");
	return -EEXIST;
}
