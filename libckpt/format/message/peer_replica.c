#include "format/message/peer_replica.h"

#include "format/arena/layout.h"
#include "format/tensor/fields.h"

#include <string.h>

const char *peer_replica_name(uint16_t type)
{
	static const char *const names[PEER_TYPE_END] = {
		[PEER_OFFER] = "OFFER",   [PEER_TICKET] = "TICKET",     [PEER_SEAL] = "SEAL",
		[PEER_HELD] = "HELD",     [PEER_REFUSED] = "REFUSED",   [PEER_FETCH] = "FETCH",
		[PEER_SOURCE] = "SOURCE", [PEER_RELEASE] = "RELEASE",   [PEER_FORGET] = "FORGET",
		[PEER_SURVEY] = "SURVEY", [PEER_HOLDINGS] = "HOLDINGS",
	};
	return type < PEER_TYPE_END && names[type] ? names[type] : "?";
}

static int bad(uint16_t type, struct err *err, const char *what, uint64_t value)
{
	return err_set(err, -EBADMSG, "%s message with %s %llu", peer_replica_name(type), what,
		       (unsigned long long)value);
}

/* ---- parts of messages ------------------------------------------------------------------------------------------- */

static void put_head(struct wbuf *out, const struct peer_head *m)
{
	wbuf_str(out, m->job);
	wbuf_u32(out, m->epoch);
	wbuf_u64(out, m->token);
}

static void get_head(struct rbuf *r, struct peer_head *m)
{
	rbuf_str(r, m->job, sizeof(m->job));
	m->epoch = rbuf_u32(r);
	m->token = rbuf_u64(r);
}

static void put_shape(struct wbuf *out, const struct peer_shape *m)
{
	put_digest(out, m->table);
	wbuf_u64(out, m->table_len);
	wbuf_u64(out, m->nleaves);
	wbuf_u64(out, m->slot_size);
}

static void get_shape(struct rbuf *r, struct peer_shape *m)
{
	m->table = get_digest(r);
	m->table_len = rbuf_u64(r);
	m->nleaves = rbuf_u64(r);
	m->slot_size = rbuf_u64(r);
}

static void put_tickets(struct wbuf *out, const struct peer_tickets *m)
{
	const struct peer_ticket *all[] = {&m->table, &m->leaves, &m->slot};
	for (int i = 0; i < 3; i++) {
		wbuf_u64(out, all[i]->key);
		wbuf_u64(out, all[i]->address);
		wbuf_u64(out, all[i]->size);
	}
}

