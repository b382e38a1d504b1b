/* How far another clock is ahead of ours: the on-wire formula of NTP (RFC 5905, section 8), of a node that answers at once. Pure.
 *
 * When it answered lies between our question and its answer. In their middle it is taken to be, which is wrong by half
 * the round trip at most: so much, if one of the ways took no time at all. */
#ifndef CKPTD_LINK_CLOCK_OFFSET_H
#define CKPTD_LINK_CLOCK_OFFSET_H

#include "cluster/net.h"

/* asked, answered: clock_now(); wall: our time of day when the answer came; theirs: what the answer says, which may be anything. */
struct net_clock clock_offset(uint64_t asked, uint64_t answered, uint64_t wall, uint64_t theirs);

#endif
