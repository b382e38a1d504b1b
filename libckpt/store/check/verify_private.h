/* Private to verify*.c.
 *
 * verify.c        the walk over documents and files
 * verify_header.c one file's header against sidecar and node manifest
 * verify_leaves.c the leaves: reads in flight, digest workers, findings in order
 * verify_share.c  which leaves are read when only a share was asked for */
#ifndef CKPT_STORE_VERIFY_PRIVATE_H
#define CKPT_STORE_VERIFY_PRIVATE_H

#include "store/check/verify.h"

#include "format/files/packed.h"
#include "format/files/sidecar.h"

struct leaf_reader;

struct verify_run {
	const char *job; /* what is verified, also where ck cannot be opened */
	struct step_id id;
	struct checkpoint ck;
	const struct verify_options *opts;
	struct verify_result *result;
	uint64_t done, total; /* bytes, for progress */
	int trouble;          /* first -errno of something that could not be read */
	struct leaf_reader *reader;
	struct err *err;
};

/* One data file while leaves of it are in flight. Freed with the last reference. */
struct verify_file {
	struct verify_run *run;
	const struct node_manifest *node;
	const struct manifest_file *file;
	struct sidecar sidecar;
	struct packed_index index; /* empty: it is not packed */
	int handle;
	uint64_t number; /* over all files of the checkpoint, for the choice of leaves */
	unsigned refs;
};

/* Counts and tells. Text is printf-like. */
void verify_find(struct verify_run *run, const char *file, const char *tensor, uint64_t from, uint64_t to,
		 const char *fmt, ...) __attribute__((format(printf, 6, 7)));
/* Adds checked bytes; -ECANCELED when the caller wants to stop. */
int verify_advance(struct verify_run *run, uint64_t bytes);

/* 0 also when findings were told; *good says whether the header can be trusted. Negative: the run cannot go on. */
int verify_header(struct verify_file *vf, bool *good);

/* Leaves in groups of GROUP_LEAVES neighbours, so that a share is read in long runs; at least one group per file. */
enum { GROUP_LEAVES = 16 };
bool share_has(const struct verify_options *opts, uint64_t file, uint64_t leaf, uint64_t nleaves);
/* Bytes of the chosen leaves. */
uint64_t share_bytes(const struct verify_options *opts, uint64_t index, const struct manifest_file *file);

int reader_new(struct verify_run *run, struct leaf_reader **out);
/* Reads and checks the leaves of a file; returns when all are submitted. Takes over the caller's reference in any case. */
int reader_add(struct leaf_reader *reader, struct verify_file *vf);
/* Waits for all. */
int reader_drain(struct leaf_reader *reader);
void reader_free(struct leaf_reader *reader);
void verify_file_put(struct verify_file *vf);

#endif
