#include "format/files/plan_record.h"
#include "format/message/wire.h"
#include "format/tensor/fields.h"

static int malformed(uint16_t type, const char *what, struct err *err)
{
	return err_set(err, -EBADMSG, "%s message: %s", wire_name(type), what);
}

/* A count of local ranks, bounded before anything is read into the arrays that it sizes. */
static uint32_t get_count(struct rbuf *r)
{
	uint32_t n = rbuf_u32(r);
	if (n <= WIRE_LOCAL_MAX)
		return n;
	r->failed = true;
	return 0;
}

/* All below the bound, none twice. */
static bool distinct(const uint32_t *ranks, uint32_t n, uint32_t bound)
{
	for (uint32_t i = 0; i < n; i++) {
		if (ranks[i] >= bound)
			return false;
		for (uint32_t k = 0; k < i; k++)
			if (ranks[k] == ranks[i])
				return false;
	}
	return true;
}

int wire_moved_encode(const struct wire_moved *m, struct wbuf *out)
{
	wbuf_u32(out, m->rank);
	wbuf_u32(out, m->world);
	wbuf_u32(out, m->local_world);
	return wbuf_finish(out);
}

int wire_moved_decode(const void *body, size_t len, struct wire_moved *m, struct err *err)
{
	struct rbuf r = rbuf_of(body, len);
	*m = (struct wire_moved){0};
	m->rank = rbuf_u32(&r);
	m->world = rbuf_u32(&r);
	m->local_world = rbuf_u32(&r);
	if (rbuf_finish(&r))
		return malformed(WIRE_MOVED, "its size", err);
	if (m->world > RANK_MAX || m->rank >= m->world)
		return malformed(WIRE_MOVED, "rank and world", err);
	if (!m->local_world || m->local_world > WIRE_LOCAL_MAX || m->local_world > m->world)
		return malformed(WIRE_MOVED, "ranks on this node", err);
	return 0;
}

int wire_offer_encode(const struct wire_offer *m, struct wbuf *out)
{
	wbuf_u32(out, m->want);
	wbuf_u32(out, m->least);
	wbuf_u32(out, m->processes);
	wbuf_u8(out, m->spread);
	wbuf_u8(out, m->spare);
	wbuf_u8(out, m->leaving);
	wbuf_u8(out, m->drained);
	wbuf_u32(out, m->plan);
	wbuf_u32(out, m->n);
	for (uint32_t i = 0; i < m->n; i++)
		wbuf_u32(out, m->ranks[i]);
	return wbuf_finish(out);
}

int wire_offer_decode(const void *body, size_t len, struct wire_offer *m, struct err *err)
{
	struct rbuf r = rbuf_of(body, len);
	*m = (struct wire_offer){0};
	m->want = rbuf_u32(&r);
	m->least = rbuf_u32(&r);
	m->processes = rbuf_u32(&r);
	m->spread = get_bool(&r);
	m->spare = get_bool(&r);
	m->leaving = get_bool(&r);
	m->drained = get_bool(&r);
	m->plan = rbuf_u32(&r);
	m->n = get_count(&r);
	for (uint32_t i = 0; i < m->n; i++)
		m->ranks[i] = rbuf_u32(&r);
	if (rbuf_finish(&r))
		return malformed(WIRE_OFFER, "its size", err);
	if (!m->least || m->least > m->want || m->want > RANK_MAX)
		return malformed(WIRE_OFFER, "ranks of the job", err);
	if (m->processes > WIRE_LOCAL_MAX || m->n > m->processes)
		return malformed(WIRE_OFFER, "processes", err);
	if (m->plan > PLAN_FOLLOWED_MAX)
		return malformed(WIRE_OFFER, "plan", err);
	return distinct(m->ranks, m->n, m->plan ? m->want : 0) ? 0 : malformed(WIRE_OFFER, "ranks", err);
}

void wire_plan_put(struct wbuf *out, const struct wire_plan *m)
{
	wbuf_u32(out, m->number);
	wbuf_u32(out, m->world);
	wbuf_u32(out, m->n);
	for (uint32_t i = 0; i < m->n; i++) {
		wbuf_u32(out, m->ranks[i]);
		wbuf_u32(out, m->was[i]);
	}
}

void wire_plan_get(struct rbuf *r, struct wire_plan *m)
{
	m->number = rbuf_u32(r);
	m->world = rbuf_u32(r);
	m->n = get_count(r);
	for (uint32_t i = 0; i < m->n; i++) {
		m->ranks[i] = rbuf_u32(r);
		m->was[i] = rbuf_u32(r);
	}
}

bool wire_plan_is_sound(const struct wire_plan *m)
{
	uint32_t old[WIRE_LOCAL_MAX], nold = 0;
	for (uint32_t i = 0; i < m->n; i++)
		if (m->was[i] != WIRE_NEW_PROCESS)
			old[nold++] = m->was[i];
	return m->world <= RANK_MAX && m->n <= m->world && !m->number == !m->world &&
	       distinct(m->ranks, m->n, m->world) && distinct(old, nold, RANK_MAX);
}

int wire_plan_encode(const struct wire_plan *m, struct wbuf *out)
{
	wire_plan_put(out, m);
	return wbuf_finish(out);
}

int wire_plan_decode(const void *body, size_t len, struct wire_plan *m, struct err *err)
{
	struct rbuf r = rbuf_of(body, len);
	*m = (struct wire_plan){0};
	wire_plan_get(&r, m);
	if (rbuf_finish(&r))
		return malformed(WIRE_PLAN, "its size", err);
	return wire_plan_is_sound(m) ? 0 : malformed(WIRE_PLAN, "ranks", err);
}
