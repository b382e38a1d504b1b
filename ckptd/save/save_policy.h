/* Save policy: which saves of a job are written to storage, and in which order: the policies persist-every and save-policy.
 *
 * persist-every = N: of the saves to storage that the ranks ask for the first is written, and then every N-th; the others
 * stay in memory, captured, with the error -EOPNOTSUPP. When one that was due failed or was refused, the next save is
 * due. Once the job is asked to stop, every save is due. If the last saves were passed over when all ranks have finished,
 * the newest snapshot in memory is written after all.
 *
 * save-policy, for those that are due while another is being written:
 *	newest  it waits; when the disk is free the newest is written, those before it fail with -ECANCELED. Where no slot is left for
 *	        the next save, the newest in memory takes its place
 *	queue   it waits its turn; with save-queue of them waiting already (never more than the slots less three: one to capture
 *	        into, one being written, one for the newest in memory) it stays in memory, with the error -EBUSY
 *	refuse  it stays in memory, with the error -EBUSY
 * What is good in memory gives way only to what is good. While the copy that is being written may still turn out torn, it
 * waits. */
#ifndef CKPTD_SAVE_SAVE_POLICY_H
#define CKPTD_SAVE_SAVE_POLICY_H

#include "save/saves.h"

/* Gives up what the policies do not let through and returns what is to be written now. NULL: nothing. */
struct snapshot *queue_next(struct saves *saves);
/* An operator wants the newest snapshot in memory on storage, whatever persist-every says: its id. It may be there or on
 * its way already. -ENOENT: none is complete in memory; -EINVAL: no store; else: why it could not be written. */
int queue_flush(struct saves *saves, struct step_id *id, struct err *err);
/* It failed, in memory or towards storage, or was refused. */
void queue_failed(struct saves *saves, const struct snapshot *s);
/* All ranks here have finished: what would be lost otherwise is written. */
void queue_finish(struct saves *saves);

#endif
