#include "job/spill_private.h"

#include "arena/room.h"
#include "base/clock.h"
#include "base/log.h"
#include "checkpoint/room.h"
#include "cluster/room.h"
#include "config/sources.h"
#include "job/job.h"
#include "job/jobs.h"
#include "participant/room.h"
#include "replication/room.h"
#include "runtime/room.h"
#include "save/room.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct spill *find(const struct jobs *jobs, const char *job, uint32_t owner)
{
	struct spill *r = jobs->spills;
	while (r && (r->abandoned || r->order.owner != owner || strcmp(r->job, job) != 0))
		r = r->next;
	return r;
}

/* ---- the end ------------------------------------------------------------------------------------------------------- */

static bool runs(const struct spill *r)
{
	return r->fetching || r->state == SPILL_CHECKING || r->commit;
}

void spill_unpin(struct spill *r, uint32_t i)
{
	if (!r->ranks[i].mem)
		return;
	r->ranks[i].mem->slots[r->ranks[i].slot].copies--;
	memory_put(r->ranks[i].mem);
	free(r->leaves[i]);
	r->ranks[i] = (struct node_part_rank){0};
	r->leaves[i] = NULL;
}

static void free_spill(struct spill *r)
{
	struct spill **at = &r->jobs->spills;
	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
	for (uint32_t i = 0; i < r->nranks; i++)
		spill_unpin(r, i);
	free(r);
}

void spill_say(const struct spill *r, struct peer_spilled *m)
{
	m->owner = r->order.owner;
	m->as = r->order.as;
	participant_spilled(r->jobs->peers, r->jobs->control, r->job, m);
}

static void say_failed(const struct spill *r, int rc, const char *text)
{
	struct peer_spilled m = {.phase = PEER_SPILL_FAILED, .rc = rc};
	snprintf(m.text, sizeof(m.text), "%.*s", (int)sizeof(m.text) - 1, text);
	log_warn("job %s: step %lu epoch %u of node %s is not brought to storage: %s", r->job,
		 (unsigned long)r->order.bring.id.step, r->order.bring.id.epoch,
		 r->jobs->peers->roster->nodes[r->order.owner].name, text);
	spill_say(r, &m);
}

void spill_refuse(struct spill *r, int rc, const char *text)
{
	bool abandoned = r->abandoned;
	r->abandoned = true; /* the answer may be that it is to end */
	if (!abandoned)
		say_failed(r, rc, text);
	free_spill(r);
}

static void begin(struct jobs *jobs, const char *job, const struct peer_spill *order)
{
	struct spill *r = calloc(1, sizeof(*r));
	if (!r) {
		struct spill nobody = {.jobs = jobs, .order = *order};
		snprintf(nobody.job, sizeof(nobody.job), "%s", job);
		say_failed(&nobody, -ENOMEM, "no memory for it");
		return;
	}
	*r = (struct spill){.jobs = jobs, .order = *order, .state = SPILL_GATHERING};
	r->order.parts = (struct share_parts){0}; /* which come with the order to write, and are of its message */
	snprintf(r->job, sizeof(r->job), "%s", job);
	sources_fill(jobs->runtime->sources, SCOPE_JOB, job, &r->policy);
	r->bucket.rate = &r->policy.write_bandwidth;
	r->next = jobs->spills;
	jobs->spills = r;
	if (jobs->storage->root < 0)
		spill_refuse(r, -EINVAL, "this daemon has no store");
	else if (!jobs->peers->replica || !spill_take_ids(r))
		spill_refuse(r, -EINVAL, "more ranks than a node can have");
	else
		spill_gather(r);
}

/* ---- writing ------------------------------------------------------------------------------------------------------- */

static void prepared(struct node_part *c)
{
	spill_say(c->arg, &(struct peer_spilled){.phase = PEER_SPILL_WRITE, .part = c->part});
}

static void failed(struct node_part *c)
{
	const struct spill *r = c->arg;
	if (!r->abandoned)
		say_failed(r, c->rc, c->err.text);
}

static void done(struct node_part *c)
{
	struct spill *r = c->arg;
	bool cleared = (c->rc || c->cleared) && !r->abandoned;
	r->commit = NULL;
	node_part_free(c);
	if (cleared)
		spill_say(r, &(struct peer_spilled){.phase = PEER_SPILL_CLEAR});
	free_spill(r);
}

