#include "launcher/launch_recovery.h"

#include "frame/order.h"

#include "base/bytes.h"
#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ASK_FIRST_NS (20 * CLOCK_NS_PER_MS)
#define ASK_MOST_NS (500 * CLOCK_NS_PER_MS)
/* A job that does not restore (it began afresh) has nothing more to tell. */
#define ASK_LIMIT_NS (30 * CLOCK_NS_PER_S)

struct recovery *recovery_current(struct recoveries *all)
{
	return all->open ? &all->list[all->count - 1] : NULL;
}

struct recovery *recovery_open(struct recoveries *all, bool daemon, uint64_t now)
{
	struct recovery *last = recovery_current(all);
	if (last && !last->back_ns && last->daemon == daemon)
		return last;
	all->count++;
	all->open = all->count <= RECOVERIES_MAX;
	if (!all->open)
		return NULL;
	last = recovery_current(all);
	*last = (struct recovery){.daemon = daemon, .seen_ns = now};
	all->ask_at = now;
	all->pause_ns = ASK_FIRST_NS;
	return last;
}

void recovery_settle(struct recoveries *all, uint64_t now)
{
	const struct recovery *last = recovery_current(all);
	if (!last)
		return;
	bool known = last->daemon || last->restored || now - last->seen_ns > ASK_LIMIT_NS;
	if (last->back_ns && known)
		all->open = false;
}

/* ---- what the daemon knows ------------------------------------------------------------------------------------- */

bool recovery_should_ask(struct recoveries *all, uint64_t now)
{
	const struct recovery *last = recovery_current(all);
	if (!last || last->daemon || now < all->ask_at)
		return false;
	all->ask_at = now + all->pause_ns;
	all->pause_ns = min_u64(all->pause_ns * 2, ASK_MOST_NS);
	return true;
}

void recovery_asked(struct recoveries *all)
{
	all->unanswered++;
}

void recovery_hurry(struct recoveries *all)
{
	all->ask_at = 0;
}

bool recovery_awaits(const struct recoveries *all)
{
	const struct recovery *last = all->open ? &all->list[all->count - 1] : NULL;
	return last && !last->daemon && !last->restored && all->unanswered;
}

uint64_t recovery_next(const struct recoveries *all)
{
	return all->open ? all->ask_at : UINT64_MAX;
}

/* The newest that is of the epoch or of a later one: the ranks may have restored before the first answer came. NULL: none. */
static const json_t *find_restore(const json_t *recent, uint32_t epoch)
{
	for (size_t i = json_array_size(recent); i > 0; i--) {
		const json_t *one = json_array_get(recent, i - 1), *step = json_object_get(one, "step");
		if (json_integer_value(json_object_get(one, "epoch")) < epoch)
			return NULL;
		if (json_is_true(json_object_get(one, "ok")) && json_is_integer(step) && json_integer_value(step) >= 0)
			return one;
	}
	return NULL;
}

static void take_restore(struct recovery *r, const json_t *restore)
{
	const char *source = json_string_value(json_object_get(restore, "source"));
	r->restored = true;
	r->step_restored = (uint64_t)json_integer_value(json_object_get(restore, "step"));
	r->restore_ms = json_number_value(json_object_get(restore, "restore_ms"));
	snprintf(r->source, sizeof(r->source), "%s", source ? source : "?");
}

void recovery_answer(struct recoveries *all, const char *json, size_t len, const char *job)
{
	struct recovery *r = recovery_current(all);
	all->unanswered -= all->unanswered > 0;
	if (!r || r->daemon || r->restored)
		return;
	json_t *doc = json_try(json, len);
	const json_t *done = json_object_get(order_job(doc, job), "recoveries");
	const json_t *restore = find_restore(json_object_get(done, "recent"), r->epoch);
	if (restore)
		take_restore(r, restore);
	json_decref(doc);
}

/* ---- the report ------------------------------------------------------------------------------------------------ */

