/* ncclCommAbort, which may hang, with a deadline. */
#ifndef CKPT_TRAINER_NCCL_ABORT_H
#define CKPT_TRAINER_NCCL_ABORT_H

#include <stdint.h>

#include "nccl_table.h"

/*
 * Aborts in a thread of its own. 0 when that has returned, with any code: the communicator is gone. -ETIMEDOUT: not until the
 * deadline; the thread is left to itself. -EAGAIN, -ENOMEM: there is no thread; nothing was done.
 */
int nccl_abort(const struct nccl_table *table, void *comm, int64_t deadline);

#endif
