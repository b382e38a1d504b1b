/* The parts of a spill are to stand in the memory of this node, and to be intact. */
#include "job/spill_private.h"

#include "arena/room.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "checkpoint/room.h"
#include "cluster/room.h"
#include "job/copying.h"
#include "job/jobs.h"
#include "replication/room.h"
#include "runtime/room.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check_run(struct work *work)
{
	struct spill *r = list_entry(work, struct spill, work);
	uint64_t bad;
	char name[ERR_TEXT_MAX / 2];
	r->checked = 0;
	for (uint32_t i = 0; i < r->nranks && !r->checked; i++) {
		if (slot_check(r->ranks[i].mem, r->ranks[i].slot, &bad))
			continue;
		memory_name_leaf(r->ranks[i].mem, bad, name, sizeof(name));
		r->checked = err_set(&r->err, -EBADMSG, "it is damaged: %s", name);
		r->bad = i;
	}
}

/* With all pieces: it is not asked for them. */
static int shares(const struct spill *r, struct shares *out, struct wbuf *listed)
{
	const struct layout *layouts[WIRE_LOCAL_MAX];
	const struct registration *regs[WIRE_LOCAL_MAX];
	for (uint32_t i = 0; i < r->nranks; i++) {
		layouts[i] = &r->ranks[i].mem->layout;
		regs[i] = &r->ranks[i].mem->table->reg;
	}
	return shares_make(layouts, regs, r->nranks, UINT32_MAX, out, listed);
}

/* Another node may hold an intact one. False: that is what was damaged. */
static bool look_elsewhere(struct spill *r)
{
	uint32_t i = r->bad;
	if (r->checked != -EBADMSG || r->abandoned || r->spoilt & 1ull << i)
		return false;
	log_warn("job %s: step %lu epoch %u of rank %u in memory: %s", r->job, (unsigned long)r->order.bring.id.step,
		 r->order.bring.id.epoch, r->ids[i], r->err.text);
	if (!(r->own & 1ull << i))
		replica_drop(r->ranks[i].mem, r->ranks[i].slot);
	spill_unpin(r, i);
	r->spoilt |= 1ull << i;
	r->tried = 0;
	r->state = SPILL_GATHERING;
	spill_gather(r);
	return true;
}

static void check_done(struct work *work)
{
	struct spill *r = list_entry(work, struct spill, work);
	struct peer_spilled m = {.phase = PEER_SPILL_GATHER};
	AUTO_WBUF struct wbuf listed = {0};
	if (look_elsewhere(r))
		return;
	r->state = SPILL_GATHERED;
	if (!r->checked && shares(r, &m.shares, &listed))
		r->checked = err_set(&r->err, -ENOMEM, "no memory to compare it with what others hold");
	if (r->checked || r->abandoned)
		spill_refuse(r, r->checked, r->err.text);
	else
		spill_say(r, &m);
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
	for (uint32_t i = 0; i < r->nranks && !rc; i++)
		rc = r->leaves[i] ? 0 : equip(r, i);
	if (rc) {
		spill_refuse(r, rc, r->err.text);
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
	uint32_t slot, rank = r->ids[r->at];
	struct step_id id = r->order.bring.id;
	struct replica_part part = {.rank = rank, .world = r->order.bring.world, .id = id};
	uint64_t bit = 1ull << r->at;
	r->own &= ~bit;
	if (!(r->spoilt & bit) && !copying_find(r->jobs, r->job, rank, id, &mem, &slot)) {
		r->own |= bit;
		memory_get(mem);
		mem->slots[slot].copies++;
	} else if (replica_pin(r->jobs->peers->replica, r->job, &part, &mem, &slot)) {
		return false;
	}
	r->ranks[r->at] = (struct node_part_rank){.mem = mem, .slot = slot};
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
		if (h->rank == r->ids[r->at] && h->node != r->jobs->peers->self &&
		    h->node < r->jobs->peers->roster->n && !tried--)
			return (int)h->node;
	}
	return -1;
}

/* It is there until then: one that is over may still wait for the same part. */
static void fetched(void *arg, const struct replica_fetched *done)
{
	struct spill *r = arg;
	r->fetching = false;
	if (done->rc)
		r->err = done->err;
	spill_gather(r);
}

/* False: nobody is left to ask. */
static bool fetch(struct spill *r)
{
	int node;
	while ((node = next_holder(r)) >= 0) {
		const struct replica_fetch what = {.job = r->job,
						   .epoch = r->order.as.epoch,
						   .rank = r->ids[r->at],
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

void spill_gather(struct spill *r)
{
	char text[2 * WIRE_TEXT_MAX];
	for (r->at = 0; !r->abandoned && r->at < r->nranks; r->at++) {
		if (r->ranks[r->at].mem || take(r))
			continue;
		if (fetch(r))
			return;
		break;
	}
	if (!r->abandoned && r->at == r->nranks) {
		check(r);
		return;
	}
	snprintf(text, sizeof(text), "the part of rank %u cannot be had%s%s", r->ids[r->at < r->nranks ? r->at : 0],
		 r->err.text[0] ? ": " : "", r->err.text);
	spill_refuse(r, -ENODATA, text);
}

bool spill_take_ids(struct spill *r)
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
