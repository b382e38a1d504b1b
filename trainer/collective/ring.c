#include "collective/ring.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "collective/ring_internal.h"

void ring_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void close_all(struct ring *r)
{
	ring_close(&r->next_fd);
	ring_close(&r->previous_fd);
	ring_close(&r->listen_fd);
}

int ring_fail(struct ring *r, int rc, const char *format, ...)
{
	va_list arguments;

	if (r->state == RING_FAILED)
		return r->failure;
	r->state = RING_FAILED;
	r->failure = rc;
	va_start(arguments, format);
	vsnprintf(r->error, sizeof(r->error), format, arguments);
	va_end(arguments);
	close_all(r);
	return rc;
}

/* Binds, listens and learns the port. */
static int open_listener(struct ring *r, struct sockaddr_storage *address)
{
	socklen_t length = sizeof(*address);

	r->listen_fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (r->listen_fd < 0)
		return -errno;
	if (bind(r->listen_fd, (struct sockaddr *)address, ring_address_length(address)) < 0)
		return -errno;
	if (listen(r->listen_fd, 16) < 0)
		return -errno;
	if (getsockname(r->listen_fd, (struct sockaddr *)address, &length) < 0)
		return -errno;
	return 0;
}

static int prepare(struct ring *r, const char *host)
{
	struct sockaddr_storage address;
	int rc = ring_address_of_host(host, &address);

	if (rc < 0)
		return rc;
	rc = open_listener(r, &address);
	if (rc < 0)
		return rc;
	if (getrandom(r->nonce, sizeof(r->nonce), 0) != (ssize_t)sizeof(r->nonce))
		return -errno;
	ring_address_format(&address, r->nonce, r->address);
	return 0;
}

int ring_listen(const char *address, struct ring **ring)
{
	struct ring *r = calloc(1, sizeof(*r));
	int rc;

	if (!r)
		return -ENOMEM;
	r->listen_fd = r->previous_fd = r->next_fd = r->cancel_fd = -1;
	rc = prepare(r, address ? address : "127.0.0.1");
	if (rc < 0) {
		ring_free(r);
		return rc;
	}
	*ring = r;
	return 0;
}

void ring_free(struct ring *r)
{
	if (!r)
		return;
	close_all(r);
	free(r->staging);
	free(r->small);
	free(r);
}

const char *ring_address(const struct ring *r)
{
	return r->address;
}

const char *ring_error(const struct ring *r)
{
	return r->error;
}

uint64_t ring_sequence(const struct ring *r)
{
	return r->sequence;
}
