#include "base/cleanup.h"
#include "client/session/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

_Static_assert(CKPT_LATEST == STEP_NEWEST && CKPT_LATEST_HEALTHY == STEP_NEWEST_HEALTHY, "as the daemon knows them");

/* A join by another thread may replace the stage meanwhile: it is looked at with a reference. */
static int check_epoch(ckpt *s, const struct wire_mark *m, struct err *err)
{
	int rc = 0;
	struct stage *stage = session_stage(s);
	if (!stage || !m->epoch)
		rc = err_set(err, -EINVAL, "call ckpt_join before ckpt_mark");
	else if (m->id.epoch > m->epoch)
		rc = err_set(err, -EINVAL, "there is no epoch %u yet: this rank joined %u", m->id.epoch, m->epoch);
	else if (atomic_load_explicit(&stage_head(stage)->epoch, memory_order_acquire) != m->epoch)
		rc = err_set(err, -ESTALE, "a new epoch has begun: call ckpt_join");
	stage_put(stage);
	return rc;
}

static int check(ckpt *s, const struct wire_mark *m, ckpt_health health, const char *reason, struct err *err)
{
	if (health != CKPT_HEALTHY && health != CKPT_UNHEALTHY)
		return err_set(err, -EINVAL, "health %d is neither CKPT_HEALTHY nor CKPT_UNHEALTHY", (int)health);
	if (m->id.step > STEP_MAX)
		return err_set(err, -EINVAL, "step %" PRIu64 " is not below 10^12", m->id.step);
	if (reason && strlen(reason) >= WIRE_REASON_MAX)
		return err_set(err, -EINVAL, "a reason has at most %d bytes, not %zu", WIRE_REASON_MAX - 1,
			       strlen(reason));
	int rc = check_epoch(s, m, err);
	return rc ? rc : service_check(s, NULL, err);
}

static int tell(ckpt *s, const struct wire_mark *m, int timeout_ms, struct err *err)
{
	uint32_t ms;
	struct frame *reply;
	uint64_t deadline = session_deadline(s, timeout_ms, &ms);
	AUTO_WBUF struct wbuf body = {0};
	int rc = wire_mark_encode(m, &body);
	if (!rc)
		rc = service_call(s, WIRE_MARK, &body, WIRE_MARK, deadline, NULL, &reply, err);
	if (rc == -ETIMEDOUT && !err->text[0])
		return err_set(err, rc, "the daemon did not answer within %u ms", ms);
	if (rc)
		return rc;
	frame_free(reply);
	free(reply);
	return 0;
}

int ckpt_mark(ckpt *s, uint64_t step, uint32_t epoch, ckpt_health health, const char *reason, int timeout_ms)
{
	struct err err = {0};
	uint32_t joined = s ? atomic_load(&s->epoch) : 0;
	struct wire_mark m = {
		.epoch = joined, .id = {step, epoch ? epoch : joined}, .unhealthy = health == CKPT_UNHEALTHY};
	int rc = session_check(s, &err);
	if (!rc)
		rc = check(s, &m, health, reason, &err);
	if (rc)
		return session_fail(s, rc, &err);
	snprintf(m.reason, sizeof(m.reason), "%s", reason ? reason : "");
	rc = tell(s, &m, timeout_ms, &err);
	return rc ? session_fail(s, rc, &err) : 0;
}
