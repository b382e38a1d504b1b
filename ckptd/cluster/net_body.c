#include "cluster/net_body.h"

#include <stdlib.h>
#include <string.h>

struct net_body *net_body_new(const struct wbuf *text)
{
	struct net_body *body = text->failed ? NULL : malloc(sizeof(*body) + text->len);
	if (!body)
		return NULL;
	atomic_init(&body->holds, 1);
	body->len = text->len;
	if (text->len)
		memcpy(body->bytes, text->data, text->len);
	return body;
}

struct net_body *net_body_hold(struct net_body *body)
{
	atomic_fetch_add(&body->holds, 1);
	return body;
}

void net_body_drop(struct net_body *body)
{
	if (body && atomic_fetch_sub(&body->holds, 1) == 1)
		free(body);
}
