/* The part of messages between nodes that says when a job is to end. */
#include "format/message/peer_parts.h"

#include "format/message/wire.h"
#include "format/tensor/fields.h"

void peer_halt_put(struct wbuf *out, const struct peer_halt *m)
{
	wbuf_u64(out, m->number);
	wbuf_u32(out, m->kind);
	wbuf_u64(out, m->before_ns);
}

void peer_halt_get(struct rbuf *r, struct peer_halt *m)
{
	m->number = rbuf_u64(r);
	m->kind = rbuf_u32(r);
	m->before_ns = rbuf_u64(r);
}

int peer_halt_check(enum peer_type type, const struct peer_halt *m, struct err *err)
{
	bool asked = m->kind >= COMMAND_HALT && m->kind <= COMMAND_HALT_BEFORE;
	if (m->number > UINT32_MAX) /* it is counted on from there */
		return peer_bad(type, err, "number of a halt", m->number);
	if (m->kind && !asked)
		return peer_bad(type, err, "kind of halt", m->kind);
	return asked && !m->number ? peer_bad(type, err, "number of a halt", 0) : 0;
}
