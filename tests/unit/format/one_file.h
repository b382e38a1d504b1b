/* A rank whose pieces all stand in one file, laid out by hand: in the order of the entries. */
#ifndef TESTS_UNIT_FORMAT_ONE_FILE_H
#define TESTS_UNIT_FORMAT_ONE_FILE_H

#include "format/arena/layout.h"

#include <stdlib.h>

struct one_file {
	struct registration reg;
	struct layout layout;
	struct layout_file file;
};

/* The entries stay the caller's. */
static inline void one_file_make(struct one_file *f, struct entry *entries, uint32_t n)
{
	uint32_t npieces = 0;
	for (uint32_t i = 0; i < n; i++)
		npieces += entries[i].npieces;
	*f = (struct one_file){.reg = {.world = 1, .nentries = n, .entries = entries}};
	f->file.npieces = npieces;
	f->layout = (struct layout){.world = 1, .nfiles = 1, .npieces = npieces, .files = &f->file};
	f->layout.pieces = calloc(npieces ? npieces : 1, sizeof(*f->layout.pieces));
	struct layout_piece *p = f->layout.pieces;
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < entries[i].npieces; k++, p++) {
			const struct entry *e = &entries[i];
			*p = (struct layout_piece){.entry = i, .source = k, .region = e->pieces[k]};
			p->at = p->slot_at = f->file.data_size;
			p->bytes = region_volume(&e->shape, &p->region) * dtype_size(e->dtype);
			p->first_leaf = f->layout.nleaves;
			f->file.data_size += p->bytes;
			f->layout.nleaves += leaf_count(p->bytes);
		}
	f->layout.data_bytes = f->file.data_size;
	f->layout.slot_size = (f->file.data_size + LAYOUT_ALIGN - 1) / LAYOUT_ALIGN * LAYOUT_ALIGN;
}

static inline void one_file_free(struct one_file *f)
{
	free(f->layout.pieces);
}

#endif
