#include "service/service_manager_private.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "config/setting.h"
#include "format/message/wire.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

int manager_open(struct manager **out, struct err *err)
{
	*out = NULL;
	struct manager *m = calloc(1, sizeof(*m));
	if (!m)
		return err_set(err, -ENOMEM, "no memory for the service manager");
	m->socket = -1;
	int rc = manager_is_worker() ? manager_open_warden(m, err) : manager_open_systemd(m, err);
	if (rc)
		manager_free(m);
	else
		*out = m;
	return rc < 0 ? rc : 0;
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

int manager_add_passed(struct manager *m, char *name, int fd)
{
	struct passed *more = realloc(m->arenas, (m->narenas + 1) * sizeof(*more));
	if (!more || !name) {
		m->arenas = more ? more : m->arenas;
		free(name);
		close(fd);
		return -ENOMEM;
	}
	m->arenas = more;
	m->arenas[m->narenas++] = (struct passed){.name = name, .fd = fd};
	return 0;
}

int manager_take_socket(struct manager *m)
{
	return m ? steal_fd(&m->socket) : -1;
}

int manager_accept(struct manager *m, int listener)
{
	if (m && m->kind->accept)
		return m->kind->accept(m, listener);
	int sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	return sock < 0 ? -errno : sock;
}

/* ---- what is held -------------------------------------------------------------------------------------------------- */

bool manager_take_named(struct manager *m, char **name, int *fd)
{
	if (!m || m->next == m->narenas)
		return false;
	struct passed *p = &m->arenas[m->next++];
	*name = steal_ptr(&p->name);
	*fd = steal_fd(&p->fd);
	return true;
}

bool manager_keep_named(struct manager *m, const char *name, int fd)
{
	return m && m->kind->keep(m, name, fd);
}

void manager_drop_named(struct manager *m, const char *name)
{
	if (m)
		m->kind->drop(m, name);
}

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

bool manager_names_arena(const char *name)
{
	char job[NAME_JOB_MAX];
	uint32_t rank;
	return parse_name(name, job, &rank);
}

bool manager_take_arena(struct manager *m, char job[NAME_JOB_MAX], uint32_t *rank, int *fd)
{
	char *name;
	while (manager_take_named(m, &name, fd)) {
		bool is_arena = parse_name(name, job, rank);
		if (!is_arena) {
			log_warn("the service manager passes '%s', which is no arena: it is not used", name);
			cleanup_close(fd);
		}
		free(name);
		if (is_arena)
			return true;
	}
	return false;
}

bool manager_keep(struct manager *m, const char *job, uint32_t rank, int fd)
{
	char name[HELD_NAME_MAX];
	held_name(name, job, rank);
	return manager_keep_named(m, name, fd);
}

void manager_drop(struct manager *m, const char *job, uint32_t rank)
{
	char name[HELD_NAME_MAX];
	held_name(name, job, rank);
	manager_drop_named(m, name);
}

/* ---- what is told -------------------------------------------------------------------------------------------------- */

void manager_ready(struct manager *m, const char *status)
{
	if (m)
		m->kind->ready(m, status);
}

void manager_stopping(struct manager *m)
{
	if (m)
		m->kind->stopping(m);
}

void manager_turn(struct manager *m, uint64_t now)
{
	if (!m || !m->pause_ns || now - m->alive_ns < m->pause_ns)
		return;
	m->alive_ns = now;
	m->kind->turn(m, now);
}

/* ---- what a warden divides ----------------------------------------------------------------------------------------- */

int manager_reserve(struct manager *m, uint64_t bytes, struct err *err)
{
	return m && manager_is_worker() ? warden_reserve(m, bytes, err) : 0;
}

void manager_used(struct manager *m, uint64_t bytes, bool busy, uint64_t now)
{
	if (!m || !manager_is_worker())
		return;
	warden_used(m, bytes);
	m->idle_since = busy ? 0 : m->idle_since ? m->idle_since : now;
}

bool manager_limit(const struct manager *m, struct config *config)
{
	if (!m || !manager_is_worker())
		return false;
	config->write_bandwidth = m->write_bandwidth;
	config->read_bandwidth = m->read_bandwidth;
	return true;
}
