/* Bits that flip on purpose in what memory holds of a rank's newest snapshot; the seed says which. */
#ifndef CKPTD_FAULTS_FAULT_BITS_H
#define CKPTD_FAULTS_FAULT_BITS_H

#include "base/err.h"

#include <stdint.h>

struct job;
struct replica;

enum { FAULT_BITS_TEXT = 200 };

/* In the rank's own arena. -ENOENT: no complete snapshot stands there. text: what was done. */
int fault_flip_arena(const struct job *job, uint32_t rank, uint64_t seed, char text[FAULT_BITS_TEXT], struct err *err);
/* In the copy that this node holds for another one. -ENOENT: it holds none. replica NULL: this node is alone. */
int fault_flip_replica(struct replica *replica, const char *job, uint32_t rank, uint64_t seed,
		       char text[FAULT_BITS_TEXT], struct err *err);

#endif
