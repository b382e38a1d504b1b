#include "job/spill.h"

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

enum spill_state { SPILL_GATHERING = 1, SPILL_CHECKING, SPILL_GATHERED, SPILL_WRITING };

struct spill {
	struct spill *next;
	struct jobs *jobs;
	char job[NAME_JOB_MAX];
	struct peer_spill order; /* that began it */
	enum spill_state state;
	bool abandoned; /* it ends when nothing of it runs */
	bool fetching;  /* of ranks[n] */
	uint32_t tried; /* holders of it */
	uint32_t n, nranks;
	uint32_t ids[WIRE_LOCAL_MAX];
	struct node_part_rank ranks[WIRE_LOCAL_MAX]; /* the first n stand here, and are pinned */
	uint64_t *leaves[WIRE_LOCAL_MAX];            /* their digests: a rank could change those in its arena */
	struct node_part *commit;
	struct policy policy;
	struct bucket bucket; /* of its limit of writes */
	struct work work;
	int checked;
	struct err err;
};

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

static void free_spill(struct spill *r)
{
	struct spill **at = &r->jobs->spills;
	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
	for (uint32_t i = 0; i < r->n; i++) {
		r->ranks[i].mem->slots[r->ranks[i].slot].copies--;
		memory_put(r->ranks[i].mem);
		free(r->leaves[i]);
	}
	free(r);
}

static void say(const struct spill *r, struct peer_spilled *m)
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
	say(r, &m);
}

/* Before anything was written. */
static void refuse(struct spill *r, int rc, const char *text)
{
	bool abandoned = r->abandoned;
	r->abandoned = true; /* the answer may be that it is to end */
	if (!abandoned)
		say_failed(r, rc, text);
	free_spill(r);
}

/* ---- gathering ----------------------------------------------------------------------------------------------------- */

static void check_run(struct work *work)
{
	struct spill *r = list_entry(work, struct spill, work);
	uint64_t bad;
	char name[ERR_TEXT_MAX / 2];
	r->checked = 0;
	for (uint32_t i = 0; i < r->n && !r->checked; i++) {
		if (slot_check(r->ranks[i].mem, r->ranks[i].slot, &bad))
			continue;
		memory_name_leaf(r->ranks[i].mem, bad, name, sizeof(name));
		r->checked = err_set(&r->err, -EBADMSG, "it is damaged: %s", name);
	}
}

/* With all pieces: it is not asked for them. */
static int shares(const struct spill *r, struct shares *out, struct wbuf *listed)
{
	const struct layout *layouts[WIRE_LOCAL_MAX];
	const struct registration *regs[WIRE_LOCAL_MAX];
	for (uint32_t i = 0; i < r->n; i++) {
		layouts[i] = &r->ranks[i].mem->layout;
		regs[i] = &r->ranks[i].mem->table->reg;
	}
	return shares_make(layouts, regs, r->n, UINT32_MAX, out, listed);
}

static void check_done(struct work *work)
{
	struct spill *r = list_entry(work, struct spill, work);
	struct peer_spilled m = {.phase = PEER_SPILL_GATHER};
	AUTO_WBUF struct wbuf listed = {0};
	r->state = SPILL_GATHERED;
	if (!r->checked && shares(r, &m.shares, &listed))
		r->checked = err_set(&r->err, -ENOMEM, "no memory to compare it with what others hold");
	if (r->checked || r->abandoned)
		refuse(r, r->checked, r->err.text);
	else
		say(r, &m);
}

/* What a commit needs of it. */
static int equip(struct spill *r, uint32_t i)
{
	struct memory *mem = r->ranks[i].mem;
	size_t bytes = mem->layout.nleaves * sizeof(uint64_t);
	r->leaves[i] = malloc(bytes ? bytes : 1);
	if (!r->leaves[i])
		return err_set(&r->err, -ENOMEM, "no memory for its digests");
	memcpy(r->leaves[i], memory_leaves(mem, r->ranks[i].slot), bytes);
	r->ranks[i].leaves = r->leaves[i];
	return memory_make_heads(mem, &r->err);
}

