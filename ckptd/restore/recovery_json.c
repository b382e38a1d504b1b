#include "restore/recovery_json.h"

#include "cluster/room.h"
#include "restore/recovery_log.h"
#include "runtime/room.h"
#include "save/room.h"

static json_t *part_json(const struct roster *roster, const struct recovery_part *part)
{
	bool named = part->source == WIRE_FROM_PEER && roster && part->from < roster->n;
	return json_pack("{s:i, s:s, s:o, s:o, s:o, s:o, s:o}", "rank", (int)part->rank, "source",
			 source_name(part->source), "from",
			 named ? plain_json_text(roster->nodes[part->from].name) : json_null(), "skipped",
			 plain_json_text(part->skipped), "fetch_ms", plain_json_ms(part->fetch_ns != 0, part->fetch_ns),
			 "load_ms", plain_json_ms(part->load_ns != 0, part->load_ns), "first_step_ms",
			 plain_json_ms(part->first_step_ns != 0, part->first_step_ns));
}

static json_t *parts_json(const struct roster *roster, const struct recovery_record *r)
{
	json_t *list = json_array();
	for (uint32_t i = 0; i < r->nparts; i++)
		json_array_append_new(list, part_json(roster, &r->parts[i]));
	return list;
}

json_t *recovery_json(const struct roster *roster, const struct recovery_record *r)
{
	bool done = r->state == RECOVERY_DONE;
	json_t *j =
		json_pack("{s:I, s:o, s:o, s:i, s:i, s:s, s:o, s:o, s:o, s:s, s:b}", "ended_ns", (json_int_t)r->wall_ns,
			  "step", r->id.epoch ? json_integer((json_int_t)r->id.step) : json_null(), "step_epoch",
			  r->id.epoch ? json_integer((json_int_t)r->id.epoch) : json_null(), "epoch", (int)r->epoch,
			  "world", (int)r->world, "source", source_name(r->source), "cut_from",
			  r->cut_from ? json_integer(r->cut_from) : json_null(), "reason", plain_json_text(r->reason),
			  "passed_over", plain_json_text(r->passed_over), "state", recovery_state_name(r->state), "ok",
			  r->rc == 0);
	json_t *times = json_pack(
		"{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "detect_ms",
		plain_json_ms(r->detect_ns != 0, r->detect_ns), "decide_ms", plain_json_ms(r->seen, r->decide_ns),
		"gather_ms", plain_json_ms(r->raised, r->gather_ns), "choose_ms", plain_json_ms(true, r->choose_ns),
		"fetch_ms", plain_json_ms(true, r->fetch_ns), "restore_ms",
		plain_json_ms(true, r->choose_ns + r->fetch_ns), "load_ms", plain_json_ms(r->load_ns != 0, r->load_ns),
		"first_step_ms", plain_json_ms(r->first_step_ns != 0, r->first_step_ns), "total_ms",
		plain_json_ms(done, recovery_total_ns(r)), "ranks", parts_json(roster, r));
	json_object_update(j, times);
	json_decref(times);
	return j;
}

char *recovery_text(const struct roster *roster, const struct recovery_record *r)
{
	json_t *j = recovery_json(roster, r);
	char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;
	json_decref(j);
	return text;
}
