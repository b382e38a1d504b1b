#include "cluster/link/lane.h"

#include "cluster/net.h"

#include <errno.h>

void lane_hello_encode(const struct lane_hello *hello, struct wbuf *out)
{
	wbuf_str(out, hello->from);
	wbuf_put(out, hello->token, sizeof(hello->token));
}

int lane_hello_decode(const void *body, size_t len, struct lane_hello *out)
{
	struct rbuf r = rbuf_of(body, len);
	rbuf_str(&r, out->from, sizeof(out->from));
	rbuf_get(&r, out->token, sizeof(out->token));
	return rbuf_finish(&r) ? -EBADMSG : 0;
}

void lane_request_encode(const struct lane_request *request, uint8_t out[LANE_REQUEST_BYTES])
{
	struct wbuf w = wbuf_over(out, LANE_REQUEST_BYTES);
	wbuf_u32(&w, request->kind);
	wbuf_u32(&w, request->len);
	wbuf_u64(&w, request->key);
	wbuf_u64(&w, request->offset);
}

int lane_request_decode(const uint8_t in[LANE_REQUEST_BYTES], struct lane_request *out)
{
	struct rbuf r = rbuf_of(in, LANE_REQUEST_BYTES);
	*out = (struct lane_request){.kind = rbuf_u32(&r)};
	out->len = rbuf_u32(&r);
	out->key = rbuf_u64(&r);
	out->offset = rbuf_u64(&r);
	bool known = out->kind == NET_WRITE || out->kind == NET_READ;
	return known && out->len && out->len <= NET_CHUNK ? 0 : -EPROTO;
}

void lane_answer_encode(const struct lane_answer *answer, uint8_t out[LANE_ANSWER_BYTES])
{
	struct wbuf w = wbuf_over(out, LANE_ANSWER_BYTES);
	wbuf_u32(&w, answer->rc);
	wbuf_u32(&w, answer->len);
}

int lane_answer_decode(const uint8_t in[LANE_ANSWER_BYTES], uint32_t kind, uint64_t left, struct lane_answer *out)
{
	struct rbuf r = rbuf_of(in, LANE_ANSWER_BYTES);
	*out = (struct lane_answer){.rc = rbuf_u32(&r)};
	out->len = rbuf_u32(&r);
	if (out->rc)
		return (out->rc == EACCES || out->rc == ERANGE) && !out->len ? 0 : -EPROTO;
	if (kind == NET_WRITE)
		return out->len ? -EPROTO : 0;
	return out->len && out->len <= LANE_PIECE && out->len <= left ? 0 : -EPROTO;
}
