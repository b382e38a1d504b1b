/* Room replication: copies of snapshots in the memory of other nodes: sent, held, found again and fetched.
 * May know: runtime, cluster, arena.
 * Invariants: what arrived counts after its digests match; the newest snapshot that is replicated for every rank
 * is never given up for another. */
#ifndef CKPTD_REPLICATION_ROOM_H
#define CKPTD_REPLICATION_ROOM_H

#include "replication/peers.h"
#include "replication/replication.h"

#endif
