#include "cluster/link/inbox.h"

#include "base/bytes.h"
#include "cluster/net.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

void inbox_clear(struct inbox *in)
{
	free(in->body);
	*in = (struct inbox){.body = NULL};
}

static int begin(struct inbox *in, struct rbuf *r)
{
	uint16_t type = rbuf_u16(r);
	uint32_t len = rbuf_u32(r);
	if (r->failed || len > NET_MESSAGE_MAX)
		return -EBADMSG;
	*in = (struct inbox){.body = malloc(len + 1), .len = len, .type = type};
	return in->body ? 0 : -ENOMEM;
}

int inbox_take(struct inbox *in, const uint8_t *part, size_t len)
{
	struct rbuf r = rbuf_of(part, len);
	int rc = in->body ? 0 : begin(in, &r);
	size_t n = rbuf_left(&r);
	if (!rc && n > in->len - in->have)
		rc = -EBADMSG;
	/* Else a message could be made of frames without end. */
	if (!rc && !n && in->frames)
		rc = -EBADMSG;
	if (rc)
		return rc;
	rbuf_get(&r, in->body + in->have, n);
	in->have += n;
	in->frames++;
	return in->have == in->len;
}

void inbox_write_head(uint8_t dst[INBOX_HEAD], uint16_t type, size_t len)
{
	uint16_t t = htole16(type);
	uint32_t n = htole32((uint32_t)len);
	memcpy(dst, &t, sizeof(t));
	memcpy(dst + sizeof(t), &n, sizeof(n));
}
