#include "restore/recut.h"

#include "base/clock.h"
#include "base/log.h"
#include "cluster/room.h"
#include "replication/room.h"
#include "restore/restore_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Between two questions to a holder that is busy. */
#define AGAIN_NS (100 * CLOCK_NS_PER_MS)

/* The snapshot of one former rank, in one shape. */
struct recut_part {
	uint32_t rank;
	struct digest table;
	uint64_t far;       /* from the ranks here */
	struct memory *mem; /* pinned; NULL: it is not here */
	uint32_t slot;
	bool fetched; /* for this alone */
	bool gone;    /* nobody is left who has it */
	uint32_t tried;
};

struct recut {
	bool surveying;
	struct recut_part *parts;
	size_t n;
	struct replica_found *held; /* of the step, by other nodes */
	size_t nheld;
	size_t fetching; /* the part that is asked for */
	uint64_t again_ns;
	uint32_t nfetched, from;
	bool lost;              /* some part is gone */
	char why[ERR_TEXT_MAX]; /* what is there is not enough */
};

/* ---- the end --------------------------------------------------------------------------------------------------- */

static void unpin(const struct restore *restore, struct recut_part *part, bool drop)
{
	if (!part->mem)
		return;
	if (drop)
		replica_drop(part->mem, part->slot);
	replica_unpin(restore->of.peers->replica, part->mem, part->slot);
	part->mem = NULL;
}

void recut_end(struct restore *restore)
{
	struct recut *recut = restore->recut;
	restore->recut = NULL;
	for (size_t i = 0; recut && i < recut->n; i++)
		unpin(restore, &recut->parts[i], recut->parts[i].fetched);
	if (recut) {
		free(recut->parts);
		free(recut->held);
	}
	free(recut);
}

static void fail(struct restore *restore, int rc, const char *text)
{
	char why[ERR_TEXT_MAX];
	snprintf(why, sizeof(why), "%s", text); /* it may be of what ends */
	recut_end(restore);
	restore_give_up(restore, rc, why);
}

/* ---- what there is --------------------------------------------------------------------------------------------- */

/* How far the former rank was from the ranks here: 0 for one of the same number, and in the same part of the world. */
static uint64_t far_from(const struct restore *restore, uint32_t rank)
{
	uint64_t world = *restore->of.world, was = restore->bring.world, low = UINT64_MAX, high = 0;
	for (uint32_t r = 0; r < *restore->of.nlocal; r++) {
		uint64_t id = restored_rank(restore, r).id;
		if (id == rank)
			return 0;
		low = id * was < low ? id * was : low;
		high = (id + 1) * was > high ? (id + 1) * was : high;
	}
	if ((rank + 1) * world <= low)
		return low - (rank + 1) * world + 1;
	return rank * world >= high ? rank * world - high + 1 : 0;
}

static bool is_wanted(const struct restore *restore, const struct replica_found *f)
{
	return f->world == restore->bring.world && !step_compare(f->id, restore->bring.id);
}

static void add_part(struct restore *restore, const struct replica_found *f)
{
	struct recut *recut = restore->recut;
	for (size_t i = 0; i < recut->n; i++)
		if (recut->parts[i].rank == f->rank && digest_equal(recut->parts[i].table, f->table))
			return;
	recut->parts[recut->n++] =
		(struct recut_part){.rank = f->rank, .table = f->table, .far = far_from(restore, f->rank)};
}

static int by_distance(const void *a, const void *b)
{
	const struct recut_part *x = a, *y = b;
	if (x->far != y->far)
		return x->far < y->far ? -1 : 1;
	return (x->rank > y->rank) - (x->rank < y->rank);
}

static int list_parts(struct restore *restore, const struct replica_surveyed *surveyed)
{
	struct recut *recut = restore->recut;
	recut->parts = calloc(surveyed->n ? surveyed->n : 1, sizeof(*recut->parts));
	recut->held = calloc(surveyed->n ? surveyed->n : 1, sizeof(*recut->held));
	if (!recut->parts || !recut->held)
		return -ENOMEM;
	for (size_t i = 0; i < surveyed->n; i++) {
		const struct replica_found *f = &surveyed->found[i];
		if (!is_wanted(restore, f))
			continue;
		add_part(restore, f);
		if (f->node != restore->of.peers->self)
			recut->held[recut->nheld++] = *f;
	}
	qsort(recut->parts, recut->n, sizeof(*recut->parts), by_distance);
	return 0;
}

