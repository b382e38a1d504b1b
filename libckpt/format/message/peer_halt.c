/* The part of messages between nodes that says when a job is to end. */
#include "format/message/peer_parts.h"

#include "format/message/wire.h"
#include "format/tensor/fields.h"

const struct field peer_halt_fields[] = {
	FIELD_U64_OF(struct peer_halt, number),
	FIELD_U32_OF(struct peer_halt, kind),
	FIELD_U64_OF(struct peer_halt, before_ns),
	{0},
};

int peer_halt_check(enum peer_type type, const struct peer_halt *m, struct err *err)
{
	bool asked = m->kind >= COMMAND_HALT && m->kind <= COMMAND_HALT_BEFORE;
	if (m->number > UINT32_MAX) /* it is counted on from there */
		return peer_bad(type, err, "number of a halt", m->number);
	if (m->kind && !asked)
		return peer_bad(type, err, "kind of halt", m->kind);
	return asked && !m->number ? peer_bad(type, err, "number of a halt", 0) : 0;
}
