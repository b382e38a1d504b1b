/* What is said of a restore. */
#include "format/peer_parts.h"

#include "format/fields.h"

void peer_found_put(struct wbuf *out, const struct peer_found *m)
{
	wbuf_u32(out, m->nmemory);
	for (uint32_t i = 0; i < m->nmemory; i++)
		put_id(out, m->memory[i]);
	wbuf_u32(out, (uint32_t)m->storage_rc);
	wbuf_u32(out, m->nstored);
	for (uint32_t i = 0; i < m->nstored; i++)
		put_id(out, m->stored[i]);
	wbuf_str(out, m->why);
}

void peer_found_get(struct rbuf *r, struct peer_found *m)
{
	m->nmemory = rbuf_u32(r);
	if (m->nmemory > PEER_MEMORY)
		r->failed = true;
	for (uint32_t i = 0; !r->failed && i < m->nmemory; i++)
		m->memory[i] = get_id(r);
	m->storage_rc = (int32_t)rbuf_u32(r);
	m->nstored = rbuf_u32(r);
	if (m->nstored > PEER_STORED)
		r->failed = true;
	for (uint32_t i = 0; !r->failed && i < m->nstored; i++)
		m->stored[i] = get_id(r);
	get_text(r, m->why, sizeof(m->why));
}

int peer_found_check(const struct peer_found *m, struct err *err)
{
	int rc = 0;
	for (uint32_t i = 0; !rc && i < m->nmemory; i++)
		rc = peer_check_id(PEER_FOUND, m->memory[i], false, err);
	for (uint32_t i = 0; !rc && i < m->nstored; i++)
		rc = peer_check_id(PEER_FOUND, m->stored[i], false, err);
	return rc ? rc : peer_check_rc(PEER_FOUND, m->storage_rc, err);
}

void peer_bring_put(struct wbuf *out, const struct peer_bring *m)
{
	put_id(out, m->id);
	wbuf_u8(out, m->stored);
	wbuf_u32(out, m->nholders);
	for (uint32_t i = 0; i < m->nholders; i++) {
		wbuf_u32(out, m->holders[i].rank);
		wbuf_u32(out, m->holders[i].node);
	}
}

void peer_bring_get(struct rbuf *r, struct peer_bring *m)
{
	m->id = get_id(r);
	m->stored = get_bool(r);
	m->nholders = rbuf_u32(r);
	if (m->nholders > PEER_HOLDERS)
		r->failed = true;
	for (uint32_t i = 0; !r->failed && i < m->nholders; i++) {
		m->holders[i].rank = rbuf_u32(r);
		m->holders[i].node = rbuf_u32(r);
	}
}

int peer_bring_check(const struct peer_bring *m, struct err *err)
{
	for (uint32_t i = 0; i < m->nholders; i++)
		if (m->holders[i].rank >= RANK_MAX)
			return peer_bad(PEER_BRING, err, "rank", m->holders[i].rank);
	return peer_check_id(PEER_BRING, m->id, false, err);
}

void peer_choice_put(struct wbuf *out, const struct peer_choice *m)
{
	put_id(out, m->id);
	wbuf_u8(out, (uint8_t)m->source);
	wbuf_str(out, m->why);
}

void peer_choice_get(struct rbuf *r, struct peer_choice *m)
{
	m->id = get_id(r);
	m->source = rbuf_u8(r);
	get_text(r, m->why, sizeof(m->why));
}

int peer_choice_check(uint16_t type, const struct peer_choice *m, struct err *err)
{
	if (m->source < WIRE_FROM_MEMORY || m->source > WIRE_FROM_STORAGE)
		return peer_bad(type, err, "source", m->source);
	return peer_check_id(type, m->id, false, err);
}
