/* Read-back: a committed checkpoint is read from storage and compared with its digests, on a worker; the result is marked in
 * the store (HEALTH.json). */
#ifndef CKPTD_READBACK_H
#define CKPTD_READBACK_H

#include "daemon.h"

#include "base/err.h"

struct verify_item;

typedef void readback_fn(void *arg, struct step_id id, int rc, const struct err *err);

/* rate: the job's own limit in bytes/s, 0: none; the node's counts besides. done is called on the loop's thread. *item stays valid
 * until then. */
int readback_start(struct daemon *daemon, const char *job, struct step_id id, uint64_t rate, readback_fn *done,
		   void *arg, struct verify_item **item);
struct step_id readback_id(const struct verify_item *item);

#endif
