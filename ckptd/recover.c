#include "recover.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "catalog.h"
#include "daemon.h"
#include "job.h"
#include "member.h"
#include "pool.h"
#include "seat.h"
#include "slot_check.h"
#include "store/restore.h"

#include <stdio.h>
#include <string.h>

enum { FETCH_MEMORY = 48 << 20 }; /* of read buffers: no slower than with more */

/* What a worker does for a recovery. It holds the arenas' references and touches nothing else of the job. */
struct recover_work {
	struct work work;
	struct recover *recover;
	bool fetch; /* else: check */
	const char *store;
	char job[NAME_JOB_MAX];
	uint64_t step;
	uint32_t nlocal;
	struct memory *mems[WIRE_LOCAL_MAX];
	uint32_t slots[WIRE_LOCAL_MAX];

	/* check: the candidate in memory (epoch 0: none), and what was found */
	struct step_id memory_id;
	struct peer_found found;

	/* fetch */
	struct step_id id;
	uint32_t saved_world;
	int rc;
	struct err err;
};

void recover_init(struct recover *recover, struct job *job)
{
	*recover = (struct recover){.job = job};
}

bool recover_idle(const struct recover *recover)
{
	return recover->state == RECOVER_IDLE && !recover->asked && !recover->work;
}

static void add_why(char *why, const char *fmt, ...)
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

/* ---- on a worker: check ---------------------------------------------------------------------------------------- */

static void check_memory(struct recover_work *w)
{
	if (!w->memory_id.epoch)
		return;
	for (uint32_t r = 0; r < w->nlocal; r++) {
		uint64_t bad = 0;
		if (slot_check(w->mems[r], w->slots[r], &bad) &&
		    (!w->mems[r]->layout.nleaves || !failpoint("recover.memory", NULL)))
			continue;
		char name[WIRE_TEXT_MAX / 2];
		memory_name_leaf(w->mems[r], bad, name, sizeof(name));
		add_why(w->found.why, "step %lu in memory is damaged: %s", (unsigned long)w->memory_id.step, name);
		w->found.damaged = true;
		return;
	}
	w->found.memory = w->memory_id;
}

static bool wanted(const struct recover_work *w, const struct checkpoint_ref *ref)
{
	return ref->state == CHECKPOINT_COMMITTED && (w->step == UINT64_MAX || ref->id.step == w->step);
}

static int scan(struct recover_work *w, struct repo *repo, struct checkpoint_ref **refs, size_t *n)
{
	*refs = NULL;
	*n = 0;
	int rc = failpoint("recover.scan", NULL);
	return rc ? err_set(&w->err, rc, "cannot read the store") : repo_scan(repo, w->job, refs, n, &w->err);
}

static void check_storage(struct recover_work *w)
{
	struct repo repo;
	AUTO_FREE struct checkpoint_ref *refs = NULL;
	struct peer_found *found = &w->found;
	size_t n = 0;
	if (!w->store)
		return;
	int rc = repo_open(w->store, &repo, &w->err);
	if (!rc) {
		rc = scan(w, &repo, &refs, &n);
		repo_close(&repo);
	}
	found->storage_rc = rc;
	if (rc)
		add_why(found->why, "storage: %s", w->err.text);
	for (size_t i = rc ? 0 : n; i-- > 0 && found->nstored < PEER_STORED;) /* ordered: the newest first */
		if (wanted(w, &refs[i]))
			found->stored[found->nstored++] = refs[i].id;
}

/* ---- on a worker: fetch ---------------------------------------------------------------------------------------- */

static int fill_wants(const struct recover_work *w, uint32_t saved_world, struct want *wants)
{
	size_t n = 0;
	for (uint32_t r = 0; r < w->nlocal; r++) {
		const struct memory *mem = w->mems[r];
		for (uint32_t p = 0; p < mem->layout.npieces; p++) {
			const struct layout_piece *piece = &mem->layout.pieces[p];
			const struct entry *entry = &mem->table->reg.entries[piece->entry];
			wants[n++] = (struct want){.tensor = entry->name,
						   .dtype = entry->dtype,
						   .shape = entry->shape,
						   .region = piece->region,
						   .owner = mem->table->reg.rank,
						   .data = memory_slot(mem, w->slots[r]) + piece->slot_at,
						   .optional = entry->kind == ENTRY_RANK_BLOB &&
							       mem->table->reg.rank >= saved_world,
						   .leaves = memory_leaves(mem, w->slots[r]) + piece->first_leaf};
		}
	}
	return (int)n;
}

