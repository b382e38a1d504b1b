/* Requests to etcd's JSON gateway: their bodies. Names of members as in etcd's rpc.proto; keys and values in base64, int64 in quotes. */
#ifndef CKPTD_REGISTRY_REQUEST_PRIVATE_H
#define CKPTD_REGISTRY_REQUEST_PRIVATE_H

#include "base/bytes.h"
#include "registry/registry.h"

/* A page of all records under the prefix. */
struct request_range {
	const char *prefix;
	const void *from; /* the first key of the page, with the prefix and any bytes; NULL: the first of all */
	size_t from_len;
	uint64_t limit;
	uint64_t revision; /* as it stood then; 0: now, linearizable */
	uint64_t since;    /* only what was changed in this revision or later; 0: all */
	bool keys_only;
};

/* Each appends to w; wbuf_finish() says whether there was memory. */
void request_range(struct wbuf *w, const struct request_range *range);
void request_txn(struct wbuf *w, const char *prefix, uint64_t lease, const struct registry_compare *compare,
		 unsigned ncompare, const struct registry_change *change, unsigned nchange);
void request_grant(struct wbuf *w, uint64_t id, uint64_t ttl_s);
/* Of keepalive and revoke. */
void request_lease(struct wbuf *w, uint64_t id);
void request_watch(struct wbuf *w, const char *prefix, uint64_t revision);
void request_login(struct wbuf *w, const char *user, const char *password);

#endif
