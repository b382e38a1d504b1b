#include "participant/room.h"

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "clients/room.h"
#include "dispatch/coordinator_link.h"
#include "dispatch/dispatch.h"
#include "job/room.h"
#include "replication/room.h"
#include "save/room.h"

enum { JOIN_RETRY_MS = 1000 };

/* What contradicts the job stays so. The rest passes: a store that cannot be read for a moment, a world that has not ended. Ranks that are at
 * work ask for nothing, and would wait for ever for those of the other nodes. */
static void turned_away(struct job *job, const struct peer_word *word)
{
	if (word->rc != -EINVAL && job->spread)
		job->join_ns = clock_deadline(JOIN_RETRY_MS * CLOCK_NS_PER_MS);
	member_turn_away(job, word->rc, word->text);
	if (word->flag)
		resize_refused(job, word->rc, word->text);
}

/* ---- epochs ---------------------------------------------------------------------------------------------------- */

static void know(struct job *job, uint32_t epoch)
{
	job->epoch = epoch;
	if (epoch > job->known)
		job->known = epoch;
}

static void adopt(struct job *job, const struct peer_word *word)
{
	bool first = !job->epoch;
	know(job, word->epoch);
	if (word->flag)
		job->resumed_ns = job->returning_ns = clock_now();
	if (first)
		member_epoch_known(job);
}

static void freeze(struct job *job)
{
	copying_epoch(job);
	/* Arenas first: from here on no rank of the old epoch gets anything promoted, whatever it is doing. */
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (job->ranks[r].mem)
			memory_set_epoch(job->ranks[r].mem, job->epoch);
	saves_follow(&job->saves);
	saves_poison(&job->saves, job->epoch);
	restore_cancel(&job->restore);
}

static void raise_epoch(struct job *job, const struct peer_word *word)
{
	know(job, word->epoch);
	job->fresh = false;
	job->pause = 0;
	failpoint("job.raise", NULL);
	freeze(job);
	recoveries_raise(&job->recovery_log, word->text, word->flag ? (enum lost_kind)word->loss : LOST_NONE);
	log_warn("job %s: epoch %u: %s", job->name, job->epoch, word->text);
	for (uint32_t r = 0; r < job->nlocal; r++) {
		struct rank *rank = &job->ranks[r];
		if (rank->state == RANK_JOINED)
			rank->state = RANK_REGISTERED;
		rank->resumed = false;
		if (rank->restoring.seq)
			member_refuse(rank, &rank->restoring, -ESTALE, "%s", word->text);
	}
	job->resumed_ns = 0;
	member_tell_epoch(job, word->text, word->flag && !job_rank(job, word->rank));
}

static void tell(struct job *job, const struct peer_word *word)
{
	log_warn("job %s: rank %u is gone before the job began: %s", job->name, word->rank, word->text);
	recoveries_no_loss(&job->recovery_log);
	member_tell_epoch(job, word->text, false);
}

static void pause_ranks(struct job *job, uint64_t after)
{
	job_pause(job, after);
	if (after == UINT64_MAX)
		return;
	struct step_id begun = job->saves.begun;
	participant_say(job,
			&(struct peer_report){.type = PEER_PAUSED, .step = begun.epoch == job->epoch ? begun.step : 0});
}

/* ---- orders ---------------------------------------------------------------------------------------------------- */

/* Another coordinator has taken the job over in the epoch that it is in. */
static void resume(struct job *job)
{
	job_pause(job, UINT64_MAX); /* what the former one had it wait for nobody else knows */
	saves_report_anew(&job->saves);
	interval_report_anew(job);
	halt_joined(job);
}

