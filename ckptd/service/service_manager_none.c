/* Built without libsystemd. */
#include "base/log.h"
#include "service/service_manager_private.h"

#include <stdlib.h>

int manager_open_systemd(struct manager *m, struct err *err)
{
	(void)m;
	(void)err;
	if (getenv("NOTIFY_SOCKET") || getenv("LISTEN_FDS"))
		log_warn("built without libsystemd: no notification, no watchdog, no passed socket, and arenas do not "
			 "outlive "
			 "the daemon unless a rank or ckpt run holds them");
	return 1;
}
