/* One of two checkpoints that are compared: leaves of its data files, each checked against its digest. A place in a file is that in the
 * safetensors file which it is, or, where it is packed, which it stands for. */
#ifndef CKPT_CLI_DIFF_SOURCE_H
#define CKPT_CLI_DIFF_SOURCE_H

#include "format/files/packed.h"
#include "format/files/sidecar.h"
#include "inspect/diff.h"
#include "store/read/chunk.h"

enum { DIFF_CACHE = 16, DIFF_RUN_LEAVES = 64 };

/* An open file; those used last are kept. */
struct diff_source {
	const struct manifest_file *file; /* NULL: unused */
	int handle;
	struct sidecar sidecar;
	struct packed_index index; /* empty: it is not packed */
	uint64_t used;
};

struct diff_side {
	struct checkpoint *ck;
	struct diff_source sources[DIFF_CACHE];
	uint64_t clock;
	uint8_t *buffer; /* DIFF_RUN_LEAVES leaves */
	/* Of packed files, made when the first one comes: the chunk that was read last. */
	struct chunk_unpacker *unpacker;
	const struct packed_chunk *chunk; /* NULL: none */
	uint8_t *stored;
};

/* On failure, too, *side is to be closed. Zeros may be closed. */
int diff_side_open(struct diff_side *side, struct checkpoint *ck, struct err *err);
void diff_side_close(struct diff_side *side);
/* The file with its sidecar; valid until DIFF_CACHE others were asked for. -EBADMSG. */
int diff_source_open(struct diff_side *side, const struct manifest_file *file, struct diff_source **out,
		     struct err *err);
/* The digests of a piece's leaves. */
const uint64_t *diff_source_leaves(const struct diff_source *s, const struct diff_place *place);
/* Reads bytes of a piece into the side's buffer, from leaf `first` on, at most DIFF_RUN_LEAVES. -EBADMSG names the damage. */
int diff_source_read(struct diff_side *side, const struct diff_source *s, const struct diff_place *place,
		     uint64_t first, uint64_t bytes, const char *tensor, struct err *err);

#endif
