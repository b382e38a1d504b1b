#include "format/message/wire.h"

#include "format/arena/arena.h"
#include "format/tensor/fields.h"

#include <stdlib.h>
#include <string.h>

/* ---- fields ------------------------------------------------------------------------------------------------------ */

static int finish(const struct rbuf *r, uint16_t type, struct err *err)
{
	if (!rbuf_finish(r))
		return 0;
	return err_set(err, -EBADMSG, "%s message of %zu bytes is malformed", wire_name(type), r->len);
}

static int bad(uint16_t type, struct err *err, const char *what, uint64_t value)
{
	return err_set(err, -EBADMSG, "%s message with %s %llu", wire_name(type), what, (unsigned long long)value);
}

/* A count of local ranks, bounded before anything is read into the arrays that it sizes. */
static uint32_t get_local_count(struct rbuf *r)
{
	uint32_t n = rbuf_u32(r);
	if (n <= WIRE_LOCAL_MAX)
		return n;
	r->failed = true;
	return 0;
}

static int check_ranks(const uint32_t *ranks, uint32_t n, uint16_t type, struct err *err)
{
	for (uint32_t i = 0; i < n; i++) {
		if (ranks[i] >= RANK_MAX)
			return bad(type, err, "rank", ranks[i]);
		for (uint32_t k = 0; k < i; k++)
			if (ranks[k] == ranks[i])
				return bad(type, err, "twice rank", ranks[i]);
	}
	return 0;
}

/* ---- hello, welcome, error --------------------------------------------------------------------------------------- */

int wire_hello_encode(const struct wire_hello *m, struct wbuf *out)
{
	wbuf_u32(out, m->protocol_min);
	wbuf_u32(out, m->protocol_max);
	wbuf_str(out, m->version);
	wbuf_u32(out, (uint32_t)m->role);
	wbuf_str(out, m->job);
	wbuf_u32(out, m->rank);
	wbuf_u32(out, m->world);
	wbuf_u32(out, m->local_world);
	wbuf_u8(out, m->spread);
	wbuf_u32(out, m->epoch);
	wbuf_u32(out, m->slots);
	wbuf_u32(out, m->plan);
	return wbuf_finish(out);
}

static int check_hello_ranks(const struct wire_hello *m, struct err *err)
{
	if (m->world > RANK_MAX || (m->role == ROLE_RANK && !m->world))
		return bad(WIRE_HELLO, err, "world", m->world);
	if (m->role == ROLE_RANK ? m->rank >= m->world : m->rank != 0)
		return bad(WIRE_HELLO, err, "rank", m->rank);
	if (m->local_world > WIRE_LOCAL_MAX || m->local_world > m->world || (m->world && !m->local_world))
		return bad(WIRE_HELLO, err, "ranks on this node", m->local_world);
	if (m->role == ROLE_RANK && (m->slots < ARENA_SLOTS_MIN || m->slots > ARENA_SLOTS_MAX))
		return bad(WIRE_HELLO, err, "slots", m->slots);
	if (m->role != ROLE_LAUNCHER && m->plan)
		return bad(WIRE_HELLO, err, "plan", m->plan);
	return 0;
}

int wire_hello_decode(const void *body, size_t len, struct wire_hello *m, struct err *err)
{
	struct rbuf r = rbuf_of(body, len);
	*m = (struct wire_hello){0};
	m->protocol_min = rbuf_u32(&r);
	m->protocol_max = rbuf_u32(&r);
	get_text(&r, m->version, sizeof(m->version));
	if (!r.failed && (m->protocol_min > WIRE_PROTOCOL || m->protocol_max < WIRE_PROTOCOL))
		return err_set(err, -EPROTONOSUPPORT,
			       "the client (version %s) speaks protocols %u to %u, this daemon speaks %u: let libckpt, "
			       "ckpt and ckptd be of one release, and start again what is older",
			       m->version, m->protocol_min, m->protocol_max, WIRE_PROTOCOL);
	uint32_t role = rbuf_u32(&r);
	rbuf_str(&r, m->job, sizeof(m->job));
	m->rank = rbuf_u32(&r);
	m->world = rbuf_u32(&r);
	m->local_world = rbuf_u32(&r);
	m->spread = get_bool(&r);
	m->epoch = rbuf_u32(&r);
	m->slots = rbuf_u32(&r);
	m->plan = rbuf_u32(&r);
	int rc = finish(&r, WIRE_HELLO, err);
	if (rc)
		return rc;
	if (role < ROLE_RANK || role > ROLE_OBSERVER)
		return bad(WIRE_HELLO, err, "role", role);
	m->role = (enum wire_role)role;
	if ((m->role != ROLE_OBSERVER || m->job[0]) && name_check("job", m->job, sizeof(m->job), err))
		return err_prefix(err, -EBADMSG, "HELLO message");
	return check_hello_ranks(m, err);
}

