#include "restore/recut.h"
#include "restore/restore_private.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "catalog/room.h"
#include "checkpoint/room.h"
#include "participant/room.h"
#include "replication/room.h"
#include "runtime/room.h"
#include "save/room.h"

#include <stdio.h>
#include <string.h>

void restore_init(struct restore *restore, const struct restored_job *of)
{
	*restore = (struct restore){.of = *of};
}

bool restore_idle(const struct restore *restore)
{
	return restore->state == RESTORE_IDLE && !restore->asked && !restore->work && !restore->fetching;
}

/* ---- on the loop ----------------------------------------------------------------------------------------------- */

void restore_work_free(struct restore_work *w)
{
	for (uint32_t r = 0; r < w->nlocal; r++)
		memory_put(w->mems[r]);
	former_source_end(&w->former);
	free(w);
}

static void done(struct work *work);

struct restore_work *restore_work_new(struct restore *restore, enum restore_task task)
{
	struct restore_work *w = calloc(1, sizeof(*w));
	if (!w)
		return NULL;
	w->work = (struct work){.run = restore_run, .done = done};
	w->restore = restore;
	w->task = task;
	w->store = restore->of.runtime->config.store;
	w->step = restore->step;
	w->back = restore->back;
	w->id = restore->bring.id;
	w->nlocal = *restore->of.nlocal;
	snprintf(w->job, sizeof(w->job), "%s", restore->of.name);
	memcpy(w->slots, restore->slots, sizeof(w->slots));
	/* Before a world changes those are asked, too, whose processes have yet to register. */
	for (uint32_t r = 0; r < w->nlocal; r++)
		if (restored_rank(restore, r).mem)
			w->mems[r] = memory_get(restored_rank(restore, r).mem);
	return w;
}

/* drop: only forget them, a snapshot owns the slots now. */
static void end_claim(struct restore *restore, bool drop)
{
	for (uint32_t r = 0; r < WIRE_LOCAL_MAX && restore->claimed[r]; r++) {
		if (!drop) {
			memory_release(restore->claimed[r], restore->slots[r], false);
			memory_wake(restore->claimed[r]);
		}
		memory_put(restore->claimed[r]);
		restore->claimed[r] = NULL;
	}
}

void restore_end_claim(struct restore *restore)
{
	if (restore->work || restore->fetching)
		return;
	recut_end(restore);
	end_claim(restore, false);
}

static bool somebody_waits(const struct restore *restore)
{
	for (uint32_t r = 0; r < *restore->of.nlocal; r++)
		if (restored_rank(restore, r).waits)
			return true;
	return false;
}

void restore_refuse(struct restore *restore, int rc, const char *text, const char *why)
{
	char full[2 * WIRE_TEXT_MAX];
	snprintf(full, sizeof(full), "%s%s%s", text, *why ? " — passed over: " : "", why);
	restore_cancel(restore);
	if (!somebody_waits(restore))
		return; /* they have been told already */
	if (rc == -ENOENT && restore->step == STEP_NEWEST)
		saves_resume(restore->of.saves, (struct step_id){0});
	if (rc != -ENOENT)
		log_warn("job %s: restore failed: %s", restore->of.name, full);
	else if (*why)
		log_warn("job %s: the ranks begin anew: %s", restore->of.name, full);
	restore_note_answered(restore, &(struct recovery_end){.rc = rc == -ENOENT ? 0 : rc,
							      .passed_over = rc == -ENOENT ? why : full});
	restore->of.refuse(restore->of.job, rc, full);
}

static bool lacks_blobs(const struct memory *mem, uint32_t slot)
{
	return memory_lacks(mem, slot) & SLOT_NO_BLOBS;
}

/* The ranks would take what is in their slots for the state of that step. False: it is. */
static bool is_another(struct restore *restore, const struct peer_choice *choice)
{
	char text[WIRE_TEXT_MAX];
	if (!restore->rc && !step_compare(choice->id, restore->bring.id))
		return false;
	snprintf(text, sizeof(text),
		 "the coordinator says that step %lu epoch %u is restored, and this node has %s step %lu epoch %u",
		 (unsigned long)choice->id.step, choice->id.epoch, restore->rc ? "not brought" : "brought",
		 (unsigned long)restore->bring.id.step, restore->bring.id.epoch);
	restore_refuse(restore, -EPROTO, text, choice->why);
	return true;
}

