#include "manager.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "format/wire.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>

/* The keep-alive comes four times as often as it must. */
enum { WATCHDOG_SHARE = 4 };

struct passed {
	char *name;
	int fd; /* -1: taken */
};

struct manager {
	int socket;
	struct passed *arenas;
	size_t narenas, next;
	uint64_t pause_ns; /* between two keep-alives; 0: none is wanted */
	uint64_t alive_ns; /* when the last one was sent */
};

/* ---- names ------------------------------------------------------------------------------------------------------- */

enum { HELD_NAME_MAX = NAME_JOB_MAX + 16 };

static void held_name(char dst[HELD_NAME_MAX], const char *job, uint32_t rank)
{
	snprintf(dst, HELD_NAME_MAX, "%s/%u", job, rank);
}

/* Only what held_name writes. */
static bool parse_name(const char *name, char job[NAME_JOB_MAX], uint32_t *rank)
{
	char again[HELD_NAME_MAX];
	const char *slash = strrchr(name, '/');
	if (!slash || slash - name >= NAME_JOB_MAX)
		return false;
	snprintf(job, NAME_JOB_MAX, "%.*s", (int)(slash - name), name);
	unsigned long number = strtoul(slash + 1, NULL, 10);
	if (number >= WIRE_LOCAL_MAX || name_check("job", job, NAME_JOB_MAX, NULL))
		return false;
	*rank = (uint32_t)number;
	held_name(again, job, *rank);
	return !strcmp(again, name);
}

/* ---- what is passed ------------------------------------------------------------------------------------------------ */

static bool is_socket(int fd)
{
	struct stat st;
	return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
}

static int sort_passed(struct manager *m, int fd, char *name, struct err *err)
{
	if (!is_socket(fd)) {
		m->arenas[m->narenas++] = (struct passed){.name = name, .fd = fd};
		return 0;
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
	m->arenas = calloc((size_t)n + 1, sizeof(*m->arenas));
	int rc = m->arenas ? 0 : err_set(err, -ENOMEM, "no memory for %d descriptors", n);
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

int manager_open(struct manager **out, struct err *err)
{
	uint64_t usec = 0;
	*out = NULL;
	struct manager *m = calloc(1, sizeof(*m));
	if (!m)
		return err_set(err, -ENOMEM, "no memory for the service manager");
	m->socket = -1;
	if (sd_watchdog_enabled(0, &usec) > 0)
		m->pause_ns = usec * 1000 / WATCHDOG_SHARE;
	int rc = take_passed(m, err);
	if (rc)
		manager_free(m);
	else
		*out = m;
	return rc;
}

void manager_free(struct manager *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->narenas; i++) {
		cleanup_close(&m->arenas[i].fd);
		free(m->arenas[i].name);
	}
	free(m->arenas);
	cleanup_close(&m->socket);
	free(m);
}

int manager_take_socket(struct manager *m)
{
	return m ? steal_fd(&m->socket) : -1;
}

bool manager_take_arena(struct manager *m, char job[NAME_JOB_MAX], uint32_t *rank, int *fd)
{
	while (m && m->next < m->narenas) {
		struct passed *p = &m->arenas[m->next++];
		if (parse_name(p->name, job, rank)) {
			*fd = steal_fd(&p->fd);
			return true;
		}
		log_warn("the service manager passes '%s', which is no arena: it is not used", p->name);
		cleanup_close(&p->fd);
		p->fd = -1;
	}
	return false;
}

/* ---- what is told -------------------------------------------------------------------------------------------------- */

bool manager_keep(struct manager *m, const char *job, uint32_t rank, int fd)
{
	char name[HELD_NAME_MAX], text[HELD_NAME_MAX + 32];
	if (!m)
		return false;
	held_name(name, job, rank);
	snprintf(text, sizeof(text), "FDSTORE=1\nFDNAME=%s", name);
	int rc = sd_pid_notify_with_fds(0, 0, text, &fd, 1);
	if (rc < 0)
		log_warn("the service manager cannot hold the arena %s: %s", name, err_name(rc));
	return rc > 0;
}

void manager_drop(struct manager *m, const char *job, uint32_t rank)
{
	char name[HELD_NAME_MAX];
	if (!m)
		return;
	held_name(name, job, rank);
	int rc = sd_notifyf(0, "FDSTOREREMOVE=1\nFDNAME=%s", name);
	if (rc < 0)
		log_warn("the service manager still holds the arena %s: %s", name, err_name(rc));
}

void manager_ready(struct manager *m, const char *status)
{
	if (m)
		sd_notifyf(0, "READY=1\nSTATUS=%s", status);
}

void manager_stopping(struct manager *m)
{
	if (m)
		sd_notify(0, "STOPPING=1");
}

void manager_turn(struct manager *m, uint64_t now)
{
	if (!m || !m->pause_ns || now - m->alive_ns < m->pause_ns)
		return;
	m->alive_ns = now;
	sd_notify(0, "WATCHDOG=1");
}
