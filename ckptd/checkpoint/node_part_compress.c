/* A data file that is to be packed: its chunks are planned, a sample of them tried; then it is written by a packer, or as it is. */
#include "checkpoint/node_part_private.h"

#include "base/clock.h"
#include "format/files/safetensors.h"

struct described {
	const struct registration *reg;
	const struct layout_piece *pieces;
};

static void describe(const void *arg, uint32_t i, uint64_t *bytes, unsigned *planes)
{
	const struct described *d = arg;
	*bytes = d->pieces[i].bytes;
	*planes = dtype_size(d->reg->entries[d->pieces[i].entry].dtype);
}

static void moved(struct packer *p)
{
	struct node_part_file *f = p->arg;
	f->commit->progress_ns = clock_now();
}

static void file_written(struct writer *w)
{
	struct node_part_file *f = w->arg;
	if (!w->rc)
		f->packed = f->packer.packed;
	packer_free(&f->packer);
	node_part_file_ended(f->commit, w->rc, w->name);
}

static void filled(struct packer *p)
{
	struct node_part_file *f = p->arg;
	writer_filled(&f->writer, p->rc, p->packed.size);
}

static void fill(struct writer *w)
{
	struct node_part_file *f = w->arg;
	f->packer.file = w->file;
	f->packer.done = filled;
	packer_start(&f->packer);
}

/* More than it can take: what is too much is cut off when it is written. */
static uint64_t most(const struct packer *p)
{
	uint64_t sum = packed_index_size(p->index.nchunks) + p->header_len;
	for (uint32_t i = 0; i < p->index.nchunks; i++)
		sum += chunk_bound(p->index.chunks[i].plain);
	return sum;
}

static void write_packed(struct node_part *c, struct node_part_file *f)
{
	const struct layout_file *lf = node_part_layout_file(f);
	struct writer *w = &f->writer;
	*w = (struct writer){
		.disk = c->disk, .dir = c->dir, .flags = DISK_DIRECT, .fill = fill, .done = file_written, .arg = f};
	name_packed(f->rank->mem->table->reg.rank, c->world, lf->group, lf->part, w->name);
	w->size = most(&f->packer);
	writer_start(w);
}

static void sampled(struct packer *p)
{
	struct node_part_file *f = p->arg;
	struct node_part *c = f->commit;
	c->progress_ns = clock_now();
	if (c->rc) {
		node_part_file_ended(c, c->rc, f->writer.name);
		return;
	}
	if (!p->rc && p->worth_it) {
		write_packed(c, f);
		return;
	}
	packer_free(p);
	node_part_write_plain(c, f);
}

int node_part_write_packed(struct node_part *c, struct node_part_file *f)
{
	const struct memory *mem = f->rank->mem;
	const struct layout_file *lf = node_part_layout_file(f);
	const struct head_block *head = node_part_head(f);
	struct described what = {&mem->table->reg, f->rank->layout->pieces + lf->first_piece};
	struct packer *p = &f->packer;
	packer_free(p);
	*p = (struct packer){.packing = c->packing, .disk = c->disk, .header = head->data, .header_len = head->len};
	p->data = memory_slot(mem, f->rank->slot) + lf->slot_at;
	p->throttle = c->throttle;
	p->bucket = c->bucket;
	p->moved = moved;
	p->done = sampled;
	p->arg = f;
	int rc = packed_plan(lf->npieces, describe, &what, &p->index);
	if (rc || !p->index.nchunks) {
		p->packing = NULL;
		return rc ? rc : -ENODATA;
	}
	packer_sample(p);
	return 0;
}

static bool any_packed(const struct node_part *c)
{
	for (uint32_t i = 0; i < c->nfiles; i++)
		if (c->cfiles[i].packed.index_size)
			return true;
	return false;
}

void node_part_write_notice(struct node_part *c)
{
	char name[NAME_FILE_MAX];
	bool wanted = any_packed(c);
	int rc = wanted ? safetensors_notice(&c->notice) : 0;
	if (!wanted || rc) {
		node_part_advance(c, rc);
		return;
	}
	name_notice(c->node, name);
	node_part_write_text(c, name, &c->notice);
}
