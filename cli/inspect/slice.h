/* A box of a tensor in the notation of Python: "0:10, :, -1". Steps are refused: what they leave is no box. */
#ifndef CKPT_CLI_SLICE_H
#define CKPT_CLI_SLICE_H

#include "format/tensor/region.h"

struct slice {
	struct region box;
	struct shape shape; /* of the result: a dimension with a single index is dropped */
};

/* NULL text: all. Dimensions that are not mentioned are whole. -EINVAL, -ERANGE with the part that is wrong. */
int slice_parse(const char *text, const struct shape *shape, struct slice *slice, struct err *err);

#endif
