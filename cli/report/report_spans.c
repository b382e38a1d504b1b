#include "report/report_read.h"

#include "base/bytes.h"

#include <math.h>

static int take_save(struct report *r, const json_t *line)
{
	uint64_t durable = line_whole(line, "durable_ns");
	if (!line_is(line, "target", "storage"))
		return 0;
	struct report_save *s = REPORT_MORE(r->saves, SAVES_MAX);
	if (!s)
		return -ENOMEM;
	s->begun = line_time_of_day(r, line, "begun_ns");
	s->durable = durable ? s->begun + durable : 0;
	s->step = line_whole(line, "step");
	s->epoch = (uint32_t)line_whole(line, "epoch");
	line_copy(s->error, sizeof(s->error), line, "error");
	return 0;
}

/* Each node has a line of it; the one that saw the loss knows all parts. */
static int take_recovery(struct report *r, const json_t *line)
{
	static const char *const keys[REPORT_PARTS] = {"detect_ns", "decide_ns", "gather_ns",    "choose_ns",
						       "fetch_ns",  "load_ns",   "first_step_ns"};
	if (line_is(line, "state", "refused"))
		return 0;
	struct report_recovery *one = report_epoch(r, (uint32_t)line_whole(line, "epoch"));
	if (!one)
		return -ENOMEM;
	if (!one->span_ended || r->nodes == 1 || !isnan(line_number(line, "decide_ns"))) {
		for (int p = 0; p < REPORT_PARTS; p++)
			one->span[p] = line_number(line, keys[p]) / 1e6;
		one->span_ended = line_time_of_day(r, line, "ended_ns");
	}
	one->step = line_whole(line, "step");
	if (!line_is(line, "reason", "start"))
		line_copy(one->reason, sizeof(one->reason), line, "reason");
	line_copy(one->source, sizeof(one->source), line, "source");
	if (!*one->passed_over)
		line_copy(one->passed_over, sizeof(one->passed_over), line, "passed_over");
	return 0;
}

int report_take_span(struct report *r, const json_t *line)
{
	if (!*r->node)
		line_copy(r->node, sizeof(r->node), line, "node");
	return line_is(line, "span", "save")       ? take_save(r, line)
	       : line_is(line, "span", "recovery") ? take_recovery(r, line)
						   : 0;
}
