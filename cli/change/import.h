/* Safetensors files of any writer as one checkpoint.
 *
 * import_files.c    which files of a directory, and their headers
 * import_table.c    the tensors that they make together: a registration of one rank, and where each piece stands
 * import.c          the command
 *
 * The files come from anywhere: headers are bounded and checked before anything is used, and every number in them is. */
#ifndef CKPT_CLI_IMPORT_H
#define CKPT_CLI_IMPORT_H

#include "format/arena/registration.h"
#include "format/files/safetensors_view.h"

#include <stdio.h>

enum import_format {
	IMPORT_HF = 1,      /* whole tensors; model.safetensors.index.json is heeded */
	IMPORT_SAFETENSORS, /* groups by the names of the files, as ckpt restore writes them */
	IMPORT_DCP,         /* shards of torch.distributed.checkpoint */
};

enum { IMPORT_NAME_MAX = 256, IMPORT_FILES_MAX = 65536, IMPORT_OPEN_MAX = 64 };

struct import_file {
	char name[IMPORT_NAME_MAX];
	char group[NAME_GROUP_MAX];
	uint64_t size;
	struct safetensors st;
	struct safetensors_views views;
	int fd; /* -1: not open now */
};

struct import_files {
	int dir;
	struct import_file *list;
	uint32_t n;
	uint32_t open[IMPORT_OPEN_MAX], nopen; /* a ring of those whose descriptor is open */
};

/* Finds the files and reads their headers. group: NULL, or the group of all. -ENOENT: there is none, or one that the index names is
 * missing; -EBADMSG: a header or the index is wrong. On failure *files is empty. */
int import_files_open(const char *path, enum import_format format, const char *group, struct import_files *files,
		      struct err *err);
void import_files_close(struct import_files *files);
/* Reads bytes of the data section of a file. */
int import_files_read(struct import_files *files, uint32_t file, uint64_t from, void *data, uint64_t len,
		      struct err *err);

/* Where a registered piece stands. */
struct import_place {
	uint32_t file;
	uint64_t at; /* in the data section */
};

struct import_table {
	struct registration reg;      /* rank 0 has it all */
	uint32_t world;               /* of the checkpoint: ranks that had blobs of their own, at least 1 */
	struct import_place **places; /* per entry, per piece */
	uint64_t bytes;
};

/* -EBADMSG, -EINVAL: the files contradict each other, both named. */
int import_table_make(const struct import_files *files, enum import_format format, struct import_table *table,
		      struct err *err);
void import_table_free(struct import_table *table);

#endif
