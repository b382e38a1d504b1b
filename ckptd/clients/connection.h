/* Connections: one per local client. Handshake first (HELLO within a deadline, same user, known version); until then nothing
 * else is looked at. Each has a bounded queue of what it has not taken yet; who overflows it, or sends what cannot be decoded, is
 * disconnected and costs only itself. */
#ifndef CKPTD_CLIENTS_CONNECTION_H
#define CKPTD_CLIENTS_CONNECTION_H

#include "base/list.h"
#include "runtime/client.h"

struct daemon;

enum { CONN_MAX = 256, CONN_PROCESS_MAX = 96, CONN_QUEUE_MAX = 64, CONN_HELLO_MS = 5000, CONN_FRAMES_PER_TURN = 16 };

struct conns {
	struct daemon *daemon;
	struct list list;
	unsigned count;
};

void conns_init(struct conns *conns, struct daemon *daemon);
/* Takes over a socket that was just accepted. */
void conns_add(struct conns *conns, int sock);
/* Deadlines of handshakes; a tick. */
void conns_tick(struct conns *conns);
void conns_free(struct conns *conns);

#endif
