/* A checkpoint made by hand for the tests of the restore: any pieces, also such as no daemon would save. The documents stand in
 * memory, data files and sidecars on disk. Element i of tensor t has a value that only depends on (t, i). */
#ifndef CKPT_TESTS_RESTORE_MAKER_H
#define CKPT_TESTS_RESTORE_MAKER_H

#include "format/files/sidecar.h"
#include "store/read/restore.h"

struct maker {
	char path[256];
	struct repo repo;
	struct checkpoint ck;
	struct node_manifest node;
};

void maker_open(struct maker *m);
/* Removes everything from the disk. */
void maker_close(struct maker *m);

/* The number of the tensor. */
uint32_t maker_tensor(struct maker *m, const char *name, enum dtype dtype, struct shape shape);
/* Appends a piece to the rank's file. Ranks come in ascending order. */
void maker_piece(struct maker *m, uint32_t rank, uint32_t tensor, struct region region);
/* Writes files and sidecars. */
void maker_write(struct maker *m);

/* Opens the data file of a rank for damage. */
int maker_file(const struct maker *m, uint32_t rank, int flags);

/* A want for the region, with memory of its own (maker_want_free), filled with 0xa5, and room for digests. */
struct want maker_want(const struct maker *m, uint32_t tensor, struct region region);
void maker_want_free(struct want *want);
/* Whether the memory holds exactly the values of the region, and the digests are theirs. */
bool maker_holds(const struct maker *m, uint32_t tensor, const struct want *want);
/* Whether the digests are exactly those of `due`. */
bool maker_digested(const struct want *want, const void *due, size_t size);
/* Whether nobody has written to it. */
bool maker_untouched(const struct want *want);

static inline struct shape shape2(uint64_t rows, uint64_t columns)
{
	return (struct shape){2, {rows, columns}};
}

static inline struct region box2(uint64_t row, uint64_t column, uint64_t rows, uint64_t columns)
{
	return (struct region){.kind = REGION_BOX, .offset = {row, column}, .extent = {rows, columns}};
}

#endif