static int fetch_one(struct recover_work *w, struct repo *repo, struct step_id id)
{
	struct checkpoint ck;
	struct restore_plan *plan = NULL;
	struct restore_options options = {.memory = FETCH_MEMORY};
	size_t npieces = 0;
	for (uint32_t r = 0; r < w->nlocal; r++)
		npieces += w->mems[r]->layout.npieces;
	AUTO_FREE struct want *wants = calloc(npieces ? npieces : 1, sizeof(*wants));
	if (!wants)
		return err_set(&w->err, -ENOMEM, "no memory to plan a restore");
	int rc = checkpoint_open(repo, w->job, id, &ck, &w->err);
	if (rc)
		return rc == -ENOENT ? -EBADMSG : rc;
	w->saved_world = ck.manifest.world;
	fill_wants(w, w->saved_world, wants);
	rc = restore_plan_make(&ck, wants, npieces, &plan, &w->err);
	if (!rc && !(rc = failpoint("recover.fetch", NULL)))
		rc = restore_execute(plan, &options, &w->err);
	restore_plan_free(plan);
	checkpoint_close(&ck);
	return rc;
}

static void fetch(struct recover_work *w)
{
	struct repo repo;
	w->rc = repo_open(w->store, &repo, &w->err);
	if (w->rc)
		return;
	w->rc = fetch_one(w, &repo, w->id);
	repo_close(&repo);
}

static void run(struct work *work)
{
	struct recover_work *w = list_entry(work, struct recover_work, work);
	if (w->fetch) {
		fetch(w);
		return;
	}
	check_memory(w);
	check_storage(w);
}

/* ---- on the loop ----------------------------------------------------------------------------------------------- */

static void work_free(struct recover_work *w)
{
	for (uint32_t r = 0; r < w->nlocal; r++)
		memory_put(w->mems[r]);
	free(w);
}

static void done(struct work *work);

static struct recover_work *work_new(struct recover *recover, bool fetching)
{
	struct job *job = recover->job;
	struct recover_work *w = calloc(1, sizeof(*w));
	if (!w)
		return NULL;
	w->work = (struct work){.run = run, .done = done};
	w->recover = recover;
	w->fetch = fetching;
	w->store = job->daemon->config.store;
	w->step = recover->step;
	w->nlocal = job->nlocal;
	memcpy(w->job, job->name, sizeof(w->job));
	for (uint32_t r = 0; r < job->nlocal; r++)
		w->mems[r] = memory_get(job->ranks[r].mem);
	return w;
}

