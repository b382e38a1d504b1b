/* Read-back: a committed checkpoint is read from storage and compared with its digests, on a worker. Damage is repaired
 * if an intact copy exists, in memory or in another checkpoint (store/check/repair.h), and read once more. The result is
 * marked in the store (HEALTH.json). */
#ifndef CKPTD_CHECKPOINT_READBACK_H
#define CKPTD_CHECKPOINT_READBACK_H

#include "base/err.h"
#include "checkpoint/repair_donor.h"
#include "format/tensor/names.h"

struct meter;
struct pool;
struct verify_item;

/* rc 0: it is whole; err then is empty, or says what had to be repaired. -EBADMSG: it is damaged. Others: it could not be
 * read. */
typedef void readback_fn(void *arg, struct step_id id, int rc, const struct err *err);

/* What the loop tells the one who reads. */
enum readback_gait { READBACK_GO = 0, READBACK_HOLD, READBACK_STOP };

struct readback {
	const char *job;
	struct step_id id;
	uint64_t rate; /* the job's own limit in bytes/s, 0: none; the node's counts besides */
	const char *store;
	struct meter *meter;     /* of all that is read back on this node */
	struct donor donor;      /* what is still in memory of it: taken over, also on failure */
	struct pool *pool;       /* where it runs */
	const _Atomic int *gait; /* NULL: goes to the end. HOLD: waits, a second at most; STOP: ends with -ECANCELED */
	readback_fn *done;
	void *arg;
};

/* done is called on the loop's thread. *item stays valid until then. 0 or -ENOMEM. */
int readback_start(const struct readback *what, struct verify_item **item);
struct step_id readback_id(const struct verify_item *item);

#endif
