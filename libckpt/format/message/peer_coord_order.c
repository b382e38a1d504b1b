#include "format/message/peer_parts.h"
#include "format/tensor/fields.h"

FIELD_CODEC_OF_TYPE(plan, struct wire_plan, wire_plan_put, wire_plan_get);
FIELD_CODEC_OF_TYPE(schedule, struct schedule, schedule_encode, schedule_decode);
FIELD_CODEC_OF_TYPE(command, struct wire_command, wire_command_put, wire_command_get);

static const struct field step_fields[] = {{.kind = FIELD_U64}, {0}};
static const struct field number_fields[] = {{.kind = FIELD_U32}, {0}};
static const struct field plan_fields[] = {{.kind = FIELD_CODEC, .codec = &plan_codec}, {0}};
static const struct field schedule_fields[] = {{.kind = FIELD_CODEC, .codec = &schedule_codec}, {0}};
static const struct field command_fields[] = {{.kind = FIELD_CODEC, .codec = &command_codec}, {0}};

static const struct field refuse_fields[] = {
	FIELD_U32_OF(struct peer_refuse, rc),
	FIELD_TEXT_OF(struct peer_refuse, text),
	FIELD_TEXT_OF(struct peer_refuse, why),
	{0},
};

static const struct field answer_fields[] = {
	FIELD_U64_OF(struct peer_answer, token),
	FIELD_U32_OF(struct peer_answer, rc),
	FIELD_U32_OF(struct peer_answer, left),
	FIELD_TEXT_OF(struct peer_answer, text),
	{0},
};

static const struct field word_fields[] = {
	FIELD_U32_OF(struct peer_word, epoch),
	FIELD_U32_OF(struct peer_word, rank),
	FIELD_BOOL_OF(struct peer_word, flag),
	FIELD_U8_OF(struct peer_word, loss),
	FIELD_U32_OF(struct peer_word, rc),
	FIELD_TEXT_OF(struct peer_word, text),
	{0},
};

/* JOINED owns what it has, and has functions of its own. */
const struct peer_message peer_orders[PEER_ORDER_END - PEER_ADOPT] = {
	[PEER_ADOPT - PEER_ADOPT] = {"ADOPT", word_fields},
	[PEER_RAISE - PEER_ADOPT] = {"RAISE", word_fields},
	[PEER_RANK_WANTED - PEER_ADOPT] = {"RANK_WANTED", word_fields},
	[PEER_REJECT - PEER_ADOPT] = {"REJECT", word_fields},
	[PEER_END - PEER_ADOPT] = {"END", word_fields},
	[PEER_JOINED - PEER_ADOPT] = {"JOINED"},
	[PEER_LOOK - PEER_ADOPT] = {"LOOK", peer_look_fields},
	[PEER_RESTORE_FETCH - PEER_ADOPT] = {"RESTORE_FETCH", peer_restore_fetch_fields},
	[PEER_RESTORED - PEER_ADOPT] = {"RESTORED", peer_choice_fields},
	[PEER_REFUSE - PEER_ADOPT] = {"REFUSE", refuse_fields},
	[PEER_LEVEL - PEER_ADOPT] = {"LEVEL", peer_save_fields},
	[PEER_FAIL - PEER_ADOPT] = {"FAIL", peer_save_fields},
	[PEER_COPY - PEER_ADOPT] = {"COPY", peer_save_fields},
	[PEER_SKIP - PEER_ADOPT] = {"SKIP", peer_save_fields},
	[PEER_WRITE - PEER_ADOPT] = {"WRITE", peer_save_fields},
	[PEER_CLEAR - PEER_ADOPT] = {"CLEAR", peer_save_fields},
	[PEER_QUIESCE - PEER_ADOPT] = {"QUIESCE", number_fields},
	[PEER_PLAN - PEER_ADOPT] = {"PLAN", plan_fields},
	[PEER_SPILL - PEER_ADOPT] = {"SPILL", peer_spill_fields},
	[PEER_PIN_REPLICATED - PEER_ADOPT] = {"PIN_REPLICATED", peer_save_fields},
	[PEER_PAUSE - PEER_ADOPT] = {"PAUSE", step_fields},
	[PEER_COMMAND - PEER_ADOPT] = {"COMMAND", command_fields},
	[PEER_ANSWER - PEER_ADOPT] = {"ANSWER", answer_fields},
	[PEER_COMPARE - PEER_ADOPT] = {"COMPARE", peer_compare_fields},
	[PEER_INVALIDATE_PLAN - PEER_ADOPT] = {"INVALIDATE_PLAN", number_fields},
	[PEER_FINISH_STATE - PEER_ADOPT] = {"FINISH_STATE", number_fields},
	[PEER_ANNOUNCE - PEER_ADOPT] = {"ANNOUNCE", number_fields},
	[PEER_RESUME - PEER_ADOPT] = {"RESUME", word_fields},
	[PEER_SCHEDULE - PEER_ADOPT] = {"SCHEDULE", schedule_fields},
	[PEER_STANDSTILL - PEER_ADOPT] = {"STANDSTILL", peer_standstill_fields},
	[PEER_STRAGGLERS - PEER_ADOPT] = {"STRAGGLERS", peer_stragglers_fields},
	[PEER_HALT - PEER_ADOPT] = {"HALT", peer_halt_fields},
	[PEER_LIST_PIECES - PEER_ADOPT] = {"LIST_PIECES", number_fields},
	[PEER_LIST_TENSORS - PEER_ADOPT] = {"LIST_TENSORS", peer_tensors_ask_fields},
	[PEER_RESIGN - PEER_ADOPT] = {"RESIGN", number_fields},
};

/* All members of the union begin here. */
enum { ORDER_AT = offsetof(struct peer_order, word) };

int peer_order_encode(const struct peer_order *m, struct wbuf *out)
{
	wbuf_str(out, m->job);
	if (m->type == PEER_JOINED)
		return wire_joined_encode(&m->joined, out);
	fields_put(out, peer_orders[m->type - PEER_ADOPT].fields, (const uint8_t *)m + ORDER_AT);
	return wbuf_finish(out);
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

int peer_order_decode_own(uint16_t type, const void *body, size_t len, struct peer_order *m, struct err *err)
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
	if (type >= PEER_ADOPT && type < PEER_ORDER_END)
		fields_get(&r, peer_orders[type - PEER_ADOPT].fields, (uint8_t *)m + ORDER_AT);
	return peer_finish(&r, type, m->job, err);
}

int peer_order_decode(uint16_t type, const void *body, size_t len, struct peer_order *m, struct err *err)
{
	int rc = peer_order_decode_own(type, body, len, m, err);
	return rc || type == PEER_JOINED ? rc : check_order(m, err);
}

void peer_order_free(struct peer_order *m)
{
	if (m->type == PEER_JOINED)
		wire_joined_free(&m->joined);
}
