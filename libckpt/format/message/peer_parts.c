/* Parts of messages between nodes that have a table or a text of their own: of entering, restores, saves, assignments and commands. */
#include "format/message/peer_parts.h"

#include "format/tensor/fields.h"

void peer_node_ready_put(struct wbuf *out, const struct peer_node_ready *m)
{
	wbuf_u32(out, m->n);
	for (uint32_t i = 0; i < m->n; i++) {
		wbuf_u32(out, m->ranks[i]);
		wbuf_u64(out, m->tensors[i]);
		wbuf_u16(out, (uint16_t)m->lens[i]);
		wbuf_put(out, m->addresses + (size_t)i * WIRE_ADDRESS_MAX, m->lens[i]);
	}
	job_blobs_put(out, &m->blobs);
	wbuf_u8(out, m->goes_on);
}

void peer_node_ready_get(struct rbuf *r, struct peer_node_ready *m)
{
	m->n = rbuf_u32(r);
	if (m->n > WIRE_LOCAL_MAX)
		r->failed = true;
	for (uint32_t i = 0; !r->failed && i < m->n; i++) {
		m->ranks[i] = rbuf_u32(r);
		m->tensors[i] = rbuf_u64(r);
		m->lens[i] = rbuf_u16(r);
		if (m->lens[i] > WIRE_ADDRESS_MAX || m->ranks[i] >= RANK_MAX)
			r->failed = true;
		else
			rbuf_get(r, m->addresses + (size_t)i * WIRE_ADDRESS_MAX, m->lens[i]);
	}
	job_blobs_get(r, &m->blobs);
	m->goes_on = get_bool(r);
}

void peer_restore_candidates_put(struct wbuf *out, const struct peer_restore_candidates *m)
{
	wbuf_u32(out, m->nranks);
	for (uint32_t i = 0; i < m->nranks; i++)
		wbuf_u32(out, m->ranks[i]);
	wbuf_u32(out, m->nmemory);
	for (uint32_t i = 0; i < m->nmemory; i++)
		put_id(out, m->memory[i]);
	wbuf_u32(out, (uint32_t)m->storage_rc);
	wbuf_u32(out, m->nstored);
	for (uint32_t i = 0; i < m->nstored; i++)
		put_id(out, m->stored[i]);
	wbuf_u8(out, m->others);
	wbuf_str(out, m->why);
}

void peer_restore_candidates_get(struct rbuf *r, struct peer_restore_candidates *m)
{
	m->nranks = rbuf_u32(r);
	if (m->nranks > WIRE_LOCAL_MAX)
		r->failed = true;
	for (uint32_t i = 0; !r->failed && i < m->nranks; i++)
		m->ranks[i] = rbuf_u32(r);
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
	m->others = rbuf_u8(r);
	get_text(r, m->why, sizeof(m->why));
}

int peer_restore_candidates_check(const struct peer_restore_candidates *m, struct err *err)
{
	int rc = 0;
	for (uint32_t i = 0; !rc && i < m->nranks; i++)
		rc = m->ranks[i] >= RANK_MAX ? peer_bad(PEER_RESTORE_CANDIDATES, err, "rank", m->ranks[i]) : 0;
	for (uint32_t i = 0; !rc && i < m->nmemory; i++)
		rc = peer_check_id(PEER_RESTORE_CANDIDATES, m->memory[i], false, err);
	for (uint32_t i = 0; !rc && i < m->nstored; i++)
		rc = peer_check_id(PEER_RESTORE_CANDIDATES, m->stored[i], false, err);
	return rc ? rc : peer_check_rc(PEER_RESTORE_CANDIDATES, m->storage_rc, err);
}

void peer_restore_fetch_put(struct wbuf *out, const struct peer_restore_fetch *m)
{
	put_id(out, m->id);
	wbuf_u32(out, m->world);
	wbuf_u8(out, m->stored);
	wbuf_u8(out, m->recut);
	wbuf_u32(out, m->nholders);
	for (uint32_t i = 0; i < m->nholders; i++) {
		wbuf_u32(out, m->holders[i].rank);
		wbuf_u32(out, m->holders[i].node);
	}
}

