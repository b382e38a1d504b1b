/* Table: what a rank has registered, decoded once and held by all who need it: the rank's entry in its job, and its arena. It
 * never changes. Belongs to the loop's thread; workers read it through the arena that they hold. */
#ifndef CKPTD_ARENA_TABLE_H
#define CKPTD_ARENA_TABLE_H

#include "base/err.h"
#include "format/arena/registration.h"

/* What is kept of a table (the registration, its layout, the headers of its files) takes about so many times its encoding: measured
 * with short names; longer ones take less. */
enum { TABLE_COST = 12 };

struct table {
	unsigned refs; /* table_get, table_put */
	struct registration reg;
	struct digest digest; /* of its encoding, of which there is one for each registration */
	uint64_t tensors;     /* how it knows them: tensor_heads.h */
	uint32_t bytes;       /* of its encoding */
};

/* Decodes and checks it: errors as registration_decode. */
int table_decode(const void *data, size_t len, struct table **out, struct err *err);
struct table *table_get(struct table *table);
void table_put(struct table *table); /* NULL is allowed */

static inline bool table_equal(const struct table *a, const struct table *b)
{
	return digest_equal(a->digest, b->digest);
}

#endif
