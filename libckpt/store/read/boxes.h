/* Boxes of the tensors of a checkpoint, each into memory with steps of its own: a restore (restore.h) for those who hold no shards. */
#ifndef CKPT_STORE_BOXES_H
#define CKPT_STORE_BOXES_H

#include "store/read/restore.h"

struct box {
	const struct manifest_tensor *tensor;
	struct region region;     /* a box, within the tensor */
	void *data;               /* its first element */
	bool packed;              /* row-major, without gaps; stride does not count */
	int64_t stride[NDIM_MAX]; /* bytes per step of each dimension */
};

/* Bytes that are read and checked before they are spread over memory with gaps. */
#define BOXES_WINDOW (64ull << 20)

/* Boxes may overlap in the tensors, but not in memory. Packed ones are read in place, the others through a window of
 * bounded size. opts: as in restore_execute; nothing is told to have arrived. -EBADMSG also where a part was never saved,
 * or twice: no checkpoint is so. After an error the memory is undefined. */
int boxes_read(struct checkpoint *ck, const struct box *boxes, size_t n, const struct restore_options *opts,
	       struct err *err);

/* How many bytes are in a blob of changing size (format/arena/sized_blob.h), behind its head. -EBADMSG: more than it has room for. */
int boxes_blob_length(struct checkpoint *ck, const struct manifest_tensor *blob, uint64_t *length, struct err *err);

#endif