int wire_welcome_encode(const struct wire_welcome *m, struct wbuf *out)
{
	wbuf_u32(out, m->protocol);
	wbuf_u32(out, m->epoch);
	wbuf_str(out, m->node);
	wbuf_str(out, m->version);
	wbuf_u8(out, m->storage);
	wbuf_u8(out, m->peers);
	wbuf_u8(out, m->spread);
	wbuf_str(out, m->host);
	return wbuf_finish(out);
}

int wire_welcome_decode(const void *body, size_t len, struct wire_welcome *m, struct err *err)
{
	struct rbuf r = rbuf_of(body, len);
	*m = (struct wire_welcome){0};
	m->protocol = rbuf_u32(&r);
	if (!r.failed && m->protocol != WIRE_PROTOCOL)
		return err_set(
			err, -EPROTONOSUPPORT,
			"the daemon chose protocol %u, this library speaks %u: let libckpt, ckpt and ckptd be of "
			"one release, and start again what is older",
			m->protocol, WIRE_PROTOCOL);
	m->epoch = rbuf_u32(&r);
	rbuf_str(&r, m->node, sizeof(m->node));
	get_text(&r, m->version, sizeof(m->version));
	m->storage = get_bool(&r);
	m->peers = get_bool(&r);
	m->spread = get_bool(&r);
	get_text(&r, m->host, sizeof(m->host));
	int rc = finish(&r, WIRE_WELCOME, err);
	if (rc)
		return rc;
	if (name_check("node", m->node, sizeof(m->node), err))
		return err_prefix(err, -EBADMSG, "WELCOME message");
	return 0;
}

int wire_error_encode(const struct wire_error *m, struct wbuf *out)
{
	wbuf_u32(out, (uint32_t)m->rc);
	wbuf_str(out, m->text);
	return wbuf_finish(out);
}

int wire_error_decode(const void *body, size_t len, struct wire_error *m, struct err *err)
{
	struct rbuf r = rbuf_of(body, len);
	*m = (struct wire_error){0};
	m->rc = (int32_t)rbuf_u32(&r);
	get_text(&r, m->text, sizeof(m->text));
	int rc = finish(&r, WIRE_ERROR, err);
	if (rc)
		return rc;
	return m->rc < 0 && m->rc >= -4095 ? 0 : bad(WIRE_ERROR, err, "code", (uint32_t)m->rc);
}

/* ---- arenas and membership --------------------------------------------------------------------------------------- */

int wire_arena_encode(const struct wire_arena *m, struct wbuf *out)
{
	wbuf_u32(out, m->nlocal);
	for (uint32_t i = 0; i < m->nlocal; i++) {
		wbuf_u32(out, m->ranks[i]);
		wbuf_u64(out, m->size[i]);
	}
	return wbuf_finish(out);
}

int wire_arena_decode(const void *body, size_t len, struct wire_arena *m, struct err *err)
{
	struct rbuf r = rbuf_of(body, len);
	*m = (struct wire_arena){0};
	m->nlocal = get_local_count(&r);
	for (uint32_t i = 0; i < m->nlocal; i++) {
		m->ranks[i] = rbuf_u32(&r);
		m->size[i] = rbuf_u64(&r);
	}
	int rc = finish(&r, WIRE_ARENA, err);
	if (rc)
		return rc;
	if (!m->nlocal)
		return bad(WIRE_ARENA, err, "arenas", 0);
	for (uint32_t i = 0; i < m->nlocal; i++)
		if (m->size[i] < ARENA_HEAD || m->size[i] > INT64_MAX)
			return bad(WIRE_ARENA, err, "arena size", m->size[i]);
	return check_ranks(m->ranks, m->nlocal, WIRE_ARENA, err);
}

