/* Large memory that one world after another is made of. The sanitizer's own malloc maps such pieces anew each time, and their pages then cost more
 * than what is tested. A piece that was given back is poisoned until it is taken again, so that whoever still uses it is found. */
#ifndef CKPT_TESTS_KEPT_H
#define CKPT_TESTS_KEPT_H

#include <stddef.h>

/* Zeroed, at a multiple of 4096. Of all pieces of this size that were given back the one that has been so for longest. */
void *kept_take(size_t bytes);
void kept_give(void *piece);
/* Gives it up for good: nothing may stand at its address soon. */
void kept_end(void *piece);

#endif
