#include "service/service_manager_private.h"

#include "base/cleanup.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>

/* The keep-alive comes four times as often as it must. */
enum { WATCHDOG_SHARE = 4 };

/* ---- what is passed ------------------------------------------------------------------------------------------------ */

static bool is_socket(int fd)
{
	struct stat st;
	return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
}

static int sort_passed(struct manager *m, int fd, char *name, struct err *err)
{
	if (!is_socket(fd)) {
		return manager_add_passed(m, name, fd);
	}
	int rc = 0;
	if (m->socket >= 0 || sd_is_socket_unix(fd, SOCK_SEQPACKET, 1, NULL, 0) <= 0) {
		rc = err_set(err, -EINVAL,
			     "the service manager passes the socket '%s': one that listens is expected, made with "
			     "ListenSequentialPacket=",
			     name);
		close(fd);
	} else {
		m->socket = fd;
	}
	free(name);
	return rc;
}

static int take_passed(struct manager *m, struct err *err)
{
	char **names = NULL;
	int n = sd_listen_fds_with_names(1, &names);
	if (n < 0)
		return err_set(err, n, "cannot take the descriptors that the service manager passes: %s", err_name(n));
	int rc = 0;
	for (int i = 0; i < n; i++) {
		if (!rc) {
			rc = sort_passed(m, SD_LISTEN_FDS_START + i, names[i], err);
		} else {
			close(SD_LISTEN_FDS_START + i);
			free(names[i]);
		}
	}
	free(names);
	return rc;
}

/* ---- what is told -------------------------------------------------------------------------------------------------- */

static bool keep(struct manager *m, const char *name, int fd)
{
	char text[256];
	(void)m;
	snprintf(text, sizeof(text), "FDSTORE=1\nFDNAME=%s", name);
	int rc = sd_pid_notify_with_fds(0, 0, text, &fd, 1);
	if (rc < 0)
		log_warn("the service manager cannot hold the arena %s: %s", name, err_name(rc));
	return rc > 0;
}

static void drop(struct manager *m, const char *name)
{
	(void)m;
	int rc = sd_notifyf(0, "FDSTOREREMOVE=1\nFDNAME=%s", name);
	if (rc < 0)
		log_warn("the service manager still holds the arena %s: %s", name, err_name(rc));
}

static void ready(struct manager *m, const char *status)
{
	(void)m;
	sd_notifyf(0, "READY=1\nSTATUS=%s", status);
}

static void stopping(struct manager *m)
{
	(void)m;
	sd_notify(0, "STOPPING=1");
}

static void turn(struct manager *m, uint64_t now)
{
	(void)m;
	(void)now;
	sd_notify(0, "WATCHDOG=1");
}

int manager_open_systemd(struct manager *m, struct err *err)
{
	static const struct manager_kind kind = {NULL, keep, drop, ready, stopping, turn};
	uint64_t usec = 0;
	m->kind = &kind;
	if (sd_watchdog_enabled(0, &usec) > 0)
		m->pause_ns = usec * 1000 / WATCHDOG_SHARE;
	return take_passed(m, err);
}