int wire_join_encode(const struct wire_join *m, struct wbuf *out)
{
	wbuf_u32(out, m->epoch);
	wbuf_u32(out, m->timeout_ms);
	wbuf_u32(out, m->address_len);
	wbuf_put(out, m->address, m->address_len <= WIRE_ADDRESS_MAX ? m->address_len : 0);
	return wbuf_finish(out);
}

int wire_join_decode(const void *body, size_t len, struct wire_join *m, struct err *err)
{
	struct rbuf r = rbuf_of(body, len);
	*m = (struct wire_join){0};
	m->epoch = rbuf_u32(&r);
	m->timeout_ms = rbuf_u32(&r);
	m->address_len = rbuf_u32(&r);
	if (!r.failed && m->address_len > WIRE_ADDRESS_MAX)
		return bad(WIRE_JOIN, err, "address length", m->address_len);
	rbuf_get(&r, m->address, m->address_len);
	return finish(&r, WIRE_JOIN, err);
}

void wire_joined_free(struct wire_joined *m)
{
	free(m->address_len);
	free(m->addresses);
	*m = (struct wire_joined){0};
}

int wire_joined_encode(const struct wire_joined *m, struct wbuf *out)
{
	wbuf_u32(out, m->epoch);
	wbuf_u32(out, m->world);
	for (uint32_t i = 0; i < m->world; i++) {
		wbuf_u16(out, (uint16_t)m->address_len[i]);
		wbuf_put(out, m->addresses + (size_t)i * WIRE_ADDRESS_MAX, m->address_len[i]);
	}
	return wbuf_finish(out);
}

static int get_addresses(struct rbuf *r, struct wire_joined *m, struct err *err)
{
	m->address_len = calloc(m->world, sizeof(*m->address_len));
	m->addresses = calloc(m->world, WIRE_ADDRESS_MAX);
	if (!m->address_len || !m->addresses)
		return err_set(err, -ENOMEM, "no memory for the addresses of %u ranks", m->world);
	for (uint32_t i = 0; i < m->world; i++) {
		m->address_len[i] = rbuf_u16(r);
		if (m->address_len[i] > WIRE_ADDRESS_MAX)
			return bad(WIRE_JOINED, err, "address length", m->address_len[i]);
		rbuf_get(r, m->addresses + (size_t)i * WIRE_ADDRESS_MAX, m->address_len[i]);
	}
	return finish(r, WIRE_JOINED, err);
}

int wire_joined_decode(const void *body, size_t len, struct wire_joined *m, struct err *err)
{
	struct rbuf r = rbuf_of(body, len);
	*m = (struct wire_joined){0};
	uint32_t epoch = rbuf_u32(&r), world = rbuf_u32(&r);
	if (r.failed)
		return finish(&r, WIRE_JOINED, err);
	/* Each address takes at least its length field: the message itself bounds what is allocated. */
	if (!world || world > RANK_MAX || world > rbuf_left(&r) / sizeof(uint16_t))
		return bad(WIRE_JOINED, err, "world", world);
	m->epoch = epoch;
	m->world = world;
	int rc = get_addresses(&r, m, err);
	if (rc)
		wire_joined_free(m);
	return rc;
}

/* ---- restore, events, epochs ------------------------------------------------------------------------------------- */

int wire_restore_encode(const struct wire_restore *m, struct wbuf *out)
{
	wbuf_u32(out, m->epoch);
	wbuf_u64(out, m->step);
	wbuf_u32(out, m->timeout_ms);
	return wbuf_finish(out);
}

int wire_restore_decode(const void *body, size_t len, struct wire_restore *m, struct err *err)
{
	struct rbuf r = rbuf_of(body, len);
	*m = (struct wire_restore){0};
	m->epoch = rbuf_u32(&r);
	m->step = rbuf_u64(&r);
	m->timeout_ms = rbuf_u32(&r);
	int rc = finish(&r, WIRE_RESTORE, err);
	if (rc)
		return rc;
	return step_may_be_asked(m->step) ? 0 : bad(WIRE_RESTORE, err, "step", m->step);
}

