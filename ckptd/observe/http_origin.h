/* Where a connection comes from: which host, or which user of this machine, so that whoever opens many takes places from nobody else. */
#ifndef CKPTD_OBSERVE_HTTP_ORIGIN_H
#define CKPTD_OBSERVE_HTTP_ORIGIN_H

#include <stdbool.h>
#include <stdint.h>

#define HTTP_ORIGIN_NO_USER UINT32_MAX

struct http_origin {
	/* of IPv6 the network, /64: who has one has all its addresses; IPv4 as it is mapped there; zero: this machine */
	uint8_t host[16];
	/* who opened it on this machine; HTTP_ORIGIN_NO_USER: it is of another one, or is closed already, or the kernel
	 * does not tell */
	uint32_t user;
};

/* What asks the kernel for users: a descriptor. -errno: it cannot be asked, and http_origin_of, which takes that, too, knows hosts only. */
int http_origin_asker(void);
void http_origin_of(int asker, int sock, struct http_origin *origin);
bool http_origin_same(const struct http_origin *a, const struct http_origin *b);

#endif
