/* A job goes back to an earlier checkpoint (ckpt rollback): which one, what is known of it since, and what counts from then on. */
#include "base/clock.h"
#include "fleet.h"
#include "participant/participant.h"

#include <stdio.h>

bool fleet_counts(struct step_id id)
{
	return !rollbacks_give_up(&fleet.back, id);
}

/* Somebody was shown it before then. */
struct step_id fleet_durable_before(uint64_t ns)
{
	struct step_id newest = {0};
	for (unsigned i = 0; i < fleet.nsaves; i++) {
		const struct fleet_save *s = &fleet.saves[i];
		if (s->level >= LEVEL_DURABLE && s->durable_ns <= ns && step_compare(s->id, newest) > 0 &&
		    fleet_counts(s->id))
			newest = s->id;
	}
	return newest;
}

/* One that is durable, but not the newest. */
static bool choose(struct step_id *to)
{
	struct step_id newest = fleet_newest_durable();
	unsigned n = 0;
	for (unsigned i = 0; i < fleet.nsaves; i++) {
		const struct fleet_save *s = &fleet.saves[i];
		if (s->level >= LEVEL_DURABLE && step_compare(s->id, newest) < 0 && fleet_counts(s->id) &&
		    !rng_below(world_rng(), ++n))
			*to = s->id;
	}
	return n;
}

/* By an operator at that node, who hears that it is asked for. Whether the coordinator hears it, nobody knows. */
bool fleet_roll_back(struct fleet_node *n)
{
	struct wire_rollback to = {.reason = "as told"};
	struct job *job = n->up ? fleet_job(n) : NULL;
	struct err err;
	if (!job || !job->epoch || job->entered != job->epoch || participant_can_forward(job, &err) || !choose(&to.to))
		return false;
	fleet_trace("the job is to go back to step %lu epoch %u", (unsigned long)to.to.step, to.to.epoch);
	fleet.faults++;
	fleet_sum.rollbacks++;
	participant_roll_back(job, &to);
	return true;
}

/* By which rollbacks a restore chose. Of what was once told to all nobody forgets anything. True: it was news. */
bool fleet_back_by(const struct fleet_rank *r, const struct fleet_epoch *e)
{
	const struct job *job = fleet_job(&fleet.nodes[r->home]);
	const struct rollbacks *by = job ? &job->restore.back : NULL;
	bool news = by && rollbacks_last(by) > rollbacks_last(&fleet.back);
	if (news)
		fleet.back = *by;
	fleet_sum.went_back += news;
	bool forgot = by && rollbacks_last(by) < rollbacks_last(&fleet.back);
	SIM_CHECK(!forgot || !fleet_durable_before(e->entered_ns).epoch,
		  "epoch %u goes on as if the job had not gone back in epoch %u", e->epoch,
		  rollbacks_last(&fleet.back));
	return news;
}
