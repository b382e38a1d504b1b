#include "restore/restore_private.h"

#include "arena/room.h"
#include "base/cleanup.h"
#include "base/failpoint.h"
#include "restore/sized_blobs.h"
#include "store/read/restore.h"

#include <stdio.h>
#include <string.h>

enum { READ_MEMORY = 48 << 20 }; /* of read buffers: no slower than with more */

void restore_add_why(char *why, const char *fmt, ...)
{
	size_t at = strlen(why);
	if (at + 8 >= WIRE_TEXT_MAX)
		return;
	if (at)
		at += (size_t)snprintf(why + at, WIRE_TEXT_MAX - at, "; ");
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(why + at, WIRE_TEXT_MAX - at, fmt, ap);
	va_end(ap);
}

/* ---- what is there --------------------------------------------------------------------------------------------- */

/* Ranks load out of the slots of their neighbours, too, and wait at their own arena. */
void restore_there(struct memory *const *mems, uint32_t n, uint32_t rank, uint64_t first, uint64_t count)
{
	if (!memory_brought(mems[rank], first, count))
		return;
	for (uint32_t r = 0; r < n; r++)
		memory_wake(mems[r]);
	failpoint("recover.there", NULL); /* to die here, or to be slow */
}

/* ---- what memory has ------------------------------------------------------------------------------------------- */

/* Ranks that the saved world did not have. */
static void tell_no_blobs(const struct restore_work *w)
{
	for (uint32_t r = 0; r < w->nlocal; r++)
		if (w->mems[r]->table->reg.rank >= w->saved_world)
			memory_bring_no_blobs(w->mems[r]);
}

struct checked_rank {
	struct restore_work *work;
	uint32_t rank;
};

static void right(void *arg, uint64_t first, uint64_t count)
{
	const struct checked_rank *of = arg;
	restore_there(of->work->mems, of->work->nlocal, of->rank, first, count);
}

static void check(struct restore_work *w)
{
	for (uint32_t r = 0; r < w->nlocal; r++) {
		uint64_t bad = 0, nleaves = w->mems[r]->layout.nleaves;
		struct checked_rank of = {w, r};
		struct slot_leaves all = {.count = nleaves, .right = right, .arg = &of};
		if (slot_check_leaves(w->mems[r], w->slots[r], &all, &bad) &&
		    (!nleaves || !failpoint("recover.memory", NULL)))
			continue;
		char name[WIRE_TEXT_MAX / 2];
		memory_name_leaf(w->mems[r], bad, name, sizeof(name));
		w->rc = err_set(&w->err, -EBADMSG, "step %lu in memory is damaged: %s", (unsigned long)w->id.step,
				name);
		return;
	}
}

/* Whether ranks of this job register it. Of a job that is spread only some of the ranks are here. */
static bool is_registered(const struct restore_work *w, const char *name)
{
	if (w->nlocal < w->mems[0]->table->reg.world)
		return true;
	for (uint32_t r = 0; r < w->nlocal; r++)
		if (registration_find(&w->mems[r]->table->reg, name))
			return true;
	return false;
}

/* ---- what former ranks have left ------------------------------------------------------------------------------- */

static void copied(const struct former_target *target, uint32_t rank, uint64_t first, uint64_t count)
{
	restore_there(target->mems, target->n, rank, first, count);
}

static bool former_has_more(const struct restore_work *w)
{
	bool more = w->former.partial;
	for (uint32_t r = 0; r < w->former.n; r++) {
		const struct registration *reg = &w->former.mems[r]->table->reg;
		for (uint32_t e = 0; !more && e < reg->nentries; e++)
			more = !is_registered(w, reg->entries[e].name);
	}
	return more;
}

static void read_former(struct restore_work *w)
{
	const struct former_target target = {.mems = w->mems, .slots = w->slots, .n = w->nlocal, .there = copied};
	w->saved_world = w->former.saved_world;
	w->partial = former_has_more(w);
	tell_no_blobs(w);
	w->rc = failpoint("recover.memory", NULL) ? err_set(&w->err, -EBADMSG, "the memory of former ranks is damaged")
						  : former_read(&w->former, &target, NULL, &w->err);
}

/* What is not there may be with other nodes. */
static void read_recut(struct restore_work *w)
{
	const struct former_target target = {.mems = w->mems, .slots = w->slots, .n = w->nlocal, .there = copied};
	w->bad = UINT32_MAX;
	w->rc = former_covers(&w->former, &target, &w->err);
	if (w->rc)
		return;
	w->saved_world = w->former.saved_world;
	w->partial = former_has_more(w);
	tell_no_blobs(w);
	w->rc = former_read(&w->former, &target, &w->bad, &w->err);
}

