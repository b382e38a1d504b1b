/* Url: where the registry is, as the setting says it: etcd://HOST[:PORT][,HOST[:PORT]...]/PREFIX, etcds:// over TLS. */
#ifndef CKPTD_REGISTRY_URL_PRIVATE_H
#define CKPTD_REGISTRY_URL_PRIVATE_H

#include "base/err.h"

#include <stdbool.h>

enum {
	URL_ENDPOINTS_MAX = 16,
	URL_HOST_MAX = 264,   /* with port, brackets and the NUL */
	URL_PREFIX_MAX = 130, /* with both slashes, without the NUL */
	URL_PORT = 2379,      /* where none is given */
};

struct url {
	bool tls;
	unsigned n;
	char endpoints[URL_ENDPOINTS_MAX][URL_HOST_MAX]; /* HOST:PORT, as it stands in an address of HTTP */
	char prefix[URL_PREFIX_MAX + 1];                 /* "/ckpt/": what each key begins with */
};

/* -EINVAL with a sentence. */
int url_parse(const char *text, struct url *out, struct err *err);

#endif