void peer_restore_fetch_get(struct rbuf *r, struct peer_restore_fetch *m)
{
	m->id = get_id(r);
	m->world = rbuf_u32(r);
	m->stored = get_bool(r);
	m->recut = get_bool(r);
	m->nholders = rbuf_u32(r);
	if (m->nholders > PEER_HOLDERS)
		r->failed = true;
	for (uint32_t i = 0; !r->failed && i < m->nholders; i++) {
		m->holders[i].rank = rbuf_u32(r);
		m->holders[i].node = rbuf_u32(r);
	}
}

int peer_restore_fetch_check(uint16_t type, const struct peer_restore_fetch *m, struct err *err)
{
	for (uint32_t i = 0; i < m->nholders; i++)
		if (m->holders[i].rank >= RANK_MAX)
			return peer_bad(type, err, "rank", m->holders[i].rank);
	if (m->world > RANK_MAX || (m->recut && !m->world))
		return peer_bad(type, err, "world", m->world);
	return peer_check_id(type, m->id, false, err);
}

void peer_look_put(struct wbuf *out, const struct peer_look *m)
{
	wbuf_u64(out, m->step);
	wbuf_u32(out, m->back.n);
	for (uint32_t i = 0; i < m->back.n; i++) {
		wbuf_u32(out, m->back.of[i].at);
		put_id(out, m->back.of[i].to);
	}
}

void peer_look_get(struct rbuf *r, struct peer_look *m)
{
	m->step = rbuf_u64(r);
	m->back.n = rbuf_u32(r);
	if (m->back.n > ROLLBACKS_MAX)
		r->failed = true;
	for (uint32_t i = 0; !r->failed && i < m->back.n; i++) {
		m->back.of[i].at = rbuf_u32(r);
		m->back.of[i].to = get_id(r);
	}
}

