#include "format/message/peer_parts.h"
#include "format/tensor/fields.h"

void peer_tensors_ask_put(struct wbuf *out, const struct peer_tensors_ask *m)
{
	wbuf_u32(out, m->rank);
	wbuf_u32(out, m->first);
	wbuf_u64(out, m->name);
}

void peer_tensors_ask_get(struct rbuf *r, struct peer_tensors_ask *m)
{
	m->rank = rbuf_u32(r);
	m->first = rbuf_u32(r);
	m->name = rbuf_u64(r);
}

int peer_tensors_ask_check(uint16_t type, const struct peer_tensors_ask *m, struct err *err)
{
	if (m->rank >= RANK_MAX)
		return peer_bad(type, err, "rank", m->rank);
	return m->first > REGISTRATION_ENTRIES_MAX ? peer_bad(type, err, "entry", m->first) : 0;
}

void peer_tensors_put(struct wbuf *out, const struct peer_tensors *m)
{
	peer_tensors_ask_put(out, &m->ask);
	wbuf_u64(out, m->digest);
	wbuf_str(out, m->name);
	wbuf_str(out, m->text);
	wbuf_u32(out, m->next);
	wbuf_u32(out, m->n);
	wbuf_put(out, m->heads, (size_t)m->n * TENSOR_HEAD_SIZE);
}

/* The entry that follows is a later one, so that a list ends. */
void peer_tensors_get(struct rbuf *r, struct peer_tensors *m)
{
	peer_tensors_ask_get(r, &m->ask);
	m->digest = rbuf_u64(r);
	get_text(r, m->name, sizeof(m->name));
	get_text(r, m->text, sizeof(m->text));
	m->next = rbuf_u32(r);
	m->n = rbuf_u32(r);
	if (m->n > PEER_TENSORS_LISTED || (m->next && m->next <= m->ask.first))
		r->failed = true;
	m->heads = rbuf_take(r, r->failed ? 0 : (size_t)m->n * TENSOR_HEAD_SIZE);
}
