#include "upkeep/gc_used.h"

#include "checkpoint/room.h"
#include "job/room.h"

bool gc_in_use(const struct job *job, struct step_id id)
{
	const struct saves *saves = &job->saves;
	if (job->restore.count && !step_compare(job->restore.last, id))
		return true;
	if (saves->verifying && !step_compare(readback_id(saves->verifying), id))
		return true;
	list_for(node, &saves->snapshots) {
		const struct snapshot *s = list_entry(node, struct snapshot, link);
		if (!step_compare(s->id, id))
			return s == saves->committing || s->verify == VERIFY_QUEUED;
	}
	return false;
}

static void add_used(struct gc_plan *p, struct step_id id)
{
	if (p->nused < GC_USED_MAX)
		p->used[p->nused++] = id;
}

void gc_list_used(struct gc_plan *p, const struct job *job)
{
	if (job->restore.count)
		add_used(p, job->restore.last);
	if (job->saves.verifying)
		add_used(p, readback_id(job->saves.verifying));
	list_for(node, &job->saves.snapshots) {
		const struct snapshot *s = list_entry(node, struct snapshot, link);
		if (gc_in_use(job, s->id))
			add_used(p, s->id);
	}
}
