/* The index of a packed file: MANIFEST.json → node manifest → index → stored bytes. */
#include "base/cleanup.h"
#include "format/files/packed.h"
#include "store/read/repo.h"

#include <inttypes.h>
#include <stdlib.h>

static int read_index(struct disk *disk, int handle, const struct manifest_file *file, void *data, struct err *err)
{
	uint64_t len = file->packed.index_size;
	struct disk_op op = {.kind = DISK_READ, .file = handle, .buf = data, .len = len};
	int rc = disk_do(disk, &op);
	if (rc < 0)
		return err_set(err, rc, "reading the index of %s: %s", file->name, err_name(rc));
	if (op.result != (int64_t)len)
		return err_set(err, -EBADMSG, "%s ends within its index of %" PRIu64 " bytes", file->name, len);
	if (!digest_equal(digest_bytes(data, len), file->packed.index))
		return err_set(err, -EBADMSG,
			       "the index of %s is damaged: its digest is not the one in the node manifest",
			       file->name);
	return 0;
}

/* No chunk begins within a leaf. Chunks and pieces stand in the order of their bytes. */
static bool cuts_leaf(const struct manifest_file *file, const struct packed_index *index)
{
	uint32_t p = 0;
	for (uint32_t i = 0; i < index->nchunks; i++) {
		uint64_t at = index->chunks[i].data_at;
		while (p < file->npieces && file->pieces[p].at + file->pieces[p].bytes <= at)
			p++;
		if (p < file->npieces && at > file->pieces[p].at && (at - file->pieces[p].at) % LEAF_SIZE)
			return true;
	}
	return false;
}

/* That the index speaks of the file as the node manifest does. */
static int match(const struct manifest_file *file, const struct packed_index *index, struct err *err)
{
	if (cuts_leaf(file, index))
		return err_set(err, -EBADMSG, "the index of %s has a chunk that begins within a leaf", file->name);
	if (index->size == file->packed.size && index->data_at == file->data_at &&
	    index->data_size == file->size - file->data_at)
		return 0;
	return err_set(err, -EBADMSG,
		       "the index of %s is that of %" PRIu64 " bytes in %" PRIu64 ", the node manifest says %" PRIu64
		       " in %" PRIu64,
		       file->name, index->data_size, index->size, file->size - file->data_at, file->packed.size);
}

/* What stands in the place of a file and is none is damage. */
static int open_file(struct disk *disk, int dir, const char *name, struct err *err)
{
	int handle = disk_open_at(disk, dir, name, DISK_RDONLY);
	bool odd = handle == -EINVAL || handle == -ELOOP || handle == -EISDIR || handle == -ENOENT;
	return handle < 0 ? err_set(err, odd ? -EBADMSG : handle, "cannot open %s: %s", name, err_name(handle))
			  : handle;
}

int index_load(struct disk *disk, int dir, const char *name, const struct manifest_file *file,
	       struct packed_index *index, struct err *err)
{
	*index = (struct packed_index){0};
	if (!file->packed.index_size)
		return 0;
	AUTO_FREE void *data = malloc(file->packed.index_size);
	if (!data)
		return err_set(err, -ENOMEM, "no memory for the index of %s: %" PRIu64 " bytes", name,
			       file->packed.index_size);
	int handle = open_file(disk, dir, name, err);
	if (handle < 0)
		return handle;
	int rc = read_index(disk, handle, file, data, err);
	disk_close_file(disk, handle);
	if (!rc) {
		rc = packed_index_decode(data, file->packed.index_size, index, err);
		if (rc < 0)
			err_prefix(err, rc, "%s", file->name);
	}
	if (!rc && (rc = match(file, index, err)) < 0)
		packed_index_free(index);
	return rc;
}

int checkpoint_load_index(struct checkpoint *ck, const struct manifest_file *file, struct packed_index *index,
			  struct err *err)
{
	return index_load(ck->repo->disk, ck->dir, file->name, file, index, err);
}
