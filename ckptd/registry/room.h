/* Room registry: small records that all nodes see alike, and that outlive the daemon that wrote them.
 * May know: runtime.
 * Invariants: a record changes only if what was compared still holds; a lease that may have ended is never shown
 * as standing. */
#ifndef CKPTD_REGISTRY_ROOM_H
#define CKPTD_REGISTRY_ROOM_H

#include "registry/registry.h"

#endif
