/*
 * Replicas must be equal: before a save the ranks compare digests of what they hold alike, and the majority is right. What
 * deviates (a bit that flipped in one rank's memory) is not saved: the copy of a replicated tensor that a checkpoint gets is cut out
 * of all ranks' memories, so that one of them being wrong spoils it for all.
 */
#ifndef CKPT_TRAINER_VOTE_H
#define CKPT_TRAINER_VOTE_H

#include <stddef.h>
#include <stdint.h>

#include "crew.h"
#include "tensor.h"

/* digests[count]: of this rank's copies (vote_digest()). 0: all are equal. -EBADMSG: they are not, crew.why names ranks and tensor, on all ranks alike. Else the crew's errors. */
int vote(struct crew *crew, const struct tensor *table, size_t count, const uint64_t *digests);

/* Position dependent, of whole floats. */
uint64_t vote_digest(const float *from, size_t count);

#endif
