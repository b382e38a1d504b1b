#include "report/report_read.h"

#include "base/bytes.h"

#include <string.h>

static void take_begin(struct report *r, const json_t *line)
{
	line_copy(r->file, sizeof(r->file), line, "file");
	r->seed = line_whole(line, "seed");
	r->planned = line_whole(line, "faults");
	r->left_out = line_whole(line, "left_out");
	r->ranks = (uint32_t)min_u64(line_whole(line, "ranks"), REPORT_RANKS_MAX);
	r->nodes = (uint32_t)min_u64(max_u64(line_whole(line, "nodes"), 1), REPORT_NODES_MAX);
	r->spares = (uint32_t)min_u64(line_whole(line, "spares"), r->nodes - 1);
	r->memory_every = line_whole(line, "save_memory_every");
	r->storage_every = line_whole(line, "save_storage_every");
	r->hang_ms = line_whole(line, "hang_ms");
	r->lasted_ms = line_whole(line, "lasted_ms");
	r->span_ms = line_whole(line, "span_ms");
}

static int take_time(struct report *r, const json_t *line)
{
	uint64_t ns = line_whole(line, "wall_ns");
	if (line_is(line, "event", "started")) {
		struct report_segment *s = REPORT_MORE(r->segments, NOTED_MAX);
		if (s)
			s->started = ns;
		return s ? 0 : -ENOMEM;
	}
	struct report_segment *s = r->segments.n ? &r->segments.at[r->segments.n - 1] : NULL;
	if (s && line_is(line, "event", "at-work"))
		s->work = ns;
	else if (s)
		s->stopped = ns;
	return 0;
}

static int take_daemon(struct report *r, const json_t *line)
{
	struct report_sign *s = REPORT_MORE(r->daemon, NOTED_MAX);
	if (!s)
		return -ENOMEM;
	*s = (struct report_sign){.at = line_time(r, line, "wall_ns"),
				  .node = (uint32_t)min_u64(line_whole(line, "node"), UINT32_MAX),
				  .answers = json_is_true(json_object_get(line, "answers"))};
	return 0;
}

static int take_fault(struct report *r, const json_t *line)
{
	struct report_fault *f = REPORT_MORE(r->faults, NOTED_MAX);
	if (!f)
		return -ENOMEM;
	*f = (struct report_fault){.index = line_whole(line, "index"),
				   .at = line_time(r, line, "wall_ns"),
				   .fired_ms = line_number(line, "ms"),
				   .for_ms = min_u64(line_whole(line, "for_ms"), FAULT_TIME_MAX_MS),
				   .fired = line_is(line, "outcome", "fired"),
				   .rank = (uint32_t)min_u64(line_whole(line, "rank"), UINT32_MAX),
				   .node = (uint32_t)min_u64(line_whole(line, "node"), UINT32_MAX),
				   .recovery = SIZE_MAX};
	line_copy(f->kind, sizeof(f->kind), line, "kind");
	line_copy(f->cause, sizeof(f->cause), line, "cause");
	line_copy(f->text, sizeof(f->text), line, "text");
	f->entry = fault_find(f->kind, strlen(f->kind));
	for (uint32_t rank = 0; rank < r->ranks; rank++)
		f->ranks |= report_node_of(r, rank) == f->node ? UINT64_C(1) << rank : 0;
	return 0;
}

static int take_loss(struct report *r, const json_t *line)
{
	if (!line_is(line, "kind", "spike"))
		return 0;
	struct report_sign *s = REPORT_MORE(r->spikes, NOTED_MAX);
	if (!s)
		return -ENOMEM;
	*s = (struct report_sign){.at = line_time(r, line, "wall_ns"), .node = (uint32_t)line_whole(line, "node")};
	return 0;
}

static void take_end(struct report *r, const json_t *line)
{
	r->ended = true;
	r->end_step = line_whole(line, "step");
	line_copy(r->params, sizeof(r->params), line, "params");
	line_copy(r->calm_params, sizeof(r->calm_params), line, "calm_params");
}

static void take_judged(struct report *r, const json_t *line)
{
	const json_t *one;
	size_t i;
	json_decref(r->invariants);
	r->invariants = json_array();
	json_array_foreach(json_object_get(line, "invariants"), i, one)
	{
		const char *name = json_string_value(json_object_get(one, "name")),
			   *text = json_string_value(json_object_get(one, "text")),
			   *why = json_string_value(json_object_get(one, "why"));
		json_array_append_new(r->invariants,
				      json_pack("{s:s, s:b, s:I, s:I, s:s?, s:s?}", "name", name ? name : "", "held",
						json_is_true(json_object_get(one, "held")), "looked_at",
						(json_int_t)line_whole(one, "looked_at"), "not_due",
						(json_int_t)line_whole(one, "not_due"), "why", why, "text", text));
	}
	r->exit_code = (int)min_u64(line_whole(line, "exit"), 255);
}

static int take_event(struct report *r, const json_t *line)
{
	if (line_is(line, "event", "started") || line_is(line, "event", "at-work") || line_is(line, "event", "stopped"))
		return take_time(r, line);
	if (line_is(line, "event", "daemon"))
		return take_daemon(r, line);
	if (line_is(line, "event", "loss"))
		return take_loss(r, line);
	if (line_is(line, "event", "fault"))
		return take_fault(r, line);
	if (line_is(line, "event", "begin"))
		take_begin(r, line);
	else if (line_is(line, "event", "end"))
		take_end(r, line);
	else if (line_is(line, "event", "judged"))
		take_judged(r, line);
	r->durables += line_is(line, "event", "durable");
	return 0;
}

int report_take_journal(struct report *r, const json_t *line)
{
	int rc = take_event(r, line);
	uint64_t ns = line_time(r, line, "wall_ns");
	if (!rc && r->segments.n) {
		struct report_segment *s = &r->segments.at[r->segments.n - 1];
		s->last = max_u64(s->last, ns);
	}
	return rc;
}
