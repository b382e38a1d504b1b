#include "restore/recovery_log.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "format/arena/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void recoveries_init(struct recovery_log *all, const struct logged_job *of)
{
	*all = (struct recovery_log){.of = *of, .since_ns = clock_now()};
}

const char *recovery_state_name(enum recovery_state state)
{
	static const char *const names[] = {"under-way", "done", "cut-short", "refused"};
	return names[state];
}

/* ---- what was lost ----------------------------------------------------------------------------------------------- */

const char *lost_kind_name(enum lost_kind kind)
{
	static const char *const names[] = {"none", "rank", "hang", "node", "daemon"};
	return names[kind < LOST_KINDS ? kind : LOST_NONE];
}

uint64_t recoveries_losses_from(const struct recovery_log *all, uint32_t source)
{
	uint64_t n = 0;
	for (uint32_t kind = 0; kind < LOST_KINDS; kind++)
		n += all->losses[source][kind];
	return n;
}

uint64_t recoveries_losses_of(const struct recovery_log *all, enum lost_kind kind)
{
	uint64_t n = 0;
	for (uint32_t source = 0; source <= WIRE_FROM_STORAGE; source++)
		n += all->losses[source][kind];
	return n;
}

double recoveries_between(const struct recovery_log *all, uint64_t losses, uint64_t now)
{
	return losses ? (double)(now - all->since_ns) / (double)losses / 1e9 : 0;
}

/* ---- the ring ---------------------------------------------------------------------------------------------------- */

const struct recovery_record *recoveries_at(const struct recovery_log *all, uint32_t i)
{
	return &all->ring[(all->at + RECOVERIES_MAX - all->n + i) % RECOVERIES_MAX];
}

uint64_t recovery_total_ns(const struct recovery_record *r)
{
	if (r->state != RECOVERY_DONE)
		return 0;
	return r->detect_ns + r->decide_ns + r->gather_ns + r->choose_ns + r->fetch_ns + r->load_ns + r->first_step_ns;
}

/* ---- before the restore ------------------------------------------------------------------------------------------ */

void recoveries_lost(struct recovery_log *all, uint64_t beat_ns)
{
	if (all->lost_ns || all->raised_ns)
		return;
	all->lost_ns = clock_now();
	all->beat_ns = beat_ns;
}

void recoveries_no_loss(struct recovery_log *all)
{
	if (!all->raised_ns)
		all->lost_ns = all->beat_ns = 0;
}

/* ---- its end ----------------------------------------------------------------------------------------------------- */

/* At one tick: what others have to say has room in a queue, too. */
enum { NOTED_AT_ONCE = 8 };

static void note_rest(struct recovery_log *all)
{
	unsigned left = NOTED_AT_ONCE;
	for (uint32_t i = 0; left && i < all->n; i++) {
		struct recovery_record *r = &all->ring[(all->at + RECOVERIES_MAX - all->n + i) % RECOVERIES_MAX];
		if (r->state == RECOVERY_UNDER_WAY || r->noted)
			continue;
		r->noted = all->of.note(all->of.arg, r, true);
		left = r->noted ? left - 1 : 0;
	}
}

static struct recovery_record *newest(struct recovery_log *all)
{
	return all->n ? &all->ring[(all->at + RECOVERIES_MAX - 1) % RECOVERIES_MAX] : NULL;
}

static struct recovery_record *under_way(struct recovery_log *all)
{
	struct recovery_record *r = newest(all);
	return r && r->state == RECOVERY_UNDER_WAY ? r : NULL;
}

static void finish(struct recovery_log *all, struct recovery_record *r, enum recovery_state state)
{
	r->state = state;
	if (state == RECOVERY_DONE)
		histogram_add(&all->total, recovery_total_ns(r), 1);
	r->noted = all->of.note(all->of.arg, r, false);
}

bool recoveries_return(const struct recovery_log *all, uint64_t now)
{
	const struct recovery_record *r = all->n ? recoveries_at(all, all->n - 1) : NULL;
	uint64_t answered = r && r->state == RECOVERY_UNDER_WAY ? r->answered_ns : 0;
	uint64_t since = max_u64(all->raised_ns, answered);
	return since && now - since < RECOVERY_RETURN_NS;
}

/* What the rank says lies between our answer and now, or is not believed. */
static void look_at_part(const struct recovery_log *all, const struct recovery_record *r, struct recovery_part *part,
			 uint64_t now)
{
	struct arena_entry *entry = all->of.entry(all->of.arg, part->rank);
	if (!entry)
		return;
	uint64_t loaded = atomic_load_explicit(&entry->loaded_ns, memory_order_acquire);
	uint64_t stepped = atomic_load_explicit(&entry->stepped_ns, memory_order_acquire);
	if (loaded > r->answered_ns && loaded <= now)
		part->load_ns = loaded - r->answered_ns;
	if (part->load_ns && stepped > r->answered_ns + part->load_ns && stepped <= now)
		part->first_step_ns = stepped - r->answered_ns - part->load_ns;
}