static void get_tickets(struct rbuf *r, struct peer_tickets *m)
{
	struct peer_ticket *all[] = {&m->table, &m->leaves, &m->slot};
	for (int i = 0; i < 3; i++) {
		all[i]->key = rbuf_u64(r);
		all[i]->address = rbuf_u64(r);
		all[i]->size = rbuf_u64(r);
	}
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

static int finish(const struct rbuf *r, uint16_t type, const struct peer_head *head, struct err *err)
{
	if (rbuf_finish(r))
		return err_set(err, -EBADMSG, "%s message of %zu bytes is malformed", peer_replica_name(type), r->len);
	if (name_check("job", head->job, sizeof(head->job), err))
		return err_prefix(err, -EBADMSG, "%s message", peer_replica_name(type));
	if (!head->epoch || head->epoch > EPOCH_MAX)
		return bad(type, err, "epoch", head->epoch);
	return 0;
}

static int check_id(uint16_t type, struct step_id id, bool may_be_none, struct err *err)
{
	if (may_be_none && !id.epoch)
		return id.step ? bad(type, err, "step without an epoch", id.step) : 0;
	if (!id.epoch || id.epoch > EPOCH_MAX)
		return bad(type, err, "a snapshot of epoch", id.epoch);
	return id.step > STEP_MAX ? bad(type, err, "step", id.step) : 0;
}

static int check_rank(uint16_t type, uint32_t rank, uint32_t world, struct err *err)
{
	if (!world || world > RANK_MAX)
		return bad(type, err, "world", world);
	return rank >= world ? bad(type, err, "rank", rank) : 0;
}

/* Every leaf has a byte at least, so that what is bounded here bounds their digests. */
static int check_shape(uint16_t type, const struct peer_shape *m, struct err *err)
{
	if (!m->table_len || m->table_len > PEER_TABLE_MAX)
		return bad(type, err, "a table of size", m->table_len);
	if (m->slot_size % LAYOUT_ALIGN || m->slot_size > PEER_SLOT_MAX)
		return bad(type, err, "a slot of size", m->slot_size);
	return m->nleaves > m->slot_size ? bad(type, err, "leaves", m->nleaves) : 0;
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

int peer_head_encode(const struct peer_head *m, struct wbuf *out)
{
	put_head(out, m);
	return wbuf_finish(out);
}

int peer_head_decode(uint16_t type, const void *body, size_t len, struct peer_head *m, struct err *err)
{
	struct rbuf r = rbuf_of(body, len);
	*m = (struct peer_head){0};
	get_head(&r, m);
	return finish(&r, type, m, err);
}

int peer_offer_encode(const struct peer_offer *m, struct wbuf *out)
{
	put_head(out, &m->head);
	wbuf_u32(out, m->rank);
	wbuf_u32(out, m->world);
	put_id(out, m->id);
	put_id(out, m->keep);
	wbuf_u32(out, m->began);
	wbuf_u32(out, m->lacks);
	put_shape(out, &m->shape);
	return wbuf_finish(out);
}

int peer_offer_decode(const void *body, size_t len, struct peer_offer *m, struct err *err)
{
	struct rbuf r = rbuf_of(body, len);
	*m = (struct peer_offer){0};
	get_head(&r, &m->head);
	m->rank = rbuf_u32(&r);
	m->world = rbuf_u32(&r);
	m->id = get_id(&r);
	m->keep = get_id(&r);
	m->began = rbuf_u32(&r);
	m->lacks = rbuf_u32(&r);
	get_shape(&r, &m->shape);
	int rc = finish(&r, PEER_OFFER, &m->head, err);
	if (!rc)
		rc = check_rank(PEER_OFFER, m->rank, m->world, err);
	if (!rc)
		rc = check_id(PEER_OFFER, m->id, false, err);
	if (!rc)
		rc = check_id(PEER_OFFER, m->keep, true, err);
	return rc ? rc : check_shape(PEER_OFFER, &m->shape, err);
}

int peer_open_encode(const struct peer_open *m, struct wbuf *out)
{
	put_head(out, &m->head);
	put_tickets(out, &m->tickets);
	return wbuf_finish(out);
}

int peer_open_decode(const void *body, size_t len, struct peer_open *m, struct err *err)
{
	struct rbuf r = rbuf_of(body, len);
	*m = (struct peer_open){0};
	get_head(&r, &m->head);
	get_tickets(&r, &m->tickets);
	return finish(&r, PEER_TICKET, &m->head, err);
}

int peer_fetch_encode(const struct peer_fetch *m, struct wbuf *out)
{
	put_head(out, &m->head);
	wbuf_u32(out, m->rank);
	wbuf_u32(out, m->world);
	put_id(out, m->id);
	wbuf_u8(out, m->same_table);
	put_digest(out, m->table);
	return wbuf_finish(out);
}

int peer_fetch_decode(const void *body, size_t len, struct peer_fetch *m, struct err *err)
{
	struct rbuf r = rbuf_of(body, len);
	*m = (struct peer_fetch){0};
	get_head(&r, &m->head);
	m->rank = rbuf_u32(&r);
	m->world = rbuf_u32(&r);
	m->id = get_id(&r);
	uint8_t same = rbuf_u8(&r);
	m->table = get_digest(&r);
	int rc = finish(&r, PEER_FETCH, &m->head, err);
	if (!rc)
		rc = check_rank(PEER_FETCH, m->rank, RANK_MAX, err);
	if (!rc)
		rc = check_id(PEER_FETCH, m->id, false, err);
	m->same_table = same == 1;
	return rc ? rc : same > 1 ? bad(PEER_FETCH, err, "a truth of", same) : 0;
}

int peer_source_encode(const struct peer_source *m, struct wbuf *out)
{
	put_head(out, &m->head);
	wbuf_u32(out, m->world);
	wbuf_u32(out, m->began);
	wbuf_u32(out, m->lacks);
	put_shape(out, &m->shape);
	put_tickets(out, &m->tickets);
	return wbuf_finish(out);
}

int peer_source_decode(const void *body, size_t len, struct peer_source *m, struct err *err)
{
	struct rbuf r = rbuf_of(body, len);
	*m = (struct peer_source){0};
	get_head(&r, &m->head);
	m->world = rbuf_u32(&r);
	m->began = rbuf_u32(&r);
	m->lacks = rbuf_u32(&r);
	get_shape(&r, &m->shape);
	get_tickets(&r, &m->tickets);
	int rc = finish(&r, PEER_SOURCE, &m->head, err);
	if (!rc)
		rc = check_rank(PEER_SOURCE, 0, m->world, err);
	return rc ? rc : check_shape(PEER_SOURCE, &m->shape, err);
}

int peer_refused_encode(const struct peer_refused *m, struct wbuf *out)
{
	put_head(out, &m->head);
	wbuf_u32(out, (uint32_t)m->rc);
	wbuf_str(out, m->text);
	return wbuf_finish(out);
}

int peer_refused_decode(const void *body, size_t len, struct peer_refused *m, struct err *err)
{
	struct rbuf r = rbuf_of(body, len);
	*m = (struct peer_refused){0};
	get_head(&r, &m->head);
	m->rc = (int32_t)rbuf_u32(&r);
	get_text(&r, m->text, sizeof(m->text));
	int rc = finish(&r, PEER_REFUSED, &m->head, err);
	if (rc)
		return rc;
	return m->rc < 0 && m->rc >= -4095 ? 0 : bad(PEER_REFUSED, err, "code", (uint32_t)m->rc);
}

int peer_forget_encode(const struct peer_forget *m, struct wbuf *out)
{
	put_head(out, &m->head);
	put_id(out, m->before);
	return wbuf_finish(out);
}

int peer_forget_decode(const void *body, size_t len, struct peer_forget *m, struct err *err)
{
	struct rbuf r = rbuf_of(body, len);
	*m = (struct peer_forget){0};
	get_head(&r, &m->head);
	m->before = get_id(&r);
	int rc = finish(&r, PEER_FORGET, &m->head, err);
	return rc ? rc : check_id(PEER_FORGET, m->before, false, err);
}

void peer_holding_put(const struct peer_holding *m, struct wbuf *items)
{
	wbuf_u32(items, m->rank);
	wbuf_u32(items, m->world);
	wbuf_u32(items, m->owner);
	put_id(items, m->id);
	put_digest(items, m->table);
}

struct peer_holding peer_holding_at(const struct peer_holdings *m, uint32_t i)
{
	struct rbuf r = rbuf_of(m->items + (size_t)i * PEER_HOLDING_BYTES, PEER_HOLDING_BYTES);
	struct peer_holding h = {.rank = rbuf_u32(&r)};
	h.world = rbuf_u32(&r);
	h.owner = rbuf_u32(&r);
	h.id = get_id(&r);
	h.table = get_digest(&r);
	return h;
}

int peer_holdings_encode(const struct peer_holdings *m, struct wbuf *out)
{
	put_head(out, &m->head);
	wbuf_u32(out, m->n);
	wbuf_put(out, m->items, (size_t)m->n * PEER_HOLDING_BYTES);
	return wbuf_finish(out);
}

int peer_holdings_decode(const void *body, size_t len, struct peer_holdings *m, struct err *err)
{
	struct rbuf r = rbuf_of(body, len);
	*m = (struct peer_holdings){0};
	get_head(&r, &m->head);
	m->n = rbuf_u32(&r);
	if (m->n > PEER_HOLDINGS_MAX)
		r.failed = true;
	m->items = rbuf_take(&r, r.failed ? 0 : (size_t)m->n * PEER_HOLDING_BYTES);
	int rc = finish(&r, PEER_HOLDINGS, &m->head, err);
	for (uint32_t i = 0; !rc && i < m->n; i++) {
		struct peer_holding h = peer_holding_at(m, i);
		rc = check_rank(PEER_HOLDINGS, h.rank, h.world, err);
		if (!rc)
			rc = check_id(PEER_HOLDINGS, h.id, false, err);
	}
	return rc;
}
