#include "format/message/peer_coord.h"

#include "format/message/peer_parts.h"
#include "format/tensor/fields.h"

#include <string.h>

const char *peer_coord_name(uint16_t type)
{
	const struct peer_message *m = type < PEER_REPORT_END ? &peer_reports[type] : NULL;
	if (type >= PEER_ADOPT && type < PEER_ORDER_END)
		m = &peer_orders[type - PEER_ADOPT];
	return m && m->name ? m->name : "?";
}

int peer_bad(uint16_t type, struct err *err, const char *what, uint64_t value)
{
	return err_set(err, -EBADMSG, "%s message with %s %llu", peer_coord_name(type), what,
		       (unsigned long long)value);
}

int peer_finish(const struct rbuf *r, uint16_t type, const char *job, struct err *err)
{
	if (rbuf_finish(r))
		return err_set(err, -EBADMSG, "%s message of %zu bytes is malformed", peer_coord_name(type), r->len);
	int rc = name_check("job", job, NAME_JOB_MAX, err);
	return rc ? err_prefix(err, -EBADMSG, "%s message", peer_coord_name(type)) : 0;
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

int peer_check_id(uint16_t type, struct step_id id, bool may_be_none, struct err *err)
{
	if (may_be_none && !id.epoch && !id.step)
		return 0;
	if (!id.epoch || id.epoch > EPOCH_MAX)
		return peer_bad(type, err, "a snapshot of epoch", id.epoch);
	return id.step > STEP_MAX ? peer_bad(type, err, "step", id.step) : 0;
}

int peer_check_rc(uint16_t type, int32_t rc, struct err *err)
{
	return rc > 0 || rc < -4095 ? peer_bad(type, err, "code", (uint32_t)rc) : 0;
}

int peer_check_step(uint16_t type, uint64_t step, struct err *err)
{
	return step_may_be_asked(step) ? 0 : peer_bad(type, err, "step", step);
}

/* ---- reports ----------------------------------------------------------------------------------------------------- */

/* Of a save: the same in each. */
static bool is_of_save(enum peer_type type)
{
	switch (type) {
	case PEER_FETCHED:
	case PEER_COPIED:
	case PEER_REACHED:
	case PEER_UNCOPIED:
	case PEER_READY:
	case PEER_SKIPPED:
	case PEER_CLEARED:
	case PEER_FAILED:
	case PEER_FORGOT:
	case PEER_LEFT_OUT:
		return true;
	default:
		return false;
	}
}

/* Behind all else: the ranks, which are there only if it matters who they are. */
static void put_ranks_in(struct wbuf *out, const struct peer_node_join *m)
{
	wbuf_u32(out, m->in);
	for (uint32_t i = 0; peer_names_ranks(m) && i < m->nranks; i++)
		wbuf_u32(out, m->ranks[i]);
}

static void get_ranks_in(struct rbuf *r, struct peer_node_join *m)
{
	m->in = rbuf_u32(r);
	for (uint32_t i = 0; peer_names_ranks(m) && i < min_u64(m->nranks, WIRE_LOCAL_MAX); i++)
		m->ranks[i] = rbuf_u32(r);
}

FIELD_CODEC_OF_TYPE(ranks_in, struct peer_node_join, put_ranks_in, get_ranks_in);
FIELD_CODEC_OF_TYPE(shares, struct shares, shares_put, shares_get);
FIELD_CODEC_OF_TYPE(command, struct wire_command, wire_command_put, wire_command_get);

static const struct field leave_fields[] = {{.kind = FIELD_U8}, {0}};
static const struct field step_fields[] = {{.kind = FIELD_U64}, {0}};
static const struct field shares_fields[] = {{.kind = FIELD_CODEC, .codec = &shares_codec}, {0}};

static const struct field copied_fields[] = {
	FIELD_U64_OF(struct peer_copied, step),
	FIELD_BOOL_OF(struct peer_copied, captured),
	{0},
};

static const struct field node_join_fields[] = {
	FIELD_U32_OF(struct peer_node_join, world),
	FIELD_U32_OF(struct peer_node_join, nranks),
	FIELD_U32_OF(struct peer_node_join, plan),
	FIELD_U32_OF(struct peer_node_join, known),
	FIELD_ID_OF(struct peer_node_join, replicated),
	FIELD_BOOL_OF(struct peer_node_join, finished),
	FIELD_BOOL_OF(struct peer_node_join, goes_on),
	FIELD_BOOL_OF(struct peer_node_join, gone),
	FIELD_PART_OF(struct peer_node_join, halt, peer_halt_fields),
	FIELD_LIST_OF(struct peer_node_join, ncopied, copied, copied_fields),
	{.kind = FIELD_CODEC, .codec = &ranks_in_codec},
	{0},
};

static const struct field rank_fields[] = {
	FIELD_U32_OF(struct peer_rank, rank),
	FIELD_BOOL_OF(struct peer_rank, was_in),
	FIELD_TEXT_OF(struct peer_rank, why),
	{0},
};

static const struct field prepared_fields[] = {
	FIELD_ID_OF(struct peer_prepared, id),
	FIELD_U64_OF(struct peer_prepared, maker),
	FIELD_PART_OF(struct peer_prepared, part, peer_part_fields),
	{0},
};

static const struct field quiesced_fields[] = {
	FIELD_U32_OF(struct peer_quiesced, plan),
	FIELD_U32_OF(struct peer_quiesced, rc),
	FIELD_TEXT_OF(struct peer_quiesced, text),
	{0},
};

static const struct field request_fields[] = {
	FIELD_U64_OF(struct peer_request, token),
	FIELD_CODEC_OF(struct peer_request, command, command_codec),
	{0},
};

/* NOT_JOINING and NOT_RESTORING say no more than the job and the epoch. */
const struct peer_message peer_reports[PEER_REPORT_END] = {
	[PEER_NODE_JOIN] = {"NODE_JOIN", node_join_fields},
	[PEER_LEAVE] = {"LEAVE", leave_fields},
	[PEER_RANK_JOIN] = {"RANK_JOIN", rank_fields},
	[PEER_NODE_READY] = {"NODE_READY", peer_node_ready_fields},
	[PEER_NOT_JOINING] = {"NOT_JOINING"},
	[PEER_LOST] = {"LOST", rank_fields},
	[PEER_RANK_NOT_BACK] = {"RANK_NOT_BACK", rank_fields},
	[PEER_RESTORING] = {"RESTORING", step_fields},
	[PEER_NOT_RESTORING] = {"NOT_RESTORING"},
	[PEER_RESTORE_CANDIDATES] = {"RESTORE_CANDIDATES", peer_restore_candidates_fields},
	[PEER_FETCHED] = {"FETCHED", peer_save_fields},
	[PEER_COPIED] = {"COPIED", peer_save_fields},
	[PEER_REACHED] = {"REACHED", peer_save_fields},
	[PEER_UNCOPIED] = {"UNCOPIED", peer_save_fields},
	[PEER_PREPARED] = {"PREPARED", prepared_fields},
	[PEER_READY] = {"READY", peer_save_fields},
	[PEER_SKIPPED] = {"SKIPPED", peer_save_fields},
	[PEER_CLEARED] = {"CLEARED", peer_save_fields},
	[PEER_FAILED] = {"FAILED", peer_save_fields},
	[PEER_FORGOT] = {"FORGOT", peer_save_fields},
	[PEER_SHARED_PIECES] = {"SHARED_PIECES", shares_fields},
	[PEER_CAPACITY] = {"CAPACITY", peer_capacity_fields},
	[PEER_QUIESCED] = {"QUIESCED", quiesced_fields},
	[PEER_SPILLED] = {"SPILLED", peer_spilled_fields},
	[PEER_PAUSED] = {"PAUSED", step_fields},
	[PEER_REQUEST] = {"REQUEST", request_fields},
	[PEER_REPLICA_DIGESTS] = {"REPLICA_DIGESTS", peer_replica_digests_fields},
	[PEER_COMPARED] = {"COMPARED", peer_compared_fields},
	[PEER_LEFT_OUT] = {"LEFT_OUT", peer_save_fields},
	[PEER_RECOVERED] = {"RECOVERED", peer_recovered_fields},
	[PEER_SCHEDULE_WANTED] = {"SCHEDULE_WANTED", peer_schedule_wanted_fields},
	[PEER_SILENT] = {"SILENT", peer_silent_fields},
	[PEER_PACE] = {"PACE", peer_pace_fields},
	[PEER_TENSORS] = {"TENSORS", peer_tensors_fields},
};

/* All members of the union begin here. */
enum { REPORT_AT = offsetof(struct peer_report, node_join) };

int peer_report_encode(const struct peer_report *m, struct wbuf *out)
{
	wbuf_str(out, m->job);
	wbuf_u32(out, m->epoch);
	fields_put(out, peer_reports[m->type].fields, (const uint8_t *)m + REPORT_AT);
	return wbuf_finish(out);
}

static int check_node_join(const struct peer_node_join *m, struct err *err)
{
	if (!m->world || m->world > RANK_MAX)
		return peer_bad(PEER_NODE_JOIN, err, "world", m->world);
	if (!m->nranks || m->nranks > WIRE_LOCAL_MAX || m->nranks > m->world)
		return peer_bad(PEER_NODE_JOIN, err, "ranks", m->nranks);
	if (m->known > EPOCH_MAX || m->in > EPOCH_MAX)
		return peer_bad(PEER_NODE_JOIN, err, "epoch", m->known > m->in ? m->known : m->in);
	for (uint32_t i = 0; peer_names_ranks(m) && i < m->nranks; i++)
		if (m->ranks[i] >= m->world)
			return peer_bad(PEER_NODE_JOIN, err, "rank", m->ranks[i]);
	for (uint32_t i = 0; i < m->ncopied; i++)
		if (m->copied[i].step > STEP_MAX)
			return peer_bad(PEER_NODE_JOIN, err, "step", i);
	int rc = peer_halt_check(PEER_NODE_JOIN, &m->halt, err);
	return rc ? rc : peer_check_id(PEER_NODE_JOIN, m->replicated, true, err);
}

static int check_report(const struct peer_report *m, struct err *err)
{
	int rc;
	switch (m->type) {
	case PEER_NODE_JOIN:
		return check_node_join(&m->node_join, err);
	case PEER_LEAVE:
		return m->leave >= PEER_LEAVE_END ? peer_bad(m->type, err, "why", m->leave) : 0;
	case PEER_RANK_JOIN:
	case PEER_LOST:
	case PEER_RANK_NOT_BACK:
		return m->rank.rank >= RANK_MAX ? peer_bad(m->type, err, "rank", m->rank.rank) : 0;
	case PEER_RESTORING:
	case PEER_PAUSED:
		return peer_check_step(m->type, m->step, err);
	case PEER_RESTORE_CANDIDATES:
		return peer_restore_candidates_check(&m->found, err);
	case PEER_PREPARED:
		rc = peer_check_id(m->type, m->prepared.id, false, err);
		return rc ? rc : peer_part_check(m->type, &m->prepared.part, err);
	case PEER_CAPACITY:
		return peer_capacity_check(&m->assignment, err);
	case PEER_QUIESCED:
		return peer_check_rc(m->type, m->quiesced.rc, err);
	case PEER_SPILLED:
		return peer_spilled_check(&m->spilled, err);
	case PEER_REQUEST:
		return peer_request_check(&m->request, err);
	case PEER_REPLICA_DIGESTS:
		return peer_replica_digests_check(&m->replica_digests, err);
	case PEER_COMPARED:
		return peer_compared_check(&m->compared, err);
	case PEER_RECOVERED:
		return peer_recovered_check(&m->recovered, err);
	case PEER_SCHEDULE_WANTED:
		return peer_schedule_wanted_check(&m->schedule_wanted, err);
	case PEER_SILENT:
		return peer_silent_check(&m->silent, err);
	case PEER_PACE:
		return peer_pace_check(&m->pace, err);
	case PEER_TENSORS:
		return peer_tensors_ask_check(m->type, &m->tensors.ask, err);
	default:
		return is_of_save(m->type) ? peer_save_check(m->type, &m->save, err) : 0;
	}
}

int peer_report_decode(uint16_t type, const void *body, size_t len, struct peer_report *m, struct err *err)
{
	struct rbuf r = rbuf_of(body, len);
	*m = (struct peer_report){.type = type};
	rbuf_str(&r, m->job, sizeof(m->job));
	m->epoch = rbuf_u32(&r);
	fields_get(&r, type < PEER_REPORT_END ? peer_reports[type].fields : NULL, (uint8_t *)m + REPORT_AT);
	int rc = peer_finish(&r, type, m->job, err);
	if (!rc && m->epoch > EPOCH_MAX)
		rc = peer_bad(type, err, "epoch", m->epoch);
	return rc ? rc : check_report(m, err);
}
