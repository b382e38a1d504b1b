#include "base/cleanup.h"
#include "base/clock.h"
#include "client/session/session.h"

#include <string.h>

/* The daemon answers a barrier by the deadline that the request carries, with who is missing; that answer may come a moment
 * after our own clock says so. */
#define GRACE (500 * CLOCK_NS_PER_MS)

/* The stage is let go only when no device reads the state for it any more: a handle that the caller keeps keeps it, and who then says
 * that nothing is read would know of the one in its place only. */
static int end_captures(ckpt *s, uint64_t deadline, struct err *err)
{
	struct err slow = {0};
	struct patience patience = beat_patience(s, deadline);
	if (!s->stage || capture_end(&s->stage->capture, &patience, &slow) >= 0)
		return 0;
	return err_set(err, -ETIMEDOUT, "what was registered is still read, call ckpt_join again: %s", slow.text);
}

static int enter_stage(ckpt *s, uint64_t deadline, uint32_t ms, struct err *err)
{
	struct frame *reply;
	struct stage *stage;
	uint32_t generation = service_generation(s);
	AUTO_WBUF struct wbuf body = {0};
	int rc = end_captures(s, deadline, err);
	int left = clock_ms_until(deadline);
	if (!rc)
		rc = table_message(&s->table, left ? (uint32_t)left : 1, &body);
	if (!rc)
		rc = service_call(s, WIRE_REGISTER, &body, WIRE_ARENA, deadline + GRACE, NULL, &reply, err);
	if (rc == -ETIMEDOUT && !err->text[0])
		return err_set(err, rc, "not all %u ranks of this node have registered within %u ms",
			       s->settings.local_world, ms);
	if (rc)
		return rc;
	rc = stage_new(reply, &s->table, &s->layers, &s->settings, &stage, err);
	frame_free(reply);
	free(reply);
	if (rc)
		return rc;
	session_stage_replace(s, stage);
	/* A daemon that was restarted just now was given the old stage's arena, or none. */
	if (service_generation(s) == generation)
		return 0;
	atomic_store(&stage->lost, true);
	return err_set(err, -ENOTCONN, "the daemon was restarted while the arenas were handed out");
}

static void install(ckpt *s, struct wire_joined *m)
{
	LOCK_SCOPE(&s->save);
	s->view = (ckpt_view){.size = sizeof(s->view),
			      .epoch = m->epoch,
			      .rank = (int)s->settings.rank,
			      .world = (int)m->world,
			      .joined_before = s->joined.epoch != 0,
			      .addresses = m->addresses,
			      .address_len = m->address_len};
	wire_joined_free(&s->joined);
	s->joined = *m;
	atomic_store(&s->epoch, m->epoch);
	if (!s->stage)
		return;
	/* What an earlier process was in when it died, or this one when it left the epoch, is over. */
	atomic_store(&stage_head(s->stage)->flight.in_collective, 0);
	atomic_store(&stage_head(s->stage)->entry.joined, m->epoch);
}

static int enter_epoch(ckpt *s, struct wire_join *join, uint64_t deadline, uint32_t ms, struct err *err)
{
	struct frame *reply;
	struct wire_joined joined;
	AUTO_WBUF struct wbuf body = {0};
	int left = clock_ms_until(deadline);
	join->timeout_ms = left ? (uint32_t)left : 1;
	int rc = wire_join_encode(join, &body);
	if (!rc)
		rc = service_call(s, WIRE_JOIN, &body, WIRE_JOINED, deadline + GRACE, NULL, &reply, err);
	if (rc == -ETIMEDOUT && !err->text[0])
		return err_set(err, rc, "the daemon did not say within %u ms who is missing", ms);
	if (rc)
		return rc;
	rc = wire_joined_decode(reply->body, reply->len, &joined, err);
	frame_free(reply);
	free(reply);
	if (rc)
		return rc;
	if (joined.world <= s->settings.rank) {
		rc = err_set(err, -EBADMSG, "the daemon let rank %u join a world of %u", s->settings.rank,
			     joined.world);
		wire_joined_free(&joined);
		return rc;
	}
	install(s, &joined);
	return 0;
}

/* What the daemon has said counts only when no device reads what was registered: until then a later call is told again. */
static int leave(ckpt *s, uint64_t deadline, struct err *err)
{
	pthread_mutex_lock(&s->save);
	if (s->stage)
		atomic_store(&s->stage->lost, true); /* no save is begun in it any more */
	pthread_mutex_unlock(&s->save);
	int rc = end_captures(s, deadline, err);
	s->moving = rc != 0;
	if (rc)
		return rc;
	session_move(s);
	return -EREMCHG;
}

static int join(ckpt *s, struct wire_join *request, int timeout_ms, struct err *err)
{
	uint32_t ms;
	uint64_t deadline = session_deadline(s, timeout_ms, &ms);
	if (s->moving) {
		(void)session_moved(s, err);
		return leave(s, deadline, err);
	}
	int rc = table_sealed(&s->table) ? 0 : table_seal(&s->table, err);
	if (rc)
		return rc;
	save_end_unfenced(s, deadline); /* what follows may restore: nothing reads the state from here on */
	do {
		*err = (struct err){0};
		rc = !s->stage || atomic_load(&s->stage->lost) ? enter_stage(s, deadline, ms, err) : 0;
		if (!rc)
			rc = enter_epoch(s, request, deadline, ms, err);
		/* The service thread may have come back to a restarted daemon meanwhile, which had lost an arena. */
		if (!rc && atomic_load(&s->stage->lost))
			rc = enter_stage(s, deadline, ms, err);
	} while (rc == -ENOTCONN && clock_now() < deadline);
	return rc == -EREMCHG ? leave(s, deadline, err) : rc;
}

int ckpt_join(ckpt *s, const void *address, size_t len, const ckpt_view **view, int timeout_ms)
{
	struct err err = {0};
	struct wire_join request = {.epoch = s ? atomic_load(&s->epoch) : 0, .address_len = (uint32_t)len};
	int rc = session_check(s, &err);
	if (!rc && len && !address)
		rc = err_set(&err, -EINVAL, "the address is NULL, and is to have %zu bytes", len);
	if (!rc && len > CKPT_ADDRESS_MAX)
		rc = err_set(&err, -EINVAL, "an address has at most %d bytes, not %zu", CKPT_ADDRESS_MAX, len);
	if (rc)
		return session_fail(s, rc, &err);
	if (len)
		memcpy(request.address, address, len);
	news_join_begins(s);
	rc = join(s, &request, timeout_ms, &err);
	news_join_ends(s, rc ? 0 : atomic_load(&s->epoch));
	if (rc)
		return session_fail(s, rc, &err);
	if (view)
		*view = &s->view;
	return 0;
}
