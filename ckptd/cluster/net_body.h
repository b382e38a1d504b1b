/* Net body: what a message says, held once however many nodes it is on its way to. Never changed; counted, so that any
 * thread may drop its hold. */
#ifndef CKPTD_CLUSTER_NET_BODY_H
#define CKPTD_CLUSTER_NET_BODY_H

#include "base/bytes.h"

#include <stdatomic.h>

struct net_body {
	atomic_uint holds;
	size_t len;
	uint8_t bytes[];
};

/* A copy of the text, with one hold; NULL: no memory, nor was there any for the text. */
struct net_body *net_body_new(const struct wbuf *text);
struct net_body *net_body_hold(struct net_body *body);
/* The last one frees it. NULL is allowed. */
void net_body_drop(struct net_body *body);

#endif