static unsigned listed(const struct recoveries *all)
{
	return all->count < RECOVERIES_MAX ? all->count : RECOVERIES_MAX;
}

static void ms_cell(struct table *t, uint64_t from, uint64_t to)
{
	if (from && to >= from)
		table_cell(t, TONE_PLAIN, "%.1f ms", (double)(to - from) / 1e6);
	else
		table_cell(t, TONE_DIM, "-");
}

/* When it began, as well as it is known. */
static uint64_t began(const struct recovery *r)
{
	return r->fault_ns ? r->fault_ns : r->seen_ns;
}

static void row(struct table *t, const struct recovery *r)
{
	table_cell(t, TONE_PLAIN, r->epoch ? "%u" : "-", r->epoch);
	table_cell(t, TONE_PLAIN, "%s", r->reason);
	ms_cell(t, r->fault_ns, r->seen_ns);
	ms_cell(t, r->seen_ns, r->replaced_ns);
	if (r->restored) {
		table_cell(t, TONE_PLAIN, "%.1f ms", r->restore_ms);
		table_cell(t, TONE_PLAIN, "step %" PRIu64 " from %s", r->step_restored, r->source);
	} else {
		table_cell(t, TONE_DIM, "-");
		table_cell(t, TONE_DIM, "-");
	}
	if (r->restored && r->step_known && r->step_before >= r->step_restored)
		table_cell(t, TONE_PLAIN, "%" PRIu64, r->step_before - r->step_restored);
	else
		table_cell(t, TONE_DIM, "-");
	ms_cell(t, began(r), r->back_ns);
}

void recovery_table(const struct recoveries *all)
{
	static const struct column columns[] = {
		{"EPOCH", ALIGN_RIGHT},      {"REASON", ALIGN_LEFT},      {"DETECT", ALIGN_RIGHT},
		{"DECIDE", ALIGN_RIGHT},     {"RESTORE", ALIGN_RIGHT},    {"RESTORED", ALIGN_LEFT},
		{"STEPS LOST", ALIGN_RIGHT}, {"BACK AFTER", ALIGN_RIGHT},
	};
	struct table *t = table_new(columns, sizeof(columns) / sizeof(columns[0]));
	for (unsigned i = 0; i < listed(all); i++)
		row(t, &all->list[i]);
	table_print(t);
	if (all->count > RECOVERIES_MAX)
		out(TONE_DIM, "and %u more\n", all->count - RECOVERIES_MAX);
}

static void set_ms(json_t *j, const char *name, uint64_t from, uint64_t to)
{
	json_object_set_new(j, name, from && to >= from ? json_real((double)(to - from) / 1e6) : json_null());
}

static json_t *one_json(const struct recovery *r)
{
	json_t *j = json_object();
	json_object_set_new(j, "what", json_string(r->daemon ? "daemon" : "ranks"));
	json_object_set_new(j, "epoch", json_integer(r->epoch));
	json_object_set_new(j, "reason", json_text(r->reason));
	json_object_set_new(j, "injected", json_boolean(r->fault_ns != 0));
	set_ms(j, "detect_ms", r->fault_ns, r->seen_ns);
	set_ms(j, "decide_ms", r->seen_ns, r->replaced_ns);
	set_ms(j, "back_ms", began(r), r->back_ns);
	json_object_set_new(j, "restore_ms", r->restored ? json_real(r->restore_ms) : json_null());
	json_object_set_new(j, "restored_step", r->restored ? json_integer((json_int_t)r->step_restored) : json_null());
	json_object_set_new(j, "source", r->restored ? json_text(r->source) : json_null());
	bool lost = r->restored && r->step_known && r->step_before >= r->step_restored;
	json_object_set_new(j, "steps_lost",
			    lost ? json_integer((json_int_t)(r->step_before - r->step_restored)) : json_null());
	return j;
}

json_t *recovery_json(const struct recoveries *all)
{
	json_t *list = json_array();
	for (unsigned i = 0; i < listed(all); i++)
		json_array_append_new(list, one_json(&all->list[i]));
	return list;
}
