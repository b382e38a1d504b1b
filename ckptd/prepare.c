#include "prepare.h"

#include "base/cleanup.h"
#include "format/manifest_make.h"

int prepare_documents(struct commit *c, struct err *err)
{
	AUTO_FREE struct made_file *files = calloc(c->nfiles ? c->nfiles : 1, sizeof(*files));
	if (!files)
		return err_set(err, -ENOMEM, "no memory for the manifests of %s/%s", c->job, c->name);
	c->stored = c->bytes;
	for (uint32_t i = 0; i < c->nfiles; i++) {
		const struct commit_file *f = &c->cfiles[i];
		const struct memory *mem = f->rank->mem;
		files[i] = (struct made_file){.reg = &mem->table->reg,
					      .layout = &mem->layout,
					      .file = f->file,
					      .data_at = mem->heads[f->file].len,
					      .sidecar = &f->sidecar,
					      .packed = f->packed};
		if (f->packed.index_size)
			c->stored -= mem->heads[f->file].len + mem->layout.files[f->file].data_size - f->packed.size;
	}
	struct made_node made = {
		.job = c->job, .node = c->node, .id = c->id, .world = c->world, .nfiles = c->nfiles, .files = files};
	int rc = manifest_make(&made, &c->node_text, &c->manifest_text, err);
	return rc ? err_prefix(err, rc, "%s/%s", c->job, c->name) : 0;
}
