/* What this node has to restore from: in memory, and on storage. */
#include "daemon.h"
#include "participant/participant.h"
#include "restore/restore_private.h"
#include "save/saves_private.h"

/* What was said here may not be on storage yet. */
static bool is_healthy(const struct job *job, const struct peer_found *found, struct step_id id)
{
	const struct verdict_said *said = verdicts_find(&job->verdicts, id);
	bool stored = false;
	for (uint32_t i = 0; i < found->nstored; i++)
		stored |= !step_compare(found->stored[i], id);
	return said ? !said->is.unhealthy : stored;
}

static bool wanted(const struct recover *recover, const struct peer_found *found, struct step_id id)
{
	if (recover->step == STEP_NEWEST_HEALTHY)
		return is_healthy(recover->job, found, id);
	return recover->step == STEP_NEWEST || id.step == recover->step;
}

/* What former_found asks of. */
struct asked {
	const struct recover *recover;
	const struct peer_found *found;
};

static bool asked_for(void *arg, struct step_id id)
{
	const struct asked *asked = arg;
	return wanted(asked->recover, asked->found, id);
}

void recover_report_found(struct recover *recover, const struct peer_found *found)
{
	struct asked asked = {recover, found};
	struct job *job = recover->job;
	struct peer_found all = *found;
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (job->ranks[r].id != RANK_MAX)
			all.ranks[all.nranks++] = job->ranks[r].id;
	list_for(node, &job->saves.snapshots) {
		const struct snapshot *s = snapshot_of(node);
		if (!snapshot_in_memory(s))
			continue;
		if (!wanted(recover, found, s->id))
			all.others = true;
		else if (all.nmemory < PEER_MEMORY)
			all.memory[all.nmemory++] = s->id;
	}
	former_found(job, asked_for, &asked, &all);
	all.nstored = 0;
	for (uint32_t i = 0; i < found->nstored; i++)
		if (wanted(recover, found, found->stored[i]))
			all.stored[all.nstored++] = found->stored[i];
		else
			all.others = true;
	recover->state = RECOVER_FOUND;
	seat_found(job, &all);
}

void recover_scan(struct recover *recover)
{
	saves_follow(&recover->job->saves);
	struct recover_work *w = recover_work_new(recover, TASK_SCAN);
	if (w)
		recover_start(recover, w, RECOVER_LOOK);
	else
		recover_report_found(recover,
				     &(struct peer_found){.storage_rc = -ENOMEM, .why = "no memory to recover"});
}

void recover_look(struct recover *recover, uint64_t step)
{
	recover->step = step;
	recover_note_asked(recover);
	recover->asked = true;
	recover_pump(recover);
}