static void look(const struct recovery_log *all, struct recovery_record *r, uint64_t now)
{
	uint64_t loaded = 0, stepped = 0;
	uint32_t nloaded = 0, nstepped = 0;
	for (uint32_t i = 0; i < r->nparts; i++) {
		struct recovery_part *part = &r->parts[i];
		if (!part->first_step_ns)
			look_at_part(all, r, part, now);
		nloaded += part->load_ns != 0;
		nstepped += part->first_step_ns != 0;
		loaded = max_u64(loaded, part->load_ns);
		stepped = max_u64(stepped, part->load_ns + part->first_step_ns);
	}
	r->load_ns = nloaded == r->nparts ? loaded : 0;
	r->first_step_ns = nstepped == r->nparts ? stepped - loaded : 0;
}

void recoveries_tick(struct recovery_log *all, uint64_t now)
{
	struct recovery_record *r = under_way(all);
	note_rest(all);
	if (!r)
		return;
	look(all, r, now);
	if (r->first_step_ns)
		finish(all, r, RECOVERY_DONE);
	else if (now > r->answered_ns + RECOVERY_STEP_NS)
		finish(all, r, RECOVERY_CUT);
}

void recoveries_end(struct recovery_log *all)
{
	recoveries_tick(all, clock_now());
	struct recovery_record *r = under_way(all);
	if (r)
		finish(all, r, RECOVERY_CUT);
}

void recoveries_free(struct recovery_log *all)
{
	for (uint32_t i = 0; i < RECOVERIES_MAX; i++)
		free(all->ring[i].parts);
	*all = (struct recovery_log){.n = 0};
}

/* ---- the restore ------------------------------------------------------------------------------------------------- */

void recoveries_raise(struct recovery_log *all, const char *reason, enum lost_kind loss)
{
	recoveries_end(all);
	if (!all->loss)
		all->loss = loss;
	if (all->raised_ns)
		return;
	all->raised_ns = clock_now();
	snprintf(all->reason, sizeof(all->reason), "%.*s", RECOVERY_REASON_MAX - 1, reason);
}

static struct recovery_record *next(struct recovery_log *all)
{
	struct recovery_record *r = &all->ring[all->at];
	all->at = (all->at + 1) % RECOVERIES_MAX;
	if (all->n < RECOVERIES_MAX)
		all->n++;
	free(r->parts);
	return r;
}

static void take_parts(struct recovery_record *r, const struct recovery_end *end)
{
	r->parts = end->nparts ? calloc(end->nparts, sizeof(*r->parts)) : NULL;
	r->nparts = r->parts ? end->nparts : 0;
	if (r->parts)
		memcpy(r->parts, end->parts, end->nparts * sizeof(*r->parts));
}

static uint64_t between(uint64_t from, uint64_t to)
{
	return from && to > from ? to - from : 0;
}

void recoveries_answered(struct recovery_log *all, const struct recovery_end *end)
{
	recoveries_end(all);
	struct recovery_record *r = next(all);
	uint64_t now = clock_now(), chosen = end->chosen_ns ? end->chosen_ns : now;
	*r = (struct recovery_record){.id = end->id,
				      .wall_ns = clock_wall(),
				      .answered_ns = now,
				      .epoch = end->epoch,
				      .world = end->world,
				      .source = end->source & 3,
				      .cut_from = end->cut_from,
				      .rc = end->rc,
				      .seen = all->raised_ns && all->lost_ns,
				      .raised = all->raised_ns != 0,
				      .loss = all->raised_ns && all->loss != LOST_NONE,
				      .choose_ns = between(end->asked_ns, chosen),
				      .fetch_ns = between(chosen, now)};
	if (r->seen) {
		r->detect_ns = between(all->beat_ns, all->lost_ns);
		r->decide_ns = between(all->lost_ns, all->raised_ns);
	}
	r->gather_ns = between(all->raised_ns, end->asked_ns);
	snprintf(r->reason, sizeof(r->reason), "%s", r->raised ? all->reason : "start");
	snprintf(r->passed_over, sizeof(r->passed_over), "%.*s", WIRE_TEXT_MAX - 1, end->passed_over);
	take_parts(r, end);
	if (!r->rc && r->source)
		histogram_add(&all->restore[r->source], r->choose_ns + r->fetch_ns, 1);
	if (r->loss)
		all->losses[r->source][all->loss]++;
	if (r->raised)
		histogram_add(&all->gather, r->gather_ns, 1);
	all->raised_ns = all->lost_ns = all->beat_ns = 0;
	all->loss = LOST_NONE;
	if (r->rc)
		finish(all, r, RECOVERY_REFUSED);
}
