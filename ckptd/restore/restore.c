#include "restore/restore_private.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon.h"
#include "job/barriers.h"
#include "participant/participant.h"
#include "save/saves_private.h"
#include "upkeep/catalog.h"

#include <stdio.h>
#include <string.h>

void recover_init(struct recover *recover, struct job *job)
{
	*recover = (struct recover){.job = job};
}

bool recover_idle(const struct recover *recover)
{
	return recover->state == RECOVER_IDLE && !recover->asked && !recover->work && !recover->fetching;
}

/* ---- on the loop ----------------------------------------------------------------------------------------------- */

static void work_free(struct recover_work *w)
{
	for (uint32_t r = 0; r < w->nlocal; r++)
		memory_put(w->mems[r]);
	former_source_end(&w->former);
	free(w);
}

static void done(struct work *work);

struct recover_work *recover_work_new(struct recover *recover, enum recover_task task)
{
	struct job *job = recover->job;
	struct recover_work *w = calloc(1, sizeof(*w));
	if (!w)
		return NULL;
	w->work = (struct work){.run = recover_run, .done = done};
	w->recover = recover;
	w->task = task;
	w->store = job->daemon->config.store;
	w->step = recover->step;
	w->id = recover->bring.id;
	w->nlocal = job->nlocal;
	memcpy(w->job, job->name, sizeof(w->job));
	memcpy(w->slots, recover->slots, sizeof(w->slots));
	/* Before a world changes those are asked, too, whose processes have yet to register. */
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (job->ranks[r].mem)
			w->mems[r] = memory_get(job->ranks[r].mem);
	return w;
}

/* drop: only forget them, a snapshot owns the slots now. */
static void end_claim(struct recover *recover, bool drop)
{
	for (uint32_t r = 0; r < WIRE_LOCAL_MAX && recover->claimed[r]; r++) {
		if (!drop) {
			memory_release(recover->claimed[r], recover->slots[r], false);
			memory_wake(recover->claimed[r]);
		}
		memory_put(recover->claimed[r]);
		recover->claimed[r] = NULL;
	}
}

void recover_end_claim(struct recover *recover)
{
	if (!recover->work && !recover->fetching)
		end_claim(recover, false);
}

static bool somebody_waits(const struct job *job)
{
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (job->ranks[r].restoring.seq)
			return true;
	return false;
}

void recover_refuse(struct recover *recover, int rc, const char *text, const char *why)
{
	struct job *job = recover->job;
	char full[2 * WIRE_TEXT_MAX];
	snprintf(full, sizeof(full), "%s%s%s", text, *why ? " — passed over: " : "", why);
	recover_cancel(recover);
	if (!somebody_waits(job))
		return; /* they have been told already */
	if (rc == -ENOENT && recover->step == STEP_NEWEST)
		saves_resume(&job->saves, (struct step_id){0});
	if (rc != -ENOENT)
		log_warn("job %s: restore failed: %s", job->name, full);
	else if (*why)
		log_warn("job %s: the ranks begin anew: %s", job->name, full);
	recover_note_answered(recover, &(struct recovery_end){.rc = rc == -ENOENT ? 0 : rc,
							      .passed_over = rc == -ENOENT ? why : full});
	for (uint32_t r = 0; r < job->nlocal; r++)
		member_refuse(&job->ranks[r], &job->ranks[r].restoring, rc, "%s", full);
}

static void answer(const struct recover *recover, const struct wire_restored *m)
{
	AUTO_WBUF struct wbuf body = {0};
	if (wire_restored_encode(m, &body))
		body.failed = true;
	for (uint32_t r = 0; r < recover->job->nlocal; r++) {
		struct rank *rank = &recover->job->ranks[r];
		client_send(rank->client, WIRE_RESTORED, rank->restoring.seq, &body, NULL, 0);
		rank->restoring = (struct waiting){0};
	}
}

static bool lacks_blobs(const struct memory *mem, uint32_t slot)
{
	return mem->head->slots[slot].flags & SLOT_NO_BLOBS;
}

