#include "job/resize_private.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "catalog/room.h"
#include "checkpoint/room.h"
#include "coordinator/room.h"
#include "job/job.h"
#include "job/jobs.h"
#include "job/participation.h"
#include "job/rank/barriers.h"
#include "job/rank/keeping.h"
#include "job/rank/rank.h"
#include "job/saving.h"
#include "machine/room.h"
#include "participant/room.h"
#include "replication/room.h"
#include "runtime/room.h"
#include "save/room.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How long processes that the daemon has lost with its last incarnation may take to come back. */
#define BACK_NS (5 * CLOCK_NS_PER_S)
/* Between two tries of what the store refuses. */
#define AGAIN_NS (2 * CLOCK_NS_PER_S)
/* A plan is followed at the next tick, which comes at once. */
enum { AT_ONCE_MS = 1 };

/* ---- what the launcher has ----------------------------------------------------------------------------------------- */

static void send_plan(const struct job *job, const struct wire_plan *plan)
{
	AUTO_WBUF struct wbuf body = {0};
	if (!job->launcher)
		return;
	if (wire_plan_encode(plan, &body))
		body.failed = true;
	client_send(job->launcher, WIRE_PLAN, 0, &body, NULL, 0);
}

/* A launcher that knows nothing of the plan: none of its processes is of it. */
static void repeat_plan(const struct job *job)
{
	struct wire_plan m = {.number = job->resize.plan, .world = job->world, .n = job->nlocal};
	for (uint32_t r = 0; r < m.n; r++) {
		m.ranks[r] = job->ranks[r].id;
		m.was[r] = WIRE_NEW_PROCESS;
	}
	send_plan(job, &m);
}

static void claim(struct peer_capacity *m, const struct job *job)
{
	const struct wire_offer *offer = &job->resize.offer;
	bool told = offer->plan == job->resize.plan;
	m->n = told ? offer->n : job->nlocal;
	for (uint32_t r = 0; r < m->n; r++)
		m->ranks[r] = told ? offer->ranks[r] : job->ranks[r].id;
	if (m->n > m->processes)
		m->n = m->processes;
}

static void say(const struct job *job)
{
	const struct resize *resize = &job->resize;
	const struct wire_offer *offer = &resize->offer;
	struct peer_capacity m = {.want = offer->want,
				  .least = offer->least,
				  .processes = job->launcher ? offer->processes : 0,
				  .spare = offer->spare,
				  .leaving = offer->leaving,
				  .drained = resize->drained,
				  .plan = resize->plan,
				  .world = job->nlocal ? job->world : resize->world};
	snprintf(m.unfit, sizeof(m.unfit), "%s", machine_unfit(job->runtime->machine));
	if (!job->nlocal && !m.processes)
		m.world = 0; /* it has nothing that could be claimed later */
	if (m.plan)
		claim(&m, job);
	participant_capacity(job, &m);
}

void resize_say(const struct job *job)
{
	if (job->resize.offered)
		say(job);
}

/* What is wrong with this machine has begun, or is over. */
static void say_fitness(struct job *job)
{
	bool unfit = *machine_unfit(job->runtime->machine);
	if (unfit == job->resize.unfit)
		return;
	job->resize.unfit = unfit;
	resize_say(job);
}

/* It outlives this daemon. */
static void tell_drained(const struct job *job)
{
	AUTO_WBUF struct wbuf body = {0};
	struct wire_command m = {.kind = job->resize.drained ? COMMAND_DRAIN : COMMAND_UNDRAIN};
	if (!job->launcher)
		return;
	snprintf(m.node, sizeof(m.node), "%s", job->runtime->config.node);
	snprintf(m.job, sizeof(m.job), "%s", job->name);
	if (wire_command_encode(&m, &body))
		body.failed = true;
	client_send(job->launcher, WIRE_COMMAND, 0, &body, NULL, 0);
}

void resize_drain(struct job *job, bool drained)
{
	job->resize.drained = drained;
	tell_drained(job);
}

static int check_offer(const struct job *job, const struct wire_offer *offer, struct err *err)
{
	if (offer->want < job->world)
		return err_set(err, -EINVAL, "an offer of %u to %u ranks, where job '%s' has %u", offer->least,
			       offer->want, job->name, job->world);
	if (offer->spread && !job->peers->roster)
		return err_set(err, -EOPNOTSUPP,
			       "job '%s' is on several nodes, and this ckptd is in no cluster: set cluster and "
			       "cluster-key in its section [node], on all nodes",
			       job->name);
	bool copied = offer->spread && job->peers->replica && job->policy.copies;
	if (offer->least < offer->want && job->storage->root < 0 && !copied)
		return err_set(err, -EINVAL,
			       "job '%s' may go on with another number of ranks, and this ckptd has neither a store "
			       "nor copies "
			       "on other nodes from which they would take their state: set store in its section [node]",
			       job->name);
	return 0;
}

