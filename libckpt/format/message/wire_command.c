#include "format/message/wire.h"

#include <string.h>

static int malformed(const struct rbuf *r, struct err *err)
{
	if (!rbuf_finish(r))
		return 0;
	return err_set(err, -EBADMSG, "COMMAND message of %zu bytes is malformed", r->len);
}

bool wire_command_is_halt(const struct wire_command *m)
{
	return m->kind >= COMMAND_HALT && m->kind <= COMMAND_GO_ON;
}

bool wire_command_is_drain(const struct wire_command *m)
{
	return m->kind >= COMMAND_DRAIN && m->kind <= COMMAND_DRAINED;
}

bool wire_command_is_fault(const struct wire_command *m)
{
	return m->kind == COMMAND_FAULT || m->kind == COMMAND_FAULTED;
}

static void put_fault(struct wbuf *out, const struct wire_fault *m)
{
	wbuf_u32(out, m->kind);
	wbuf_u32(out, m->rank);
	wbuf_u64(out, m->for_ms);
	wbuf_u32(out, m->number);
	wbuf_u32(out, m->outcome);
	wbuf_str(out, m->text);
}

static void get_fault(struct rbuf *r, struct wire_fault *m)
{
	m->kind = rbuf_u32(r);
	m->rank = rbuf_u32(r);
	m->for_ms = rbuf_u64(r);
	m->number = rbuf_u32(r);
	m->outcome = rbuf_u32(r);
	rbuf_str(r, m->text, sizeof(m->text));
}

static void put_rollback(struct wbuf *out, const struct wire_rollback *m)
{
	wbuf_u64(out, m->to.step);
	wbuf_u32(out, m->to.epoch);
	wbuf_str(out, m->reason);
}

static void get_rollback(struct rbuf *r, struct wire_rollback *m)
{
	m->to.step = rbuf_u64(r);
	m->to.epoch = rbuf_u32(r);
	rbuf_str(r, m->reason, sizeof(m->reason));
}

static int check_rollback(const struct wire_rollback *m, struct err *err)
{
	if (m->to.step <= STEP_MAX && m->to.epoch && m->to.epoch <= EPOCH_MAX)
		return 0;
	return err_set(err, -EBADMSG, "COMMAND message of a rollback to step %lu of epoch %u",
		       (unsigned long)m->to.step, m->to.epoch);
}

static int check_fault(const struct wire_command *m, struct err *err)
{
	const struct wire_fault *f = &m->fault;
	const struct fault_entry *entry = fault_of((enum fault_kind)f->kind);
	if (m->kind == COMMAND_FAULTED && (!f->number || f->outcome >= FAULT_OUTCOME_END))
		return err_set(err, -EBADMSG, "COMMAND message of fault %u with outcome %u", f->number, f->outcome);
	if (m->kind == COMMAND_FAULTED)
		return 0;
	if (!entry || f->for_ms > FAULT_TIME_MAX_MS)
		return err_set(err, -EBADMSG, "COMMAND message with fault %u for %lu ms", f->kind,
			       (unsigned long)f->for_ms);
	if ((entry->time == FAULT_TIME_NONE && f->for_ms) || (entry->time == FAULT_TIME_MUST && !f->for_ms))
		return err_set(err, -EBADMSG, "COMMAND message with fault %s %s a time", entry->name,
			       f->for_ms ? "with" : "without");
	return 0;
}

void wire_command_put(struct wbuf *out, const struct wire_command *m)
{
	wbuf_u32(out, m->kind);
	wbuf_str(out, m->job);
	wbuf_u64(out, m->at_ns);
	wbuf_str(out, m->node);
	if (wire_command_is_fault(m))
		put_fault(out, &m->fault);
	if (m->kind == COMMAND_ROLLBACK)
		put_rollback(out, &m->back);
}

void wire_command_get(struct rbuf *r, struct wire_command *m)
{
	m->kind = rbuf_u32(r);
	rbuf_str(r, m->job, sizeof(m->job));
	m->at_ns = rbuf_u64(r);
	rbuf_str(r, m->node, sizeof(m->node));
	if (wire_command_is_fault(m))
		get_fault(r, &m->fault);
	if (m->kind == COMMAND_ROLLBACK)
		get_rollback(r, &m->back);
}