/* What only a participant gets. */
static void obey(struct job *job, const struct peer_order *order)
{
	switch (order->type) {
	case PEER_ADOPT:
		adopt(job, &order->word);
		halt_joined(job);
		return;
	case PEER_RAISE:
		if (order->word.epoch > job->epoch)
			raise_epoch(job, &order->word);
		member_epoch_known(job);
		halt_joined(job);
		return;
	case PEER_RESUME:
		if (order->word.epoch == job->epoch)
			resume(job);
		standstill_anew(job);
		straggler_watch_anew(job);
		return;
	case PEER_RANK_WANTED:
		tell(job, &order->word);
		return;
	case PEER_JOINED:
		member_joined(job, &order->joined);
		return;
	case PEER_LOOK:
		restore_look(&job->restore, &order->look);
		return;
	case PEER_RESTORE_FETCH:
		restore_fetch(&job->restore, &order->bring);
		return;
	case PEER_RESTORED:
		restore_finish(&job->restore, &order->choice);
		return;
	case PEER_REFUSE:
		copying_refused(job, order->refuse.rc);
		restore_refuse(&job->restore, order->refuse.rc, order->refuse.text, order->refuse.why);
		return;
	case PEER_LEVEL:
		saves_level(&job->saves, order->save.id, order->save.level);
		return;
	case PEER_FAIL:
		saves_fail(&job->saves, order->save.id, order->save.flag, order->save.rc, order->save.text);
		return;
	case PEER_COPY:
		copying_order(job, order->save.id);
		return;
	case PEER_PIN_REPLICATED:
		copies_replicated(&job->copies, order->save.id);
		return;
	case PEER_SKIP:
		saves_pass(&job->saves, order->save.id, order->save.rc, order->save.text);
		return;
	case PEER_WRITE:
		saves_write(&job->saves, &order->save);
		return;
	case PEER_COMPARE:
		saves_compare(&job->saves, &order->compare);
		return;
	case PEER_SCHEDULE:
		interval_hear(job, &order->schedule);
		return;
	case PEER_STANDSTILL:
		standstill_hear(job, &order->standstill);
		return;
	case PEER_STRAGGLERS:
		straggler_watch_hear(job, &order->stragglers);
		return;
	case PEER_CLEAR:
		saves_clear(&job->saves, &order->save);
		return;
	default:
		return;
	}
}

static void carry_out(struct dispatch *dispatch, const struct peer_order *order)
{
	struct job *job = job_find(dispatch->jobs, order->job);
	if (order->type == PEER_END && !order->word.flag && dispatch->peers->replica)
		replica_end(dispatch->peers->replica, order->job);
	if (order->type == PEER_SPILL)
		spill_order(dispatch->jobs, order->job, &order->spill);
	if (order->type == PEER_ANSWER)
		forward_answered(dispatch->operators, order);
	if (!job)
		return; /* it has ended here: its coordinator is told so */
	switch (order->type) {
	case PEER_END:
		resize_end(job);
		finish_hear(job, PEER_DISMISSED);
		if (!order->word.rc)
			job_over(job, order->word.epoch);
		return;
	case PEER_FINISH_STATE:
		finish_hear(job, (enum peer_finish_state)order->number);
		return;
	case PEER_INVALIDATE_PLAN:
		if (order->number)
			resize_invalidate_plan(job, order->number);
		else
			job_yield(job);
		return;
	case PEER_QUIESCE:
		resize_quiesce(job, order->number);
		return;
	case PEER_COMMAND:
		operator_obey(job, &order->command);
		return;
	case PEER_PAUSE:
		pause_ranks(job, order->step);
		return;
	case PEER_PLAN:
		resize_plan(job, &order->plan);
		return;
	case PEER_ANNOUNCE:
		if (job->linked) /* it may not have known that it was elected when it was told what holds */
			coordinator_link_up(job);
		return;
	case PEER_LIST_PIECES:
		participation_list(job, order->number);
		return;
	case PEER_LIST_TENSORS:
		participation_tensors(job, &order->tensors);
		return;
	case PEER_HALT:
		halt_hear(job, &order->halt);
		return;
	case PEER_REJECT:
		turned_away(job, &order->word);
		return;
	case PEER_SPILL:
	case PEER_ANSWER:
		return;
	default:
		if (!job->nlocal)
			return; /* meant for the participant that it has left: a plan may overtake what waits for a record */
		job->refusal = (struct repeat){0};
		job->refused[0] = 0;
		resize_apart(job, false);
		obey(job, order);
		return;
	}
}

void orders_obey(struct dispatch *dispatch, const struct peer_order *order)
{
	carry_out(dispatch, order);
	struct job *job = job_find(dispatch->jobs, order->job);
	if (job)
		saves_pump(&job->saves); /* an order may let one begin, or end what the disk was kept for */
}