/* ---- what storage has ------------------------------------------------------------------------------------------ */

/* What cannot be read may be healthy: whoever finds nothing else is to hear of it. */
static bool is_healthy(struct restore_work *w, struct repo *repo, const struct checkpoint_ref *ref)
{
	struct checkpoint ck;
	struct health_mark mark;
	struct err err = {0};
	int rc = checkpoint_open_root(repo, ref->job, ref->id, &ck, &err);
	if (!rc) {
		rc = checkpoint_health_mark(&ck, &mark, &err);
		checkpoint_close(&ck);
	}
	if (rc && rc != -ENOENT) {
		w->found.storage_rc = rc;
		restore_add_why(w->found.why, "storage: %s", err.text[0] ? err.text : err_name(rc));
	}
	return !rc && !mark.unhealthy;
}

static bool wanted(struct restore_work *w, struct repo *repo, const struct checkpoint_ref *ref)
{
	if (rollbacks_give_up(&w->back, ref->id))
		return false;
	return w->step == STEP_NEWEST_HEALTHY ? is_healthy(w, repo, ref)
					      : w->step == STEP_NEWEST || ref->id.step == w->step;
}

static int list_store(struct restore_work *w, struct repo *repo, struct checkpoint_ref **refs, size_t *n)
{
	*refs = NULL;
	*n = 0;
	int rc = failpoint("recover.scan", NULL);
	return rc ? err_set(&w->err, rc, "cannot read the store") : repo_scan(repo, w->job, refs, n, &w->err);
}

static void scan(struct restore_work *w)
{
	struct repo repo;
	AUTO_FREE struct checkpoint_ref *refs = NULL;
	struct peer_restore_candidates *found = &w->found;
	size_t n = 0;
	if (!w->store)
		return;
	int rc = repo_open(w->store, &repo, &w->err);
	if (!rc)
		rc = list_store(w, &repo, &refs, &n);
	found->storage_rc = rc;
	if (rc)
		restore_add_why(found->why, "storage: %s", w->err.text);
	for (size_t i = rc ? 0 : n; i-- > 0 && found->nstored < PEER_STORED;) { /* ordered: the newest first */
		if (refs[i].state != CHECKPOINT_COMMITTED)
			continue;
		if (wanted(w, &repo, &refs[i]))
			found->stored[found->nstored++] = refs[i].id;
		else
			found->others = true;
	}
	if (!rc && repo.strange) {
		found->storage_rc = -ENOTDIR;
		restore_add_why(found->why, "storage: %u of the job's checkpoints are no directories", repo.strange);
	}
	repo_close(&repo);
}

/* ---- reading it ------------------------------------------------------------------------------------------------ */

/* What a want is of. */
struct brought {
	const struct restore_work *work;
	struct brought_want {
		uint32_t rank;
		uint64_t first_leaf;
	} * wants;
};

static void arrived(void *arg, size_t want, uint64_t first, uint64_t count)
{
	const struct brought *b = arg;
	const struct brought_want *of = &b->wants[want];
	restore_there(b->work->mems, b->work->nlocal, of->rank, of->first_leaf + first, count);
}

/* A blob of changing size: as much as was saved of it, digested when it is complete (settle_sized). *n: as it was, if nothing was. One of
 * a fixed size is digested as all else is. */
static int add_sized(struct restore_work *w, const struct checkpoint *ck, const struct entry *entry, struct want *want,
		     size_t *n)
{
	bool any;
	if (entry->sized)
		want->leaves = NULL;
	int rc = sized_narrow(ck, entry, want, &any, &w->err);
	*n += !rc && any;
	return rc;
}

static int settle_sized(const struct restore_work *w, const struct checkpoint *ck, struct err *err)
{
	int rc = 0;
	for (uint32_t r = 0; r < w->nlocal; r++) {
		const struct memory *mem = w->mems[r];
		for (uint32_t p = 0; w->ranks & 1ull << r && !rc && p < mem->layout.npieces; p++) {
			const struct layout_piece *piece = &mem->layout.pieces[p];
			if (!mem->table->reg.entries[piece->entry].sized)
				continue;
			rc = sized_settle(ck, mem, w->slots[r], piece, err);
			if (!rc)
				restore_there(w->mems, w->nlocal, r, piece->first_leaf, leaf_count(piece->bytes));
		}
	}
	return rc;
}

