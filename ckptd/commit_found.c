/* A manifest of this commit's name that is there already: is it what this commit would have written? So it is asked when the directory
 * is found, and when nobody knows whether the manifest was named. How files were packed that were there before is not asked (another
 * version of zstd may have done it): that is taken from their node manifest, and then the documents must be equal. */
#include "commit_private.h"

#include "prepare.h"

#include <stdlib.h>
#include <string.h>

enum { FOUND_MAX = 1 << 20 }; /* a manifest of one node is far below */

void commit_read_found(struct commit *c)
{
	c->already = !c->doubt;
	c->found = malloc(FOUND_MAX);
	if (!c->found) {
		commit_advance(c, -ENOMEM);
		return;
	}
	commit_submit(c, (struct disk_op){.kind = DISK_READ, .file = c->manifest, .buf = c->found, .len = FOUND_MAX});
}

/* ---- its node manifest -------------------------------------------------------------------------------------------- */

/* Its size, if it is there and files are packed; else 0. */
static uint64_t node_size(const struct commit *c)
{
	struct manifest m;
	struct err ignored = {{0}};
	uint64_t size = 0;
	if (manifest_decode(c->found, c->found_len, &m, &ignored) < 0)
		return 0;
	for (uint32_t i = 0; i < m.nnodes && m.stored != m.bytes; i++)
		if (!strcmp(m.nodes[i].name, c->node))
			size = m.nodes[i].size;
	manifest_free(&m);
	return size;
}

static void go_on(struct commit *c)
{
	if (c->rc)
		commit_advance(c, c->rc);
	else
		commit_set_state(c, COMMIT_DIGESTS);
}

static void node_read(struct disk_op *op)
{
	struct commit *c = op->arg;
	c->found_node_len = op->result > 0 ? (uint64_t)op->result : 0;
	commit_close_handle(c, c->manifest);
	c->manifest = -1;
	go_on(c);
}

static void node_opened(struct disk_op *op)
{
	struct commit *c = op->arg;
	if (op->result < 0) {
		go_on(c); /* the documents will not be equal */
		return;
	}
	c->manifest = (int)op->result;
	c->op = (struct disk_op){.kind = DISK_READ,
				 .file = c->manifest,
				 .buf = c->found_node,
				 .len = c->found_node_len,
				 .done = node_read,
				 .arg = c};
	disk_submit(c->disk, &c->op);
}

static void open_node(struct commit *c)
{
	name_node(c->node, c->writer.name);
	c->op = (struct disk_op){
		.kind = DISK_OPEN, .dir = c->dir, .name = c->writer.name, .done = node_opened, .arg = c};
	disk_submit(c->disk, &c->op);
}

/* ---- equal? ------------------------------------------------------------------------------------------------------- */

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
	if (node_manifest_decode(c->found_node, c->found_node_len, &node, &ignored) < 0)
		return;
	for (uint32_t i = 0; i < node.nfiles; i++)
		adopt_packed(c, &node.files[i]);
	node_manifest_free(&node);
}

/* What a manifest says of a node is a pure function of all bytes that it vouches for there. */
static bool vouches(const struct manifest *m, const struct commit *c)
{
	const struct manifest_node *ours = &c->part.node;
	for (uint32_t i = 0; i < m->nnodes; i++)
		if (!strcmp(m->nodes[i].name, ours->name))
			return m->nodes[i].size == ours->size && digest_equal(m->nodes[i].digest, ours->digest);
	return false;
}

static bool is_ours(const struct commit *c)
{
	struct manifest m;
	if (c->doubt) /* all of it is known */
		return c->manifest_text.len == c->found_len && !memcmp(c->manifest_text.data, c->found, c->found_len);
	bool ours = !manifest_decode(c->found, c->found_len, &m, NULL) && m.world == c->world && vouches(&m, c);
	manifest_free(&m);
	return ours;
}

static int compare(struct commit *c)
{
	if (is_ours(c))
		return 0;
	commit_fail(c, -EEXIST, "writing over another checkpoint");
	return -EEXIST;
}

/* The one that may be ours is compared with what was written; the one that was there before, once the digests are known. */
void commit_found_read(struct commit *c, int64_t result)
{
	c->found_len = (uint64_t)result;
	commit_close_handle(c, c->manifest);
	c->manifest = -1;
	if (c->doubt) {
		int rc = compare(c);
		commit_set_state(c, rc ? COMMIT_ASIDE : c->doubt == -EEXIST ? COMMIT_UNLINK_TMP : COMMIT_SYNC_LINK);
		return;
	}
	c->found_node_len = node_size(c);
	c->found_node = c->found_node_len ? malloc(c->found_node_len) : NULL;
	if (c->found_node)
		open_node(c);
	else
		commit_set_state(c, COMMIT_DIGESTS);
}

int commit_compare_found(struct commit *c)
{
	if (c->found_node)
		adopt_node(c);
	int rc = prepare_node(c, &c->err);
	return rc ? rc : compare(c);
}
