/* Built without libsystemd. */
#include "manager.h"

#include "base/log.h"

#include <stdlib.h>

int manager_open(struct manager **out, struct err *err)
{
	(void)err;
	*out = NULL;
	if (getenv("NOTIFY_SOCKET") || getenv("LISTEN_FDS"))
		log_warn("built without libsystemd: no notification, no watchdog, no passed socket, and arenas do not "
			 "outlive "
			 "the daemon unless a rank or ckpt run holds them");
	return 0;
}

void manager_free(struct manager *m)
{
	(void)m;
}

int manager_take_socket(struct manager *m)
{
	(void)m;
	return -1;
}

bool manager_take_arena(struct manager *m, char job[NAME_JOB_MAX], uint32_t *rank, int *fd)
{
	(void)m;
	(void)job;
	(void)rank;
	(void)fd;
	return false;
}

bool manager_keep(struct manager *m, const char *job, uint32_t rank, int fd)
{
	(void)m;
	(void)job;
	(void)rank;
	(void)fd;
	return false;
}

void manager_drop(struct manager *m, const char *job, uint32_t rank)
{
	(void)m;
	(void)job;
	(void)rank;
}

void manager_ready(struct manager *m, const char *status)
{
	(void)m;
	(void)status;
}

void manager_stopping(struct manager *m)
{
	(void)m;
}

void manager_turn(struct manager *m, uint64_t now)
{
	(void)m;
	(void)now;
}