int wire_restored_encode(const struct wire_restored *m, struct wbuf *out)
{
	wbuf_u64(out, m->step);
	wbuf_u32(out, m->epoch);
	wbuf_u32(out, m->source);
	wbuf_u64(out, m->fetch_ns);
	wbuf_u32(out, m->nlocal);
	for (uint32_t i = 0; i < m->nlocal; i++) {
		wbuf_u32(out, m->ranks[i]);
		wbuf_u32(out, m->slots[i]);
		wbuf_u8(out, m->rank_blobs_absent[i]);
	}
	wbuf_str(out, m->why);
	return wbuf_finish(out);
}

int wire_restored_decode(const void *body, size_t len, struct wire_restored *m, struct err *err)
{
	struct rbuf r = rbuf_of(body, len);
	*m = (struct wire_restored){0};
	m->step = rbuf_u64(&r);
	m->epoch = rbuf_u32(&r);
	m->source = rbuf_u32(&r);
	m->fetch_ns = rbuf_u64(&r);
	m->nlocal = get_local_count(&r);
	for (uint32_t i = 0; i < m->nlocal; i++) {
		m->ranks[i] = rbuf_u32(&r);
		m->slots[i] = rbuf_u32(&r);
		m->rank_blobs_absent[i] = get_bool(&r);
	}
	get_text(&r, m->why, sizeof(m->why));
	int rc = finish(&r, WIRE_RESTORED, err);
	if (rc)
		return rc;
	if (m->step > STEP_MAX)
		return bad(WIRE_RESTORED, err, "step", m->step);
	if (m->source < WIRE_FROM_MEMORY || m->source > WIRE_FROM_STORAGE)
		return bad(WIRE_RESTORED, err, "source", m->source);
	if (!m->nlocal)
		return bad(WIRE_RESTORED, err, "arenas", 0);
	for (uint32_t i = 0; i < m->nlocal; i++)
		if (m->slots[i] >= ARENA_SLOTS_MAX)
			return bad(WIRE_RESTORED, err, "slot", m->slots[i]);
	return check_ranks(m->ranks, m->nlocal, WIRE_RESTORED, err);
}

int wire_event_encode(const struct wire_event *m, struct wbuf *out)
{
	wbuf_u64(out, m->id.step);
	wbuf_u32(out, m->id.epoch);
	wbuf_u32(out, (uint32_t)m->rc);
	wbuf_str(out, m->text);
	return wbuf_finish(out);
}

int wire_event_decode(const void *body, size_t len, struct wire_event *m, struct err *err)
{
	struct rbuf r = rbuf_of(body, len);
	*m = (struct wire_event){0};
	m->id.step = rbuf_u64(&r);
	m->id.epoch = rbuf_u32(&r);
	m->rc = (int32_t)rbuf_u32(&r);
	get_text(&r, m->text, sizeof(m->text));
	int rc = finish(&r, WIRE_EVENT, err);
	if (rc)
		return rc;
	if (m->id.step > STEP_MAX)
		return bad(WIRE_EVENT, err, "step", m->id.step);
	return m->rc <= 0 && m->rc >= -4095 ? 0 : bad(WIRE_EVENT, err, "code", (uint32_t)m->rc);
}

int wire_epoch_encode(const struct wire_epoch *m, struct wbuf *out)
{
	wbuf_u32(out, m->epoch);
	wbuf_u32(out, m->nlost);
	for (uint32_t i = 0; i < m->nlost; i++)
		wbuf_u32(out, m->lost[i]);
	wbuf_u8(out, m->elsewhere);
	wbuf_str(out, m->reason);
	return wbuf_finish(out);
}

int wire_epoch_decode(const void *body, size_t len, struct wire_epoch *m, struct err *err)
{
	struct rbuf r = rbuf_of(body, len);
	*m = (struct wire_epoch){0};
	m->epoch = rbuf_u32(&r);
	m->nlost = get_local_count(&r);
	for (uint32_t i = 0; i < m->nlost; i++)
		m->lost[i] = rbuf_u32(&r);
	m->elsewhere = get_bool(&r);
	get_text(&r, m->reason, sizeof(m->reason));
	int rc = finish(&r, WIRE_EPOCH, err);
	return rc ? rc : check_ranks(m->lost, m->nlost, WIRE_EPOCH, err);
}

