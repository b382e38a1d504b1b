/* What this node has to restore from: in memory, and on storage. */
#include "participant/room.h"
#include "restore/restore_private.h"
#include "save/room.h"

/* What was said here may not be on storage yet. */
static bool is_healthy(const struct restore *restore, const struct peer_restore_candidates *found, struct step_id id)
{
	const struct noted_mark *said = health_marks_find(restore->of.health_marks, id);
	bool stored = false;
	for (uint32_t i = 0; i < found->nstored; i++)
		stored |= !step_compare(found->stored[i], id);
	return said ? !said->is.unhealthy : stored;
}

static bool wanted(const struct restore *restore, const struct peer_restore_candidates *found, struct step_id id)
{
	if (rollbacks_give_up(&restore->back, id))
		return false;
	if (restore->step == STEP_NEWEST_HEALTHY)
		return is_healthy(restore, found, id);
	return restore->step == STEP_NEWEST || id.step == restore->step;
}

/* What former_found asks of. */
struct asked {
	const struct restore *restore;
	const struct peer_restore_candidates *found;
};

static bool asked_for(void *arg, struct step_id id)
{
	const struct asked *asked = arg;
	return wanted(asked->restore, asked->found, id);
}

void restore_report_found(struct restore *restore, const struct peer_restore_candidates *found)
{
	struct asked asked = {restore, found};
	struct peer_restore_candidates all = *found;
	for (uint32_t r = 0; r < *restore->of.nlocal; r++)
		if (restored_rank(restore, r).id != RANK_MAX)
			all.ranks[all.nranks++] = restored_rank(restore, r).id;
	list_for(node, &restore->of.saves->snapshots) {
		const struct snapshot *s = snapshot_of(node);
		if (!snapshot_in_memory(s))
			continue;
		if (!wanted(restore, found, s->id))
			all.others = true;
		else if (all.nmemory < PEER_MEMORY)
			all.memory[all.nmemory++] = s->id;
	}
	former_found(*restore->of.former, asked_for, &asked, &all);
	all.nstored = 0;
	for (uint32_t i = 0; i < found->nstored; i++)
		if (wanted(restore, found, found->stored[i]))
			all.stored[all.nstored++] = found->stored[i];
		else
			all.others = true;
	restore_set_state(restore, RESTORE_FOUND);
	participant_found(restore->of.job, &all);
}

void restore_scan(struct restore *restore)
{
	saves_follow(restore->of.saves);
	struct restore_work *w = restore_work_new(restore, TASK_SCAN);
	if (w)
		restore_start(restore, w, RESTORE_LOOK);
	else
		restore_report_found(restore, &(struct peer_restore_candidates){.storage_rc = -ENOMEM,
										.why = "no memory to recover"});
}

void restore_look(struct restore *restore, const struct peer_look *look)
{
	restore_cancel(restore); /* what an earlier order has begun gives its slots back, now or when it ends */
	restore->step = look->step;
	restore->back = look->back;
	restore_note_asked(restore);
	restore->asked = true;
	restore_pump(restore);
}