void restore_finish(struct restore *restore, const struct peer_choice *choice)
{
	const char *from = source_name(choice->source);
	if (restore->state != RESTORE_FETCHED || is_another(restore, choice))
		return;
	struct wire_restored m = {.step = choice->id.step,
				  .epoch = choice->id.epoch,
				  .source = restore->source,
				  .nlocal = *restore->of.nlocal,
				  .fetch_ns = clock_now() - restore->start_ns};
	memcpy(m.why, choice->why, sizeof(m.why));
	for (uint32_t r = 0; r < m.nlocal; r++) {
		const struct restored_rank rank = restored_rank(restore, r);
		m.ranks[r] = rank.id;
		m.slots[r] = restore->slots[r];
		m.rank_blobs_absent[r] = lacks_blobs(rank.mem, restore->slots[r]);
	}
	saves_resume(restore->of.saves, choice->id);
	restore_set_state(restore, RESTORE_IDLE);
	restore->count++;
	restore->last = choice->id;
	restore->last_source = choice->source;
	memcpy(restore->why, choice->why, sizeof(restore->why));
	restore->last_ns = m.fetch_ns;
	restore_note_answered(restore,
			      &(struct recovery_end){.id = choice->id,
						     .source = choice->source,
						     .cut_from = restore->bring.recut ? restore->bring.world : 0,
						     .passed_over = choice->why});
	log_info("job %s: restoring step %lu epoch %u from %s, ready in %.1f ms%s%s", restore->of.name,
		 (unsigned long)choice->id.step, choice->id.epoch, from, (double)m.fetch_ns / 1e6,
		 *choice->why ? "; passed over: " : "", choice->why);
	catalog_event(restore->of.storage->catalog, restore->of.name, choice->id, "restored", from);
	restore->of.answer(restore->of.job, &m);
}

void restore_start(struct restore *restore, struct restore_work *w, enum restore_state state)
{
	restore->work = w;
	restore_set_state(restore, state);
	pool_submit(restore->of.runtime->pool, &w->work);
}

/* ---- bring ----------------------------------------------------------------------------------------------------- */

static void report(struct restore *restore, int rc, const char *text)
{
	restore_set_state(restore, RESTORE_FETCHED);
	restore->rc = rc;
	participant_fetched(restore->of.job, restore->bring.id, rc, restore->source, text);
}

/* Out of slots that a snapshot has: these stay as they are. */
static bool try_own(struct restore *restore)
{
	struct snapshot *s = saves_find_in_memory(restore->of.saves, restore->bring.id);
	if (!s)
		return false;
	for (uint32_t r = 0; r < *restore->of.nlocal; r++)
		restore->slots[r] = s->parts[r].slot;
	struct restore_work *w = restore_work_new(restore, TASK_CHECK);
	if (!w)
		return false;
	restore_note_begun(restore, UINT64_MAX);
	saves_lend(restore->of.saves, s->id); /* stays while it is looked at */
	for (uint32_t r = 0; r < *restore->of.nlocal; r++) {
		struct memory *mem = restored_rank(restore, r).mem;
		memory_bring(mem, restore->slots[r], restore->bring.id);
		if (lacks_blobs(mem, restore->slots[r]))
			memory_bring_no_blobs(mem);
	}
	restore_start(restore, w, RESTORE_OWN);
	return true;
}

static void descend(struct restore *restore)
{
	restore_set_state(restore, RESTORE_CLAIM);
	restore_pump(restore);
}

void restore_fetch(struct restore *restore, const struct peer_restore_fetch *bring)
{
	uint32_t n = *restore->of.nlocal;
	if (restore->state != RESTORE_FOUND && restore->state != RESTORE_FETCHED)
		return; /* nobody has asked for it */
	restore->bring = *bring;
	restore_note_chosen(restore);
	restore->saved_world = 0;
	restore->partial = false;
	restore->source = WIRE_FROM_MEMORY;
	restore->text[0] = 0;
	restore->lacking = n < 64 ? (1ull << n) - 1 : UINT64_MAX;
	restore->copied = 0;
	memset(restore->tried, 0, sizeof(restore->tried));
	restore->unfit = false;
	if (try_own(restore))
		return;
	restore_note_skipped(restore, UINT64_MAX, "memory: it is not in this node's");
	descend(restore);
}

static void checked(struct restore *restore, const struct restore_work *w)
{
	struct saves *saves = restore->of.saves;
	struct snapshot *s = w->rc ? saves_find_in_memory(saves, w->id) : NULL;
	if (!w->rc) {
		restore_note_brought(restore, UINT64_MAX, WIRE_FROM_MEMORY, RECOVERY_NOWHERE);
		report(restore, 0, "");
		return;
	}
	restore_add_why(restore->text, "%s", w->err.text);
	restore_note_skipped(restore, UINT64_MAX, "memory: %s", w->err.text);
	saves_lend(saves, (struct step_id){0});
	if (s)
		saves_drop(saves, s);
	descend(restore);
}

