/* Sized blobs in a restore (format/arena/sized_blob.h): what was saved may have another room than what is registered.
 * What is in it must fit.
 *
 * A piece is a range of the blob: those of the job are shared among the ranks of a node. */
#ifndef CKPTD_SIZED_BLOBS_H
#define CKPTD_SIZED_BLOBS_H

#include "arena/room.h"
#include "store/read/restore.h"

/* Whether the entry, or what was saved under its name, is a blob of changing size. */
bool sized_concerns(const struct checkpoint *ck, const struct entry *entry);
/* Narrows the want to what was saved of it. *any: something was. Of what was not saved at all the want stays as it is.
 * -EINVAL: one has a fixed size, the other has not. */
int sized_narrow(const struct checkpoint *ck, const struct entry *entry, struct want *want, bool *any, struct err *err);
/* When that was read: the piece in the slot is made complete, and digested. -EINVAL: what was saved does not fit, both
 * sizes are named; -EBADMSG: its length is beyond its own room. */
int sized_settle(const struct checkpoint *ck, const struct memory *mem, uint32_t slot, const struct layout_piece *piece,
		 struct err *err);

/* The range of the blob that the piece is. */
void sized_range(const struct entry *entry, const struct region *region, uint64_t *start, uint64_t *count);
/* Whether a blob that begins so, of a room of `saved` bytes, fits into the entry. */
int sized_check(const struct entry *entry, uint32_t rank, const void *head, uint64_t saved, struct err *err);

#endif
