#include "judge/hangs.h"

#include "base/bytes.h"
#include "base/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOW_NS (60 * CLOCK_NS_PER_S)
enum { SLOW_STEPS = 30, DAY_MS = 86400000 };

static const char *text_of(const json_t *line, const char *key)
{
	const char *text = json_string_value(json_object_get(line, key));
	return text ? text : "";
}

/* ---- what is read -------------------------------------------------------------------------------------------------- */

static int add_name(struct campaign_hangs *h, struct hang_name name)
{
	struct hang_name *more = journal_grown(h->names, h->nnames, &h->room_names, sizeof(*more));
	if (!more)
		return -ENOMEM;
	h->names = more;
	h->names[h->nnames++] = name;
	return 0;
}

static int add_time(uint64_t **list, size_t *n, size_t *room, uint64_t at)
{
	uint64_t *more = journal_grown(*list, *n, room, sizeof(*more));
	if (!more)
		return -ENOMEM;
	*list = more;
	(*list)[(*n)++] = at;
	return 0;
}

static int take_fault(struct campaign_hangs *h, const json_t *line)
{
	const char *kind = text_of(line, "kind");
	const struct fault_entry *entry = fault_find(kind, strlen(kind));
	uint64_t index = journal_number(line, "index"), from = journal_number(line, "wall_ns");
	const json_t *first = json_object_get(line, "first");
	double ms = json_number_value(json_object_get(line, "ms"));
	struct hang_fault *more = journal_grown(h->faults, h->nfaults, &h->room_faults, sizeof(*more));
	if (!more)
		return -ENOMEM;
	h->faults = more;
	if (!entry)
		return 0;
	h->faults[h->nfaults++] = (struct hang_fault){
		.entry = entry,
		.index = index,
		.first = first ? journal_number(line, "first") : index,
		.rank = (uint32_t)journal_number(line, "rank"),
		.node = (uint32_t)journal_number(line, "node"),
		.from = from,
		.to = from + (uint64_t)(fmin(fmax(ms, 0), DAY_MS) * 1e6),
		.for_ns = min_u64(journal_number(line, "for_ms"), FAULT_TIME_MAX_MS) * CLOCK_NS_PER_MS,
		.fired = !strcmp(text_of(line, "outcome"), "fired")};
	return 0;
}

static int begin_away(struct campaign_hangs *h, const json_t *line, bool cut)
{
	struct hang_away *more = journal_grown(h->aways, h->naways, &h->room_aways, sizeof(*more));
	if (!more)
		return -ENOMEM;
	h->aways = more;
	h->aways[h->naways++] =
		(struct hang_away){.from = journal_number(line, "wall_ns"),
				   .to = UINT64_MAX,
				   .node = (uint32_t)journal_number(line, "node"),
				   .cut = cut,
				   .apart = cut && 2 * journal_number(line, "for_ms") * CLOCK_NS_PER_MS >= h->hang_ns};
	return 0;
}

static void end_away(struct campaign_hangs *h, const json_t *line, bool cut)
{
	for (size_t i = 0; i < h->naways; i++)
		if (h->aways[i].to == UINT64_MAX && h->aways[i].cut == cut &&
		    h->aways[i].node == journal_number(line, "node"))
			h->aways[i].to = journal_number(line, "wall_ns");
}

/* A daemon answers first when the job begins. */
static int take_daemon(struct campaign_hangs *h, const json_t *line)
{
	bool answers = json_is_true(json_object_get(line, "answers"));
	if (answers)
		end_away(h, line, false);
	return answers ? 0 : begin_away(h, line, false);
}

/* Also one that was killed: what is started for the second time has ended before. */
static int take_start(struct campaign_hangs *h)
{
	int rc = h->began ? add_time(&h->breaks, &h->nbreaks, &h->room_breaks, h->last_ns) : 0;
	h->began = true;
	return rc;
}

