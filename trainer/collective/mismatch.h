/*
 * Who was in another collective than the others. A rank sees only that its neighbour in the ring is elsewhere; it cannot
 * tell which of the two is wrong. So each rank keeps the collective that it entered last in an epoch, and in the next
 * epoch all compare them.
 */
#ifndef CKPT_TRAINER_MISMATCH_H
#define CKPT_TRAINER_MISMATCH_H

#include <stdint.h>

#include "collective/communicator.h"

enum { MISMATCH_TEXT_SIZE = 256 };

/*
 * In the newest epoch in which neighbours differed: which of the n ranks was elsewhere than more than half of them.
 * "mismatch: rank 4 was in all_gather #27 of 4096 bytes; 5 ranks in reduce_scatter #27 of 4096 bytes". If no more than
 * half agree, as of two ranks, the text says that. A rank that had not come so far is late, and in no other collective.
 * False: nobody differed, or it is not known how.
 */
bool mismatch_find(const struct communicator_place *all, int n, char text[MISMATCH_TEXT_SIZE]);

/*
 * A collective: all ranks give their place of the epoch before, and find the same. text is "" if that is nothing. It
 * returns what those of the communicator return.
 */
int mismatch_compare(struct communicator *communicator, const struct communicator_place *own,
		     char text[MISMATCH_TEXT_SIZE]);

#endif
