/* Room checkpoint: one checkpoint on storage: its directory, this node's part of it, hard links to the previous
 * one, read-back.
 * May know: runtime, arena.
 * Invariants: a directory gets the name of the checkpoint once, after MANIFEST.json and every byte and name that
 * MANIFEST.json vouches for are fsynced. No failed fsync is retried under the same name. */
#ifndef CKPTD_CHECKPOINT_ROOM_H
#define CKPTD_CHECKPOINT_ROOM_H

#include "checkpoint/directory.h"
#include "checkpoint/file/compress_buffers.h"
#include "checkpoint/node_part.h"
#include "checkpoint/readback.h"
#include "checkpoint/repair_donor.h"
#include "checkpoint/storage.h"
#include "checkpoint/store_lock.h"
#include "checkpoint/store_space.h"

#endif
