#include "inspect/diff_source.h"

#include "base/cleanup.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int diff_side_open(struct diff_side *side, struct checkpoint *ck, struct err *err)
{
	*side = (struct diff_side){.ck = ck, .buffer = malloc(DIFF_RUN_LEAVES * LEAF_SIZE)};
	return side->buffer ? 0 : err_set(err, -ENOMEM, "no memory for a buffer");
}

static void source_close(struct diff_side *side, struct diff_source *s)
{
	if (!s->file)
		return;
	side->chunk = NULL; /* it may be one of this file's */
	sidecar_free(&s->sidecar);
	packed_index_free(&s->index);
	disk_close_file(side->ck->repo->disk, s->handle);
	*s = (struct diff_source){0};
}

void diff_side_close(struct diff_side *side)
{
	for (int i = 0; i < DIFF_CACHE; i++)
		source_close(side, &side->sources[i]);
	chunk_unpacker_free(side->unpacker);
	free(side->stored);
	free(side->buffer);
	*side = (struct diff_side){0};
}

static int open_handle(struct diff_side *side, const struct manifest_file *file, struct err *err)
{
	int handle = disk_open_at(side->ck->repo->disk, side->ck->dir, file->name, DISK_RDONLY);
	return handle < 0 ? err_set(err, handle, "cannot open %s: %s", file->name, err_name(handle)) : handle;
}

/* What is read of packed files. No chunk takes more bytes than packing may make of PACKED_CHUNK. */
static int prepare_unpacking(struct diff_side *side, struct err *err)
{
	if (side->unpacker && side->stored)
		return 0;
	if (!side->stored)
		side->stored = malloc(chunk_bound(PACKED_CHUNK));
	if (!side->stored || chunk_unpacker_new(&side->unpacker) < 0)
		return err_set(err, -ENOMEM, "no memory to unpack in");
	return 0;
}

static int fill_source(struct diff_side *side, const struct manifest_file *file, struct diff_source *s, struct err *err)
{
	int rc = checkpoint_sidecar(side->ck, file, &s->sidecar, err);
	if (rc < 0)
		return rc;
	rc = checkpoint_load_index(side->ck, file, &s->index, err);
	if (!rc && s->index.nchunks)
		rc = prepare_unpacking(side, err);
	if (!rc)
		rc = s->handle = open_handle(side, file, err);
	if (rc < 0) {
		sidecar_free(&s->sidecar);
		packed_index_free(&s->index);
		*s = (struct diff_source){0};
	}
	return rc < 0 ? rc : 0;
}

int diff_source_open(struct diff_side *side, const struct manifest_file *file, struct diff_source **out,
		     struct err *err)
{
	struct diff_source *s = side->sources;
	for (int i = 0; i < DIFF_CACHE; i++) {
		if (side->sources[i].file == file) {
			*out = &side->sources[i];
			(*out)->used = ++side->clock;
			return 0;
		}
		if (side->sources[i].used < s->used)
			s = &side->sources[i];
	}
	source_close(side, s);
	int rc = fill_source(side, file, s, err);
	if (rc < 0)
		return rc;
	s->file = file;
	s->used = ++side->clock;
	*out = s;
	return 0;
}

const uint64_t *diff_source_leaves(const struct diff_source *s, const struct diff_place *place)
{
	return s->sidecar.leaves + s->sidecar.pieces[place->index].first_leaf;
}

static int read_bytes(struct diff_side *side, const struct diff_source *s, uint64_t at, uint64_t bytes, void *buf,
		      struct err *err)
{
	struct disk_op op = {.kind = DISK_READ, .file = s->handle, .buf = buf, .offset = at, .len = bytes};
	int rc = disk_do(side->ck->repo->disk, &op);
	if (rc < 0)
		return err_set(err, rc, "reading %s at byte %" PRIu64 ": %s", s->file->name, at, err_name(rc));
	if ((uint64_t)op.result < bytes)
		return err_set(err, -EBADMSG, "%s was cut short at byte %" PRIu64, s->file->name,
			       at + (uint64_t)op.result);
	return 0;
}

/* One leaf out of the chunk that holds it, by its place in the data section. */
static int unpack_leaf(struct diff_side *side, const struct diff_source *s, uint64_t at, uint64_t len,
		       const char *tensor, uint8_t *dst, struct err *err)
{
	const struct packed_chunk *chunk = packed_find(&s->index, at, len);
	const uint8_t *plain;
	if (!chunk)
		return err_set(err, -EBADMSG, "the index of %s has no chunk with bytes %" PRIu64 " to %" PRIu64,
			       s->file->name, at, at + len);
	if (chunk != side->chunk) {
		chunk_forget(side->unpacker);
		side->chunk = NULL;
		int rc = read_bytes(side, s, chunk->at, chunk->bytes, side->stored, err);
		if (rc < 0)
			return rc;
		side->chunk = chunk;
	}
	int rc = chunk_unpack(side->unpacker, chunk, side->stored, &plain, err);
	if (rc < 0)
		return err_prefix(err, rc,
				  "%s of step %" PRIu64 ", tensor %s, bytes %" PRIu64 " to %" PRIu64 ": damaged",
				  s->file->name, side->ck->ref.id.step, tensor, chunk->at, chunk->at + chunk->bytes);
	memcpy(dst, plain + (at - chunk->data_at), len);
	return 0;
}

static int unpack_leaves(struct diff_side *side, const struct diff_source *s, uint64_t at, uint64_t bytes,
			 const char *tensor, struct err *err)
{
	int rc = 0;
	for (uint64_t done = 0; !rc && done < bytes; done += LEAF_SIZE)
		rc = unpack_leaf(side, s, at - s->index.data_at + done, min_u64(bytes - done, LEAF_SIZE), tensor,
				 side->buffer + done, err);
	return rc;
}

static int check_leaves(const struct diff_side *side, const struct diff_source *s, const struct diff_place *place,
			uint64_t first, uint64_t bytes, const char *tensor, struct err *err)
{
	uint64_t digests[DIFF_RUN_LEAVES], at = place->file->data_at + place->piece->at + first * LEAF_SIZE;
	digest_leaves(side->buffer, bytes, digests);
	for (uint64_t i = 0; i < leaf_count(bytes); i++) {
		uint64_t from = at + i * LEAF_SIZE;
		if (digests[i] != diff_source_leaves(s, place)[first + i])
			return err_set(err, -EBADMSG,
				       "%s of step %" PRIu64 ", tensor %s, bytes %" PRIu64 " to %" PRIu64
				       ": damaged: they do not match their digest",
				       place->file->name, side->ck->ref.id.step, tensor, from,
				       min_u64(from + LEAF_SIZE, at + bytes));
	}
	return 0;
}

int diff_source_read(struct diff_side *side, const struct diff_source *s, const struct diff_place *place,
		     uint64_t first, uint64_t bytes, const char *tensor, struct err *err)
{
	uint64_t at = place->file->data_at + place->piece->at + first * LEAF_SIZE;
	int rc = s->index.nchunks ? unpack_leaves(side, s, at, bytes, tensor, err)
				  : read_bytes(side, s, at, bytes, side->buffer, err);
	return rc ? rc : check_leaves(side, s, place, first, bytes, tensor, err);
}
