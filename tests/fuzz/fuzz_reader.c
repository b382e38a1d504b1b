/* libFuzzer entry point: the public reader over a small store of which bytes were changed, put in or left out. Whatever it says is there has to be
 * what was there before: each byte that it gives has matched a digest.
 *
 *	input   edits: u8 file, u16 place, u8 kind and length, bytes */
#include "ckpt_reader.h"
#include "store_maker.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILES_MAX = 64, EDITS_MAX = 8, TENSORS_MAX = 64, READ_MAX = 1 << 16 };
enum kind { CHANGE, PUT_IN, LEAVE_OUT, CUT };

struct file {
	char path[256];
	uint8_t *bytes;
	size_t size;
};

struct whole {
	const char *checkpoint;
	char name[64];
	uint8_t bytes[READ_MAX];
	uint64_t size;
};

static char top[] = "/dev/shm/ckpt-fuzz-XXXXXX";
static const char *const checkpoints[] = {"7", "8"};
static char folders[2][256];
static struct file files[FILES_MAX];
static struct whole wholes[TENSORS_MAX];
static unsigned nfiles, nwholes;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st, (void)type, (void)at;
	return remove(path);
}

static void remove_all(void)
{
	nftw(top, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void write_file(const char *path, const uint8_t *bytes, size_t size)
{
	FILE *f = fopen(path, "w");
	if (!f || fwrite(bytes, 1, size, f) != size || fclose(f))
		abort();
}

static int take_file(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)at;
	if (type != FTW_F)
		return 0;
	if (nfiles == FILES_MAX)
		abort();
	struct file *file = &files[nfiles++];
	snprintf(file->path, sizeof(file->path), "%s", path);
	file->size = (size_t)st->st_size;
	file->bytes = malloc(file->size + 1);
	FILE *f = fopen(path, "r");
	if (!file->bytes || !f || fread(file->bytes, 1, file->size, f) != file->size)
		abort();
	return fclose(f);
}

/* ---- reading ------------------------------------------------------------------------------------------------------- */

typedef void take_fn(const char *checkpoint, const ckpt_reader_tensor *tensor, const uint8_t *bytes);

static void read_tensor(ckpt_reader *r, const char *checkpoint, const ckpt_reader_tensor *tensor, take_fn *take)
{
	static uint8_t bytes[READ_MAX];
	ckpt_reader_box box = CKPT_INIT(ckpt_reader_box);
	box.name = tensor->name;
	box.data = bytes;
	if (tensor->bytes <= READ_MAX && !ckpt_reader_read(r, &box, 1))
		take(checkpoint, tensor, bytes);
	for (int i = 0; i < tensor->npieces; i++) {
		ckpt_reader_piece piece = CKPT_INIT(ckpt_reader_piece);
		if (ckpt_reader_piece_at(r, tensor, i, &piece))
			abort();
	}
	ckpt_reader_blob(r, tensor->name, NULL, 0);
}

static void read_checkpoint(const char *which, take_fn *take)
{
	ckpt_reader *r;
	ckpt_reader_options options = CKPT_INIT(ckpt_reader_options);
	options.store = top;
	options.which = which;
	options.threads = 1;
	if (ckpt_reader_open(&options, &r))
		return;
	for (size_t i = 0; i < ckpt_reader_count(r); i++)
		read_tensor(r, which, ckpt_reader_tensor_at(r, i), take);
	ckpt_reader_close(r);
}

static void read_list(void)
{
	ckpt_reader_list *list;
	if (ckpt_reader_list_make(top, NULL, &list))
		return;
	for (size_t i = 0; i < ckpt_reader_list_count(list); i++)
		if (!ckpt_reader_list_at(list, i)->name)
			abort();
	ckpt_reader_list_free(list);
}

static void keep(const char *checkpoint, const ckpt_reader_tensor *tensor, const uint8_t *bytes)
{
	if (nwholes == TENSORS_MAX)
		abort();
	struct whole *w = &wholes[nwholes++];
	w->checkpoint = checkpoint;
	w->size = tensor->bytes;
	snprintf(w->name, sizeof(w->name), "%s", tensor->name);
	memcpy(w->bytes, bytes, w->size);
}

static void compare(const char *checkpoint, const ckpt_reader_tensor *tensor, const uint8_t *bytes)
{
	for (unsigned i = 0; i < nwholes; i++)
		if (wholes[i].checkpoint == checkpoint && !strcmp(wholes[i].name, tensor->name) &&
		    wholes[i].size == tensor->bytes && !memcmp(wholes[i].bytes, bytes, tensor->bytes))
			return;
	fprintf(stderr, "%s of %s is not what was saved\n", tensor->name, checkpoint);
	abort();
}

/* ---- edits --------------------------------------------------------------------------------------------------------- */

struct edit {
	unsigned file;
	size_t at, len;
	enum kind kind;
	const uint8_t *bytes;
};

static bool next_edit(const uint8_t **data, size_t *size, struct edit *edit)
{
	if (*size < 4)
		return false;
	const uint8_t *d = *data;
	*edit = (struct edit){d[0] % nfiles, d[1] | (size_t)d[2] << 8, d[3] & 63, d[3] >> 6, d + 4};
	size_t more = edit->kind == CHANGE || edit->kind == PUT_IN ? edit->len : 0;
	if (more > *size - 4)
		more = edit->len = *size - 4;
	*data += 4 + more;
	*size -= 4 + more;
	return true;
}

static void apply(const struct edit *edit)
{
	const struct file *file = &files[edit->file];
	size_t at = edit->at % (file->size + 1), left = file->size - at, over = edit->len < left ? edit->len : left;
	uint8_t *bytes = malloc(file->size + edit->len + 1);
	if (!bytes)
		abort();
	size_t put = edit->kind == CHANGE ? over : edit->kind == PUT_IN ? edit->len : 0;
	size_t skip = edit->kind == CUT ? left : edit->kind == PUT_IN ? 0 : over;
	memcpy(bytes, file->bytes, at);
	memcpy(bytes + at, edit->bytes, put);
	memcpy(bytes + at + put, file->bytes + at + skip, left - skip);
	write_file(file->path, bytes, at + put + left - skip);
	free(bytes);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc, (void)argv;
	struct err err;
	struct store_spec plain = {.root = top, .id = {7, 1}, .nodes = 2, .rows = 6, .cols = 5, .boxes = true},
			  packed = {.root = top,
				    .id = {8, 1},
				    .rows = 12,
				    .cols = 10,
				    .packed = true,
				    .seed = STORE_WEIGHTS};
	if (!mkdtemp(top) || store_make(&plain, &err) || store_make(&packed, &err) || nftw(top, take_file, 8, FTW_PHYS))
		abort();
	atexit(remove_all);
	store_dir(&plain, folders[0], sizeof(folders[0]));
	store_dir(&packed, folders[1], sizeof(folders[1]));
	for (unsigned i = 0; i < 2; i++)
		read_checkpoint(checkpoints[i], keep);
	if (nwholes < 18)
		abort();
	return 0;
}

static bool is_in(const struct edit *edit, unsigned checkpoint)
{
	return !strncmp(files[edit->file].path, folders[checkpoint], strlen(folders[checkpoint]));
}

/* The other one reads as before. */
static bool concerns(const struct edit *edits, unsigned n, unsigned checkpoint)
{
	for (unsigned i = 0; i < n; i++)
		if (!is_in(&edits[i], 1 - checkpoint))
			return true;
	return false;
}

/* Each edit is of the file as it was: of two in one file the later holds. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct edit edits[EDITS_MAX];
	unsigned n = 0;
	while (n < EDITS_MAX && next_edit(&data, &size, &edits[n]))
		apply(&edits[n++]);
	read_list();
	for (unsigned i = 0; i < 2; i++)
		if (concerns(edits, n, i))
			read_checkpoint(checkpoints[i], compare);
	for (unsigned i = 0; i < n; i++)
		write_file(files[edits[i].file].path, files[edits[i].file].bytes, files[edits[i].file].size);
	return 0;
}
