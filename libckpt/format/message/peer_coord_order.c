#include "format/message/peer_parts.h"
#include "format/tensor/fields.h"

int peer_order_encode(const struct peer_order *m, struct wbuf *out)
{
	wbuf_str(out, m->job);
	switch (m->type) {
	case PEER_JOINED:
		return wire_joined_encode(&m->joined, out);
	case PEER_LOOK:
		peer_look_put(out, &m->look);
		break;
	case PEER_PAUSE:
		wbuf_u64(out, m->step);
		break;
	case PEER_RESTORE_FETCH:
		peer_restore_fetch_put(out, &m->bring);
		break;
	case PEER_RESTORED:
		peer_choice_put(out, &m->choice);
		break;
	case PEER_REFUSE:
		wbuf_u32(out, (uint32_t)m->refuse.rc);
		wbuf_str(out, m->refuse.text);
		wbuf_str(out, m->refuse.why);
		break;
	case PEER_LEVEL:
	case PEER_FAIL:
	case PEER_COPY:
	case PEER_PIN_REPLICATED:
	case PEER_SKIP:
	case PEER_WRITE:
	case PEER_CLEAR:
		peer_save_put(out, &m->save);
		break;
	case PEER_QUIESCE:
	case PEER_INVALIDATE_PLAN:
	case PEER_FINISH_STATE:
	case PEER_ANNOUNCE:
	case PEER_RESIGN:
	case PEER_LIST_PIECES:
		wbuf_u32(out, m->number);
		break;
	case PEER_PLAN:
		wire_plan_put(out, &m->plan);
		break;
	case PEER_SPILL:
		peer_spill_put(out, &m->spill);
		break;
	case PEER_COMPARE:
		peer_compare_put(out, &m->compare);
		break;
	case PEER_SCHEDULE:
		schedule_encode(out, &m->schedule);
		break;
	case PEER_STANDSTILL:
		peer_standstill_put(out, &m->standstill);
		break;
	case PEER_STRAGGLERS:
		peer_stragglers_put(out, &m->stragglers);
		break;
	case PEER_HALT:
		peer_halt_put(out, &m->halt);
		break;
	case PEER_LIST_TENSORS:
		peer_tensors_ask_put(out, &m->tensors);
		break;
	case PEER_COMMAND:
		wire_command_put(out, &m->command);
		break;
	case PEER_ANSWER:
		wbuf_u64(out, m->answer.token);
		wbuf_u32(out, (uint32_t)m->answer.rc);
		wbuf_u32(out, m->answer.left);
		wbuf_str(out, m->answer.text);
		break;
	default:
		wbuf_u32(out, m->word.epoch);
		wbuf_u32(out, m->word.rank);
		wbuf_u8(out, m->word.flag);
		wbuf_u8(out, m->word.loss);
		wbuf_u32(out, (uint32_t)m->word.rc);
		wbuf_str(out, m->word.text);
		break;
	}
	return wbuf_finish(out);
}

static void get_order(struct rbuf *r, struct peer_order *m)
{
	switch (m->type) {
	case PEER_LOOK:
		peer_look_get(r, &m->look);
		return;
	case PEER_PAUSE:
		m->step = rbuf_u64(r);
		return;
	case PEER_RESTORE_FETCH:
		peer_restore_fetch_get(r, &m->bring);
		return;
	case PEER_RESTORED:
		peer_choice_get(r, &m->choice);
		return;
	case PEER_REFUSE:
		m->refuse.rc = (int32_t)rbuf_u32(r);
		get_text(r, m->refuse.text, sizeof(m->refuse.text));
		get_text(r, m->refuse.why, sizeof(m->refuse.why));
		return;
	case PEER_LEVEL:
	case PEER_FAIL:
	case PEER_COPY:
	case PEER_PIN_REPLICATED:
	case PEER_SKIP:
	case PEER_WRITE:
	case PEER_CLEAR:
		peer_save_get(r, &m->save);
		return;
	case PEER_QUIESCE:
	case PEER_INVALIDATE_PLAN:
	case PEER_FINISH_STATE:
	case PEER_ANNOUNCE:
	case PEER_RESIGN:
	case PEER_LIST_PIECES:
		m->number = rbuf_u32(r);
		return;
	case PEER_PLAN:
		wire_plan_get(r, &m->plan);
		return;
	case PEER_SPILL:
		peer_spill_get(r, &m->spill);
		return;
	case PEER_COMPARE:
		peer_compare_get(r, &m->compare);
		return;
	case PEER_SCHEDULE:
		schedule_decode(r, &m->schedule);
		return;
	case PEER_STANDSTILL:
		peer_standstill_get(r, &m->standstill);
		return;
	case PEER_STRAGGLERS:
		peer_stragglers_get(r, &m->stragglers);
		return;
	case PEER_HALT:
		peer_halt_get(r, &m->halt);
		return;
	case PEER_LIST_TENSORS:
		peer_tensors_ask_get(r, &m->tensors);
		return;
	case PEER_COMMAND:
		wire_command_get(r, &m->command);
		return;
	case PEER_ANSWER:
		m->answer.token = rbuf_u64(r);
		m->answer.rc = (int32_t)rbuf_u32(r);
		m->answer.left = rbuf_u32(r);
		get_text(r, m->answer.text, sizeof(m->answer.text));
		return;
	default:
		m->word.epoch = rbuf_u32(r);
		m->word.rank = rbuf_u32(r);
		m->word.flag = get_bool(r);
		m->word.loss = rbuf_u8(r);
		m->word.rc = (int32_t)rbuf_u32(r);
		get_text(r, m->word.text, sizeof(m->word.text));
		return;
	}
}

