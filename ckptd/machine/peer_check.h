/* Peer check: what answers of other nodes tell of this node's clock, and of the ways to them. Pure: the clock is the
 * caller's. Nothing is decided by it.
 *
 * A node's clock is judged by the median of the others', so that one that is wrong, or lies, moves nothing while there
 * are two more that do not. Of two in the middle the one nearer to our own clock counts. A way is judged by its shortest
 * round trip of PEER_CHECK_ROW: a long one has been in a queue somewhere, and that says nothing of the way. A peer is far
 * only if most others are near. If none is near, what all ways share is slow: this node's own link. */
#ifndef CKPTD_MACHINE_PEER_CHECK_H
#define CKPTD_MACHINE_PEER_CHECK_H

#include "format/tensor/names.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	PEER_CHECK_MAX = 16, /* nodes; of more, those that have answered last */
	PEER_CHECK_ROW = 3,  /* round trips */
	PEER_CHECK_FAR = 10, /* times as long as those to the others */
	PEER_CHECK_ALL = 2,  /* peers that show together that this node is the far one */
};
#define PEER_CHECK_FAR_NS 5000000ull /* and longer than this; what is not longer is near */

struct known_peer {
	char name[NAME_NODE_MAX]; /* "": none */
	uint64_t at_ns, trips[PEER_CHECK_ROW], trip_ns;
	uint32_t n;       /* answers */
	int64_t ahead_ns; /* never INT64_MIN */
};

struct peer_check {
	struct known_peer peers[PEER_CHECK_MAX];
};

void peer_check_take(struct peer_check *p, uint64_t now, const char *name, uint64_t trip_ns, int64_t ahead_ns);
/* Those that have not answered since. */
void peer_check_forget(struct peer_check *p, uint64_t since);

/* How far this node's clock is ahead of the median of the others', and by how much that may be wrong. Number of the
 * others; 0: nothing is known. */
struct clock_check {
	unsigned n;
	int64_t ahead_ns;
	uint64_t uncertain_ns;
};
struct clock_check peer_check_clock(const struct peer_check *p);

/* Of that one: its shortest round trip, and the median of those to the others. Whether it is far above, and most others are near. */
bool peer_check_is_far(const struct peer_check *p, unsigned i, uint64_t *trip_ns, uint64_t *others_ns);

/* From how many peers this node is far, which are all that it knows; 0: one of them is near. And the shortest round trip of all. */
unsigned peer_check_far_from(const struct peer_check *p, uint64_t *least_ns);

#endif
