/* Private to repair*.c.
 *
 * repair.c         the walk over noted files
 * repair_mend.c    one data file: its leaves from wherever they are good
 * repair_packed.c  one that is packed: its chunks, made anew from such leaves where nobody has them as they were
 * repair_donors.c  other checkpoints that have the same file, as another copy or as the same one
 * repair_window.c  reading a file in large aligned pieces */
#ifndef CKPT_STORE_REPAIR_PRIVATE_H
#define CKPT_STORE_REPAIR_PRIVATE_H

#include "store/check/repair.h"

#include "format/files/packed.h"
#include "format/files/sidecar.h"
#include "store/read/chunk.h"

enum {
	REPAIR_NOTED_MAX = 4096,   /* names; beyond, all files are looked at */
	REPAIR_DONORS_MAX = 4,     /* copies that are tried */
	REPAIR_SIBLINGS_MAX = 4096 /* checkpoints that share one file */
};

struct repair {
	struct repo *repo;
	char job[NAME_JOB_MAX];
	struct step_id id;
	struct checkpoint ck;
	char (*noted)[NAME_FILE_MAX];
	size_t nnoted;
	bool all;
	const struct repair_memory *memory;
	struct repair_result *result;
	bool trial;
};

/* An open file, and the part of it that was read last. */
struct window {
	struct disk *disk;
	int file;      /* -1: none */
	uint8_t *data; /* DISK_CHUNK bytes, aligned */
	uint64_t from, len;
	struct packed_index index; /* empty: it is not packed */
	struct chunk_unpacker *unpacker;
};

/* The file of that name, which is what the manifest describes, or should be. An index that cannot be read is an error. */
int window_open(struct window *w, struct disk *disk, int dir, const char *name, const struct manifest_file *file);
void window_close(struct window *w);
/* Bytes [from, from + len) of the file, len at most PACKED_CHUNK; valid until the next call. NULL: they cannot be read, or there are
 * not so many. */
const void *window_take(struct window *w, uint64_t from, uint64_t len);
/* Of the safetensors file that it is or stands for, within its header or within a leaf. */
const void *window_plain(struct window *w, uint64_t from, uint64_t len);
/* Larger pieces of the header, into buf. */
int window_copy(struct window *w, uint64_t from, uint64_t len, void *buf);

struct donors {
	uint32_t n, nsiblings;
	struct donor {
		int dir; /* handle */
		char data[NAME_FILE_MAX], sidecar[NAME_FILE_MAX];
		struct manifest_packed packed;
		struct window window;
	} donor[REPAIR_DONORS_MAX];
	struct step_id siblings[REPAIR_SIBLINGS_MAX]; /* whose file of the same name is the very same inode */
};

/* Looks through all checkpoints of the job, the newest first. Those that cannot be opened are passed over. */
int donors_find(struct repair *r, const struct manifest_file *file, struct donors *donors, struct err *err);
void donors_close(struct repair *r, struct donors *donors);

/* One data file on its way: what is good of it, what others have, where it goes. */
struct mending {
	struct repair *r;
	const struct manifest_file *file;
	const struct sidecar *sc;
	struct donors *donors;
	struct window damaged;
	int out; /* -1: a trial */
	uint8_t *leaf;
	uint64_t foreign; /* leaves that are not the damaged file's own */
	struct err *err;
};

/* Writes to the new file, in a trial nothing. */
int mend_put(const struct mending *m, uint64_t at, const void *data, uint64_t len);
/* The bytes of a leaf, by its place in the safetensors file, from the first who has them as they should be. NULL: nobody. */
const void *mend_leaf(struct mending *m, uint64_t at, uint64_t len, uint64_t digest);
/* Index and chunks of a packed file. */
int mend_packed(struct mending *m);

/* Makes the data file whole. 0, -EBADMSG: *err says which leaf nobody has. */
int mend_file(struct repair *r, const struct manifest_file *file, const struct sidecar *sc, struct donors *donors,
	      struct err *err);
/* Whether the file of this name in the checkpoint's directory has all leaves and the header. 0, -EBADMSG. */
int mend_check(struct repair *r, const struct manifest_file *file, const struct sidecar *sc, const char *name,
	       struct err *err);

#endif
