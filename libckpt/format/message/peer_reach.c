#include "format/message/peer_reach.h"

#include "format/message/field.h"

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

static const struct field number_fields[] = {FIELD_U64_OF(struct peer_reach, number), {0}};

static const struct field ask_fields[] = {
	FIELD_U64_OF(struct peer_reach, number),
	FIELD_NAME_OF(struct peer_reach, job),
	FIELD_LIST_OF(struct peer_reach, n, nodes, field_one_u32),
	{0},
};

static const struct field answer_fields[] = {
	FIELD_U64_OF(struct peer_reach, number),
	FIELD_BOOL_OF(struct peer_reach, all),
	{0},
};

static const struct field *fields_of(uint16_t type)
{
	return type == PEER_REACH_ASK ? ask_fields : type == PEER_REACH_ANSWER ? answer_fields : number_fields;
}

int peer_reach_encode(const struct peer_reach *m, struct wbuf *out)
{
	fields_put(out, fields_of((uint16_t)m->type), m);
	return wbuf_finish(out);
}

int peer_reach_decode(uint16_t type, const void *body, size_t len, struct peer_reach *m, struct err *err)
{
	struct rbuf r = rbuf_of(body, len);
	m->type = (enum peer_type)type;
	m->n = 0;
	m->all = false;
	fields_get(&r, fields_of(type), m);
	if (rbuf_finish(&r))
		return err_set(err, -EBADMSG, "%s message of %zu bytes is malformed", peer_reach_name(type), len);
	int rc = type == PEER_REACH_ASK ? name_check("job", m->job, sizeof(m->job), err) : 0;
	return rc ? err_prefix(err, -EBADMSG, "%s message", peer_reach_name(type)) : 0;
}
