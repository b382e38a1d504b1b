/* File spans: where the data of a file stand in a slot. They are one span, unless the file is a part of a mixed share
 * (format/files/shares.h): then what others write lies between them. */
#ifndef CKPTD_CHECKPOINT_FILE_SPAN_H
#define CKPTD_CHECKPOINT_FILE_SPAN_H

#include "format/arena/layout.h"

struct file_span {
	uint64_t at; /* in the data section */
	uint64_t slot_at, bytes;
};

/* The first span at or after piece *piece of the file, which then is the one after it. False: there is none. */
bool file_span_next(const struct layout *layout, const struct layout_file *f, uint32_t *piece, struct file_span *span);
uint32_t file_span_count(const struct layout *layout, const struct layout_file *f);

#endif