/* drop: only forget them, a snapshot owns the slots now. */
static void end_claim(struct recover *recover, bool drop)
{
	for (uint32_t r = 0; r < WIRE_LOCAL_MAX && recover->claimed[r]; r++) {
		if (!drop) {
			memory_release(recover->claimed[r], recover->slots[r]);
			memory_wake(recover->claimed[r]);
		}
		memory_put(recover->claimed[r]);
		recover->claimed[r] = NULL;
	}
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
	if (rc != -ENOENT) {
		log_warn("job %s: restore failed: %s", job->name, full);
		measures_restore(job, (struct step_id){0}, 0, recover->start_ns, rc, full);
	}
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

void recover_finish(struct recover *recover, const struct peer_choice *choice)
{
	struct job *job = recover->job;
	const char *from = choice->source == WIRE_FROM_MEMORY ? "memory" : "storage";
	if (recover->state != RECOVER_FETCHED)
		return;
	struct wire_restored m = {.step = choice->id.step,
				  .epoch = choice->id.epoch,
				  .source = choice->source,
				  .nlocal = job->nlocal,
				  .fetch_ns = clock_now() - recover->start_ns};
	memcpy(m.why, choice->why, sizeof(m.why));
	for (uint32_t r = 0; r < job->nlocal; r++) {
		m.ranks[r] = job->ranks[r].id;
		m.slots[r] = recover->slots[r];
		m.rank_blobs_absent[r] = recover->saved_world && m.ranks[r] >= recover->saved_world;
	}
	recover->state = RECOVER_IDLE;
	recover->count++;
	recover->last = choice->id;
	recover->last_source = choice->source;
	memcpy(recover->why, choice->why, sizeof(recover->why));
	recover->last_ns = m.fetch_ns;
	measures_restore(job, choice->id, choice->source, recover->start_ns, 0, choice->why);
	log_info("job %s: restoring step %lu epoch %u from %s, ready in %.1f ms%s%s", job->name,
		 (unsigned long)choice->id.step, choice->id.epoch, from, (double)m.fetch_ns / 1e6,
		 *choice->why ? "; passed over: " : "", choice->why);
	catalog_event(job->daemon->catalog, job->name, choice->id, "restored", from);
	answer(recover, &m);
}

static void start_work(struct recover *recover, struct recover_work *w, enum recover_state state)
{
	recover->work = w;
	recover->state = state;
	pool_submit(recover->job->daemon->pool, &w->work);
}

/* ---- look ------------------------------------------------------------------------------------------------------ */

static void no_memory(struct recover *recover)
{
	struct job *job = recover->job;
	struct peer_found found = {.storage_rc = -ENOMEM, .why = "no memory to recover"};
	recover->state = RECOVER_FOUND;
	seat_found(job, &found);
}

static void check(struct recover *recover)
{
	struct job *job = recover->job;
	saves_follow(&job->saves);
	struct snapshot *s = saves_in_memory(&job->saves, recover->step);
	struct recover_work *w = work_new(recover, false);
	if (!w) {
		no_memory(recover);
		return;
	}
	for (uint32_t r = 0; s && r < job->nlocal; r++)
		w->slots[r] = s->parts[r].slot;
	if (s) {
		w->memory_id = s->id;
		saves_lend(&job->saves, s->id); /* stays while it is looked at */
	}
	start_work(recover, w, RECOVER_CHECK);
}

void recover_look(struct recover *recover, uint64_t step)
{
	recover->step = step;
	recover->start_ns = clock_now();
	recover->asked = true;
	recover_pump(recover);
}

static void checked(struct recover *recover, const struct recover_work *w)
{
	struct job *job = recover->job;
	struct snapshot *s = w->found.damaged ? saves_in_memory(&job->saves, recover->step) : NULL;
	if (s && !step_compare(s->id, w->memory_id))
		saves_drop(&job->saves, s);
	recover->memory_id = w->found.memory;
	memcpy(recover->memory_slots, w->slots, sizeof(recover->memory_slots));
	recover->state = RECOVER_FOUND;
	seat_found(job, &w->found);
}

/* ---- fetch ----------------------------------------------------------------------------------------------------- */

static void report(struct recover *recover, struct step_id id, int rc, const char *text)
{
	struct job *job = recover->job;
	recover->state = RECOVER_FETCHED;
	seat_fetched(job, id, rc, text);
}

void recover_fetch(struct recover *recover, const struct peer_choice *choice)
{
	recover->saved_world = 0;
	recover->fetch_id = choice->id;
	if (choice->source == WIRE_FROM_MEMORY) {
		memcpy(recover->slots, recover->memory_slots, sizeof(recover->slots));
		saves_lend(&recover->job->saves, choice->id);
		report(recover, choice->id, 0, "");
		return;
	}
	recover->state = RECOVER_CLAIM;
	recover_pump(recover);
}

static void fetched(struct recover *recover, struct recover_work *w)
{
	if (!w->rc) {
		/* Lent before it is adopted: another one may be newer, and the ranks have not read this one yet. */
		saves_lend(&recover->job->saves, w->id);
		w->rc = saves_adopt(&recover->job->saves, w->id, recover->slots);
	}
	end_claim(recover, !w->rc);
	recover->saved_world = w->saved_world;
	report(recover, w->id, w->rc, w->err.text[0] ? w->err.text : err_name(w->rc));
}

static void done(struct work *work)
{
	struct recover_work *w = list_entry(work, struct recover_work, work);
	struct recover *recover = w->recover;
	recover->work = NULL;
	if (recover->state == RECOVER_CHECK)
		checked(recover, w);
	else if (recover->state == RECOVER_FETCH)
		fetched(recover, w);
	else
		end_claim(recover, false); /* cancelled */
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

static void claim_and_fetch(struct recover *recover)
{
	if (!everybody_waits(recover->job)) { /* a deadline has passed meanwhile */
		report(recover, recover->fetch_id, -ETIMEDOUT,
		       "no free slot to restore into: a save is still being written");
		return;
	}
	if (!claim_all(recover))
		return; /* a commit still reads them: the next tick tries again */
	struct recover_work *w = work_new(recover, true);
	if (!w) {
		end_claim(recover, false);
		report(recover, recover->fetch_id, -ENOMEM, "no memory to recover");
		return;
	}
	w->id = recover->fetch_id;
	memcpy(w->slots, recover->slots, sizeof(w->slots));
	start_work(recover, w, RECOVER_FETCH);
}

void recover_pump(struct recover *recover)
{
	if (recover->work)
		return; /* perhaps of an epoch that is gone */
	if (recover->asked) {
		if (saves_undecided(&recover->job->saves))
			return; /* the next tick looks again */
		recover->asked = false;
		check(recover);
	} else if (recover->state == RECOVER_CLAIM) {
		claim_and_fetch(recover);
	}
}

void recover_cancel(struct recover *recover)
{
	recover->state = RECOVER_IDLE;
	recover->asked = false;
	if (!recover->work)
		end_claim(recover, false);
}
