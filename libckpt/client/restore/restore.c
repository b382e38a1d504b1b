/* Restore: the daemon brings the step into slots of the local arenas; each rank copies what it registered out of its own slot
 * and, for replicated state of which its neighbours hold parts, out of theirs: what is verified is loaded while the rest is brought
 * (loads.h). Only the daemon's answer says that it is the step which all ranks have. Until then, and after an error that comes when
 * something has been loaded, the state is undefined. */
#include "base/args.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "client/restore/loads.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define GRACE (500 * CLOCK_NS_PER_MS) /* as in join.c */

/* A restore under way: loads what is there while the daemon brings the rest. */
struct following {
	ckpt *s;
	struct stage *stage;
	struct loads loads;
	int rc; /* of the plan, or of a load: nothing more is loaded, the answer is waited for */
	struct err err;
};

/* ---- while the daemon brings it ---------------------------------------------------------------------------------- */

static bool epoch_is_over(const struct following *f)
{
	return atomic_load_explicit(&stage_head(f->stage)->epoch, memory_order_acquire) != atomic_load(&f->s->epoch);
}

static bool load_more(void *arg)
{
	struct following *f = arg;
	bool any = false;
	if (f->rc || epoch_is_over(f))
		return false;
	if (!f->loads.planned && loads_seen(&f->loads))
		f->rc = loads_plan(&f->loads, f->s, f->stage, &f->err);
	if (!f->rc && f->loads.planned)
		f->rc = loads_follow(&f->loads, &any, &f->err);
	return any;
}

/* ---- the call ---------------------------------------------------------------------------------------------------- */

static int ask(struct following *f, uint64_t step, int timeout_ms, struct wire_restored *m, struct err *err)
{
	ckpt *s = f->s;
	struct meanwhile meanwhile = {.stage = f->stage, .turn = load_more, .arg = f};
	uint32_t ms;
	struct frame *reply;
	uint64_t deadline = session_deadline(s, timeout_ms, &ms);
	struct wire_restore request = {.epoch = atomic_load(&s->epoch), .step = step, .timeout_ms = ms ? ms : 1};
	AUTO_WBUF struct wbuf body = {0};
	int rc = wire_restore_encode(&request, &body);
	if (!rc)
		rc = service_call(s, WIRE_RESTORE, &body, WIRE_RESTORED, deadline + GRACE, &meanwhile, &reply, err);
	if (rc == -ETIMEDOUT && !err->text[0])
		return err_set(err, rc, "the daemon did not say within %u ms who is late", ms);
	if (rc)
		return rc;
	rc = wire_restored_decode(reply->body, reply->len, m, err);
	frame_free(reply);
	free(reply);
	return rc;
}

static int check_restore(ckpt *s, struct stage *stage, uint64_t step, struct err *err)
{
	if (!step_may_be_asked(step))
		return err_set(err, -EINVAL,
			       "step %" PRIu64 " is not below 10^12, nor CKPT_LATEST or CKPT_LATEST_HEALTHY", step);
	if (!stage || !atomic_load(&s->epoch))
		return err_set(err, -EINVAL, "call ckpt_join before ckpt_restore");
	if (atomic_load(&stage->lost))
		return err_set(err, -ESTALE, "the daemon lost the arenas: call ckpt_join again");
	if (atomic_load_explicit(&stage_head(stage)->epoch, memory_order_acquire) != atomic_load(&s->epoch))
		return err_set(err, -ESTALE, "a new epoch has begun: call ckpt_join again");
	return 0;
}

static void report(const struct wire_restored *m, const struct loads *loads, uint64_t load_ns, ckpt_restored *out)
{
	ckpt_restored r = {.step = m->step,
			   .epoch = m->epoch,
			   .source = (ckpt_source)m->source,
			   .bytes = loads->bytes,
			   .fetch_ns = m->fetch_ns,
			   .load_ns = load_ns,
			   .early_bytes = loads->early};
	snprintf(r.why, sizeof(r.why), "%.*s", (int)sizeof(r.why) - 1, m->why);
	args_give(out, &r, sizeof(r));
}

/* For the daemon, which tells how long it took. */
static void note_done(struct stage *stage, uint64_t step)
{
	struct arena_entry *entry = &stage_head(stage)->entry;
	atomic_store_explicit(&entry->step, step, memory_order_relaxed);
	atomic_store_explicit(&entry->loaded_ns, clock_now(), memory_order_release);
}

/* What the answer names is there. */
static int load_rest(struct following *f, const struct wire_restored *m, struct err *err)
{
	int rc = f->rc;
	if (rc)
		*err = f->err;
	else if (!f->loads.planned)
		rc = loads_plan(&f->loads, f->s, f->stage, err);
	if (!rc)
		rc = loads_finish(&f->loads, m, err);
	if (rc)
		return err_prefix(err, rc, "step %" PRIu64, m->step);
	atomic_store(&f->s->undefined, false);
	atomic_store(&f->s->progress.done, f->loads.bytes); /* also what the checkpoint does not have for this rank */
	return 0;
}

/* A daemon that stood still beyond the deadline of a restore before may still be at that. */
static int check_step(const struct wire_restored *m, uint64_t asked, struct err *err)
{
	if (asked > STEP_MAX || m->step == asked)
		return 0;
	return err_set(err, -EBADMSG, "the daemon restored step %" PRIu64 ", and step %" PRIu64 " was asked for",
		       m->step, asked);
}

static int restore(struct following *f, uint64_t step, ckpt_restored *out, int timeout_ms, struct err *err)
{
	struct wire_restored m;
	int rc = ask(f, step, timeout_ms, &m, err);
	if (rc == -ENOENT) { /* there was nothing: it begins anew */
		note_done(f->stage, 0);
		f->s->restored = (struct step_id){0};
		f->s->began = 0;
	}
	if (!rc)
		rc = check_step(&m, step, err);
	if (rc)
		return rc;
	uint64_t begun = clock_now();
	rc = load_rest(f, &m, err);
	if (rc)
		return rc;
	note_done(f->stage, m.step);
	f->s->restored = (struct step_id){m.step, m.epoch};
	f->s->began = loads_began(&f->loads);
	if (out)
		report(&m, &f->loads, clock_now() - begun, out);
	return 0;
}

int ckpt_restore(ckpt *s, uint64_t step, void *stream, ckpt_restored *out, int timeout_ms)
{
	struct err err = {0};
	ckpt_restored known;
	int rc = session_check(s, &err);
	if (!rc && out)
		rc = args_take(&known, sizeof(known), offsetof(ckpt_restored, early_bytes), out, "ckpt_restored", &err);
	if (rc)
		return session_fail(s, rc, &err);
	struct stage *stage = session_stage(s);
	struct following f = {.s = s, .stage = stage};
	rc = check_restore(s, stage, step, &err);
	if (!rc)
		rc = loads_init(&f.loads, s, stage, stream, &err);
	if (!rc)
		rc = restore(&f, step, out, timeout_ms, &err);
	loads_free(&f.loads);
	stage_put(stage);
	return rc ? session_fail(s, rc, &err) : 0;
}

int64_t ckpt_restore_progress(ckpt *s, uint64_t *total)
{
	struct err err = {0};
	int rc = session_check(s, &err);
	if (rc)
		return session_fail(s, rc, &err);
	if (total)
		*total = atomic_load(&s->progress.total);
	return (int64_t)atomic_load(&s->progress.done);
}
