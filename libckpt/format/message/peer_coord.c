#include "format/message/peer_coord.h"

#include "format/message/peer_parts.h"
#include "format/tensor/fields.h"

#include <string.h>

static const char *const names[PEER_ORDER_END] = {
	[PEER_NODE_JOIN] = "NODE_JOIN",
	[PEER_LEAVE] = "LEAVE",
	[PEER_RANK_JOIN] = "RANK_JOIN",
	[PEER_NODE_READY] = "NODE_READY",
	[PEER_NOT_JOINING] = "NOT_JOINING",
	[PEER_LOST] = "LOST",
	[PEER_RANK_NOT_BACK] = "RANK_NOT_BACK",
	[PEER_RESTORING] = "RESTORING",
	[PEER_NOT_RESTORING] = "NOT_RESTORING",
	[PEER_RESTORE_CANDIDATES] = "RESTORE_CANDIDATES",
	[PEER_FETCHED] = "FETCHED",
	[PEER_COPIED] = "COPIED",
	[PEER_REACHED] = "REACHED",
	[PEER_UNCOPIED] = "UNCOPIED",
	[PEER_PREPARED] = "PREPARED",
	[PEER_READY] = "READY",
	[PEER_SKIPPED] = "SKIPPED",
	[PEER_CLEARED] = "CLEARED",
	[PEER_FAILED] = "FAILED",
	[PEER_FORGOT] = "FORGOT",
	[PEER_SHARED_PIECES] = "SHARED_PIECES",
	[PEER_CAPACITY] = "CAPACITY",
	[PEER_QUIESCED] = "QUIESCED",
	[PEER_SPILLED] = "SPILLED",
	[PEER_PAUSED] = "PAUSED",
	[PEER_REQUEST] = "REQUEST",
	[PEER_REPLICA_DIGESTS] = "REPLICA_DIGESTS",
	[PEER_COMPARED] = "COMPARED",
	[PEER_LEFT_OUT] = "LEFT_OUT",
	[PEER_RECOVERED] = "RECOVERED",
	[PEER_SCHEDULE_WANTED] = "SCHEDULE_WANTED",
	[PEER_SILENT] = "SILENT",
	[PEER_PACE] = "PACE",
	[PEER_TENSORS] = "TENSORS",
	[PEER_ADOPT] = "ADOPT",
	[PEER_RAISE] = "RAISE",
	[PEER_RANK_WANTED] = "RANK_WANTED",
	[PEER_REJECT] = "REJECT",
	[PEER_END] = "END",
	[PEER_JOINED] = "JOINED",
	[PEER_LOOK] = "LOOK",
	[PEER_RESTORE_FETCH] = "RESTORE_FETCH",
	[PEER_RESTORED] = "RESTORED",
	[PEER_REFUSE] = "REFUSE",
	[PEER_LEVEL] = "LEVEL",
	[PEER_FAIL] = "FAIL",
	[PEER_COPY] = "COPY",
	[PEER_SKIP] = "SKIP",
	[PEER_WRITE] = "WRITE",
	[PEER_CLEAR] = "CLEAR",
	[PEER_QUIESCE] = "QUIESCE",
	[PEER_PLAN] = "PLAN",
	[PEER_SPILL] = "SPILL",
	[PEER_PIN_REPLICATED] = "PIN_REPLICATED",
	[PEER_PAUSE] = "PAUSE",
	[PEER_INVALIDATE_PLAN] = "INVALIDATE_PLAN",
	[PEER_FINISH_STATE] = "FINISH_STATE",
	[PEER_ANNOUNCE] = "ANNOUNCE",
	[PEER_RESIGN] = "RESIGN",
	[PEER_RESUME] = "RESUME",
	[PEER_SCHEDULE] = "SCHEDULE",
	[PEER_STANDSTILL] = "STANDSTILL",
	[PEER_STRAGGLERS] = "STRAGGLERS",
	[PEER_HALT] = "HALT",
	[PEER_LIST_PIECES] = "LIST_PIECES",
	[PEER_LIST_TENSORS] = "LIST_TENSORS",
	[PEER_COMMAND] = "COMMAND",
	[PEER_ANSWER] = "ANSWER",
	[PEER_COMPARE] = "COMPARE",
};

