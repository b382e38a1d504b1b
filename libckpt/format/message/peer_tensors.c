#include "format/message/peer_parts.h"
#include "format/tensor/fields.h"

const struct field peer_tensors_ask_fields[] = {
	FIELD_U32_OF(struct peer_tensors_ask, rank),
	FIELD_U32_OF(struct peer_tensors_ask, first),
	FIELD_U64_OF(struct peer_tensors_ask, name),
	{0},
};

int peer_tensors_ask_check(uint16_t type, const struct peer_tensors_ask *m, struct err *err)
{
	if (m->rank >= RANK_MAX)
		return peer_bad(type, err, "rank", m->rank);
	return m->first > REGISTRATION_ENTRIES_MAX ? peer_bad(type, err, "entry", m->first) : 0;
}

static void tensors_put(struct wbuf *out, const struct peer_tensors *m)
{
	fields_put(out, peer_tensors_ask_fields, &m->ask);
	wbuf_u64(out, m->digest);
	wbuf_str(out, m->name);
	wbuf_str(out, m->text);
	wbuf_u32(out, m->next);
	wbuf_u32(out, m->n);
	wbuf_put(out, m->heads, (size_t)m->n * TENSOR_HEAD_SIZE);
}

/* The entry that follows is a later one, so that a list ends. */
static void tensors_get(struct rbuf *r, struct peer_tensors *m)
{
	fields_get(r, peer_tensors_ask_fields, &m->ask);
	m->digest = rbuf_u64(r);
	get_text(r, m->name, sizeof(m->name));
	get_text(r, m->text, sizeof(m->text));
	m->next = rbuf_u32(r);
	m->n = rbuf_u32(r);
	if (m->n > PEER_TENSORS_LISTED || (m->next && m->next <= m->ask.first))
		r->failed = true;
	m->heads = rbuf_take(r, r->failed ? 0 : (size_t)m->n * TENSOR_HEAD_SIZE);
}

FIELD_CODEC_OF_TYPE(tensors, struct peer_tensors, tensors_put, tensors_get);
const struct field peer_tensors_fields[] = {{.kind = FIELD_CODEC, .codec = &tensors_codec}, {0}};