static int fill_wants(struct restore_work *w, const struct checkpoint *ck, struct want *wants,
		      struct brought_want *brought, size_t *count)
{
	size_t n = 0;
	int rc = 0;
	for (uint32_t r = 0; r < w->nlocal; r++) {
		const struct memory *mem = w->mems[r];
		for (uint32_t p = 0; w->ranks & 1ull << r && !rc && p < mem->layout.npieces; p++) {
			const struct layout_piece *piece = &mem->layout.pieces[p];
			const struct entry *entry = &mem->table->reg.entries[piece->entry];
			brought[n] = (struct brought_want){r, piece->first_leaf};
			wants[n] = (struct want){.tensor = entry->name,
						 .dtype = entry->dtype,
						 .shape = entry->shape,
						 .region = piece->region,
						 .owner = mem->table->reg.rank,
						 .data = memory_slot(mem, w->slots[r]) + piece->slot_at,
						 .optional = entry->kind == ENTRY_RANK_BLOB &&
							     mem->table->reg.rank >= w->saved_world,
						 .leaves = memory_leaves(mem, w->slots[r]) + piece->first_leaf};
			if (sized_concerns(ck, entry))
				rc = add_sized(w, ck, entry, &wants[n], &n);
			else
				n++;
		}
	}
	*count = n;
	return rc;
}

static bool checkpoint_has_more(const struct restore_work *w, const struct checkpoint *ck)
{
	bool more = false;
	for (uint32_t n = 0; n < ck->nnodes; n++)
		for (uint32_t t = 0; !more && t < ck->nodes[n].ntensors; t++)
			more = !is_registered(w, ck->nodes[n].tensors[t].name);
	return more;
}

static int read_checkpoint(struct restore_work *w, struct repo *repo)
{
	struct checkpoint ck;
	struct restore_plan *plan = NULL;
	struct brought brought = {.work = w};
	struct restore_options options = {.memory = READ_MEMORY, .arrived = arrived, .arg = &brought};
	size_t npieces = 0;
	for (uint32_t r = 0; r < w->nlocal; r++)
		npieces += w->mems[r]->layout.npieces;
	AUTO_FREE struct want *wants = calloc(npieces ? npieces : 1, sizeof(*wants));
	AUTO_FREE struct brought_want *of = calloc(npieces ? npieces : 1, sizeof(*of));
	brought.wants = of;
	if (!wants || !of)
		return err_set(&w->err, -ENOMEM, "no memory to plan a restore");
	int rc = checkpoint_open(repo, w->job, w->id, &ck, &w->err);
	if (rc)
		return rc;
	w->saved_world = ck.manifest.world;
	w->partial = checkpoint_has_more(w, &ck);
	size_t n = 0;
	rc = fill_wants(w, &ck, wants, of, &n);
	tell_no_blobs(w);
	if (!rc)
		rc = restore_plan_make(&ck, wants, n, &plan, &w->err);
	if (!rc && !(rc = failpoint("recover.fetch", NULL)))
		rc = restore_execute(plan, &options, &w->err);
	if (!rc)
		rc = settle_sized(w, &ck, &w->err);
	restore_plan_free(plan);
	checkpoint_close(&ck);
	return rc;
}

/* The codes of ckpt_restore have meanings of their own: what was there a moment ago and is gone is damage, and -ESTALE of a network file
 * system is trouble of the store; what the checkpoint and the ranks' tables contradict each other in is wrong, whatever it is. */
static int as_answer(int rc)
{
	switch (rc) {
	case -ENOENT:
		return -EBADMSG;
	case -ENODATA:
	case -EEXIST:
	case -E2BIG:
		return -EINVAL;
	case 0:
	case -EINVAL:
	case -EBADMSG:
	case -ENOMEM:
	case -EPROTONOSUPPORT:
		return rc;
	default:
		return -EIO;
	}
}

static void read_store(struct restore_work *w)
{
	struct repo repo;
	w->rc = repo_open(w->store, &repo, &w->err);
	if (w->rc) { /* it is the store that is not there, not the checkpoint */
		w->rc = -EIO;
		return;
	}
	w->rc = as_answer(read_checkpoint(w, &repo));
	repo_close(&repo);
}

void restore_run(struct work *work)
{
	struct restore_work *w = list_entry(work, struct restore_work, work);
	if (w->task == TASK_SCAN)
		scan(w);
	else if (w->task == TASK_CHECK)
		check(w);
	else if (w->task == TASK_FORMER)
		read_former(w);
	else if (w->task == TASK_RECUT)
		read_recut(w);
	else
		read_store(w);
}
