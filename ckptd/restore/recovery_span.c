#include "base/bytes.h"
#include "base/cleanup.h"
#include "restore/recovery_log.h"
#include "runtime/room.h"
#include "save/room.h"

void spanlog_recovery(struct spanlog *log, const char *job, const struct recovery_record *r)
{
	AUTO_WBUF struct wbuf out = {0};
	if (!log)
		return;
	span_begin(&out, log, "recovery", job);
	span_ns(&out, "step", r->id.step, r->id.epoch != 0);
	span_ns(&out, "step_epoch", r->id.epoch, r->id.epoch != 0);
	span_u64(&out, "epoch", r->epoch);
	span_u64(&out, "ended_ns", r->wall_ns);
	span_text(&out, "source", r->rc ? NULL : source_name(r->source));
	span_ns(&out, "cut_from", r->cut_from, r->cut_from != 0);
	span_u64(&out, "ranks", r->world);
	span_text(&out, "reason", r->reason);
	span_ns(&out, "detect_ns", r->detect_ns, r->detect_ns != 0);
	span_ns(&out, "decide_ns", r->decide_ns, r->seen);
	span_ns(&out, "gather_ns", r->gather_ns, r->raised);
	span_u64(&out, "choose_ns", r->choose_ns);
	span_u64(&out, "fetch_ns", r->fetch_ns);
	span_u64(&out, "restore_ns", r->choose_ns + r->fetch_ns);
	span_ns(&out, "load_ns", r->load_ns, r->load_ns != 0);
	span_ns(&out, "first_step_ns", r->first_step_ns, r->first_step_ns != 0);
	span_ns(&out, "total_ns", recovery_total_ns(r), r->state == RECOVERY_DONE);
	span_text(&out, "state", recovery_state_name(r->state));
	span_text(&out, r->rc ? "error" : "passed_over", r->passed_over);
	span_end(log, &out);
}
