/* Reader store: a small store with a few checkpoints, for the tests of the reader.
 *
 *	main 10.e1, 20.e1 (healthy), 30.e2 (four ranks on two nodes), 40.e2 without a manifest; tag "best" is 20.e1 */
#ifndef CKPT_TESTS_READER_STORE_H
#define CKPT_TESTS_READER_STORE_H

#include "scratch.h"
#include "store_maker.h"

#include "ckpt_reader.h"

extern char reader_root[SCRATCH_MAX];
extern struct store_spec reader_newest; /* 30.e2 */

void reader_store_make(void);
void reader_store_drop(void);
/* Opens it; it must be there. */
ckpt_reader *reader_open(const char *which);
/* The error, and no reader. */
int reader_refused(const ckpt_reader_options *opts);
/* The packed bytes that a tensor of a checkpoint must have; malloc'ed. */
void *reader_due(const ckpt_reader *r, const ckpt_reader_tensor *t);

#endif
