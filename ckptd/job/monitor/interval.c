#include "job/monitor/interval.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/interval.h"
#include "job/job.h"
#include "participant/room.h"

#include <math.h>

#define SAY_AGAIN_NS (500 * CLOCK_NS_PER_MS)
#define COST_DEFAULT 1.0 /* seconds that a save keeps training from, before one was made */
#define HOLDS 20.0       /* seconds that a schedule should hold */

/* Until a few saves were measured: the first one tells little. */
enum { START_STEPS = 16, START_EVERY = 4, START_SAVES = 4 };
#define START_HOLDS 0.5 /* seconds, where steps are known */

/* ---- the choice -------------------------------------------------------------------------------------------------- */

static void expect_losses(struct interval_tier *t, uint64_t losses, double observed, double assumed)
{
	t->losses = losses;
	t->mtbf_measured = losses || observed > assumed;
	t->mtbf = losses ? observed / (double)losses : fmax(observed, assumed);
	t->mtbf = fmax(t->mtbf, 1);
}

/* Whole units: upwards, unless that is beyond what is the most. */
static uint64_t whole(const struct interval *i, double unit, double most)
{
	double n = interval_whole(i->seconds, unit) / unit;
	if (i->seconds <= most && n * unit > most && n > 1)
		n--;
	return (uint64_t)fmin(round(n), (double)STEP_MAX);
}

static void start(const struct interval_measure *m, const struct interval_limits *l, struct interval_plan *out)
{
	if (m->step > 0)
		out->steps = max_u64(START_STEPS, (uint64_t)fmin(START_HOLDS / m->step, 1e6));
	out->memory.every = START_EVERY;
	out->storage.every = l->storage ? START_STEPS : 0;
	out->memory.bound = out->storage.bound = "start";
}

static void take(struct interval_tier *t, const struct interval *i, uint64_t every, double step)
{
	t->every = every;
	t->seconds = (double)every * step;
	t->bound = i->bound;
}

static void choose(const struct interval_measure *m, const struct interval_limits *l, struct interval_plan *out)
{
	struct interval_tier *memory = &out->memory, *storage = &out->storage;
	const struct interval_least of_memory[] = {
		{memory->cost / l->overhead, "overhead"}, {memory->takes, "save"}, {m->step, "step"}};
	struct interval i = interval_choose(memory->cost, memory->mtbf, l->most, of_memory, 3);
	take(memory, &i, whole(&i, m->step, l->most), m->step);
	out->steps = max_u64(max_u64(START_STEPS, 2 * memory->every), (uint64_t)fmin(HOLDS / m->step, 1e6));
	out->steps = min_u64(out->steps, STEP_MAX);
	if (!l->storage)
		return;
	const struct interval_least of_storage[] = {{storage->takes, "save"}, {memory->seconds, "memory"}};
	i = interval_choose(storage->cost, storage->mtbf, l->most, of_storage, 2);
	uint64_t each = whole(&i, memory->seconds, l->most);
	take(storage, &i, (uint64_t)fmin((double)each * (double)memory->every, (double)STEP_MAX), m->step);
}

void interval_plan(const struct interval_measure *m, const struct interval_limits *l, struct interval_plan *out)
{
	*out = (struct interval_plan){.steps = START_STEPS};
	struct interval_tier *memory = &out->memory, *storage = &out->storage;
	double node = INTERVAL_NODE_MTBF / l->nodes; /* of any of them */
	double of_memory = l->copies ? node : node / INTERVAL_SOFT;
	double lost = l->copies ? 0 : (1 - INTERVAL_SOFT) / node;
	uint64_t uncopied = l->copies ? 0 : m->copied_nodes; /* the next one would need storage */
	expect_losses(memory, m->memory_losses - uncopied, m->observed, of_memory);
	expect_losses(storage, m->storage_losses + uncopied, m->observed, 1 / (lost + 1 / INTERVAL_OUTAGE_MTBF));
	memory->cost = m->stall > 0 ? m->stall : m->captured > 0 ? m->captured : COST_DEFAULT;
	memory->cost_measured = storage->cost_measured = m->saves >= START_SAVES && (m->stall > 0 || m->captured > 0);
	storage->cost = memory->cost; /* what is written is written beside training */
	if (m->storage_saves >= START_SAVES && m->storage_stall > 0)
		storage->cost = m->storage_stall;
	memory->takes = fmax(m->captured, m->replicated);
	storage->takes = m->durable;
	if (!l->automatic)
		return;
	if (m->step > 0 && memory->cost_measured)
		choose(m, l, out);
	else
		start(m, l, out);
}

/* ---- what is measured -------------------------------------------------------------------------------------------- */

static double mean(const struct histogram *h)
{
	return h->count ? (double)h->sum_ns / (double)h->count / 1e9 : 0;
}

static double stall_of(const struct arena_stall *stall, uint64_t *saves)
{
	uint64_t n = atomic_load(&stall->saves);
	*saves = max_u64(*saves, n);
	return n ? (double)atomic_load(&stall->ns) / (double)n / 1e9 : 0;
}

/* Of the rank that it costs most. It is the ranks' own word. */
static void measure_stall(const struct job *job, struct interval_measure *m)
{
	m->stall = m->storage_stall = 0;
	for (uint32_t r = 0; r < job->nlocal; r++) {
		const struct arena_head *head = job->ranks[r].mem->head;
		m->stall = fmax(m->stall, stall_of(&head->asked.stall, &m->saves));
		m->storage_stall = fmax(m->storage_stall, stall_of(&head->storage_stall, &m->storage_saves));
	}
}

