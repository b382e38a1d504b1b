/* A checkpoint as safetensors files of any number of ranks.
 *
 * export_table.c  which tensors, and which rows of them go to which rank: a registration per rank, of which the format makes
 *                 layout and headers, as for a save
 * export_run.c    the way from the named checkpoint to the complete directory
 * export.c        the files, filled through restore plans in windows of bounded memory */
#ifndef CKPT_CLI_EXPORT_H
#define CKPT_CLI_EXPORT_H

#include "format/arena/layout.h"
#include "store/read/repo.h"

enum export_form {
	EXPORT_PLAIN = 1, /* a file per group, and per rank when split; 0 is the same */
	EXPORT_HF,        /* one model of whole tensors, as transformers reads it */
	EXPORT_DCP,       /* one model in shards, as torch.distributed.checkpoint reads it */
};

struct export_wish {
	enum export_form form;
	uint32_t world;            /* 0: whole tensors, one set of files */
	uint64_t file_max;         /* bytes of data per file; a single piece may be larger */
	const char *const *groups; /* NULL-terminated, empty: all */
	const char *const *globs;  /* of tensor names, likewise */
};

/* What is to be written. */
struct export_table {
	const struct export_wish *wish;
	uint32_t nranks; /* at least 1 */
	bool split;      /* tensors are split over the ranks */
	struct registration *regs;
	struct layout *layouts;
	uint64_t tensors, files, bytes; /* bytes with headers */
	uint64_t blobs;                 /* that were left out, since the form has no place for them */
	uint32_t groups;                /* that the tensors are of; 2: several */
};

/* -ENOENT: no tensor is wished for; -EBADMSG, -EINVAL: the checkpoint contradicts itself. */
int export_table_make(const struct checkpoint *ck, const struct export_wish *wish, struct export_table *table,
		      struct err *err);
void export_table_free(struct export_table *table);
/* "params.safetensors", "params-00001-of-00003.safetensors", or as in a checkpoint when there are several ranks. */
void export_file_name(const struct export_table *table, uint32_t rank, uint32_t file, char dst[NAME_FILE_MAX]);

enum export_side { EXPORT_CHECKPOINT = 1, EXPORT_TARGET };

struct export_options {
	int (*progress)(void *arg, uint64_t done, uint64_t total); /* non-zero: cancel */
	void *arg;
};

/* Writes and syncs all files into the directory. On failure *side says who failed. -ECANCELED. */
int export_write(struct checkpoint *ck, const struct export_table *table, int dir, const struct export_options *opts,
		 enum export_side *side, struct err *err);

#endif
