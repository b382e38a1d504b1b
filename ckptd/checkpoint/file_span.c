#include "checkpoint/file_span.h"

bool file_span_next(const struct layout *layout, const struct layout_file *f, uint32_t *piece, struct file_span *span)
{
	const struct layout_piece *pieces = layout->pieces + f->first_piece;
	if (*piece >= f->npieces)
		return false;
	*span = (struct file_span){.at = pieces[*piece].at, .slot_at = pieces[*piece].slot_at};
	while (*piece < f->npieces && pieces[*piece].slot_at == span->slot_at + span->bytes)
		span->bytes += pieces[(*piece)++].bytes;
	return true;
}

uint32_t file_span_count(const struct layout *layout, const struct layout_file *f)
{
	struct file_span span;
	uint32_t n = 0;
	for (uint32_t piece = 0; file_span_next(layout, f, &piece, &span);)
		n++;
	return n;
}