void recover_finish(struct recover *recover, const struct peer_choice *choice)
{
	struct job *job = recover->job;
	const char *from = source_name(choice->source);
	if (recover->state != RECOVER_FETCHED)
		return;
	struct wire_restored m = {.step = choice->id.step,
				  .epoch = choice->id.epoch,
				  .source = recover->source,
				  .nlocal = job->nlocal,
				  .fetch_ns = clock_now() - recover->start_ns};
	memcpy(m.why, choice->why, sizeof(m.why));
	for (uint32_t r = 0; r < job->nlocal; r++) {
		m.ranks[r] = job->ranks[r].id;
		m.slots[r] = recover->slots[r];
		m.rank_blobs_absent[r] = lacks_blobs(job->ranks[r].mem, recover->slots[r]);
	}
	saves_resume(&job->saves, choice->id);
	recover->state = RECOVER_IDLE;
	recover->count++;
	recover->last = choice->id;
	recover->last_source = choice->source;
	memcpy(recover->why, choice->why, sizeof(recover->why));
	recover->last_ns = m.fetch_ns;
	recover_note_answered(recover, &(struct recovery_end){
					       .id = choice->id, .source = choice->source, .passed_over = choice->why});
	log_info("job %s: restoring step %lu epoch %u from %s, ready in %.1f ms%s%s", job->name,
		 (unsigned long)choice->id.step, choice->id.epoch, from, (double)m.fetch_ns / 1e6,
		 *choice->why ? "; passed over: " : "", choice->why);
	catalog_event(job->daemon->catalog, job->name, choice->id, "restored", from);
	answer(recover, &m);
}

void recover_start(struct recover *recover, struct recover_work *w, enum recover_state state)
{
	recover->work = w;
	recover->state = state;
	pool_submit(recover->job->daemon->pool, &w->work);
}

/* ---- bring ----------------------------------------------------------------------------------------------------- */

static void report(struct recover *recover, int rc, const char *text)
{
	recover->state = RECOVER_FETCHED;
	seat_fetched(recover->job, recover->bring.id, rc, recover->source, text);
}

/* Out of slots that a snapshot has: these stay as they are. */
static bool try_own(struct recover *recover)
{
	struct job *job = recover->job;
	struct snapshot *s = saves_find_in_memory(&job->saves, recover->bring.id);
	if (!s)
		return false;
	for (uint32_t r = 0; r < job->nlocal; r++)
		recover->slots[r] = s->parts[r].slot;
	struct recover_work *w = recover_work_new(recover, TASK_CHECK);
	if (!w)
		return false;
	recover_note_begun(recover, UINT64_MAX);
	saves_lend(&job->saves, s->id); /* stays while it is looked at */
	for (uint32_t r = 0; r < job->nlocal; r++) {
		struct memory *mem = job->ranks[r].mem;
		memory_bring(mem, recover->slots[r], recover->bring.id);
		if (lacks_blobs(mem, recover->slots[r]))
			memory_bring_no_blobs(mem);
	}
	recover_start(recover, w, RECOVER_OWN);
	return true;
}

static void descend(struct recover *recover)
{
	recover->state = RECOVER_CLAIM;
	recover_pump(recover);
}

void recover_fetch(struct recover *recover, const struct peer_bring *bring)
{
	uint32_t n = recover->job->nlocal;
	recover->bring = *bring;
	recover_note_chosen(recover);
	recover->saved_world = 0;
	recover->partial = false;
	recover->source = WIRE_FROM_MEMORY;
	recover->text[0] = 0;
	recover->lacking = n < 64 ? (1ull << n) - 1 : UINT64_MAX;
	memset(recover->tried, 0, sizeof(recover->tried));
	recover->unfit = false;
	if (try_own(recover))
		return;
	recover_note_skipped(recover, UINT64_MAX, "memory: it is not in this node's");
	descend(recover);
}