/* Since it was looked last, in this epoch. */
static void measure_step(struct job_interval *i, uint32_t epoch, uint64_t step, uint64_t ns)
{
	if (i->mark_epoch == epoch && step > i->mark_step && ns > i->mark_ns)
		i->measure.step = (double)(ns - i->mark_ns) / (double)(step - i->mark_step) / 1e9;
	i->mark_epoch = epoch;
	i->mark_step = step;
	i->mark_ns = ns;
}

static void measure(struct job *job)
{
	struct interval_measure *m = &job->interval.measure;
	const struct recovery_log *log = &job->recovery_log;
	m->saves = job->save_stats.captured.count; /* a library that does not tell is older */
	m->storage_saves = 0;
	measure_stall(job, m);
	m->captured = mean(&job->save_stats.captured);
	m->replicated = mean(&job->save_stats.replicated);
	m->durable = mean(&job->save_stats.durable);
	m->observed = (double)(clock_now() - log->since_ns) / 1e9; /* as the losses */
	m->memory_losses = recoveries_losses_from(log, WIRE_FROM_MEMORY) + recoveries_losses_from(log, WIRE_FROM_PEER);
	m->storage_losses = recoveries_losses_from(log, WIRE_FROM_STORAGE) + recoveries_losses_from(log, 0);
	m->copied_nodes = log->losses[WIRE_FROM_PEER][LOST_NODE];
}

static struct interval_limits limits_of(const struct job *job)
{
	return (struct interval_limits){.automatic = job->policy.interval == INTERVAL_AUTO,
					.storage = job->storage->root >= 0,
					.copies = copies_wanted(&job->copies) != 0,
					.nodes = ceil((double)job->world / (double)job->nlocal),
					.overhead = (double)job->policy.interval_overhead / 100,
					.most = (double)job->policy.interval_most_ms / 1e3};
}

/* ---- what is agreed on ------------------------------------------------------------------------------------------- */

/* Else a schedule may stand in an arena that is still to come back. */
static bool all_there(const struct job *job)
{
	for (uint32_t r = 0; r < job->nlocal; r++) {
		const struct rank *rank = &job->ranks[r];
		if (!rank->mem || (rank->state != RANK_JOINED && rank->state != RANK_LEFT))
			return false;
	}
	return job->nlocal && job->epoch;
}

/* To ranks that have an earlier one. */
static void pass_on(const struct job *job, const struct schedule *s)
{
	for (uint32_t r = 0; r < job->nlocal; r++) {
		struct memory *mem = job->ranks[r].mem;
		if (!mem || schedule_newest(mem->head, s->epoch).number >= s->number)
			continue;
		schedule_put(mem->head, s);
		memory_wake(mem);
		failpoint("job.schedule", NULL);
	}
}

/* After a restart of the daemon, what the one before has told: perhaps not to all. What one rank has may have been read. */
static void remember(struct job *job)
{
	struct schedule *held = &job->interval.held;
	if (held->epoch == job->epoch)
		return;
	*held = (struct schedule){.epoch = job->epoch};
	for (uint32_t r = 0; r < job->nlocal; r++) {
		struct schedule s = schedule_newest(job->ranks[r].mem->head, job->epoch);
		if (s.number > held->number && !schedule_check(&s, false, NULL))
			*held = s;
	}
	pass_on(job, held);
}

/* The step of the rank that is furthest. */
static bool asked(const struct job *job, uint64_t *step, uint64_t *ns)
{
	bool any = false;
	for (uint32_t r = 0; r < job->nlocal; r++) {
		uint64_t one, at;
		if (!schedule_asked(job->ranks[r].mem->head, job->epoch, &one, &at) || (any && one <= *step))
			continue;
		*step = one;
		*ns = at;
		any = true;
	}
	return any;
}

static void say(struct job *job, uint64_t step)
{
	struct job_interval *i = &job->interval;
	struct peer_report r = {.type = PEER_SCHEDULE_WANTED};
	i->said_ns = clock_now();
	i->said_epoch = job->epoch;
	i->said_number = i->held.number;
	r.schedule_wanted = (struct peer_schedule_wanted){.step = step,
							  .held = i->held,
							  .memory_every = i->plan.memory.every,
							  .storage_every = i->plan.storage.every,
							  .steps = i->plan.steps ? i->plan.steps : START_STEPS};
	participant_say(job, &r);
}

void interval_look(struct job *job)
{
	struct job_interval *i = &job->interval;
	uint64_t step = 0, ns = 0;
	if (!all_there(job))
		return;
	remember(job);
	if (!asked(job, &step, &ns) || (i->held.number && step < i->held.wanted))
		return;
	bool again = i->said_epoch == job->epoch && i->said_number == i->held.number;
	if (again && clock_now() - i->said_ns < SAY_AGAIN_NS)
		return;
	if (!again)
		measure_step(i, job->epoch, step, ns);
	measure(job);
	struct interval_limits limits = limits_of(job);
	interval_plan(&i->measure, &limits, &i->plan);
	say(job, step);
}

void interval_report_anew(struct job *job)
{
	if (!all_there(job))
		return;
	remember(job);
	say(job, UINT64_MAX);
}

void interval_hear(struct job *job, const struct schedule *s)
{
	if (s->epoch != job->epoch)
		return;
	pass_on(job, s);
	if (job->interval.held.epoch != s->epoch || job->interval.held.number < s->number)
		job->interval.held = *s;
}