static int start(struct spill *r, const struct peer_spill *order)
{
	struct jobs *jobs = r->jobs;
	struct node_part *c = r->commit = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	*c = (struct node_part){.disk = jobs->storage->disk,
				.throttle = &jobs->storage->writes,
				.bucket = &r->bucket,
				.full_every = 1,
				.packing = r->policy.compress == COMPRESS_ZSTD ? &jobs->storage->packing : NULL,
				.root = jobs->storage->root,
				.id = order->as,
				.world = r->ranks[0].mem->table->reg.world,
				.nranks = r->nranks,
				.ranks = r->ranks,
				.digests_ready = true,
				.prepared = prepared,
				.failed = failed,
				.done = done,
				.arg = r};
	snprintf(c->job, sizeof(c->job), "%s", r->job);
	snprintf(c->node, sizeof(c->node), "%s", jobs->peers->roster->nodes[order->owner].name);
	int rc = node_part_start(c);
	if (rc) {
		r->commit = NULL;
		node_part_free(c);
		return rc;
	}
	r->state = SPILL_WRITING;
	node_part_write(c, false, order->maker, &order->parts);
	return 0;
}

/* ---- orders ---------------------------------------------------------------------------------------------------------- */

/* Of a commit that is prepared everything stays; of another one what is in a directory that nobody knows. */
static void keep(struct spill *r)
{
	struct node_part *c = r->commit;
	if (c && c->state == NODE_PART_PREPARED) {
		node_part_end(c);
		return;
	}
	r->abandoned = true;
	if (c) {
		node_part_abort(c, -ECANCELED, "it is given up");
		node_part_clear(c, 0);
	} else if (!runs(r)) {
		free_spill(r);
	}
}

/* What was written is a checkpoint, or may be, under another name. Copies are given up only for what is one. */
static void tell_job(const struct spill *r, bool stored)
{
	struct job *here = job_find(r->jobs, r->job);
	if (!here || !r->commit)
		return;
	if (stored)
		copies_durable(&here->copies, r->order.bring.id);
	health_marks_follow(&here->health_marks, r->order.bring.id, r->order.as);
}

static void clear(struct spill *r, uint64_t maker)
{
	if (r->commit) {
		node_part_abort(r->commit, -ECANCELED, "it has failed elsewhere");
		node_part_clear(r->commit, maker);
		return;
	}
	spill_say(r, &(struct peer_spilled){.phase = PEER_SPILL_CLEAR});
	keep(r);
}

void spill_order(struct jobs *jobs, const char *job, const struct peer_spill *order)
{
	struct spill *r = find(jobs, job, order->owner);
	bool known = r && !step_compare(r->order.as, order->as);
	if (!jobs->peers->roster || order->owner >= jobs->peers->roster->n)
		return;
	if (order->phase == PEER_SPILL_GATHER) {
		if (known)
			return; /* it is repeated for who may not have heard it */
		if (r)
			keep(r); /* of an epoch that is over */
		begin(jobs, job, order);
	} else if (!known) {
		if (order->phase == PEER_SPILL_CLEAR)
			participant_spilled(jobs->peers, jobs->control, job,
					    &(struct peer_spilled){
						    .owner = order->owner, .phase = PEER_SPILL_CLEAR, .as = order->as});
	} else if (order->phase == PEER_SPILL_STORED || order->phase == PEER_SPILL_KEEP) {
		tell_job(r, order->phase == PEER_SPILL_STORED);
		keep(r);
	} else if (order->phase == PEER_SPILL_CLEAR) {
		clear(r, order->maker);
	} else if (r->state == SPILL_GATHERED) {
		int rc = start(r, order);
		if (rc)
			spill_refuse(r, rc, "no memory to write it");
	}
}

void spills_abandon(struct jobs *jobs, const char *job)
{
	for (struct spill *r = jobs->spills, *next; r; r = next) {
		next = r->next;
		if (!r->abandoned && (!job || !strcmp(r->job, job)))
			keep(r);
	}
}

void spills_abandon_lost(struct jobs *jobs)
{
	for (struct spill *r = jobs->spills, *next; r; r = next) {
		next = r->next;
		if (!r->abandoned && !coordinator_in_reach(jobs->control, r->job))
			keep(r);
	}
}

/* ---- time ------------------------------------------------------------------------------------------------------------ */

void spills_tick(struct jobs *jobs)
{
	char text[WIRE_TEXT_MAX];
	uint64_t now = clock_now();
	for (struct spill *r = jobs->spills, *next; r; r = next) {
		const struct node_part *c = r->commit;
		next = r->next;
		if (!c || c->rc || c->state == NODE_PART_PREPARED ||
		    now - c->progress_ns <= r->policy.stall_timeout_ms * CLOCK_NS_PER_MS)
			continue;
		snprintf(text, sizeof(text), "storage made no progress for %lu ms (commit state %s)",
			 (unsigned long)r->policy.stall_timeout_ms, node_part_state_name(c->state));
		node_part_abort(r->commit, -ETIMEDOUT, text);
	}
}

bool spills_at_work(const struct jobs *jobs)
{
	for (const struct spill *r = jobs->spills; r; r = r->next)
		if (runs(r))
			return true;
	return false;
}

void spills_free(struct jobs *jobs)
{
	for (struct spill *r = jobs->spills, *next; r; r = next) {
		next = r->next;
		node_part_free(r->commit);
		free_spill(r);
	}
}