/* ---- the launcher ------------------------------------------------------------------------------------------------ */

int wire_arena_of_encode(const struct wire_arena_of *m, struct wbuf *out)
{
	wbuf_u32(out, m->rank);
	wbuf_u64(out, m->size);
	return wbuf_finish(out);
}

int wire_arena_of_decode(const void *body, size_t len, struct wire_arena_of *m, struct err *err)
{
	struct rbuf r = rbuf_of(body, len);
	*m = (struct wire_arena_of){0};
	m->rank = rbuf_u32(&r);
	m->size = rbuf_u64(&r);
	int rc = finish(&r, WIRE_HOLD, err);
	if (rc)
		return rc;
	if (m->rank >= RANK_MAX)
		return bad(WIRE_HOLD, err, "rank", m->rank);
	return m->size >= ARENA_HEAD && m->size <= INT64_MAX ? 0 : bad(WIRE_HOLD, err, "arena size", m->size);
}

int wire_spawned_encode(const struct wire_spawned *m, struct wbuf *out)
{
	wbuf_u32(out, m->rank);
	wbuf_u32(out, (uint32_t)m->pid);
	return wbuf_finish(out);
}

int wire_spawned_decode(const void *body, size_t len, struct wire_spawned *m, struct err *err)
{
	struct rbuf r = rbuf_of(body, len);
	*m = (struct wire_spawned){0};
	m->rank = rbuf_u32(&r);
	m->pid = (int32_t)rbuf_u32(&r);
	int rc = finish(&r, WIRE_SPAWNED, err);
	if (rc)
		return rc;
	if (m->rank >= RANK_MAX)
		return bad(WIRE_SPAWNED, err, "rank", m->rank);
	return m->pid > 0 ? 0 : bad(WIRE_SPAWNED, err, "pid", (uint32_t)m->pid);
}

int wire_exited_encode(const struct wire_exited *m, struct wbuf *out)
{
	wbuf_u32(out, m->rank);
	wbuf_u32(out, (uint32_t)m->pid);
	wbuf_u32(out, (uint32_t)m->status);
	return wbuf_finish(out);
}

int wire_exited_decode(const void *body, size_t len, struct wire_exited *m, struct err *err)
{
	struct rbuf r = rbuf_of(body, len);
	*m = (struct wire_exited){0};
	m->rank = rbuf_u32(&r);
	m->pid = (int32_t)rbuf_u32(&r);
	m->status = (int32_t)rbuf_u32(&r);
	int rc = finish(&r, WIRE_EXITED, err);
	if (rc)
		return rc;
	if (m->rank >= RANK_MAX)
		return bad(WIRE_EXITED, err, "rank", m->rank);
	return m->pid > 0 ? 0 : bad(WIRE_EXITED, err, "pid", (uint32_t)m->pid);
}

const char *wire_name(uint16_t type)
{
	static const char *const names[WIRE_TYPE_END] = {
		[WIRE_HELLO] = "HELLO",       [WIRE_WELCOME] = "WELCOME", [WIRE_ERROR] = "ERROR",
		[WIRE_REGISTER] = "REGISTER", [WIRE_ARENA] = "ARENA",     [WIRE_JOIN] = "JOIN",
		[WIRE_JOINED] = "JOINED",     [WIRE_RESTORE] = "RESTORE", [WIRE_RESTORED] = "RESTORED",
		[WIRE_EVENT] = "EVENT",       [WIRE_EPOCH] = "EPOCH",     [WIRE_HOLD] = "HOLD",
		[WIRE_RETURN] = "RETURN",     [WIRE_SPAWNED] = "SPAWNED", [WIRE_EXITED] = "EXITED",
		[WIRE_STOP] = "STOP",         [WIRE_STATUS] = "STATUS",   [WIRE_BYE] = "BYE",
		[WIRE_MARK] = "MARK",         [WIRE_COMMAND] = "COMMAND", [WIRE_USER] = "USER",
		[WIRE_MOVED] = "MOVED",       [WIRE_OFFER] = "OFFER",     [WIRE_PLAN] = "PLAN",
	};
	return type < WIRE_TYPE_END && names[type] ? names[type] : "?";
}
