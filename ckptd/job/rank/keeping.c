#include "job/rank/keeping.h"

#include "base/bytes.h"
#include "base/log.h"
#include "job/job.h"
#include "replication/room.h"

#include <stdio.h>
#include <string.h>

/* Ranks that have registered anew since have other arenas: the same slot of those is of another step. */
static bool is_in_arenas(const struct job *job, const struct snapshot *s)
{
	bool is = s->nparts == job->nlocal;
	for (uint32_t r = 0; is && r < job->nlocal; r++)
		is = job->ranks[r].mem && s->parts[r].mem == job->ranks[r].mem;
	return is;
}

static bool is_of_use(const struct job *job, const struct snapshot *s)
{
	return is_in_arenas(job, s) && snapshot_in_memory(s) && !snapshot_is_partial(s) && !snapshot_is_stored(s) &&
	       step_compare(s->id, job->copies.durable) > 0;
}

static bool any(const struct job *job)
{
	list_for(node, &job->saves.snapshots)
		if (is_of_use(job, snapshot_of(node)))
			return true;
	return false;
}

static void take(struct keeping *k, const struct snapshot *s)
{
	for (uint32_t r = 0; r < k->n; r++) {
		uint32_t slot = s->parts[r].slot;
		k->ids[r][slot] = s->id;
		k->mems[r]->slots[slot].left = true;
	}
}

void keeping_begin(const struct job *job, struct keeping *k)
{
	*k = (struct keeping){0};
	if (!job->spread || !job->peers->replica || !any(job))
		return;
	for (uint32_t r = 0; r < job->nlocal; r++)
		k->mems[k->n++] = memory_get(job->ranks[r].mem);
	list_for(node, &job->saves.snapshots)
		if (is_of_use(job, snapshot_of(node)))
			take(k, snapshot_of(node));
}

static void tell(const struct job *job, const struct keeping *k)
{
	struct step_id newest = {0};
	char bytes[16];
	for (uint32_t i = 0; i < ARENA_SLOTS_MAX; i++)
		if (step_compare(k->ids[0][i], newest) > 0)
			newest = k->ids[0][i];
	log_info("job %s: step %lu epoch %u stays in memory of this node, in the arenas of %u ranks of a world of %u; "
		 "%s are kept of former worlds",
		 job->name, (unsigned long)newest.step, newest.epoch, k->n, k->mems[0]->table->reg.world,
		 bytes_human(bytes, sizeof(bytes), replica_kept(job->peers->replica)));
}

void keeping_explain(const struct job *job, struct err *err)
{
	char bytes[16];
	size_t at = strlen(err->text);
	if (!job->peers->replica || !replica_kept(job->peers->replica))
		return;
	snprintf(err->text + at, sizeof(err->text) - at,
		 "; %s of it are kept of former worlds: perhaps nobody else has that, and it is kept until what is "
		 "newer "
		 "has copies",
		 bytes_human(bytes, sizeof(bytes), replica_kept(job->peers->replica)));
}

static void list(const struct job *job, const struct snapshot *s, void (*fn)(void *to, const struct replica_item *item),
		 void *to)
{
	for (uint32_t r = 0; r < s->nparts; r++) {
		const struct memory *mem = s->parts[r].mem;
		fn(to, &(struct replica_item){.rank = mem->table->reg.rank,
					      .world = mem->table->reg.world,
					      .owner = job->peers->self,
					      .id = s->id,
					      .table = mem->sum});
	}
}

void keeping_list(void *arg, const char *name, void (*fn)(void *to, const struct replica_item *item), void *to)
{
	const struct job *job = job_find(arg, name);
	if (!job || !job->resize.plan)
		return;
	list_for(node, &job->saves.snapshots)
		if (is_of_use(job, snapshot_of(node)))
			list(job, snapshot_of(node), fn, to);
}

void keeping_end(const struct job *job, struct keeping *k)
{
	int rc = 0;
	for (uint32_t r = 0; r < k->n; r++) {
		int kept = replica_keep(job->peers->replica, job->name, k->mems[r], k->ids[r]);
		rc = rc ? rc : kept;
	}
	if (rc)
		log_error("job %s: not all that its ranks have left in memory is kept: %s", job->name, err_name(rc));
	else if (k->n)
		tell(job, k);
	for (uint32_t r = 0; r < k->n; r++)
		memory_put(k->mems[r]);
	k->n = 0;
}
