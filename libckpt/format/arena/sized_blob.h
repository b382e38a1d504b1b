/* Sized blob: a blob whose size changes from save to save, up to a room that is fixed when it is registered. It is saved
 * as a vector of U8 of a fixed size, as any blob is: the length of what is in it (u64, little-endian), that many bytes,
 * zeros. So it is captured, copied, digested and verified like all else, and what knows nothing of it reads that vector.
 * A restore may have another room. */
#ifndef CKPT_FORMAT_SIZED_BLOB_H
#define CKPT_FORMAT_SIZED_BLOB_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

enum { SIZED_HEAD = 8 };

static inline uint64_t sized_length(const void *blob)
{
	uint64_t length;
	memcpy(&length, blob, sizeof(length));
	return le64toh(length);
}

static inline void sized_set_length(void *blob, uint64_t length)
{
	length = htole64(length);
	memcpy(blob, &length, sizeof(length));
}

#endif