static void checked(struct recover *recover, const struct recover_work *w)
{
	struct job *job = recover->job;
	struct snapshot *s = w->rc ? saves_find_in_memory(&job->saves, w->id) : NULL;
	if (!w->rc) {
		recover_note_brought(recover, UINT64_MAX, WIRE_FROM_MEMORY, RECOVERY_NOWHERE);
		report(recover, 0, "");
		return;
	}
	recover_add_why(recover->text, "%s", w->err.text);
	recover_note_skipped(recover, UINT64_MAX, "memory: %s", w->err.text);
	saves_lend(&job->saves, (struct step_id){0});
	if (s)
		saves_drop(&job->saves, s);
	descend(recover);
}

/* ---- into free slots ------------------------------------------------------------------------------------------- */

/* So that whoever finds it in memory knows, also a daemon that was started again. */
static void note_absent(const struct recover *recover)
{
	const struct job *job = recover->job;
	for (uint32_t r = 0; r < job->nlocal; r++) {
		struct arena_slot *slot = &job->ranks[r].mem->head->slots[recover->slots[r]];
		bool no_blobs = recover->saved_world && job->ranks[r].id >= recover->saved_world;
		slot->flags = (recover->partial ? SLOT_PARTIAL : 0) | (no_blobs ? SLOT_NO_BLOBS : 0);
	}
}

/* All parts stand in the claimed slots. */
static void adopt(struct recover *recover)
{
	struct saves *saves = &recover->job->saves;
	note_absent(recover);
	/* Lent before it is adopted: another one may be newer, and the ranks have not read this one yet. */
	saves_lend(saves, recover->bring.id);
	int rc = saves_adopt(saves, recover->bring.id, recover->slots);
	end_claim(recover, !rc);
	report(recover, rc, rc ? err_name(rc) : recover->text);
}

static void give_up(struct recover *recover, int rc, const char *text)
{
	recover_add_why(recover->text, "%s", text);
	end_claim(recover, false);
	report(recover, rc, recover->text);
}

/* Ranks whose part no other node was asked for. */
static uint64_t unheld(const struct recover *recover)
{
	uint64_t ranks = recover->lacking;
	for (uint32_t r = 0; r < recover->job->nlocal; r++)
		if (recover->tried[r])
			ranks &= ~(1ull << r);
	return ranks;
}

static void read_store(struct recover *recover)
{
	struct recover_work *w = recover_work_new(recover, TASK_READ);
	if (!w) {
		give_up(recover, -ENOMEM, "no memory to recover");
		return;
	}
	w->ranks = recover->lacking;
	recover_note_skipped(recover, unheld(recover), "peer: %s",
			     recover->job->daemon->replica ? "nobody who is there holds a copy"
							   : "this node is in no cluster");
	recover_note_begun(recover, w->ranks);
	for (uint32_t r = 0; r < w->nlocal; r++)
		if (w->ranks & 1ull << r)
			memory_bring(w->mems[r], w->slots[r], w->id);
	recover_start(recover, w, RECOVER_STORAGE);
}

void recover_peers_done(struct recover *recover)
{
	if (recover->lacking != UINT64_MAX >> (64 - recover->job->nlocal)) /* somebody got his part there */
		recover->source = WIRE_FROM_PEER;
	if (!recover->lacking)
		adopt(recover);
	else if (recover->bring.stored && recover->job->daemon->config.store)
		read_store(recover);
	else
		give_up(recover, recover->unfit ? -ESTALE : -EBADMSG, "it is not on storage");
}

/* False: they have left nothing of it, or less than storage has. */
static bool try_former(struct recover *recover)
{
	struct former_source source;
	struct job *job = recover->job;
	if (!former_source(job, recover->bring.id, &source))
		return false;
	if (source.partial && recover->bring.stored) {
		former_source_end(&source);
		return false;
	}
	struct recover_work *w = recover_work_new(recover, TASK_FORMER);
	if (!w) {
		former_source_end(&source);
		give_up(recover, -ENOMEM, "no memory to recover");
		return true;
	}
	w->former = source;
	recover_note_begun(recover, UINT64_MAX);
	for (uint32_t r = 0; r < w->nlocal; r++)
		memory_bring(w->mems[r], w->slots[r], w->id);
	recover_start(recover, w, RECOVER_FORMER);
	return true;
}

