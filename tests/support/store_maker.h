/* Writes complete, valid checkpoints from the encoders of the format alone, for tests that read stores. Plain POSIX I/O: nothing
 * of the store under test takes part. The contents of a tensor are a function of seed, name and element, so that any region of
 * it can be checked. */
#ifndef CKPT_TESTS_STORE_MAKER_H
#define CKPT_TESTS_STORE_MAKER_H

#include "format/files/manifest.h"
#include "format/files/marks.h"

struct store_spec {
	const char *root; /* made with its mark when missing */
	const char *job;  /* NULL: "main" */
	struct step_id id;
	uint32_t world;      /* 0: 2 */
	uint32_t nodes;      /* 0: 1; ranks are dealt out in order */
	uint64_t rows, cols; /* of the matrices; 0: 64 and 48 */
	uint64_t seed;
	uint64_t file_max; /* 0: LAYOUT_FILE_MAX */
	bool partial;      /* leave out MANIFEST.json */
	bool packed;       /* write .ckptz files; with a seed of STORE_WEIGHTS they get smaller */
	bool boxes;        /* with "pairs", of which rank 0 has two boxes */
};

/* In a seed: floating-point tensors have few different exponents, as weights do. */
#define STORE_WEIGHTS (1ull << 63)

/* Makes one checkpoint with these tensors; -errno with the reason:
 *	embed  BF16 [rows, cols]  replicated          rowwise  F32 [rows, cols]  split by rows
 *	bias   F64 [cols]         replicated          colwise  F32 [rows, cols]  split by columns
 *	scale  F32 []             replicated          moment   F32 [rows, cols]  split into flat ranges, group "optimizer"
 *	empty  I64 [0, 4]         replicated          loader   blob of the job, 100 bytes; rng: blobs of the ranks, 37 bytes
 *	pairs  F32 [rows, cols]   split by rows, if `boxes`: rank 0 has the first row apart from its others */
int store_make(const struct store_spec *spec, struct err *err);
/* Path of the checkpoint's directory into dst. */
void store_dir(const struct store_spec *spec, char *dst, size_t size);
/* Writes HEALTH.json, VERDICT.json, PINNED. */
int store_mark_health(const struct store_spec *spec, bool damaged, const char *detail, struct err *err);
int store_put_mark(const struct store_spec *spec, bool unhealthy, const char *reason, struct err *err);
int store_mark_pin(const struct store_spec *spec, const char *note, struct err *err);

/* The packed bytes that the region of a tensor must have. dst: region_volume × dtype_size bytes. */
void store_fill(uint64_t seed, const char *name, enum dtype dtype, const struct shape *shape,
		const struct region *region, void *dst);

#endif