void resize_abandoned(struct job *job)
{
	if (job->resize.offered && !job_finished(job)) /* who has said goodbye needs no launcher */
		resize_say(job);
	job->resize.offered = false;
}

void resize_refused(struct job *job, int rc, const char *text)
{
	if (job->resize.offered && job->launcher)
		client_error(job->launcher, job->resize.seq, rc, "%s", text);
}

void resize_dismiss(const struct job *job)
{
	send_plan(job, &(struct wire_plan){0});
}

/* Whoever offers processes and follows no plan yet has come for the next job of that name. */
void resize_end(struct job *job)
{
	const struct resize *resize = &job->resize;
	if (resize->offered && !resize->plan && !resize->next.number)
		return;
	job->resize.drained = false;
	if (job->resize.offered)
		resize_dismiss(job);
	else if (job->spread && job->has_arenas &&
		 !job->epoch) /* that was another job of its name, and it was not heard meanwhile */
		job->join_ns = clock_deadline(AGAIN_NS);
}

/* ---- the new world ------------------------------------------------------------------------------------------------- */

/* The session goes on with another rank, of which it knows nothing yet. The plan may be here before the epoch is raised: who waits for a
 * restore hears now that there is none in this world. */
static void carry(struct rank *to, struct rank *from)
{
	struct waiting *asks = from->registering.seq ? &from->registering : &from->joining;
	uint32_t seq = asks->seq;
	if (from->restoring.seq && from->client)
		client_error(from->client, from->restoring.seq, -ESTALE, "the world changes");
	rank_carry(to, from);
	to->moved = true;
	if (seq)
		resize_tell(to, seq, NULL);
}

static struct rank *make_ranks(struct job *job, const struct wire_plan *plan)
{
	struct rank *ranks = calloc(plan->n ? plan->n : 1, sizeof(*ranks));
	for (uint32_t r = 0; ranks && r < plan->n; r++)
		ranks[r] = (struct rank){.job = job, .id = plan->ranks[r], .index = r, .pidfd = -1, .doorbell = -1};
	return ranks;
}

/* What belongs to the old world and to nobody else. What was counted stays. */
static void clear(struct job *job)
{
	struct saves *saves = &job->saves, old = *saves;
	save_stats_end(&job->save_stats, NULL);
	recoveries_end(&job->recovery_log);
	copying_leave(job);
	copying_init(job);
	saves_free(saves);
	job_init_saves(job);
	saves->committed = old.committed;
	saves->failed = old.failed;
	saves->verified = old.verified;
	job->runtime->memory.arenas -= job_memory(job);
	job->has_arenas = false;
	job->fresh = true;
	job->resumed_ns = job->returning_ns = 0;
}

static struct rank *old_rank(struct rank *old, uint32_t n, uint32_t id)
{
	for (uint32_t r = 0; r < n; r++)
		if (old[r].id == id)
			return &old[r];
	return NULL;
}

/* for_good: of the next epoch its process may not have heard, and from now on nobody looks at its saves. */
static void dismiss(struct job *job, struct rank *rank, bool for_good)
{
	if (for_good && rank->mem)
		memory_retire(rank->mem);
	if (for_good && rank->pid)
		job->resize.gone[job->resize.ngone++ % WIRE_LOCAL_MAX] = rank->pid;
	if (rank->client) /* of a process that the launcher takes for lost, or lets go; or that comes again */
		client_detach(rank->client);
	rank_end(rank);
}

static void swap_ranks(struct job *job, struct rank *ranks, const struct wire_plan *plan, struct keeping *keeping)
{
	struct rank *old = job->ranks, *from;
	uint32_t nold = job->nlocal;
	keeping_begin(job, keeping);
	clear(job);
	job->ranks = ranks;
	job->nlocal = plan->n;
	job->world = plan->n ? plan->world : 0;
	for (uint32_t r = 0; r < plan->n; r++)
		if ((from = old_rank(old, nold, plan->was[r])))
			carry(&ranks[r], from);
	for (uint32_t r = 0; r < nold; r++)
		dismiss(job, &old[r], true);
	free(old);
	keeping_end(job, keeping);
}

