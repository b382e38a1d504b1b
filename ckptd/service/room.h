/* Room service: the service manager: readiness, watchdog, the control socket, and arenas that outlive the
 * daemon.
 * May know: runtime.
 * Invariants: without a manager every call does nothing; no message to it is waited for. */
#ifndef CKPTD_SERVICE_ROOM_H
#define CKPTD_SERVICE_ROOM_H

#include "service/post.h"
#include "service/service_manager.h"

#endif