/* What is damaged there may be good elsewhere; that the tables are others stays true whatever else is tried. */
static void former_was_read(struct recover *recover, const struct recover_work *w)
{
	recover->saved_world = w->saved_world;
	recover->partial = w->partial;
	if (!w->rc) {
		recover->lacking = 0;
		recover_note_brought(recover, UINT64_MAX, WIRE_FROM_MEMORY, RECOVERY_NOWHERE);
		adopt(recover);
	} else if (w->rc == -EBADMSG) {
		recover_add_why(recover->text, "%s", w->err.text);
		recover_note_skipped(recover, UINT64_MAX, "memory: %s", w->err.text);
		former_damaged(recover->job, w->id);
		recover->state = RECOVER_PEER;
		recover_peer_start(recover);
	} else {
		char text[2 * WIRE_TEXT_MAX];
		snprintf(text, sizeof(text), "%s. It is kept for %lu s for ranks that fit it; else take another name",
			 w->err.text, (unsigned long)(recover->job->policy.linger_ms / 1000));
		give_up(recover, w->rc, text);
	}
}

static void was_read(struct recover *recover, const struct recover_work *w)
{
	recover->source = WIRE_FROM_STORAGE;
	recover->saved_world = w->saved_world;
	recover->partial = w->partial;
	if (w->rc) {
		give_up(recover, w->rc, w->err.text[0] ? w->err.text : err_name(w->rc));
		return;
	}
	recover_note_brought(recover, w->ranks, WIRE_FROM_STORAGE, RECOVERY_NOWHERE);
	adopt(recover);
}

static void done(struct work *work)
{
	struct recover_work *w = list_entry(work, struct recover_work, work);
	struct recover *recover = w->recover;
	recover->work = NULL;
	if (recover->state == RECOVER_LOOK)
		recover_report_found(recover, &w->found);
	else if (recover->state == RECOVER_OWN)
		checked(recover, w);
	else if (recover->state == RECOVER_FORMER)
		former_was_read(recover, w);
	else if (recover->state == RECOVER_STORAGE)
		was_read(recover, w);
	else
		recover_end_claim(recover); /* cancelled */
	work_free(w);
	recover_pump(recover);
}

static bool claim_all(struct recover *recover)
{
	struct job *job = recover->job;
	for (uint32_t r = 0; r < job->nlocal; r++) {
		int slot = memory_claim(job->ranks[r].mem, (struct step_id){.epoch = job->epoch});
		if (slot < 0) {
			end_claim(recover, false);
			return false;
		}
		recover->slots[r] = (uint32_t)slot;
		recover->claimed[r] = memory_get(job->ranks[r].mem);
	}
	return true;
}

static bool everybody_waits(const struct job *job)
{
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (!job->ranks[r].restoring.seq)
			return false;
	return true;
}

static void claim_and_bring(struct recover *recover)
{
	if (!everybody_waits(recover->job)) { /* a deadline has passed meanwhile */
		give_up(recover, -ETIMEDOUT, "no free slot to restore into: a save is still being written");
		return;
	}
	if (!claim_all(recover)) {
		copies_yield(&recover->job->copies);
		return; /* or a commit still reads them: the next tick tries again */
	}
	if (try_former(recover))
		return;
	recover->state = RECOVER_PEER;
	recover_peer_start(recover);
}

void recover_pump(struct recover *recover)
{
	if (recover->work || (recover->fetching && recover->state != RECOVER_PEER))
		return; /* perhaps of an epoch that is gone */
	if (recover->asked) {
		if (saves_undecided(&recover->job->saves))
			return; /* the next tick looks again */
		recover->asked = false;
		recover_scan(recover);
	} else if (recover->state == RECOVER_CLAIM) {
		claim_and_bring(recover);
	}
}

void recover_cancel(struct recover *recover)
{
	recover->state = RECOVER_IDLE;
	recover->asked = false;
	recover_end_claim(recover);
}