static void take_begin(struct campaign_hangs *h, const json_t *line)
{
	h->ranks = journal_number(line, "ranks");
	h->nodes = journal_nodes(line);
	h->hang_ns = min_u64(journal_number(line, "hang_ms"), FAULT_TIME_MAX_MS) * CLOCK_NS_PER_MS;
	h->peer_ns = min_u64(journal_number(line, "peer_ms"), FAULT_TIME_MAX_MS) * CLOCK_NS_PER_MS;
}

static struct hang_name name_in(const json_t *line, enum hang_by by)
{
	return (struct hang_name){
		.at = journal_number(line, "wall_ns"), .rank = (uint32_t)journal_number(line, "rank"), .by = by};
}

static int take_named(struct campaign_hangs *h, const json_t *line)
{
	bool launcher = !strcmp(text_of(line, "by"), "launcher");
	return add_name(h, name_in(line, launcher ? HANG_BY_LAUNCHER : HANG_BY_RANK));
}

/* rank null: nobody stands out. */
static int take_standstill(struct campaign_hangs *h, const json_t *line)
{
	bool named = json_is_integer(json_object_get(line, "rank"));
	return named ? add_name(h, name_in(line, HANG_BY_DAEMON)) : 0;
}

static int take_event(struct campaign_hangs *h, const json_t *line)
{
	if (journal_is(line, "begin"))
		take_begin(h, line);
	if (journal_is(line, "joined"))
		end_away(h, line, true);
	return journal_is(line, "fault")        ? take_fault(h, line)
	       : journal_is(line, "daemon")     ? take_daemon(h, line)
	       : journal_is(line, "cut")        ? begin_away(h, line, true)
	       : journal_is(line, "started")    ? take_start(h)
	       : journal_is(line, "named")      ? take_named(h, line)
	       : journal_is(line, "standstill") ? take_standstill(h, line)
						: 0;
}

int campaign_hangs_take(struct campaign_hangs *h, const json_t *line)
{
	int rc = take_event(h, line);
	h->last_ns = max_u64(h->last_ns, journal_number(line, "wall_ns"));
	return rc;
}

/* "mismatch: rank 4 was in …, rank 5 in …; 3 ranks in …" (trainer/collective/mismatch.h), told behind the first step of the next epoch. */
int campaign_hangs_take_train(struct campaign_hangs *h, const json_t *line, int64_t ahead_ns)
{
	static const char begin[] = "mismatch: rank ";
	const char *at = strstr(text_of(line, "left"), begin), *end = at ? strchr(at, ';') : NULL;
	struct hang_name name = {.at = journal_number(line, "at_ns") - (uint64_t)ahead_ns, .by = HANG_BY_ALL};
	unsigned rank = 0;
	int rc = 0;
	if (!journal_is(line, "recovery") || !end)
		return 0;
	name.unsure = strstr(end, "cannot be told");
	for (at += strlen("mismatch: "); !rc && at < end && sscanf(at, "rank %u", &rank) == 1;
	     at += strcspn(at, ",;") + strlen(", ")) {
		name.rank = rank;
		rc = add_name(h, name);
	}
	return rc;
}

int campaign_hangs_entered(struct campaign_hangs *h, uint64_t wall_ns)
{
	return add_time(&h->entered, &h->nentered, &h->room_entered, wall_ns);
}

/* ---- what is judged ------------------------------------------------------------------------------------------------ */

/* Of two ranks neither can be told to be wrong; nor where others are lost meanwhile. */
static bool is_of(const struct campaign_hangs *h, const struct hang_fault *f, const struct hang_name *name)
{
	if (name->rank != f->rank || (name->by == HANG_BY_ALL && f->entry->kind != FAULT_MISMATCH))
		return false;
	return !name->unsure || h->ranks <= 2 || hangs_has_company(h, f);
}

/* 0: it was not. */
static uint64_t named_at(const struct campaign_hangs *h, const struct hang_fault *f)
{
	uint64_t first = UINT64_MAX, next = hangs_next(h, f);
	for (size_t i = 0; i < h->nnames; i++)
		if (is_of(h, f, &h->names[i]) && h->names[i].at >= f->from && h->names[i].at < next)
			first = min_u64(first, h->names[i].at);
	return first == UINT64_MAX ? 0 : first;
}

static double seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

