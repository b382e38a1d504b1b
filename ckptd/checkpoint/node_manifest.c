#include "checkpoint/node_manifest.h"

#include "checkpoint/node_part_private.h"

#include "base/cleanup.h"
#include "format/files/manifest_make.h"

/* What MANIFEST.json would say if this node were the only one: its part of what it will say. */
static int read_part(const struct wbuf *root, struct peer_part *part, struct err *err)
{
	struct manifest m;
	int rc = manifest_decode(root->data, root->len, &m, err);
	if (rc)
		return rc;
	*part = (struct peer_part){
		.node = m.nodes[0], .began = m.began, .bytes = m.bytes, .stored = m.stored, .files = m.files};
	manifest_free(&m);
	return 0;
}

int node_manifest_make(struct node_part *c, struct err *err)
{
	AUTO_FREE struct made_file *files = calloc(c->nfiles ? c->nfiles : 1, sizeof(*files));
	if (!files)
		return err_set(err, -ENOMEM, "no memory for the manifests of %s/%s", c->job, c->name);
	c->stored = c->bytes;
	for (uint32_t i = 0; i < c->nfiles; i++) {
		const struct node_part_file *f = &c->cfiles[i];
		const struct memory *mem = f->rank->mem;
		files[i] = (struct made_file){.reg = &mem->table->reg,
					      .layout = f->rank->layout,
					      .file = f->file,
					      .data_at = node_part_head(f)->len,
					      .sidecar = &f->sidecar,
					      .packed = f->packed};
		if (f->packed.index_size)
			c->stored -= node_part_head(f)->len + node_part_layout_file(f)->data_size - f->packed.size;
	}
	struct made_node made = {.job = c->job,
				 .node = c->node,
				 .id = c->id,
				 .began = c->began,
				 .world = c->world,
				 .nfiles = c->nfiles,
				 .files = files};
	AUTO_WBUF struct wbuf root = {0};
	int rc = manifest_make(&made, &c->node_text, &root, err);
	if (!rc)
		rc = read_part(&root, &c->part, err);
	return rc ? err_prefix(err, rc, "%s/%s", c->job, c->name) : 0;
}
