/* Room catalog: what exists and what happened, in SQLite beside the checkpoints.
 * May know: runtime.
 * Invariants: a cache: to delete it loses history only. A database that fails or hangs delays neither the loop
 * nor a checkpoint. */
#ifndef CKPTD_CATALOG_ROOM_H
#define CKPTD_CATALOG_ROOM_H

#include "catalog/catalog.h"

#endif
