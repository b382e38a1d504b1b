#include "report/report_read.h"

#include "base/bytes.h"

#include <math.h>
#include <string.h>

static void copy_first(char *dst, size_t size, const json_t *line, const char *key)
{
	if (!*dst)
		line_copy(dst, size, line, key);
}

/* Why ranks left the epoch before: who names the cause says more than who only saw that a rank was missing. */
static void take_left(struct report_recovery *one, const json_t *line)
{
	char text[REPORT_TEXT_MAX];
	line_copy(text, sizeof(text), line, "left");
	if (!*one->left || (!report_names_cause(one->left) && report_names_cause(text)))
		memcpy(one->left, text, sizeof(one->left));
}

/* What the ranks' lines have no part for was spent until all were there. */
static void take_parts(struct report_recovery *one, const json_t *line, double total)
{
	double decide = line_number(line, "decide_ms"), restore = line_number(line, "restore_ms"),
	       first = line_number(line, "first_step_ms");
	if (total < one->longest_ms)
		return;
	one->longest_ms = total;
	one->ranks[PART_DETECT] = line_number(line, "detect_ms");
	one->ranks[PART_DECIDE] = decide;
	one->ranks[PART_FETCH] = restore;
	one->ranks[PART_FIRST_STEP] = first;
	one->ranks[PART_GATHER] = fmax(
		total - (isnan(decide) ? 0 : decide) - (isnan(restore) ? 0 : restore) - (isnan(first) ? 0 : first), 0);
}

static int take_entry(struct report *r, const json_t *line)
{
	struct report_entry *e = REPORT_MORE(r->entries, ENTRIES_MAX);
	struct report_recovery *one = e ? report_epoch(r, (uint32_t)line_whole(line, "epoch")) : NULL;
	double total = line_number(line, "total_ms");
	if (!one)
		return -ENOMEM;
	*e = (struct report_entry){.rank = (uint32_t)min_u64(line_whole(line, "rank"), UINT32_MAX),
				   .epoch = one->epoch,
				   .fresh = line_is(line, "event", "start"),
				   .to = line_time(r, line, "at_ns")};
	e->from = time_before(e->to, total);
	one->back = max_u64(one->back, e->to);
	one->step = line_whole(line, "step");
	copy_first(one->reason, sizeof(one->reason), line, "reason");
	take_left(one, line);
	copy_first(one->source, sizeof(one->source), line, "source");
	copy_first(one->passed_over, sizeof(one->passed_over), line, "passed_over");
	if (e->fresh) {
		one->fresh |= e->rank < REPORT_RANKS_MAX ? UINT64_C(1) << e->rank : 0;
		return 0;
	}
	one->noticed = one->noticed ? min_u64(one->noticed, e->from) : e->from;
	one->steps_lost = max_u64(one->steps_lost, line_whole(line, "steps_lost"));
	take_parts(one, line, total);
	return 0;
}

/* Beyond some millions of saves the newest are left out. */
static void take_stall(struct report *r, const json_t *line)
{
	double ms = line_number(line, "begin_ms") + line_number(line, "fence_ms");
	uint64_t to = line_time(r, line, "at_ns");
	struct report_stall *s = ms >= 0 ? REPORT_MORE(r->stalls, STALLS_MAX) : NULL;
	if (s)
		*s = (struct report_stall){
			.from = time_before(to, ms), .ms = (float)ms, .rank = (uint32_t)line_whole(line, "rank")};
	r->step = max_u64(r->step, line_whole(line, "step"));
}

static int take_slow(struct report *r, const json_t *line)
{
	if (!json_is_true(json_object_get(line, "slow")))
		return 0;
	struct report_sign *s = REPORT_MORE(r->slow, NOTED_MAX);
	if (!s)
		return -ENOMEM;
	*s = (struct report_sign){.at = line_time(r, line, "at_ns"), .rank = (uint32_t)line_whole(line, "rank")};
	return 0;
}

int report_take_train(struct report *r, const json_t *line)
{
	if (line_is(line, "event", "start") || line_is(line, "event", "recovery"))
		return take_entry(r, line);
	if (line_is(line, "event", "straggler"))
		return take_slow(r, line);
	if (line_is(line, "event", "save"))
		take_stall(r, line);
	if (line_is(line, "event", "end")) {
		r->step = max_u64(r->step, line_whole(line, "step"));
		r->step_ms = line_number(line, "step_ms");
	}
	return 0;
}
