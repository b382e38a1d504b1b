/* Which spans are of a registered piece: so that a begin redoes those of the pieces that have another address, and no others. */
#ifndef CKPT_SPAN_INDEX_H
#define CKPT_SPAN_INDEX_H

#include "format/arena/registration.h"

struct span_ref {
	uint32_t device; /* index into the devices of a capture */
	uint32_t at;     /* among its spans */
	uint32_t source; /* the piece of the layout; or, above all of them, a witness */
};

struct span_index {
	uint32_t npieces;
	uint32_t *first;       /* per entry: the number of its first piece, all pieces of all entries in turn */
	uint32_t *start;       /* per piece: its first reference; one more at the end */
	struct span_ref *refs; /* NULL before span_index_ready */
};

/* In three steps: span_index_count for each span, span_index_ready, span_index_put for each. 0 or -ENOMEM. */
int span_index_init(struct span_index *index, const struct registration *reg);
void span_index_count(struct span_index *index, uint32_t entry, uint32_t piece);
int span_index_ready(struct span_index *index);
void span_index_put(struct span_index *index, uint32_t entry, uint32_t piece, struct span_ref ref);
void span_index_free(struct span_index *index);

/* Those of a piece, in the order in which they were put; returns how many. */
uint32_t span_index_of(const struct span_index *index, uint32_t entry, uint32_t piece, const struct span_ref **refs);

#endif