static void judge_fault(const struct campaign_hangs *h, const struct hang_fault *f, struct invariant *out,
			size_t moot[HANG_MOOTS])
{
	uint64_t due = hangs_due(h, f), at = named_at(h, f);
	enum hang_moot why = at && at <= due ? HANG_DUE : hangs_moot(h, f, due);
	moot[why]++;
	if (why != HANG_DUE)
		return;
	out->looked_at++;
	if (!at)
		invariant_broken(out, "%s of rank %u (fault %" PRIu64 ") was not named within %.1f s", f->entry->name,
				 f->rank, f->index, seconds(due - f->from));
	else if (at > due)
		invariant_broken(out, "%s of rank %u (fault %" PRIu64 ") was named after %.1f s: %.1f s are allowed",
				 f->entry->name, f->rank, f->index, seconds(at - f->from), seconds(due - f->from));
}

/* One that is slow is so for many steps, also while the next fault comes. */
static bool explains(const struct campaign_hangs *h, const struct hang_fault *f, const struct hang_name *name)
{
	bool slow = f->entry->kind == FAULT_SLOW;
	if (name->by == HANG_BY_ALL && f->entry->kind != FAULT_MISMATCH)
		return false;
	if (f->rank != name->rank || name->at < f->from || (!slow && !hangs_is_one(f)))
		return false;
	return name->at < hangs_next(h, f) || (slow && name->at - f->to <= SLOW_STEPS * f->for_ns + SLOW_NS);
}

/* Of ranks that wait for others on a broken network a launcher says that they hang if it takes long, and a daemon whenever all wait. */
static bool is_excused(const struct campaign_hangs *h, const struct hang_name *name)
{
	for (size_t i = 0; i < h->naways; i++) {
		const struct hang_away *a = &h->aways[i];
		if (a->cut && name->by != HANG_BY_ALL && (a->apart || name->by == HANG_BY_DAEMON) &&
		    name->at >= a->from && name->at < a->to)
			return true;
	}
	return false;
}

static void judge_name(const struct campaign_hangs *h, const struct hang_name *name, struct invariant *out)
{
	static const char *const by[] = {[HANG_BY_DAEMON] = "a daemon",
					 [HANG_BY_LAUNCHER] = "a launcher",
					 [HANG_BY_ALL] = "the ranks, for another collective"};
	bool explained = name->by == HANG_BY_RANK || name->unsure || is_excused(h, name);
	for (size_t i = 0; !explained && i < h->nfaults; i++)
		explained = explains(h, &h->faults[i], name);
	if (!explained)
		invariant_broken(out, "rank %u was named by %s, and nothing was done to it then that would be a cause",
				 name->rank, by[name->by]);
}

static void tell_moot(const size_t moot[HANG_MOOTS], struct invariant *out)
{
	static const char *const whys[HANG_MOOTS] = {
		[HANG_WENT_ON] = "stopped for a shorter time",
		[HANG_ENDED] = "ended by another fault first",
		[HANG_LEFT] = "all left the epoch for another fault first",
		[HANG_INTERRUPTED] = "the campaign was stopped first",
	};
	size_t used = 0;
	for (int why = HANG_DUE + 1; why < HANG_MOOTS; why++) {
		out->not_due += moot[why];
		if (moot[why] && used < sizeof(out->why))
			used += (size_t)snprintf(out->why + used, sizeof(out->why) - used, "%s%zu %s", used ? "; " : "",
						 moot[why], whys[why]);
	}
}

void campaign_hangs_judge(const struct campaign_hangs *h, struct invariant *out)
{
	size_t moot[HANG_MOOTS] = {0};
	for (size_t i = 0; i < h->nfaults; i++)
		if (h->faults[i].fired && hangs_is_one(&h->faults[i]))
			judge_fault(h, &h->faults[i], out, moot);
	for (size_t i = 0; i < h->nnames; i++)
		judge_name(h, &h->names[i], out);
	tell_moot(moot, out);
}

void campaign_hangs_free(struct campaign_hangs *h)
{
	free(h->faults);
	free(h->names);
	free(h->aways);
	free(h->entered);
	free(h->breaks);
}
