#include "format/message/peer_replica.h"

#include "format/arena/layout.h"
#include "format/message/field.h"

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

/* ---- tables ------------------------------------------------------------------------------------------------------ */

static const struct field head_fields[] = {
	FIELD_NAME_OF(struct peer_head, job),
	FIELD_U32_OF(struct peer_head, epoch),
	FIELD_U64_OF(struct peer_head, token),
	{0},
};

static const struct field shape_fields[] = {
	FIELD_DIGEST_OF(struct peer_shape, table),
	FIELD_U64_OF(struct peer_shape, table_len),
	FIELD_U64_OF(struct peer_shape, nleaves),
	FIELD_U64_OF(struct peer_shape, slot_size),
	{0},
};

static const struct field ticket_fields[] = {
	FIELD_U64_OF(struct peer_ticket, key),
	FIELD_U64_OF(struct peer_ticket, address),
	FIELD_U64_OF(struct peer_ticket, size),
	{0},
};

static const struct field tickets_fields[] = {
	FIELD_PART_OF(struct peer_tickets, table, ticket_fields),
	FIELD_PART_OF(struct peer_tickets, leaves, ticket_fields),
	FIELD_PART_OF(struct peer_tickets, slot, ticket_fields),
	{0},
};

static const struct field offer_fields[] = {
	FIELD_PART_OF(struct peer_offer, head, head_fields),
	FIELD_U32_OF(struct peer_offer, rank),
	FIELD_U32_OF(struct peer_offer, world),
	FIELD_ID_OF(struct peer_offer, id),
	FIELD_ID_OF(struct peer_offer, keep),
	FIELD_U32_OF(struct peer_offer, began),
	FIELD_U32_OF(struct peer_offer, lacks),
	FIELD_PART_OF(struct peer_offer, shape, shape_fields),
	{0},
};

static const struct field open_fields[] = {
	FIELD_PART_OF(struct peer_open, head, head_fields),
	FIELD_PART_OF(struct peer_open, tickets, tickets_fields),
	{0},
};

static const struct field fetch_fields[] = {
	FIELD_PART_OF(struct peer_fetch, head, head_fields),
	FIELD_U32_OF(struct peer_fetch, rank),
	FIELD_U32_OF(struct peer_fetch, world),
	FIELD_ID_OF(struct peer_fetch, id),
	FIELD_BOOL_OF(struct peer_fetch, same_table),
	FIELD_DIGEST_OF(struct peer_fetch, table),
	{0},
};

static const struct field source_fields[] = {
	FIELD_PART_OF(struct peer_source, head, head_fields),
	FIELD_U32_OF(struct peer_source, world),
	FIELD_U32_OF(struct peer_source, began),
	FIELD_U32_OF(struct peer_source, lacks),
	FIELD_PART_OF(struct peer_source, shape, shape_fields),
	FIELD_PART_OF(struct peer_source, tickets, tickets_fields),
	{0},
};

static const struct field refused_fields[] = {
	FIELD_PART_OF(struct peer_refused, head, head_fields),
	FIELD_U32_OF(struct peer_refused, rc),
	FIELD_TEXT_OF(struct peer_refused, text),
	{0},
};

static const struct field forget_fields[] = {
	FIELD_PART_OF(struct peer_forget, head, head_fields),
	FIELD_ID_OF(struct peer_forget, before),
	{0},
};

static const struct field holding_fields[] = {
	FIELD_U32_OF(struct peer_holding, rank),     FIELD_U32_OF(struct peer_holding, world),
	FIELD_U32_OF(struct peer_holding, owner),    FIELD_ID_OF(struct peer_holding, id),
	FIELD_DIGEST_OF(struct peer_holding, table), {0},
};

/* They stay in the message: nobody has a place for as many as it may have. */
static void holdings_put(struct wbuf *out, const struct peer_holdings *m)
{
	wbuf_u32(out, m->n);
	wbuf_put(out, m->items, (size_t)m->n * PEER_HOLDING_BYTES);
}

static void holdings_get(struct rbuf *r, struct peer_holdings *m)
{
	m->n = rbuf_u32(r);
	if (m->n > PEER_HOLDINGS_MAX)
		r->failed = true;
	m->items = rbuf_take(r, r->failed ? 0 : (size_t)m->n * PEER_HOLDING_BYTES);
}

FIELD_CODEC_OF_TYPE(holdings, struct peer_holdings, holdings_put, holdings_get);
static const struct field holdings_fields[] = {
	FIELD_PART_OF(struct peer_holdings, head, head_fields),
	{.kind = FIELD_CODEC, .codec = &holdings_codec},
	{0},
};

/* ---- checks ------------------------------------------------------------------------------------------------------ */

