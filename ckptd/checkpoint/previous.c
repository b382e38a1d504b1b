#include "checkpoint/previous.h"

#include "checkpoint/node_part.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fill(struct parent_file *p, const struct commit *c, const struct commit_file *f)
{
	const struct memory *mem = f->rank->mem;
	const struct layout_file *lf = &mem->layout.files[f->file];
	name_data(mem->table->reg.rank, c->world, lf->group, lf->part, p->name);
	p->sidecar = f->digest;
	p->packed = f->packed;
	p->age = f->age;
	p->steady = f->same;
}

void parent_take(struct parent *parent, const struct commit *c)
{
	parent_free(parent);
	/* An earlier life of the daemon wrote it: nobody knows how old its files are. */
	if (c->already || !c->nfiles)
		return;
	parent->files = calloc(c->nfiles, sizeof(*parent->files));
	if (!parent->files)
		return;
	for (uint32_t i = 0; i < c->nfiles; i++)
		fill(&parent->files[i], c, &c->cfiles[i]);
	parent->nfiles = c->nfiles;
	parent->id = c->id;
	parent->valid = true;
}

void parent_forget(struct parent *parent)
{
	parent->valid = false;
}

void parent_free(struct parent *parent)
{
	free(parent->files);
	*parent = (struct parent){0};
}

const struct parent_file *parent_find(const struct parent *parent, uint32_t i, const char *name)
{
	if (!parent || !parent->valid || i >= parent->nfiles || strcmp(parent->files[i].name, name) != 0)
		return NULL;
	return &parent->files[i];
}