int peer_look_check(const struct peer_look *m, struct err *err)
{
	if (!rollbacks_are_sound(&m->back))
		return peer_bad(PEER_LOOK, err, "rollbacks", m->back.n);
	return peer_check_step(PEER_LOOK, m->step, err);
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

/* ---- save ---------------------------------------------------------------------------------------------------------- */

void peer_save_put(struct wbuf *out, const struct peer_save *m)
{
	put_id(out, m->id);
	wbuf_u8(out, (uint8_t)m->level);
	wbuf_u8(out, m->flag);
	wbuf_u64(out, m->maker);
	share_parts_put(out, &m->parts);
	wbuf_u32(out, (uint32_t)m->rc);
	wbuf_str(out, m->text);
}

void peer_save_get(struct rbuf *r, struct peer_save *m)
{
	m->id = get_id(r);
	m->level = rbuf_u8(r);
	m->flag = get_bool(r);
	m->maker = rbuf_u64(r);
	share_parts_get(r, &m->parts);
	m->rc = (int32_t)rbuf_u32(r);
	get_text(r, m->text, sizeof(m->text));
}

int peer_save_check(uint16_t type, const struct peer_save *m, struct err *err)
{
	int rc = peer_check_id(type, m->id, false, err);
	if (!rc && m->level > LEVEL_VERIFIED)
		rc = peer_bad(type, err, "level", m->level);
	return rc ? rc : peer_check_rc(type, m->rc, err);
}

/* ---- assignment -------------------------------------------------------------------------------------------------------- */

void peer_capacity_put(struct wbuf *out, const struct peer_capacity *m)
{
	wbuf_u32(out, m->want);
	wbuf_u32(out, m->least);
	wbuf_u32(out, m->processes);
	wbuf_u8(out, m->spare);
	wbuf_u8(out, m->leaving);
	wbuf_u8(out, m->drained);
	wbuf_str(out, m->unfit);
	wbuf_u32(out, m->plan);
	wbuf_u32(out, m->world);
	wbuf_u32(out, m->n);
	for (uint32_t i = 0; i < m->n; i++)
		wbuf_u32(out, m->ranks[i]);
}

void peer_capacity_get(struct rbuf *r, struct peer_capacity *m)
{
	m->want = rbuf_u32(r);
	m->least = rbuf_u32(r);
	m->processes = rbuf_u32(r);
	m->spare = get_bool(r);
	m->leaving = get_bool(r);
	m->drained = get_bool(r);
	get_text(r, m->unfit, sizeof(m->unfit));
	m->plan = rbuf_u32(r);
	m->world = rbuf_u32(r);
	m->n = rbuf_u32(r);
	if (m->n > WIRE_LOCAL_MAX)
		r->failed = true;
	for (uint32_t i = 0; !r->failed && i < m->n; i++)
		m->ranks[i] = rbuf_u32(r);
}

int peer_capacity_check(const struct peer_capacity *m, struct err *err)
{
	if (!m->least || m->least > m->want || m->want > RANK_MAX)
		return peer_bad(PEER_CAPACITY, err, "ranks of the job", m->want);
	if (m->processes > WIRE_LOCAL_MAX || m->n > m->processes)
		return peer_bad(PEER_CAPACITY, err, "processes", m->processes);
	if (m->world > m->want || (m->n && !m->plan))
		return peer_bad(PEER_CAPACITY, err, "world", m->world);
	for (uint32_t i = 0; i < m->n; i++)
		if (m->ranks[i] >= m->world)
			return peer_bad(PEER_CAPACITY, err, "rank", m->ranks[i]);
	return 0;
}

/* ---- command ------------------------------------------------------------------------------------------------------ */

/* The coordinator lets nodes go by itself, and tells them so. */
int peer_request_check(const struct peer_request *m, struct err *err)
{
	bool drain = wire_command_is_drain(&m->command), answered = m->token;
	return (drain != answered && !wire_command_is_halt(&m->command)) || m->command.kind == COMMAND_REMOVE ||
			       m->command.kind == COMMAND_CLEAR
		       ? peer_bad(PEER_REQUEST, err, "kind", m->command.kind)
		       : wire_command_check(&m->command, err);
}

/* A node is not told to forget a node, nor to go back: the coordinator does both (kinds from REMOVE on). */
int peer_command_check(const struct wire_command *m, struct err *err)
{
	return m->kind == COMMAND_DRAINED || m->kind >= COMMAND_REMOVE ? peer_bad(PEER_COMMAND, err, "kind", m->kind)
								       : wire_command_check(m, err);
}

/* ---- RECOVERED --------------------------------------------------------------------------------------------------- */

void peer_recovered_put(struct wbuf *out, const struct peer_recovered *m)
{
	wbuf_u64(out, m->at_ns);
	wbuf_u32(out, m->len);
	wbuf_put(out, m->text, m->len);
}

void peer_recovered_get(struct rbuf *r, struct peer_recovered *m)
{
	m->at_ns = rbuf_u64(r);
	m->len = rbuf_u32(r);
	m->text = rbuf_take(r, m->len);
}

int peer_recovered_check(const struct peer_recovered *m, struct err *err)
{
	if (!m->len || m->len > PEER_RECOVERED_MAX)
		return peer_bad(PEER_RECOVERED, err, "a text of bytes", m->len);
	if (m->at_ns > INT64_MAX)
		return peer_bad(PEER_RECOVERED, err, "a time of", m->at_ns);
	for (uint32_t i = 0; i < m->len; i++)
		if ((uint8_t)m->text[i] < 0x20 || m->text[i] == 0x7f)
			return peer_bad(PEER_RECOVERED, err, "a control character at byte", i);
	return 0;
}

/* ---- schedules --------------------------------------------------------------------------------------------------- */

void peer_schedule_wanted_put(struct wbuf *out, const struct peer_schedule_wanted *m)
{
	wbuf_u64(out, m->step);
	schedule_encode(out, &m->held);
	wbuf_u64(out, m->memory_every);
	wbuf_u64(out, m->storage_every);
	wbuf_u64(out, m->steps);
}

void peer_schedule_wanted_get(struct rbuf *r, struct peer_schedule_wanted *m)
{
	m->step = rbuf_u64(r);
	schedule_decode(r, &m->held);
	m->memory_every = rbuf_u64(r);
	m->storage_every = rbuf_u64(r);
	m->steps = rbuf_u64(r);
}

int peer_schedule_wanted_check(const struct peer_schedule_wanted *m, struct err *err)
{
	uint64_t longest = max_u64(m->memory_every, m->storage_every);
	int rc = schedule_check(&m->held, true, err);
	if (rc)
		return err_prefix(err, rc, "%s message", peer_coord_name(PEER_SCHEDULE_WANTED));
	if (m->step > STEP_MAX && m->step != UINT64_MAX)
		return peer_bad(PEER_SCHEDULE_WANTED, err, "step", m->step);
	if (longest > STEP_MAX)
		return peer_bad(PEER_SCHEDULE_WANTED, err, "an interval of steps", longest);
	return !m->steps || m->steps > STEP_MAX ? peer_bad(PEER_SCHEDULE_WANTED, err, "steps", m->steps) : 0;
}
