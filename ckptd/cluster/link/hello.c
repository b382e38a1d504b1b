#include "cluster/link/hello.h"

#include <errno.h>

void hello_encode(const struct hello *hello, struct wbuf *out)
{
	wbuf_u32(out, hello->protocol);
	wbuf_str(out, hello->from);
	wbuf_str(out, hello->to);
	wbuf_put(out, hello->roster, sizeof(hello->roster));
	wbuf_u64(out, hello->incarnation);
	wbuf_u64(out, hello->attempt);
	wbuf_u64(out, hello->resumes);
	wbuf_u8(out, hello->way);
	wbuf_str(out, hello->registry);
	wbuf_u8(out, hello->copies.len);
	wbuf_put(out, hello->copies.bytes, hello->copies.len);
}

static void get_address(struct rbuf *r, struct hello_address *out)
{
	out->len = rbuf_u8(r);
	if (out->len > sizeof(out->bytes))
		r->failed = true;
	else
		rbuf_get(r, out->bytes, out->len);
}

int hello_decode(const void *body, size_t len, struct hello *out)
{
	struct rbuf r = rbuf_of(body, len);
	*out = (struct hello){.protocol = rbuf_u32(&r)};
	rbuf_str(&r, out->from, sizeof(out->from));
	rbuf_str(&r, out->to, sizeof(out->to));
	if (r.failed)
		return -EBADMSG;
	if (out->protocol != HELLO_PROTOCOL)
		return -EPROTO;
	rbuf_get(&r, out->roster, sizeof(out->roster));
	out->incarnation = rbuf_u64(&r);
	out->attempt = rbuf_u64(&r);
	out->resumes = rbuf_u64(&r);
	out->way = rbuf_u8(&r);
	rbuf_str(&r, out->registry, sizeof(out->registry));
	get_address(&r, &out->copies);
	return rbuf_finish(&r) ? -EBADMSG : 0;
}
