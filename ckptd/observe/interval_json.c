#include "observe/interval_json.h"

static json_t *seconds(double s)
{
	return s > 0 ? json_real(s) : json_null();
}

static const char *from(bool measured)
{
	return measured ? "measured" : "default";
}

/* every: what holds, on all ranks; wanted: what this node would have next. */
static json_t *tier_json(const struct interval_tier *t, uint64_t every)
{
	return json_pack("{s:I, s:I, s:o, s:s, s:f, s:s, s:o, s:f, s:s, s:I}", "every", (json_int_t)every, "wanted",
			 (json_int_t)t->every, "seconds", seconds(t->seconds), "decided_by",
			 t->bound ? t->bound : "none", "cost_s", t->cost, "cost_from", from(t->cost_measured),
			 "takes_s", seconds(t->takes), "mtbf_s", t->mtbf, "mtbf_from", from(t->mtbf_measured), "losses",
			 (json_int_t)t->losses);
}

json_t *interval_json(const struct job *job)
{
	const struct job_interval *i = &job->interval;
	if (!i->plan.steps)
		return json_null();
	return json_pack("{s:I, s:I, s:o, s:f, s:o, s:o}", "from", (json_int_t)i->held.from, "until",
			 (json_int_t)i->held.until, "step_s", seconds(i->measure.step), "observed_s",
			 i->measure.observed, "memory", tier_json(&i->plan.memory, i->held.memory_every), "storage",
			 tier_json(&i->plan.storage, i->held.storage_every));
}