const char *peer_coord_name(uint16_t type)
{
	return type < PEER_ORDER_END && names[type] ? names[type] : "?";
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

static void put_node_join(struct wbuf *out, const struct peer_node_join *m)
{
	wbuf_u32(out, m->world);
	wbuf_u32(out, m->nranks);
	wbuf_u32(out, m->plan);
	wbuf_u32(out, m->known);
	put_id(out, m->replicated);
	wbuf_u8(out, m->finished);
	wbuf_u8(out, m->goes_on);
	wbuf_u8(out, m->gone);
	peer_halt_put(out, &m->halt);
	wbuf_u32(out, m->in);
	for (uint32_t i = 0; m->in && i < m->nranks; i++)
		wbuf_u32(out, m->ranks[i]);
}

static void get_node_join(struct rbuf *r, struct peer_node_join *m)
{
	m->world = rbuf_u32(r);
	m->nranks = rbuf_u32(r);
	m->plan = rbuf_u32(r);
	m->known = rbuf_u32(r);
	m->replicated = get_id(r);
	m->finished = get_bool(r);
	m->goes_on = get_bool(r);
	m->gone = get_bool(r);
	peer_halt_get(r, &m->halt);
	m->in = rbuf_u32(r);
	for (uint32_t i = 0; m->in && i < min_u64(m->nranks, WIRE_LOCAL_MAX); i++)
		m->ranks[i] = rbuf_u32(r);
}

int peer_report_encode(const struct peer_report *m, struct wbuf *out)
{
	wbuf_str(out, m->job);
	wbuf_u32(out, m->epoch);
	switch (m->type) {
	case PEER_NODE_JOIN:
		put_node_join(out, &m->node_join);
		break;
	case PEER_LEAVE:
		wbuf_u8(out, (uint8_t)m->leave);
		break;
	case PEER_RANK_JOIN:
	case PEER_LOST:
	case PEER_RANK_NOT_BACK:
		wbuf_u32(out, m->rank.rank);
		wbuf_u8(out, m->rank.was_in);
		wbuf_str(out, m->rank.why);
		break;
	case PEER_NODE_READY:
		peer_node_ready_put(out, &m->joining);
		break;
	case PEER_RESTORING:
	case PEER_PAUSED:
		wbuf_u64(out, m->step);
		break;
	case PEER_SHARED_PIECES:
		shares_put(out, &m->shares);
		break;
	case PEER_RESTORE_CANDIDATES:
		peer_restore_candidates_put(out, &m->found);
		break;
	case PEER_PREPARED:
		put_id(out, m->prepared.id);
		wbuf_u64(out, m->prepared.maker);
		peer_part_put(out, &m->prepared.part);
		break;
	case PEER_CAPACITY:
		peer_capacity_put(out, &m->assignment);
		break;
	case PEER_QUIESCED:
		wbuf_u32(out, m->quiesced.plan);
		wbuf_u32(out, (uint32_t)m->quiesced.rc);
		wbuf_str(out, m->quiesced.text);
		break;
	case PEER_SPILLED:
		peer_spilled_put(out, &m->spilled);
		break;
	case PEER_REQUEST:
		wbuf_u64(out, m->request.token);
		wire_command_put(out, &m->request.command);
		break;
	case PEER_REPLICA_DIGESTS:
		peer_replica_digests_put(out, &m->replica_digests);
		break;
	case PEER_COMPARED:
		peer_compared_put(out, &m->compared);
		break;
	case PEER_RECOVERED:
		peer_recovered_put(out, &m->recovered);
		break;
	case PEER_SCHEDULE_WANTED:
		peer_schedule_wanted_put(out, &m->schedule_wanted);
		break;
	case PEER_SILENT:
		peer_silent_put(out, &m->silent);
		break;
	case PEER_PACE:
		peer_pace_put(out, &m->pace);
		break;
	case PEER_TENSORS:
		peer_tensors_put(out, &m->tensors);
		break;
	default: /* NOT_JOINING, NOT_RESTORING: no more than this */
		if (is_of_save(m->type))
			peer_save_put(out, &m->save);
		break;
	}
	return wbuf_finish(out);
}

static void get_report(struct rbuf *r, struct peer_report *m)
{
	switch (m->type) {
	case PEER_NODE_JOIN:
		get_node_join(r, &m->node_join);
		return;
	case PEER_LEAVE:
		m->leave = (enum peer_leave)rbuf_u8(r);
		return;
	case PEER_RANK_JOIN:
	case PEER_LOST:
	case PEER_RANK_NOT_BACK:
		m->rank.rank = rbuf_u32(r);
		m->rank.was_in = get_bool(r);
		get_text(r, m->rank.why, sizeof(m->rank.why));
		return;
	case PEER_NODE_READY:
		peer_node_ready_get(r, &m->joining);
		return;
	case PEER_RESTORING:
	case PEER_PAUSED:
		m->step = rbuf_u64(r);
		return;
	case PEER_SHARED_PIECES:
		shares_get(r, &m->shares);
		return;
	case PEER_RESTORE_CANDIDATES:
		peer_restore_candidates_get(r, &m->found);
		return;
	case PEER_PREPARED:
		m->prepared.id = get_id(r);
		m->prepared.maker = rbuf_u64(r);
		peer_part_get(r, &m->prepared.part);
		return;
	case PEER_CAPACITY:
		peer_capacity_get(r, &m->assignment);
		return;
	case PEER_QUIESCED:
		m->quiesced.plan = rbuf_u32(r);
		m->quiesced.rc = (int32_t)rbuf_u32(r);
		get_text(r, m->quiesced.text, sizeof(m->quiesced.text));
		return;
	case PEER_SPILLED:
		peer_spilled_get(r, &m->spilled);
		return;
	case PEER_REQUEST:
		m->request.token = rbuf_u64(r);
		wire_command_get(r, &m->request.command);
		return;
	case PEER_REPLICA_DIGESTS:
		peer_replica_digests_get(r, &m->replica_digests);
		return;
	case PEER_COMPARED:
		peer_compared_get(r, &m->compared);
		return;
	case PEER_RECOVERED:
		peer_recovered_get(r, &m->recovered);
		return;
	case PEER_SCHEDULE_WANTED:
		peer_schedule_wanted_get(r, &m->schedule_wanted);
		return;
	case PEER_SILENT:
		peer_silent_get(r, &m->silent);
		return;
	case PEER_PACE:
		peer_pace_get(r, &m->pace);
		return;
	case PEER_TENSORS:
		peer_tensors_get(r, &m->tensors);
		return;
	default:
		if (is_of_save(m->type))
			peer_save_get(r, &m->save);
		return;
	}
}

static int check_node_join(const struct peer_node_join *m, struct err *err)
{
	if (!m->world || m->world > RANK_MAX)
		return peer_bad(PEER_NODE_JOIN, err, "world", m->world);
	if (!m->nranks || m->nranks > WIRE_LOCAL_MAX || m->nranks > m->world)
		return peer_bad(PEER_NODE_JOIN, err, "ranks", m->nranks);
	if (m->known > EPOCH_MAX || m->in > EPOCH_MAX)
		return peer_bad(PEER_NODE_JOIN, err, "epoch", m->known > m->in ? m->known : m->in);
	for (uint32_t i = 0; m->in && i < m->nranks; i++)
		if (m->ranks[i] >= m->world)
			return peer_bad(PEER_NODE_JOIN, err, "rank", m->ranks[i]);
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
	get_report(&r, m);
	int rc = peer_finish(&r, type, m->job, err);
	if (!rc && m->epoch > EPOCH_MAX)
		rc = peer_bad(type, err, "epoch", m->epoch);
	return rc ? rc : check_report(m, err);
}
