/* What the tests of verification share: a small store, and what the last run told. */
#ifndef CKPT_TESTS_VERIFY_FIXTURE_H
#define CKPT_TESTS_VERIFY_FIXTURE_H

#include "scratch.h"
#include "store/check/verify.h"
#include "store_maker.h"

#include "base/cleanup.h"
#include "base/failpoint.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

struct told {
	char file[NAME_FILE_MAX], tensor[NAME_TENSOR_MAX], text[ERR_TEXT_MAX];
	uint64_t from, to;
};

enum { NAMES_MAX = 64 };
struct names {
	size_t n;
	char name[NAMES_MAX][NAME_FILE_MAX];
};

extern char dir[SCRATCH_MAX + 64]; /* of the checkpoint */
extern struct store_spec spec;
extern struct repo repo;
extern struct verify_result result;
extern struct err why;
extern struct told first, last;
extern uint64_t last_done, last_total;
extern uint64_t cancel_after; /* bytes; UINT64_MAX: never */
extern uint64_t seed;
extern bool packed;           /* what `make` makes, as store_spec.packed, of weights */
extern uint64_t memory_limit; /* of verify_options */

void verify_setup(void);
void verify_teardown(void);
/* Makes (again) the checkpoint. */
void make(uint32_t world, uint32_t nodes, uint64_t rows, uint64_t cols);
int verify(enum verify_depth depth, double share);
/* Damage is found, and the first finding names the file. */
void expect_found(enum verify_depth depth, const char *name);

/* Regular files of the checkpoint, sorted; malloc'ed. */
struct names *all_names(void);
/* Path in the checkpoint; overwritten by the next call. */
char *path_of(const char *name);

/* Replaces text in a file's header and makes the digests of sidecar, node manifest and manifest fit. Same length. */
void rewrite_header(const char *stem, const char *from, const char *to);
/* A MANIFEST.json without that node. */
void drop_node(const char *node);

#endif
