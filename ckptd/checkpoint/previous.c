#include "checkpoint/previous.h"

#include "checkpoint/node_part_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fill(struct previous_file *p, const struct node_part *c, const struct node_part_file *f)
{
	const struct layout_file *lf = node_part_layout_file(f);
	name_data(f->rank->mem->table->reg.rank, c->world, lf->group, lf->part, p->name);
	p->sidecar = f->digest;
	p->packed = f->packed;
	p->age = f->age;
	p->steady = f->same;
}

void previous_take(struct previous *previous, const struct node_part *c)
{
	previous_free(previous);
	/* An earlier incarnation of the daemon wrote it: nobody knows how old its files are. */
	if (c->already || !c->nfiles)
		return;
	previous->files = calloc(c->nfiles, sizeof(*previous->files));
	if (!previous->files)
		return;
	for (uint32_t i = 0; i < c->nfiles; i++)
		fill(&previous->files[i], c, &c->cfiles[i]);
	previous->nfiles = c->nfiles;
	previous->id = c->id;
	previous->valid = true;
}

void previous_forget(struct previous *previous)
{
	previous->valid = false;
}

void previous_free(struct previous *previous)
{
	free(previous->files);
	*previous = (struct previous){0};
}

const struct previous_file *previous_find(const struct previous *previous, uint32_t i, const char *name)
{
	if (!previous || !previous->valid || i >= previous->nfiles || strcmp(previous->files[i].name, name) != 0)
		return NULL;
	return &previous->files[i];
}