static void take_participant(struct job *job)
{
	struct err err = {{0}};
	job->resize.participant_ns = 0;
	if (!participation_take(job, job->resize.plan, &err)) {
		job->resize.placeless = (struct repeat){0};
		return;
	}
	job->resize.participant_ns = clock_deadline(AGAIN_NS);
	if (repeat_due(&job->resize.placeless, err.text, clock_now()))
		log_error("%s", err.text);
}

/* Nobody here is anybody else than before. */
static bool changes_nothing(const struct job *job, const struct wire_plan *plan)
{
	if (plan->n != job->nlocal || (plan->n && plan->world != job->world))
		return false;
	for (uint32_t r = 0; r < plan->n; r++)
		if (!job_rank(job, plan->ranks[r]) ||
		    (plan->was[r] != plan->ranks[r] && plan->was[r] != WIRE_NEW_PROCESS))
			return false;
	return true;
}

static void follow(struct job *job)
{
	struct resize *resize = &job->resize;
	const struct wire_plan plan = resize->next;
	/* Nobody is there to start them: that was not said if those who were there had finished. */
	if (!resize->offered && plan.n) {
		resize->next.number = 0;
		say(job);
		return;
	}
	bool same = changes_nothing(job, &plan), had = job->nlocal;
	AUTO_FREE struct keeping *keeping = malloc(sizeof(*keeping));
	struct rank *ranks = same || !keeping ? NULL : make_ranks(job, &plan);
	if (!same && !ranks) {
		log_error("job %s: no memory for its new world", job->name);
		return; /* the next tick tries again */
	}
	resize->next.number = 0;
	resize->plan = plan.number;
	resize->world = plan.world;
	resize->quiesce_ns = 0;
	resize->apart = false;
	if (!same) {
		log_warn("job %s: %u ranks here, world size %u", job->name, plan.n, plan.world);
		swap_ranks(job, ranks, &plan, keeping);
	}
	send_plan(job, &plan);
	resize_say(job);
	if (job->nlocal)
		take_participant(job);
	else if (had)
		participation_leave(job, false);
	if (resize->quiesce_next == plan.number)
		resize_quiesce(job, plan.number);
	if (resize->quiesce_next <= plan.number)
		resize->quiesce_next = 0;
}

void resize_plan(struct job *job, const struct wire_plan *plan)
{
	if (plan->number <= job->resize.plan || plan->number <= job->resize.next.number)
		return;
	job->resize.next = *plan;
	loop_soon(job->runtime->loop, AT_ONCE_MS);
}

/* ---- a launcher that comes ----------------------------------------------------------------------------------------- */

/* A process is here as a rank that it had by a plan which is over, in the place of another one. Those that are meant come again, with
 * their arenas; this one is not let in. */
static void turn_out(struct job *job, const struct wire_offer *offer)
{
	struct wire_plan places = {.n = job->nlocal};
	for (uint32_t r = 0; r < job->nlocal; r++)
		places.ranks[r] = r < offer->n ? offer->ranks[r] : RANK_MAX;
	struct rank *ranks = make_ranks(job, &places);
	if (!ranks) {
		log_error("job %s: no memory for its ranks", job->name);
		return;
	}
	clear(job);
	for (uint32_t r = 0; r < job->nlocal; r++)
		dismiss(job, &job->ranks[r], !resize_keeps_alive(offer, job->ranks[r].id));
	free(job->ranks);
	job->ranks = ranks;
	participation_leave(job, true);
}

static void resume(struct job *job, const struct wire_offer *offer)
{
	if (!resize_resumes(job, offer))
		return;
	job->resize.plan = offer->plan;
	if (!resize_fits(job, offer)) {
		turn_out(job, offer);
		return;
	}
	for (uint32_t r = 0; r < offer->n; r++)
		job_claim(job, offer->ranks[r]);
}

int resize_offer(struct job *job, uint32_t seq, const struct wire_offer *offer, struct err *err)
{
	struct resize *resize = &job->resize;
	int rc = check_offer(job, offer, err);
	if (!rc)
		rc = resize_make_way(job, offer, err);
	if (rc)
		return rc;
	bool first = !resize->offered, resumes = !resize->plan && offer->plan && job->nlocal;
	resize->seq = seq;
	resize->offer = *offer;
	resize->offered = true;
	job->spread = job->spread || offer->spread;
	resize->drained = resize->drained || (first && offer->drained);
	if (resize->drained != offer->drained)
		tell_drained(job);
	resume(job, offer);
	if (first && job->nlocal && offer->plan != resize->plan && !resize->next.number)
		repeat_plan(job); /* of another one it hears when that is followed */
	resize_say(job);
	/* Until now nobody knew by which plan: here, or where the job is coordinated, if that began anew while no
	 * launcher was there to tell. */
	if (resumes || (first && job->nlocal && resize->plan))
		participation_join(job);
	return 0;
}

