/* What the metadata of a safetensors file say of its entries: which part of which tensor each one is. Ours ("ckpt.pieces") say it
 * all; those of PyTorch's distributed checkpoints (DCP_SHARDING_INFO) lack the global shape. */
#ifndef CKPT_FORMAT_SAFETENSORS_VIEW_H
#define CKPT_FORMAT_SAFETENSORS_VIEW_H

#include "format/files/safetensors.h"

struct safetensors_view {
	char *name; /* of the entry */
	char *tensor;
	bool has_shape; /* then `shape` is the global one */
	struct shape shape;
	struct shape offset; /* of a box: as many numbers as dimensions */
	bool flat;
	uint64_t start; /* of a vector in the row-major whole */
	bool sized;     /* what is in a blob of changing size (format/arena/sized_blob.h) */
};

struct safetensors_views {
	struct safetensors_view *list; /* by name */
	uint32_t n;
};

/* From the whole header block. No such metadata: none, and 0. -EBADMSG with the path, -ENOMEM; then it is empty. */
int safetensors_views_read(const void *head, size_t len, struct safetensors_views *views, struct err *err);
void safetensors_views_free(struct safetensors_views *views);
/* NULL: nothing is said of that entry. */
const struct safetensors_view *safetensors_view_find(const struct safetensors_views *views, const char *name);

#endif
