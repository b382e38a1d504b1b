/* Builds registrations by hand. */
#ifndef TEST_MAKE_REGISTRATION_H
#define TEST_MAKE_REGISTRATION_H

#include "format/arena/registration.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An array of n elements with room for one more: doubled when n is 0 or a power of two. */
static inline void *grown(void *array, size_t n, size_t size)
{
	return n & (n - 1) ? array : realloc(array, (n ? 2 * n : 1) * size);
}

static inline struct entry *add_entry(struct registration *reg, const char *name, enum entry_kind kind,
				      enum dtype dtype, struct shape shape, const char *group, const char *replica)
{
	reg->entries = grown(reg->entries, reg->nentries, sizeof(*reg->entries));
	struct entry *e = &reg->entries[reg->nentries++];
	*e = (struct entry){.name = strdup(name), .kind = kind, .dtype = dtype, .shape = shape};
	snprintf(e->group, sizeof(e->group), "%s", group);
	snprintf(e->replica, sizeof(e->replica), "%s", replica);
	return e;
}

static inline void add_piece(struct entry *e, struct region piece)
{
	e->pieces = grown(e->pieces, e->npieces, sizeof(*e->pieces));
	e->pieces[e->npieces++] = piece;
}

static inline struct entry *add_tensor(struct registration *reg, const char *name, enum dtype dtype, struct shape shape,
				       const char *replica, struct region piece)
{
	struct entry *e = add_entry(reg, name, ENTRY_TENSOR, dtype, shape, "params", replica);
	add_piece(e, piece);
	return e;
}

static inline struct entry *add_blob(struct registration *reg, const char *name, enum entry_kind kind, uint64_t size)
{
	char full[NAME_TENSOR_MAX];
	if (kind == ENTRY_RANK_BLOB)
		snprintf(full, sizeof(full), "%s@%05u", name, reg->rank);
	else
		snprintf(full, sizeof(full), "%s", name);
	struct shape shape = {.ndim = 1, .dim = {size}};
	struct entry *e = add_entry(reg, full, kind, DTYPE_U8, shape, "blobs", "");
	add_piece(e, region_whole(&shape));
	return e;
}

static inline struct shape shape1(uint64_t a)
{
	return (struct shape){.ndim = 1, .dim = {a}};
}

static inline struct shape shape2(uint64_t a, uint64_t b)
{
	return (struct shape){.ndim = 2, .dim = {a, b}};
}

static inline struct region box2(uint64_t o0, uint64_t e0, uint64_t o1, uint64_t e1)
{
	return (struct region){.kind = REGION_BOX, .offset = {o0, o1}, .extent = {e0, e1}};
}

#endif