int wire_command_check(const struct wire_command *m, struct err *err)
{
	if (m->kind < COMMAND_FLUSH || m->kind > COMMAND_CLEAR)
		return err_set(err, -EBADMSG, "COMMAND message with kind %u", m->kind);
	bool of_node = m->kind == COMMAND_REMOVE || m->kind == COMMAND_CLEAR;
	if (*m->job && of_node)
		return err_set(err, -EBADMSG, "COMMAND message of kind %u with a job", m->kind);
	if (*m->job && name_check("job", m->job, sizeof(m->job), err))
		return -EBADMSG;
	bool names = wire_command_is_drain(m) || of_node;
	if (names != (*m->node != '\0'))
		return err_set(err, -EBADMSG, "COMMAND message of kind %u %s a node", m->kind,
			       names ? "without" : "with");
	if (names && name_check("node", m->node, sizeof(m->node), err))
		return -EBADMSG;
	if (m->kind == COMMAND_ROLLBACK)
		return check_rollback(&m->back, err);
	return wire_command_is_fault(m) ? check_fault(m, err) : 0;
}

int wire_command_encode(const struct wire_command *m, struct wbuf *out)
{
	wire_command_put(out, m);
	return wbuf_finish(out);
}

int wire_command_decode(const void *body, size_t len, struct wire_command *m, struct err *err)
{
	struct rbuf r = rbuf_of(body, len);
	*m = (struct wire_command){0};
	wire_command_get(&r, m);
	int rc = malformed(&r, err);
	return rc ? rc : wire_command_check(m, err);
}

int wire_answer_encode(const struct wire_answer *m, struct wbuf *out)
{
	wbuf_u64(out, m->id.step);
	wbuf_u32(out, m->id.epoch);
	wbuf_u32(out, m->left);
	wbuf_u32(out, m->number);
	wbuf_str(out, m->job);
	wbuf_str(out, m->text);
	return wbuf_finish(out);
}

int wire_answer_decode(const void *body, size_t len, struct wire_answer *m, struct err *err)
{
	struct rbuf r = rbuf_of(body, len);
	*m = (struct wire_answer){0};
	m->id.step = rbuf_u64(&r);
	m->id.epoch = rbuf_u32(&r);
	m->left = rbuf_u32(&r);
	m->number = rbuf_u32(&r);
	rbuf_str(&r, m->job, sizeof(m->job));
	rbuf_str(&r, m->text, sizeof(m->text));
	/* It ends on a terminal. */
	for (char *c = m->text; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = ' ';
	int rc = malformed(&r, err);
	if (!rc && *m->job && name_check("job", m->job, sizeof(m->job), err))
		rc = -EBADMSG;
	return rc;
}

int wire_user_encode(const struct wire_user *m, struct wbuf *out)
{
	wbuf_str(out, m->name);
	return wbuf_finish(out);
}

int wire_user_decode(const void *body, size_t len, struct wire_user *m, struct err *err)
{
	struct rbuf r = rbuf_of(body, len);
	*m = (struct wire_user){0};
	rbuf_str(&r, m->name, sizeof(m->name));
	if (rbuf_finish(&r) || !*m->name)
		return err_set(err, -EBADMSG, "USER message of %zu bytes is malformed", len);
	return 0;
}

int wire_mark_encode(const struct wire_mark *m, struct wbuf *out)
{
	wbuf_u32(out, m->epoch);
	wbuf_u64(out, m->id.step);
	wbuf_u32(out, m->id.epoch);
	wbuf_u8(out, m->unhealthy);
	wbuf_str(out, m->reason);
	return wbuf_finish(out);
}

int wire_mark_decode(const void *body, size_t len, struct wire_mark *m, struct err *err)
{
	struct rbuf r = rbuf_of(body, len);
	*m = (struct wire_mark){0};
	m->epoch = rbuf_u32(&r);
	m->id.step = rbuf_u64(&r);
	m->id.epoch = rbuf_u32(&r);
	uint8_t unhealthy = rbuf_u8(&r);
	m->unhealthy = unhealthy;
	rbuf_str(&r, m->reason, sizeof(m->reason));
	if (rbuf_finish(&r) || unhealthy > 1 || m->id.step > STEP_MAX || !m->id.epoch)
		return err_set(err, -EBADMSG, "MARK message of %zu bytes is malformed", len);
	return 0;
}