/* ---- reading --------------------------------------------------------------------------------------------------- */

static void pin(const struct restore *restore, struct recut_part *part)
{
	struct replica_part which = {
		.rank = part->rank, .world = restore->bring.world, .id = restore->bring.id, .table = &part->table};
	struct memory *mem;
	uint32_t slot;
	if (part->mem || replica_pin(restore->of.peers->replica, restore->of.name, &which, &mem, &slot))
		return;
	part->mem = mem;
	part->slot = slot;
}

static struct restore_work *work_of(struct restore *restore)
{
	const struct recut *recut = restore->recut;
	struct restore_work *w = restore_work_new(restore, TASK_RECUT);
	if (!w)
		return NULL;
	w->former = (struct former_source){
		.id = restore->bring.id, .world = restore->bring.world, .saved_world = restore->bring.world};
	if (former_source_make(&w->former, (uint32_t)recut->n)) {
		restore_work_free(w);
		return NULL;
	}
	for (size_t i = 0; i < recut->n; i++)
		if (recut->parts[i].mem)
			former_source_add(&w->former, recut->parts[i].mem, recut->parts[i].slot);
	return w;
}

static void read_parts(struct restore *restore)
{
	struct restore_work *w = work_of(restore);
	if (!w) {
		fail(restore, -ENOMEM, "no memory to recover");
		return;
	}
	for (uint32_t r = 0; r < w->nlocal; r++)
		memory_bring(w->mems[r], w->slots[r], w->id);
	restore_start(restore, w, RESTORE_RECUT);
}

/* ---- fetching -------------------------------------------------------------------------------------------------- */

static const char *name_of(const struct restore *restore, uint32_t node)
{
	const struct roster *roster = restore->of.peers->roster;
	return node < roster->n ? roster->nodes[node].name : "?";
}

/* The next other node that has the part, after those that were tried; NULL: none is left. */
static const struct replica_found *next_holder(const struct recut *recut, const struct recut_part *part)
{
	uint32_t tried = part->tried;
	for (size_t i = 0; i < recut->nheld; i++)
		if (recut->held[i].rank == part->rank && digest_equal(recut->held[i].table, part->table) && !tried--)
			return &recut->held[i];
	return NULL;
}

static bool is_busy(int rc)
{
	return rc == -EAGAIN || rc == -EBUSY;
}

/* 0: it is asked for. -EEXIST: it stands here. -EAGAIN: later. -ENOENT: nobody is left. */
static int ask(struct restore *restore, struct recut_part *part)
{
	const struct replica_found *f;
	while ((f = next_holder(restore->recut, part))) {
		int rc = restore->of.fetch_part(restore->of.job, f);
		if (!rc || rc == -EEXIST || is_busy(rc))
			return is_busy(rc) ? -EAGAIN : rc;
		part->tried++;
		restore_add_why(restore->text, "rank %u of %u from node %s: %s", part->rank, restore->bring.world,
				name_of(restore, f->node), err_name(rc));
	}
	return -ENOENT;
}

static void fetch_next(struct restore *restore)
{
	struct recut *recut = restore->recut;
	for (size_t i = 0; i < recut->n; i++) {
		struct recut_part *part = &recut->parts[i];
		if (part->mem || part->gone)
			continue;
		int rc = ask(restore, part);
		recut->fetching = i;
		restore->fetching = !rc;
		recut->again_ns = rc == -EAGAIN ? clock_deadline(AGAIN_NS) : 0;
		if (!rc || rc == -EAGAIN)
			return;
		pin(restore, part);
		if (part->mem) {
			read_parts(restore);
			return;
		}
		part->gone = recut->lost = true;
	}
	/* All that there is was looked at. What nobody has may have been lost; what contradicts the tables stays so. */
	fail(restore, recut->lost ? -EBADMSG : -EINVAL, recut->why);
}