static int check_head(uint16_t type, const struct peer_head *head, struct err *err)
{
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

static int encode(const struct field *fields, const void *m, struct wbuf *out)
{
	fields_put(out, fields, m);
	return wbuf_finish(out);
}

/* Each message begins with its head; m is all zeros. */
static int decode(uint16_t type, const struct field *fields, struct rbuf r, void *m, struct err *err)
{
	fields_get(&r, fields, m);
	if (rbuf_finish(&r))
		return err_set(err, -EBADMSG, "%s message of %zu bytes is malformed", peer_replica_name(type), r.len);
	return check_head(type, m, err);
}

int peer_head_encode(const struct peer_head *m, struct wbuf *out)
{
	return encode(head_fields, m, out);
}

int peer_head_decode(uint16_t type, const void *body, size_t len, struct peer_head *m, struct err *err)
{
	*m = (struct peer_head){0};
	return decode(type, head_fields, rbuf_of(body, len), m, err);
}

int peer_offer_encode(const struct peer_offer *m, struct wbuf *out)
{
	return encode(offer_fields, m, out);
}

int peer_offer_decode(const void *body, size_t len, struct peer_offer *m, struct err *err)
{
	*m = (struct peer_offer){0};
	int rc = decode(PEER_OFFER, offer_fields, rbuf_of(body, len), m, err);
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
	return encode(open_fields, m, out);
}

int peer_open_decode(const void *body, size_t len, struct peer_open *m, struct err *err)
{
	*m = (struct peer_open){0};
	return decode(PEER_TICKET, open_fields, rbuf_of(body, len), m, err);
}

int peer_fetch_encode(const struct peer_fetch *m, struct wbuf *out)
{
	return encode(fetch_fields, m, out);
}

int peer_fetch_decode(const void *body, size_t len, struct peer_fetch *m, struct err *err)
{
	*m = (struct peer_fetch){0};
	int rc = decode(PEER_FETCH, fetch_fields, rbuf_of(body, len), m, err);
	if (!rc)
		rc = check_rank(PEER_FETCH, m->rank, RANK_MAX, err);
	return rc ? rc : check_id(PEER_FETCH, m->id, false, err);
}

int peer_source_encode(const struct peer_source *m, struct wbuf *out)
{
	return encode(source_fields, m, out);
}

int peer_source_decode(const void *body, size_t len, struct peer_source *m, struct err *err)
{
	*m = (struct peer_source){0};
	int rc = decode(PEER_SOURCE, source_fields, rbuf_of(body, len), m, err);
	if (!rc)
		rc = check_rank(PEER_SOURCE, 0, m->world, err);
	return rc ? rc : check_shape(PEER_SOURCE, &m->shape, err);
}

int peer_refused_encode(const struct peer_refused *m, struct wbuf *out)
{
	return encode(refused_fields, m, out);
}

int peer_refused_decode(const void *body, size_t len, struct peer_refused *m, struct err *err)
{
	*m = (struct peer_refused){0};
	int rc = decode(PEER_REFUSED, refused_fields, rbuf_of(body, len), m, err);
	if (rc)
		return rc;
	return m->rc < 0 && m->rc >= -4095 ? 0 : bad(PEER_REFUSED, err, "code", (uint32_t)m->rc);
}

int peer_forget_encode(const struct peer_forget *m, struct wbuf *out)
{
	return encode(forget_fields, m, out);
}

int peer_forget_decode(const void *body, size_t len, struct peer_forget *m, struct err *err)
{
	*m = (struct peer_forget){0};
	int rc = decode(PEER_FORGET, forget_fields, rbuf_of(body, len), m, err);
	return rc ? rc : check_id(PEER_FORGET, m->before, false, err);
}

void peer_holding_put(const struct peer_holding *m, struct wbuf *items)
{
	fields_put(items, holding_fields, m);
}

struct peer_holding peer_holding_at(const struct peer_holdings *m, uint32_t i)
{
	struct rbuf r = rbuf_of(m->items + (size_t)i * PEER_HOLDING_BYTES, PEER_HOLDING_BYTES);
	struct peer_holding h = {0};
	fields_get(&r, holding_fields, &h);
	return h;
}

int peer_holdings_encode(const struct peer_holdings *m, struct wbuf *out)
{
	return encode(holdings_fields, m, out);
}

int peer_holdings_decode(const void *body, size_t len, struct peer_holdings *m, struct err *err)
{
	*m = (struct peer_holdings){0};
	int rc = decode(PEER_HOLDINGS, holdings_fields, rbuf_of(body, len), m, err);
	for (uint32_t i = 0; !rc && i < m->n; i++) {
		struct peer_holding h = peer_holding_at(m, i);
		rc = check_rank(PEER_HOLDINGS, h.rank, h.world, err);
		if (!rc)
			rc = check_id(PEER_HOLDINGS, h.id, false, err);
	}
	return rc;
}
