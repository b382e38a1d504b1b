/* Head blocks: the constant first blocks of data files, each of whole pages, for direct I/O. */
#ifndef CKPTD_ARENA_HEAD_BLOCK_H
#define CKPTD_ARENA_HEAD_BLOCK_H

#include "base/err.h"
#include "format/arena/layout.h"
#include "format/tensor/digest.h"

struct head_block {
	void *data;
	size_t len;
	struct digest digest;
};

/* Of each file of the layout. -ENOMEM, -E2BIG: then *out is NULL. */
int head_blocks_make(const struct registration *reg, const struct layout *layout, struct head_block **out,
		     struct err *err);
/* n: files of the layout. NULL is allowed. */
void head_blocks_free(struct head_block *heads, uint32_t n);

#endif
