#include "format/peer_coord.h"

#include "format/fields.h"
#include "format/peer_parts.h"

#include <string.h>

static const char *const names[PEER_ORDER_END] = {
	[PEER_ATTEND] = "ATTEND",
	[PEER_LEAVE] = "LEAVE",
	[PEER_WANT] = "WANT",
	[PEER_JOINING] = "JOINING",
	[PEER_NOT_JOINING] = "NOT_JOINING",
	[PEER_LOST] = "LOST",
	[PEER_MISSING] = "MISSING",
	[PEER_RESTORING] = "RESTORING",
	[PEER_NOT_RESTORING] = "NOT_RESTORING",
	[PEER_FOUND] = "FOUND",
	[PEER_FETCHED] = "FETCHED",
	[PEER_COPIED] = "COPIED",
	[PEER_REACHED] = "REACHED",
	[PEER_UNCOPIED] = "UNCOPIED",
	[PEER_PREPARED] = "PREPARED",
	[PEER_READY] = "READY",
	[PEER_PASSED] = "PASSED",
	[PEER_CLEARED] = "CLEARED",
	[PEER_FAILED] = "FAILED",
	[PEER_FORGOT] = "FORGOT",
	[PEER_SHARES] = "SHARES",
	[PEER_CREW] = "CREW",
	[PEER_SETTLED] = "SETTLED",
	[PEER_RESCUED] = "RESCUED",
	[PEER_PAUSED] = "PAUSED",
	[PEER_ASK] = "ASK",
	[PEER_VOTES] = "VOTES",
	[PEER_COMPARED] = "COMPARED",
	[PEER_LEFT_OUT] = "LEFT_OUT",
	[PEER_RECOVERED] = "RECOVERED",
	[PEER_ADOPT] = "ADOPT",
	[PEER_RAISE] = "RAISE",
	[PEER_TELL] = "TELL",
	[PEER_TURN_AWAY] = "TURN_AWAY",
	[PEER_END] = "END",
	[PEER_JOINED] = "JOINED",
	[PEER_LOOK] = "LOOK",
	[PEER_BRING] = "BRING",
	[PEER_RESTORED] = "RESTORED",
	[PEER_REFUSE] = "REFUSE",
	[PEER_LEVEL] = "LEVEL",
	[PEER_FAIL] = "FAIL",
	[PEER_COPY] = "COPY",
	[PEER_PASS] = "PASS",
	[PEER_WRITE] = "WRITE",
	[PEER_CLEAR] = "CLEAR",
	[PEER_SETTLE] = "SETTLE",
	[PEER_PLAN] = "PLAN",
	[PEER_STOP] = "STOP",
	[PEER_RESCUE] = "RESCUE",
	[PEER_KEEP] = "KEEP",
	[PEER_PAUSE] = "PAUSE",
	[PEER_VACATE] = "VACATE",
	[PEER_FAREWELL] = "FAREWELL",
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

int peer_report_encode(const struct peer_report *m, struct wbuf *out)
{
	wbuf_str(out, m->job);
	wbuf_u32(out, m->epoch);
	switch (m->type) {
	case PEER_ATTEND:
		wbuf_u32(out, m->attend.world);
		wbuf_u32(out, m->attend.nranks);
		wbuf_u32(out, m->attend.plan);
		wbuf_u32(out, m->attend.known);
		put_id(out, m->attend.replicated);
		wbuf_u8(out, m->attend.finished);
		break;
	case PEER_LEAVE:
		wbuf_u8(out, m->finished);
		break;
	case PEER_WANT:
	case PEER_LOST:
	case PEER_MISSING:
		wbuf_u32(out, m->rank.rank);
		wbuf_u8(out, m->rank.was_in);
		wbuf_str(out, m->rank.why);
		break;
	case PEER_JOINING:
		peer_joining_put(out, &m->joining);
		break;
	case PEER_RESTORING:
	case PEER_PAUSED:
		wbuf_u64(out, m->step);
		break;
	case PEER_SHARES:
		shares_put(out, &m->shares);
		break;
	case PEER_FOUND:
		peer_found_put(out, &m->found);
		break;
	case PEER_PREPARED:
		put_id(out, m->prepared.id);
		peer_part_put(out, &m->prepared.part);
		break;
	case PEER_CREW:
		peer_crew_put(out, &m->crew);
		break;
	case PEER_SETTLED:
		wbuf_u32(out, m->settled.plan);
		wbuf_u32(out, (uint32_t)m->settled.rc);
		wbuf_str(out, m->settled.text);
		break;
	case PEER_RESCUED:
		peer_rescued_put(out, &m->rescued);
		break;
	case PEER_ASK:
		wbuf_u64(out, m->ask.token);
		wire_command_put(out, &m->ask.command);
		break;
	case PEER_VOTES:
		peer_votes_put(out, &m->votes);
		break;
	case PEER_COMPARED:
		peer_compared_put(out, &m->compared);
		break;
	case PEER_RECOVERED:
		peer_recovered_put(out, &m->recovered);
		break;
	case PEER_FETCHED:
	case PEER_COPIED:
	case PEER_REACHED:
	case PEER_UNCOPIED:
	case PEER_READY:
	case PEER_PASSED:
	case PEER_CLEARED:
	case PEER_FAILED:
	case PEER_FORGOT:
	case PEER_LEFT_OUT:
		peer_save_put(out, &m->save);
		break;
	default: /* NOT_JOINING, NOT_RESTORING: no more than this */
		break;
	}
	return wbuf_finish(out);
}

static void get_report(struct rbuf *r, struct peer_report *m)
{
	switch (m->type) {
	case PEER_ATTEND:
		m->attend.world = rbuf_u32(r);
		m->attend.nranks = rbuf_u32(r);
		m->attend.plan = rbuf_u32(r);
		m->attend.known = rbuf_u32(r);
		m->attend.replicated = get_id(r);
		m->attend.finished = get_bool(r);
		return;
	case PEER_LEAVE:
		m->finished = get_bool(r);
		return;
	case PEER_WANT:
	case PEER_LOST:
	case PEER_MISSING:
		m->rank.rank = rbuf_u32(r);
		m->rank.was_in = get_bool(r);
		get_text(r, m->rank.why, sizeof(m->rank.why));
		return;
	case PEER_JOINING:
		peer_joining_get(r, &m->joining);
		return;
	case PEER_RESTORING:
	case PEER_PAUSED:
		m->step = rbuf_u64(r);
		return;
	case PEER_SHARES:
		shares_get(r, &m->shares);
		return;
	case PEER_FOUND:
		peer_found_get(r, &m->found);
		return;
	case PEER_PREPARED:
		m->prepared.id = get_id(r);
		peer_part_get(r, &m->prepared.part);
		return;
	case PEER_CREW:
		peer_crew_get(r, &m->crew);
		return;
	case PEER_SETTLED:
		m->settled.plan = rbuf_u32(r);
		m->settled.rc = (int32_t)rbuf_u32(r);
		get_text(r, m->settled.text, sizeof(m->settled.text));
		return;
	case PEER_RESCUED:
		peer_rescued_get(r, &m->rescued);
		return;
	case PEER_ASK:
		m->ask.token = rbuf_u64(r);
		wire_command_get(r, &m->ask.command);
		return;
	case PEER_VOTES:
		peer_votes_get(r, &m->votes);
		return;
	case PEER_COMPARED:
		peer_compared_get(r, &m->compared);
		return;
	case PEER_RECOVERED:
		peer_recovered_get(r, &m->recovered);
		return;
	case PEER_FETCHED:
	case PEER_COPIED:
	case PEER_REACHED:
	case PEER_UNCOPIED:
	case PEER_READY:
	case PEER_PASSED:
	case PEER_CLEARED:
	case PEER_FAILED:
	case PEER_FORGOT:
	case PEER_LEFT_OUT:
		peer_save_get(r, &m->save);
		return;
	default:
		return;
	}
}

static int check_attend(const struct peer_attend *m, struct err *err)
{
	if (!m->world || m->world > RANK_MAX)
		return peer_bad(PEER_ATTEND, err, "world", m->world);
	if (!m->nranks || m->nranks > WIRE_LOCAL_MAX || m->nranks > m->world)
		return peer_bad(PEER_ATTEND, err, "ranks", m->nranks);
	if (m->known > EPOCH_MAX)
		return peer_bad(PEER_ATTEND, err, "epoch", m->known);
	return peer_check_id(PEER_ATTEND, m->replicated, true, err);
}

static int check_report(const struct peer_report *m, struct err *err)
{
	int rc;
	switch (m->type) {
	case PEER_ATTEND:
		return check_attend(&m->attend, err);
	case PEER_WANT:
	case PEER_LOST:
	case PEER_MISSING:
		return m->rank.rank >= RANK_MAX ? peer_bad(m->type, err, "rank", m->rank.rank) : 0;
	case PEER_RESTORING:
	case PEER_PAUSED:
		return peer_check_step(m->type, m->step, err);
	case PEER_FOUND:
		return peer_found_check(&m->found, err);
	case PEER_PREPARED:
		rc = peer_check_id(m->type, m->prepared.id, false, err);
		return rc ? rc : peer_part_check(m->type, &m->prepared.part, err);
	case PEER_CREW:
		return peer_crew_check(&m->crew, err);
	case PEER_SETTLED:
		return peer_check_rc(m->type, m->settled.rc, err);
	case PEER_RESCUED:
		return peer_rescued_check(&m->rescued, err);
	case PEER_ASK:
		return peer_ask_check(&m->ask, err);
	case PEER_VOTES:
		return peer_votes_check(&m->votes, err);
	case PEER_COMPARED:
		return peer_compared_check(&m->compared, err);
	case PEER_RECOVERED:
		return peer_recovered_check(&m->recovered, err);
	case PEER_FETCHED:
	case PEER_COPIED:
	case PEER_REACHED:
	case PEER_UNCOPIED:
	case PEER_READY:
	case PEER_PASSED:
	case PEER_CLEARED:
	case PEER_FAILED:
	case PEER_FORGOT:
	case PEER_LEFT_OUT:
		return peer_save_check(m->type, &m->save, err);
	default:
		return 0;
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
