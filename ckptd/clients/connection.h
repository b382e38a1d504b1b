/* Connections: one per local client. Handshake first (HELLO within a deadline, same user, known version); until then nothing
 * else is looked at. Each has a bounded queue of what it has not taken yet; who overflows it, or sends what cannot be decoded, is
 * disconnected and costs only itself. */
#ifndef CKPTD_CLIENTS_CONNECTION_H
#define CKPTD_CLIENTS_CONNECTION_H

#include "base/list.h"
#include "runtime/room.h"

struct operators;

enum {
	CONNECTIONS_MAX = 256,
	CONNECTION_PROCESS_MAX = 96,
	CONNECTION_QUEUE_MAX = 64,
	CONNECTION_HELLO_MS = 5000,
	CONNECTION_FRAMES_PER_TURN = 16
};

struct connections {
	struct operators *operators;
	struct list list;
	unsigned count;
};

void connections_init(struct connections *connections, struct operators *operators);
/* Takes over a socket that was just accepted. */
void connections_add(struct connections *connections, int sock);
/* Deadlines of handshakes; a tick. */
void connections_tick(struct connections *connections);
void connections_free(struct connections *connections);

#endif