static void check(struct spill *r)
{
	int rc = 0;
	for (uint32_t i = 0; i < r->n && !rc; i++)
		rc = equip(r, i);
	if (rc) {
		refuse(r, rc, r->err.text);
		return;
	}
	r->state = SPILL_CHECKING;
	r->work = (struct work){.run = check_run, .done = check_done};
	r->checked = err_set(&r->err, -ECANCELED, "the daemon ends"); /* unless it runs */
	pool_submit(r->jobs->runtime->pool, &r->work);
}

/* What stands in this node's memory. */
static bool take(struct spill *r)
{
	struct memory *mem;
	uint32_t slot, rank = r->ids[r->n];
	struct step_id id = r->order.bring.id;
	struct replica_part part = {.rank = rank, .world = r->order.bring.world, .id = id};
	if (!copying_find(r->jobs, r->job, rank, id, &mem, &slot)) {
		memory_get(mem);
		mem->slots[slot].copies++;
	} else if (replica_pin(r->jobs->peers->replica, r->job, &part, &mem, &slot)) {
		return false;
	}
	r->ranks[r->n++] = (struct node_part_rank){.mem = mem, .slot = slot};
	r->tried = 0;
	return true;
}

/* The next other node that may have it, after those that were tried; -1: none is left. */
static int next_holder(const struct spill *r)
{
	uint32_t tried = r->tried;
	const struct peer_restore_fetch *bring = &r->order.bring;
	for (uint32_t i = 0; i < bring->nholders; i++) {
		const struct peer_holder *h = &bring->holders[i];
		if (h->rank == r->ids[r->n] && h->node != r->jobs->peers->self && h->node < r->jobs->peers->roster->n &&
		    !tried--)
			return (int)h->node;
	}
	return -1;
}

static void gather(struct spill *r);

/* It is there until then: one that is over may still wait for the same part. */
static void fetched(void *arg, const struct replica_fetched *done)
{
	struct spill *r = arg;
	r->fetching = false;
	if (done->rc)
		r->err = done->err;
	gather(r);
}

/* False: nobody is left to ask. */
static bool fetch(struct spill *r)
{
	int node;
	while ((node = next_holder(r)) >= 0) {
		const struct replica_fetch what = {.job = r->job,
						   .epoch = r->order.as.epoch,
						   .rank = r->ids[r->n],
						   .world = r->order.bring.world,
						   .id = r->order.bring.id,
						   .from = (unsigned)node,
						   .done = fetched,
						   .arg = r};
		r->tried++;
		int rc = replica_fetch(r->jobs->peers->replica, &what);
		r->fetching = !rc;
		if (!rc)
			return true;
		err_set(&r->err, rc, "node %s: %s", r->jobs->peers->roster->nodes[node].name, err_name(rc));
	}
	return false;
}

static void gather(struct spill *r)
{
	char text[2 * WIRE_TEXT_MAX];
	while (!r->abandoned && r->n < r->nranks) {
		if (take(r))
			continue;
		if (fetch(r))
			return;
		break;
	}
	if (!r->abandoned && r->n == r->nranks) {
		check(r);
		return;
	}
	snprintf(text, sizeof(text), "the part of rank %u cannot be had%s%s", r->ids[r->n < r->nranks ? r->n : 0],
		 r->err.text[0] ? ": " : "", r->err.text);
	refuse(r, -ENODATA, text);
}

static bool take_ids(struct spill *r)
{
	const struct peer_restore_fetch *bring = &r->order.bring;
	for (uint32_t i = 0; i < bring->nholders; i++) {
		uint32_t k = 0;
		while (k < r->nranks && r->ids[k] != bring->holders[i].rank)
			k++;
		if (k == WIRE_LOCAL_MAX)
			return false;
		if (k == r->nranks)
			r->ids[r->nranks++] = bring->holders[i].rank;
	}
	return true;
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
		refuse(r, -EINVAL, "this daemon has no store");
	else if (!jobs->peers->replica || !take_ids(r))
		refuse(r, -EINVAL, "more ranks than a node can have");
	else
		gather(r);
}

/* ---- writing ------------------------------------------------------------------------------------------------------- */

static void prepared(struct node_part *c)
{
	say(c->arg, &(struct peer_spilled){.phase = PEER_SPILL_WRITE, .part = c->part});
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
		say(r, &(struct peer_spilled){.phase = PEER_SPILL_CLEAR});
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
				.nranks = r->n,
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
	say(r, &(struct peer_spilled){.phase = PEER_SPILL_CLEAR});
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
			refuse(r, rc, "no memory to write it");
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