/* ---- into free slots ------------------------------------------------------------------------------------------- */

/* So that whoever finds it in memory knows, also a daemon that was started again. */
static void note_absent(const struct restore *restore)
{
	for (uint32_t r = 0; r < *restore->of.nlocal; r++) {
		const struct restored_rank rank = restored_rank(restore, r);
		bool no_blobs = restore->saved_world && rank.id >= restore->saved_world;
		if (!(restore->copied & 1ull << r))
			memory_tell_lacks(rank.mem, restore->slots[r],
					  (restore->partial ? SLOT_PARTIAL : 0) | (no_blobs ? SLOT_NO_BLOBS : 0));
	}
}

/* All parts stand in the claimed slots. */
void restore_adopt(struct restore *restore)
{
	struct saves *saves = restore->of.saves;
	note_absent(restore);
	/* Lent before it is adopted: another one may be newer, and the ranks have not read this one yet. */
	saves_lend(saves, restore->bring.id);
	int rc = saves_adopt(saves, restore->bring.id, restore->slots);
	struct snapshot *s = rc ? NULL : saves_find_in_memory(saves, restore->bring.id);
	if (s) /* also where other nodes cannot restore it */
		s->stored = restore->source == WIRE_FROM_STORAGE;
	end_claim(restore, !rc);
	report(restore, rc, rc ? err_name(rc) : restore->text);
}

void restore_give_up(struct restore *restore, int rc, const char *text)
{
	restore_add_why(restore->text, "%s", text);
	end_claim(restore, false);
	report(restore, rc, restore->text);
}

/* Ranks whose part no other node was asked for. */
static uint64_t unheld(const struct restore *restore)
{
	uint64_t ranks = restore->lacking;
	for (uint32_t r = 0; r < *restore->of.nlocal; r++)
		if (restore->tried[r])
			ranks &= ~(1ull << r);
	return ranks;
}

static void read_store(struct restore *restore)
{
	struct restore_work *w = restore_work_new(restore, TASK_READ);
	if (!w) {
		restore_give_up(restore, -ENOMEM, "no memory to recover");
		return;
	}
	w->ranks = restore->lacking;
	restore_note_skipped(restore, unheld(restore), "peer: %s",
			     restore->of.peers->replica ? "nobody who is there holds a copy"
							: "this node is in no cluster");
	restore_note_begun(restore, w->ranks);
	for (uint32_t r = 0; r < w->nlocal; r++)
		if (w->ranks & 1ull << r)
			memory_bring(w->mems[r], w->slots[r], w->id);
	restore_start(restore, w, RESTORE_STORAGE);
}

void restore_peers_done(struct restore *restore)
{
	if (restore->lacking != UINT64_MAX >> (64 - *restore->of.nlocal)) /* some rank got its part there */
		restore->source = WIRE_FROM_PEER;
	if (!restore->lacking)
		restore_adopt(restore);
	else if (restore->bring.stored && restore->of.runtime->config.store)
		read_store(restore);
	else
		restore_give_up(restore, restore->unfit ? -ESTALE : -EBADMSG, "it is not on storage");
}

/* False: they have left nothing of it, or less than storage has. */
static bool try_former(struct restore *restore)
{
	struct former_source source;
	int rc = former_source(*restore->of.former, restore->bring.id, &source);
	if (rc == -ENOENT)
		return false;
	if (rc) {
		restore_give_up(restore, rc, "no memory to recover");
		return true;
	}
	if (source.partial && restore->bring.stored) {
		former_source_end(&source);
		return false;
	}
	struct restore_work *w = restore_work_new(restore, TASK_FORMER);
	if (!w) {
		former_source_end(&source);
		restore_give_up(restore, -ENOMEM, "no memory to recover");
		return true;
	}
	w->former = source;
	restore_note_begun(restore, UINT64_MAX);
	for (uint32_t r = 0; r < w->nlocal; r++)
		memory_bring(w->mems[r], w->slots[r], w->id);
	restore_start(restore, w, RESTORE_FORMER);
	return true;
}

/* This node has the part of some ranks, and storage has all. */
static bool is_elsewhere(const struct restore *restore, const struct restore_work *w)
{
	return w->former.n < w->former.world && restore->bring.stored && restore->of.runtime->config.store;
}

