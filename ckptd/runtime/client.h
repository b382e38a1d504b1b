/* A local client of the daemon (rank, launcher, observer) as the jobs see it: somebody who can be answered. Implemented by
 * clients/connection.c over the unix socket and by the simulator. */
#ifndef CKPTD_RUNTIME_CLIENT_H
#define CKPTD_RUNTIME_CLIENT_H

#include "base/bytes.h"
#include "base/err.h"
#include "format/message/wire.h"

struct client;
struct rank;

/* Sends a frame. A client that does not take its frames (its queue is full) is disconnected: it costs only itself. fds stay the
 * caller's. `body` failed (out of memory): disconnected, too. */
void client_send(struct client *client, uint16_t type, uint32_t seq, const struct wbuf *body, const int *fds, int nfds);
void client_error(struct client *client, uint32_t seq, int rc, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* The job no longer knows this client (its process is gone, though a child may hold the socket): it is disconnected, and
 * job_disconnected is not called for it. */
void client_detach(struct client *client);

/* SIGKILL to its process. NULL: nobody. */
void client_kill(const struct client *client);

/* It is another rank of the same job from now on. */
void client_move(struct client *client, struct rank *rank);

#endif