/* ---- on the way there ---------------------------------------------------------------------------------------------- */

void resize_quiesce(struct job *job, uint32_t plan)
{
	struct resize *resize = &job->resize;
	if (plan > resize->plan) /* it has yet to follow that one */
		resize->quiesce_next = plan;
	if (plan != resize->plan || resize->quiesce_ns)
		return;
	resize->quiesce_ns = clock_now();
	resize->flushed = (struct step_id){0};
	loop_soon(job->runtime->loop, AT_ONCE_MS);
}

void resize_entered(struct resize *resize)
{
	resize->quiesce_ns = 0;
}

bool resize_changes(const struct resize *resize)
{
	return resize->next.number || resize->quiesce_next || resize->quiesce_ns;
}

void resize_apart(struct job *job, bool apart)
{
	job->resize.apart = apart;
}

void resize_invalidate_plan(struct job *job, uint32_t plan)
{
	if (job->resize.plan < plan)
		resize_apart(job, true);
}

static void quiesced(struct job *job, int rc, const char *text)
{
	job->resize.quiesce_ns = 0;
	participant_quiesced(job, job->resize.plan, rc, text);
}

/* Another world takes its state from storage: as long as memory has something newer, the arenas stay. The node of rank 0 decides what
 * is written, the others follow. 0: it is on storage; -EAGAIN: not yet. */
static int save_state(struct job *job)
{
	struct step_id id;
	struct err err = {{0}};
	const struct snapshot *newest = saves_in_memory(&job->saves, UINT64_MAX);
	if (!newest || newest->state == SNAPSHOT_DURABLE || newest->state == SNAPSHOT_VERIFIED ||
	    step_compare(newest->id, job->copies.durable) <= 0 || /* it is there for the sake of its copies */
	    !saves_decide(&job->saves) || job->storage->root < 0)
		return 0;
	if (saves_busy(&job->saves))
		return -EAGAIN;
	if (step_compare(job->resize.flushed, newest->id) && queue_flush(&job->saves, &id, &err))
		log_warn("job %s: %s", job->name, err.text);
	job->resize.flushed = newest->id;
	return newest->storage_rc ? newest->storage_rc : -EAGAIN;
}

static void quiesce(struct job *job)
{
	char text[WIRE_TEXT_MAX] = "";
	int rc = save_state(job);
	if (rc == -EAGAIN)
		return;
	if (rc) {
		const struct snapshot *newest = saves_in_memory(&job->saves, UINT64_MAX);
		snprintf(text, sizeof(text),
			 "step %lu is in memory only, and cannot be written (%s): another world would have lost it",
			 (unsigned long)newest->id.step, err_name(rc));
	}
	if (rc || (saves_idle_here(&job->saves) && restore_idle(&job->restore)))
		quiesced(job, rc, text);
}

/* What is in its arena is known: not yet while it has only said HELLO. In a world that has just begun it has none. */
static bool is_back(const struct rank *rank)
{
	return rank->state == RANK_LEFT || (rank->client && (rank->arena_sent || rank->moved));
}

/* Each has brought its arena, or never will. With a launcher its processes are gone. */
static bool all_back(const struct job *job)
{
	for (uint32_t r = 0; r < job->nlocal && job->resize.offered; r++)
		if (resize_keeps_alive(&job->resize.offer, job->ranks[r].id) && !is_back(&job->ranks[r]))
			return clock_now() - job->resize.quiesce_ns > BACK_NS;
	return true;
}

void resize_tick(struct job *job)
{
	struct resize *resize = &job->resize;
	say_fitness(job);
	if (resize->participant_ns && clock_now() >= resize->participant_ns)
		take_participant(job);
	if (resize->next.number && resize->apart) {
		restore_cancel(&job->restore);
		saves_abandon(&job->saves, RESIZE_GONE_ON);
	}
	if (resize->next.number && saves_idle_here(&job->saves) && restore_idle(&job->restore))
		follow(job);
	if (resize->quiesce_next && !resize->next.number && !resize->offered) { /* it never follows it */
		participant_quiesced(job, resize->quiesce_next, 0, "");
		resize->quiesce_next = 0;
	}
	if (!resize->quiesce_ns || !all_back(job))
		return;
	saves_follow(&job->saves);
	quiesce(job);
}