/* What is damaged there may be good elsewhere; that the tables are others stays true whatever else is tried. */
static void former_was_read(struct restore *restore, const struct restore_work *w)
{
	restore->saved_world = w->saved_world;
	restore->partial = w->partial;
	if (!w->rc) {
		restore->lacking = 0;
		restore_note_brought(restore, UINT64_MAX, WIRE_FROM_MEMORY, RECOVERY_NOWHERE);
		restore_adopt(restore);
	} else if (w->rc == -EBADMSG || (w->rc == -EINVAL && is_elsewhere(restore, w))) {
		restore_add_why(restore->text, "%s", w->err.text);
		restore_note_skipped(restore, UINT64_MAX, "memory: %s", w->err.text);
		if (w->rc == -EBADMSG)
			former_damaged(*restore->of.former, w->id);
		restore_set_state(restore, RESTORE_PEER);
		restore_peer_start(restore);
	} else {
		char text[2 * WIRE_TEXT_MAX];
		snprintf(text, sizeof(text), "%s. It is kept for %lu s for ranks that fit it; else take another name",
			 w->err.text, (unsigned long)(restore->of.policy->linger_ms / 1000));
		restore_give_up(restore, w->rc, text);
	}
}

static void was_read(struct restore *restore, const struct restore_work *w)
{
	restore->source = WIRE_FROM_STORAGE;
	restore->saved_world = w->saved_world;
	restore->partial = w->partial;
	if (w->rc == -EBADMSG)
		scrub_want(restore->of.storage->scrub, restore->of.name, w->id);
	if (w->rc) {
		restore_give_up(restore, w->rc, w->err.text[0] ? w->err.text : err_name(w->rc));
		return;
	}
	restore_note_brought(restore, w->ranks, WIRE_FROM_STORAGE, RECOVERY_NOWHERE);
	restore_adopt(restore);
}

static void done(struct work *work)
{
	struct restore_work *w = list_entry(work, struct restore_work, work);
	struct restore *restore = w->restore;
	restore->work = NULL;
	if (restore->state == RESTORE_LOOK)
		restore_report_found(restore, &w->found);
	else if (restore->state == RESTORE_OWN)
		checked(restore, w);
	else if (restore->state == RESTORE_FORMER)
		former_was_read(restore, w);
	else if (restore->state == RESTORE_RECUT)
		recut_was_read(restore, w);
	else if (restore->state == RESTORE_STORAGE)
		was_read(restore, w);
	else
		restore_end_claim(restore); /* cancelled */
	restore_work_free(w);
	restore_pump(restore);
}

static bool claim_all(struct restore *restore)
{
	for (uint32_t r = 0; r < *restore->of.nlocal; r++) {
		struct memory *mem = restored_rank(restore, r).mem;
		int slot = memory_claim(mem, (struct step_id){.epoch = *restore->of.epoch});
		if (slot < 0) {
			end_claim(restore, false);
			return false;
		}
		restore->slots[r] = (uint32_t)slot;
		restore->claimed[r] = memory_get(mem);
	}
	return true;
}

bool restore_everybody_waits(const struct restore *restore)
{
	for (uint32_t r = 0; r < *restore->of.nlocal; r++)
		if (!restored_rank(restore, r).waits)
			return false;
	return true;
}

static void claim_and_bring(struct restore *restore)
{
	if (!restore_everybody_waits(restore)) { /* a deadline has passed meanwhile */
		restore_give_up(restore, -ETIMEDOUT, "no free slot to restore into: a save is still being written");
		return;
	}
	if (!claim_all(restore)) {
		saves_lend(restore->of.saves, (struct step_id){0}); /* what was chosen before was passed over */
		copies_yield(restore->of.copies);
		return; /* or a commit still reads them: the next tick tries again */
	}
	if (restore->bring.recut) {
		recut_start(restore);
		return;
	}
	if (try_former(restore))
		return;
	restore_set_state(restore, RESTORE_PEER);
	restore_peer_start(restore);
}

void restore_pump(struct restore *restore)
{
	if (restore->work || (restore->fetching && restore->state != RESTORE_PEER))
		return; /* perhaps of an epoch that is gone */
	if (restore->asked) {
		if (saves_undecided(restore->of.saves))
			return; /* the next tick looks again */
		restore->asked = false;
		restore_scan(restore);
	} else if (restore->state == RESTORE_CLAIM) {
		claim_and_bring(restore);
	} else if (restore->state == RESTORE_RECUT) {
		recut_pump(restore);
	}
}

void restore_cancel(struct restore *restore)
{
	restore_set_state(restore, RESTORE_IDLE);
	restore->asked = false;
	restore_end_claim(restore);
}