void recut_fetched(struct restore *restore, const struct replica_fetched *done)
{
	struct recut *recut = restore->recut;
	restore->fetching = 0;
	if (restore->state != RESTORE_RECUT) {
		restore_end_claim(restore);
		return;
	}
	struct recut_part *part = &recut->parts[recut->fetching];
	if (is_busy(done->rc)) {
		recut->again_ns = clock_deadline(AGAIN_NS);
		return;
	}
	part->tried++;
	if (done->rc == -ENOMEM) {
		fail(restore, done->rc, done->err.text);
		return;
	}
	if (done->rc)
		restore_add_why(restore->text, "rank %u of %u from node %s: %s", part->rank, restore->bring.world,
				name_of(restore, done->from), done->err.text);
	else
		pin(restore, part);
	if (!part->mem) {
		fetch_next(restore);
		return;
	}
	part->fetched = true;
	recut->from = done->from;
	recut->nfetched++;
	read_parts(restore);
}

void recut_pump(struct restore *restore)
{
	struct recut *recut = restore->recut;
	if (!restore_everybody_waits(restore)) {
		fail(restore, -ETIMEDOUT, "the parts of former ranks have not come in time");
		return;
	}
	if (recut->surveying || !recut->again_ns || clock_now() < recut->again_ns)
		return;
	fetch_next(restore);
}

/* ---- the steps ------------------------------------------------------------------------------------------------- */

void recut_surveyed(struct restore *restore, const struct replica_surveyed *surveyed)
{
	struct recut *recut = restore->recut;
	if (restore->state != RESTORE_RECUT || !recut->surveying)
		return;
	recut->surveying = false;
	int rc = list_parts(restore, surveyed);
	if (rc) {
		fail(restore, rc, "no memory to recover");
		return;
	}
	for (size_t i = 0; i < recut->n; i++)
		pin(restore, &recut->parts[i]);
	read_parts(restore);
}

void recut_start(struct restore *restore)
{
	restore_set_state(restore, RESTORE_RECUT);
	restore->recut = restore->of.peers->replica ? calloc(1, sizeof(*restore->recut)) : NULL;
	if (!restore->recut) {
		restore_give_up(restore, -ENOMEM, "no memory to recover");
		return;
	}
	restore_note_begun(restore, UINT64_MAX);
	restore->recut->surveying = true;
	int rc = restore->of.look_around(restore->of.job);
	if (rc && restore->recut)
		fail(restore, rc == -ENOMEM ? rc : -EBADMSG, "who holds the parts of former ranks cannot be asked");
}

/* The part of the k-th that the worker had. */
static struct recut_part *part_read(struct recut *recut, uint32_t k)
{
	for (size_t i = 0; i < recut->n; i++)
		if (recut->parts[i].mem && !k--)
			return &recut->parts[i];
	return NULL;
}

static void was_damaged(struct restore *restore, const struct restore_work *w)
{
	struct recut_part *part = part_read(restore->recut, w->bad);
	restore_add_why(restore->text, "%s", w->err.text);
	unpin(restore, part, true);
	part->fetched = false;
	part->gone = !next_holder(restore->recut, part);
	restore->recut->lost |= part->gone;
	read_parts(restore);
}

static void was_brought(struct restore *restore, const struct restore_work *w)
{
	struct recut *recut = restore->recut;
	uint32_t all = w->former.n, fetched = recut->nfetched, from = fetched ? recut->from : RECOVERY_NOWHERE;
	restore->saved_world = w->saved_world;
	restore->partial = w->partial;
	restore->source = fetched ? WIRE_FROM_PEER : WIRE_FROM_MEMORY;
	restore->lacking = 0;
	log_info("job %s: step %lu epoch %u was cut anew for the ranks here, out of %u parts in memory of a world of "
		 "%u: %u of them were fetched",
		 restore->of.name, (unsigned long)restore->bring.id.step, restore->bring.id.epoch, all,
		 restore->bring.world, fetched);
	restore_note_brought(restore, UINT64_MAX, restore->source, from);
	recut_end(restore);
	restore_adopt(restore);
}

void recut_was_read(struct restore *restore, const struct restore_work *w)
{
	struct recut *recut = restore->recut;
	snprintf(recut->why, sizeof(recut->why), "%s", w->err.text);
	if (!w->rc)
		was_brought(restore, w);
	else if (w->rc == -ENODATA)
		fetch_next(restore);
	else if (w->rc == -EBADMSG && w->bad < w->former.n)
		was_damaged(restore, w);
	else
		fail(restore, w->rc, recut->why);
}
