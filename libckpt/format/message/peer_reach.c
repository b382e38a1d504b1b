#include "format/message/peer_reach.h"

#include "format/tensor/fields.h"

const char *peer_reach_name(uint16_t type)
{
	static const char *const names[PEER_REACH_END] = {
		[PEER_REACH_ASK] = "REACH_ASK",
		[PEER_REACH_ANSWER] = "REACH_ANSWER",
		[PEER_REACH_PING] = "REACH_PING",
		[PEER_REACH_PONG] = "REACH_PONG",
	};
	return type < PEER_REACH_END && names[type] ? names[type] : "?";
}

int peer_reach_encode(const struct peer_reach *m, struct wbuf *out)
{
	wbuf_u64(out, m->number);
	if (m->type == PEER_REACH_ANSWER)
		wbuf_u8(out, m->all);
	if (m->type != PEER_REACH_ASK)
		return wbuf_finish(out);
	wbuf_str(out, m->job);
	wbuf_u32(out, m->n);
	for (uint32_t i = 0; i < m->n; i++)
		wbuf_u32(out, m->nodes[i]);
	return wbuf_finish(out);
}

static int get_ask(struct rbuf *r, struct peer_reach *m, struct err *err)
{
	rbuf_str(r, m->job, sizeof(m->job));
	m->n = rbuf_u32(r);
	if (m->n > PEER_REACH_NODES)
		return err_set(err, -EBADMSG, "%s message with %u nodes", peer_reach_name(m->type), m->n);
	for (uint32_t i = 0; i < m->n; i++)
		m->nodes[i] = rbuf_u32(r);
	int rc = r->failed ? 0 : name_check("job", m->job, sizeof(m->job), err);
	return rc ? err_prefix(err, -EBADMSG, "%s message", peer_reach_name(m->type)) : 0;
}

int peer_reach_decode(uint16_t type, const void *body, size_t len, struct peer_reach *m, struct err *err)
{
	struct rbuf r = rbuf_of(body, len);
	m->type = (enum peer_type)type;
	m->number = rbuf_u64(&r);
	m->n = 0;
	m->all = type == PEER_REACH_ANSWER && get_bool(&r);
	int rc = type == PEER_REACH_ASK ? get_ask(&r, m, err) : 0;
	if (!rc && rbuf_finish(&r))
		rc = err_set(err, -EBADMSG, "%s message of %zu bytes is malformed", peer_reach_name(type), len);
	return rc;
}
