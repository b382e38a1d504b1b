/* Parts of messages between nodes that have a table or a text of their own: of entering, restores, saves, assignments and commands. */
#include "format/message/peer_parts.h"

#include "format/files/plan_record.h"
#include "format/tensor/fields.h"

static void node_ready_put(struct wbuf *out, const struct peer_node_ready *m)
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

static void node_ready_get(struct rbuf *r, struct peer_node_ready *m)
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

FIELD_CODEC_OF_TYPE(node_ready, struct peer_node_ready, node_ready_put, node_ready_get);
const struct field peer_node_ready_fields[] = {{.kind = FIELD_CODEC, .codec = &node_ready_codec}, {0}};

const struct field peer_restore_candidates_fields[] = {
	FIELD_LIST_OF(struct peer_restore_candidates, nranks, ranks, field_one_u32),
	FIELD_LIST_OF(struct peer_restore_candidates, nmemory, memory, field_one_id),
	FIELD_U32_OF(struct peer_restore_candidates, storage_rc),
	FIELD_LIST_OF(struct peer_restore_candidates, nstored, stored, field_one_id),
	FIELD_BOOL_OF(struct peer_restore_candidates, others),
	FIELD_TEXT_OF(struct peer_restore_candidates, why),
	{0},
};

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

static const struct field holder_fields[] = {
	FIELD_U32_OF(struct peer_holder, rank),
	FIELD_U32_OF(struct peer_holder, node),
	{0},
};

const struct field peer_restore_fetch_fields[] = {
	FIELD_ID_OF(struct peer_restore_fetch, id),
	FIELD_U32_OF(struct peer_restore_fetch, world),
	FIELD_BOOL_OF(struct peer_restore_fetch, stored),
	FIELD_BOOL_OF(struct peer_restore_fetch, recut),
	FIELD_LIST_OF(struct peer_restore_fetch, nholders, holders, holder_fields),
	{0},
};

int peer_restore_fetch_check(uint16_t type, const struct peer_restore_fetch *m, struct err *err)
{
	for (uint32_t i = 0; i < m->nholders; i++)
		if (m->holders[i].rank >= RANK_MAX)
			return peer_bad(type, err, "rank", m->holders[i].rank);
	if (m->world > RANK_MAX || (m->recut && !m->world))
		return peer_bad(type, err, "world", m->world);
	return peer_check_id(type, m->id, false, err);
}

static const struct field rollback_fields[] = {
	FIELD_U32_OF(struct rollback, at),
	FIELD_ID_OF(struct rollback, to),
	{0},
};

const struct field peer_look_fields[] = {
	FIELD_U64_OF(struct peer_look, step),
	FIELD_LIST_OF(struct peer_look, back.n, back.of, rollback_fields),
	{0},
};

int peer_look_check(const struct peer_look *m, struct err *err)
{
	if (!rollbacks_are_sound(&m->back))
		return peer_bad(PEER_LOOK, err, "rollbacks", m->back.n);
	return peer_check_step(PEER_LOOK, m->step, err);
}

const struct field peer_choice_fields[] = {
	FIELD_ID_OF(struct peer_choice, id),
	FIELD_U8_OF(struct peer_choice, source),
	FIELD_TEXT_OF(struct peer_choice, why),
	{0},
};

int peer_choice_check(uint16_t type, const struct peer_choice *m, struct err *err)
{
	if (m->source < WIRE_FROM_MEMORY || m->source > WIRE_FROM_STORAGE)
		return peer_bad(type, err, "source", m->source);
	return peer_check_id(type, m->id, false, err);
}

/* ---- save ---------------------------------------------------------------------------------------------------------- */

FIELD_CODEC_OF_TYPE(share_parts, struct share_parts, share_parts_put, share_parts_get);

