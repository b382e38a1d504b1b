#include "base/bytes.h"
#include "base/cleanup.h"
#include "runtime/room.h"
#include "save/save_stats.h"

void spanlog_save(struct spanlog *log, const char *job, const struct save_record *r)
{
	AUTO_WBUF struct wbuf out = {0};
	if (!log)
		return;
	span_begin(&out, log, "save", job);
	span_u64(&out, "step", r->id.step);
	span_u64(&out, "epoch", r->id.epoch);
	span_u64(&out, "begun_ns", r->begun_wall_ns);
	span_text(&out, "target", r->to_storage ? "storage" : "memory");
	span_text(&out, "level", level_name(r->level));
	span_ns(&out, "captured_ns", r->captured_ns, r->level >= LEVEL_CAPTURED);
	span_ns(&out, "replicated_ns", r->replicated_ns, r->replicated_ns != 0);
	span_ns(&out, "durable_ns", r->durable_ns, r->level >= LEVEL_DURABLE);
	span_ns(&out, "verified_ns", r->verified_ns, r->level >= LEVEL_VERIFIED);
	span_ns(&out, "write_ns", r->write_ns, r->level >= LEVEL_DURABLE);
	span_u64(&out, "captured_bytes", r->captured_bytes);
	span_u64(&out, "written_bytes", r->written_bytes);
	span_u64(&out, "ranks", r->world);
	span_ns(&out, "late_rank", r->late_rank, r->late_phase != LATE_NOBODY);
	span_text(&out, "error", r->rc ? r->error : NULL);
	span_end(log, &out);
}