static int check_word(uint16_t type, const struct peer_word *m, struct err *err)
{
	if (type != PEER_REJECT && (!m->epoch || m->epoch > EPOCH_MAX))
		return peer_bad(type, err, "epoch", m->epoch);
	if (type == PEER_REJECT && !m->rc)
		return peer_bad(type, err, "code", 0);
	if (m->loss >= LOST_KINDS || (m->loss && !m->flag))
		return peer_bad(type, err, "loss", m->loss);
	return m->rank >= RANK_MAX ? peer_bad(type, err, "rank", m->rank) : peer_check_rc(type, m->rc, err);
}

static int check_order(const struct peer_order *m, struct err *err)
{
	int rc;
	switch (m->type) {
	case PEER_LOOK:
		return peer_look_check(&m->look, err);
	case PEER_PAUSE:
		return peer_check_step(m->type, m->step, err);
	case PEER_RESTORE_FETCH:
		return peer_restore_fetch_check(m->type, &m->bring, err);
	case PEER_RESTORED:
		return peer_choice_check(m->type, &m->choice, err);
	case PEER_REFUSE:
		return m->refuse.rc ? peer_check_rc(m->type, m->refuse.rc, err) : peer_bad(m->type, err, "code", 0);
	case PEER_LEVEL:
	case PEER_FAIL:
	case PEER_COPY:
	case PEER_PIN_REPLICATED:
	case PEER_SKIP:
	case PEER_WRITE:
	case PEER_CLEAR:
		return peer_save_check(m->type, &m->save, err);
	case PEER_QUIESCE:
	case PEER_INVALIDATE_PLAN:
	case PEER_ANNOUNCE:
	case PEER_RESIGN:
	case PEER_LIST_PIECES:
		return 0;
	case PEER_FINISH_STATE:
		return m->number && m->number < PEER_FINISH_STATE_END
			       ? 0
			       : peer_bad(m->type, err, "finish state", m->number);
	case PEER_PLAN:
		return m->plan.number && wire_plan_is_sound(&m->plan)
			       ? 0
			       : peer_bad(m->type, err, "ranks that cannot be, of", m->plan.world);
	case PEER_SPILL:
		return peer_spill_check(&m->spill, err);
	case PEER_COMPARE:
		return peer_compare_check(m->type, &m->compare, err);
	case PEER_SCHEDULE:
		rc = schedule_check(&m->schedule, false, err);
		return rc ? err_prefix(err, rc, "%s message", peer_coord_name(m->type)) : 0;
	case PEER_STANDSTILL:
		return peer_standstill_check(&m->standstill, err);
	case PEER_STRAGGLERS:
		return peer_stragglers_check(&m->stragglers, err);
	case PEER_HALT:
		return peer_halt_check(m->type, &m->halt, err);
	case PEER_LIST_TENSORS:
		return peer_tensors_ask_check(m->type, &m->tensors, err);
	case PEER_COMMAND:
		return peer_command_check(&m->command, err);
	case PEER_ANSWER:
		if (!m->answer.token)
			return peer_bad(m->type, err, "token", 0);
		return peer_check_rc(m->type, m->answer.rc, err);
	default:
		return check_word(m->type, &m->word, err);
	}
}

int peer_order_decode(uint16_t type, const void *body, size_t len, struct peer_order *m, struct err *err)
{
	struct rbuf r = rbuf_of(body, len);
	*m = (struct peer_order){.type = type};
	rbuf_str(&r, m->job, sizeof(m->job));
	if (type == PEER_JOINED) {
		size_t head = r.pos;
		int rc = name_check("job", m->job, sizeof(m->job), err);
		if (r.failed || rc)
			return err_set(err, -EBADMSG, "JOINED message of %zu bytes is malformed", len);
		return wire_joined_decode(r.data + head, len - head, &m->joined, err);
	}
	get_order(&r, m);
	int rc = peer_finish(&r, type, m->job, err);
	return rc ? rc : check_order(m, err);
}

void peer_order_free(struct peer_order *m)
{
	if (m->type == PEER_JOINED)
		wire_joined_free(&m->joined);
}
