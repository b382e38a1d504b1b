/* HTTP: metrics, health, status and the status page, for reading only. The library is driven by the event loop, without a
 * thread of its own. Sockets never block. A page is made at most every HTTP_CACHE_MS, however often it is asked for. The
 * number of connections, what they may send and how long they may live are bounded. There is no TLS, and no client is
 * asked who it is: off unless --http names an address. */
#ifndef CKPTD_OBSERVE_HTTP_H
#define CKPTD_OBSERVE_HTTP_H

#include "base/err.h"

#include <stdint.h>

enum {
	HTTP_CONNECTIONS = 32,
	HTTP_VISITORS = 16,            /* of them, those that may stay: one more, and an old one has to go */
	HTTP_OF_ONE = 8,               /* of them, of one user of this machine, or of another host */
	HTTP_CONNECTION_BYTES = 16384, /* head of a request and of its answer */
	HTTP_IDLE_S = 5,
	HTTP_LIFE_MS = 10000, /* of a connection, whatever it does */
	HTTP_CACHE_MS = 200,
};

struct observe;
struct http;

/* Listens at an address of base/address.h. -EADDRINUSE, …: the daemon goes on without. */
int http_start(struct observe *observe, const char *address, struct http **out, struct err *err);
/* Deadlines; at each tick. NULL is allowed, as below. */
void http_tick(struct http *http, uint64_t now);
void http_stop(struct http *http);
/* ADDR:PORT with the port that it got; NULL when it is off. */
const char *http_address(const struct http *http);

#endif