const struct field peer_save_fields[] = {
	FIELD_ID_OF(struct peer_save, id),
	FIELD_U8_OF(struct peer_save, level),
	FIELD_BOOL_OF(struct peer_save, flag),
	FIELD_U64_OF(struct peer_save, maker),
	FIELD_CODEC_OF(struct peer_save, parts, share_parts_codec),
	FIELD_U32_OF(struct peer_save, rc),
	FIELD_TEXT_OF(struct peer_save, text),
	{0},
};

/* Who hears of them marks the save with the code: without one it would have failed, and not failed. */
static bool needs_code(uint16_t type)
{
	return type == PEER_FAILED || type == PEER_FAIL || type == PEER_SKIPPED || type == PEER_SKIP;
}

/* A source that is none would be told to all nodes, which refuse it, and end their sessions with the coordinator. */
int peer_save_check(uint16_t type, const struct peer_save *m, struct err *err)
{
	int rc = peer_check_id(type, m->id, false, err);
	if (!rc && m->level > LEVEL_VERIFIED)
		rc = peer_bad(type, err, "level", m->level);
	if (!rc && type == PEER_FETCHED && !m->rc && m->level > WIRE_FROM_STORAGE)
		rc = peer_bad(type, err, "source", m->level);
	if (!rc && needs_code(type) && !m->rc)
		rc = peer_bad(type, err, "code", 0);
	return rc ? rc : peer_check_rc(type, m->rc, err);
}

/* ---- assignment -------------------------------------------------------------------------------------------------------- */

const struct field peer_capacity_fields[] = {
	FIELD_U32_OF(struct peer_capacity, want),
	FIELD_U32_OF(struct peer_capacity, least),
	FIELD_U32_OF(struct peer_capacity, processes),
	FIELD_BOOL_OF(struct peer_capacity, spare),
	FIELD_BOOL_OF(struct peer_capacity, leaving),
	FIELD_BOOL_OF(struct peer_capacity, drained),
	FIELD_TEXT_OF(struct peer_capacity, unfit),
	FIELD_U32_OF(struct peer_capacity, plan),
	FIELD_U32_OF(struct peer_capacity, world),
	FIELD_LIST_OF(struct peer_capacity, n, ranks, field_one_u32),
	{0},
};

int peer_capacity_check(const struct peer_capacity *m, struct err *err)
{
	if (!m->least || m->least > m->want || m->want > RANK_MAX)
		return peer_bad(PEER_CAPACITY, err, "ranks of the job", m->want);
	if (m->processes > WIRE_LOCAL_MAX || m->n > m->processes)
		return peer_bad(PEER_CAPACITY, err, "processes", m->processes);
	if (m->plan > PLAN_FOLLOWED_MAX)
		return peer_bad(PEER_CAPACITY, err, "plan", m->plan);
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

static void recovered_put(struct wbuf *out, const struct peer_recovered *m)
{
	wbuf_u64(out, m->at_ns);
	wbuf_u32(out, m->len);
	wbuf_put(out, m->text, m->len);
}

static void recovered_get(struct rbuf *r, struct peer_recovered *m)
{
	m->at_ns = rbuf_u64(r);
	m->len = rbuf_u32(r);
	m->text = rbuf_take(r, m->len);
}

FIELD_CODEC_OF_TYPE(recovered, struct peer_recovered, recovered_put, recovered_get);
const struct field peer_recovered_fields[] = {{.kind = FIELD_CODEC, .codec = &recovered_codec}, {0}};

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

FIELD_CODEC_OF_TYPE(schedule, struct schedule, schedule_encode, schedule_decode);

const struct field peer_schedule_wanted_fields[] = {
	FIELD_U64_OF(struct peer_schedule_wanted, step),
	FIELD_CODEC_OF(struct peer_schedule_wanted, held, schedule_codec),
	FIELD_U64_OF(struct peer_schedule_wanted, memory_every),
	FIELD_U64_OF(struct peer_schedule_wanted, storage_every),
	FIELD_U64_OF(struct peer_schedule_wanted, steps),
	{0},
};

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
