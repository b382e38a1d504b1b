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
#include "slot_check.h"
#include "store/restore.h"

#include <stdio.h>
#include <string.h>

enum { FETCH_MEMORY = 48 << 20 }; /* of read buffers: no slower than with more */

enum source { FROM_MEMORY = 1, FROM_PEER, FROM_STORAGE };

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

	/* check: the candidate in memory; fetch: the result */
	bool have_memory, memory_good, have_storage;
	struct step_id memory_id, storage_id;
	uint32_t saved_world;
	int storage_rc; /* check: the store could not be read */
	int rc;
	struct err err;
	char why[WIRE_TEXT_MAX];
};

void recover_init(struct recover *recover, struct job *job)
{
	*recover = (struct recover){.job = job};
}

bool recover_idle(const struct recover *recover)
{
	return recover->state == RECOVER_IDLE && !recover->work;
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
	w->memory_good = w->have_memory;
	for (uint32_t r = 0; w->memory_good && r < w->nlocal; r++) {
		uint64_t bad = 0;
		if (slot_check(w->mems[r], w->slots[r], &bad) &&
		    (!w->mems[r]->layout.nleaves || !failpoint("recover.memory", NULL)))
			continue;
		char name[WIRE_TEXT_MAX / 2];
		memory_name_leaf(w->mems[r], bad, name, sizeof(name));
		add_why(w->why, "step %lu in memory is damaged: %s", (unsigned long)w->memory_id.step, name);
		w->memory_good = false;
	}
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
	size_t n = 0;
	if (!w->store)
		return;
	int rc = repo_open(w->store, &repo, &w->err);
	if (!rc) {
		rc = scan(w, &repo, &refs, &n);
		repo_close(&repo);
	}
	w->storage_rc = rc;
	if (rc)
		add_why(w->why, "storage: %s", w->err.text);
	for (size_t i = 0; !rc && i < n; i++) {
		if (!wanted(w, &refs[i]))
			continue;
		w->have_storage = true;
		w->storage_id = refs[i].id; /* ordered: the last one is the newest */
	}
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

/* Damage and read errors descend to the next older one; what contradicts the plan does not: an older checkpoint would hide it. */
static bool descends(int rc)
{
	return rc == -EBADMSG || rc == -EIO || rc == -EPROTONOSUPPORT;
}

static int fetch_newest(struct recover_work *w, struct repo *repo, const struct checkpoint_ref *refs, size_t n)
{
	for (size_t i = n; i-- > 0;) {
		if (!wanted(w, &refs[i]))
			continue;
		w->storage_id = refs[i].id;
		int rc = fetch_one(w, repo, refs[i].id);
		if (!rc || !descends(rc))
			return rc;
		add_why(w->why, "step %lu epoch %u on storage: %s", (unsigned long)refs[i].id.step, refs[i].id.epoch,
			w->err.text);
	}
	return err_set(&w->err, -EBADMSG, "no intact checkpoint is left");
}

static void fetch(struct recover_work *w)
{
	struct repo repo;
	AUTO_FREE struct checkpoint_ref *refs = NULL;
	size_t n = 0;
	w->rc = repo_open(w->store, &repo, &w->err);
	if (w->rc)
		return;
	w->rc = scan(w, &repo, &refs, &n);
	if (!w->rc)
		w->rc = fetch_newest(w, &repo, refs, n);
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

static void refuse(struct recover *recover, int rc, const char *text)
{
	struct job *job = recover->job;
	char full[2 * WIRE_TEXT_MAX];
	snprintf(full, sizeof(full), "%s%s%s", text, *recover->why ? " — passed over: " : "", recover->why);
	end_claim(recover, false);
	recover->state = RECOVER_IDLE;
	if (rc != -ENOENT) {
		log_warn("job %s: restore failed: %s", job->name, full);
		measures_restore(job, (struct step_id){0}, 0, recover->start_ns, rc, full);
	}
	for (uint32_t r = 0; r < job->nlocal; r++)
		member_refuse(&job->ranks[r], &job->ranks[r].restoring, rc, "%s", full);
}

static void answer(struct recover *recover, struct step_id id, enum source source, uint32_t saved_world)
{
	AUTO_WBUF struct wbuf body = {0};
	struct job *job = recover->job;
	struct wire_restored m = {.step = id.step,
				  .epoch = id.epoch,
				  .source = source,
				  .nlocal = job->nlocal,
				  .fetch_ns = clock_now() - recover->start_ns};
	snprintf(m.why, sizeof(m.why), "%s", recover->why);
	for (uint32_t r = 0; r < job->nlocal; r++) {
		m.ranks[r] = job->ranks[r].id;
		m.slots[r] = recover->slots[r];
		m.rank_blobs_absent[r] = saved_world && m.ranks[r] >= saved_world;
	}
	if (wire_restored_encode(&m, &body))
		body.failed = true;
	recover->state = RECOVER_IDLE;
	recover->count++;
	recover->last = id;
	recover->last_source = source;
	recover->last_ns = m.fetch_ns;
	measures_restore(job, id, source, recover->start_ns, 0, recover->why);
	log_info("job %s: restoring step %lu epoch %u from %s, ready in %.1f ms%s%s", job->name, (unsigned long)id.step,
		 id.epoch, source == FROM_MEMORY ? "memory" : "storage", (double)m.fetch_ns / 1e6,
		 *recover->why ? "; passed over: " : "", recover->why);
	catalog_event(job->daemon->catalog, job->name, id, "restored", source == FROM_MEMORY ? "memory" : "storage");
	for (uint32_t r = 0; r < job->nlocal; r++) {
		struct rank *rank = &job->ranks[r];
		client_send(rank->client, WIRE_RESTORED, rank->restoring.seq, &body, NULL, 0);
		rank->restoring = (struct waiting){0};
	}
}

static int start_work(struct recover *recover, struct recover_work *w, enum recover_state state)
{
	recover->work = w;
	recover->state = state;
	pool_submit(recover->job->daemon->pool, &w->work);
	return 0;
}

void recover_start(struct recover *recover, uint64_t step)
{
	struct job *job = recover->job;
	recover->step = step;
	recover->epoch = job->epoch;
	recover->start_ns = clock_now();
	recover->why[0] = 0;
	if (recover->work)
		return; /* of an epoch that is gone: goes on when it has ended (recover_pump) */
	saves_follow(&job->saves);
	struct snapshot *s = saves_in_memory(&job->saves, step);
	struct recover_work *w = work_new(recover, false);
	if (!w) {
		refuse(recover, -ENOMEM, "no memory to recover");
		return;
	}
	w->have_memory = s != NULL;
	for (uint32_t r = 0; s && r < job->nlocal; r++)
		w->slots[r] = s->parts[r].slot;
	if (s) {
		w->memory_id = s->id;
		saves_lend(&job->saves, s->id); /* stays while it is looked at */
	}
	start_work(recover, w, RECOVER_CHECK);
}

static void answer_from_memory(struct recover *recover)
{
	memcpy(recover->slots, recover->memory_slots, sizeof(recover->slots));
	saves_lend(&recover->job->saves, recover->memory_id);
	answer(recover, recover->memory_id, FROM_MEMORY, 0);
}

static void checked(struct recover *recover, struct recover_work *w)
{
	struct job *job = recover->job;
	snprintf(recover->why, sizeof(recover->why), "%s", w->why);
	if (w->have_memory && !w->memory_good) {
		struct snapshot *s = saves_in_memory(&job->saves, recover->step);
		if (s && !step_compare(s->id, w->memory_id))
			saves_drop(&job->saves, s);
	}
	recover->memory_good = w->memory_good;
	recover->memory_id = w->memory_id;
	memcpy(recover->memory_slots, w->slots, sizeof(recover->memory_slots));
	if (w->memory_good && (!w->have_storage || step_compare(w->memory_id, w->storage_id) >= 0)) {
		answer_from_memory(recover);
	} else if (w->have_storage) {
		recover->state = RECOVER_CLAIM;
		recover_pump(recover);
	} else if (w->storage_rc) {
		/* Not -ENOENT: nobody may take this for a fresh start. */
		refuse(recover, w->storage_rc == -ENOENT ? -EIO : w->storage_rc, "the store cannot be read");
	} else {
		refuse(recover, w->have_memory ? -EBADMSG : -ENOENT, "there is no checkpoint to restore");
	}
}

static void fetched(struct recover *recover, struct recover_work *w)
{
	if (*w->why)
		add_why(recover->why, "%s", w->why);
	if (!w->rc) {
		/* Lent before it is adopted: another one may be newer, and the ranks have not read this one yet. */
		saves_lend(&recover->job->saves, w->storage_id);
		w->rc = saves_adopt(&recover->job->saves, w->storage_id, recover->slots);
	}
	if (descends(w->rc) && recover->memory_good) {
		end_claim(recover, false);
		answer_from_memory(recover);
		return;
	}
	if (w->rc) {
		refuse(recover, w->rc, w->err.text[0] ? w->err.text : err_name(w->rc));
		return;
	}
	end_claim(recover, true);
	answer(recover, w->storage_id, FROM_STORAGE, w->saved_world);
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

void recover_pump(struct recover *recover)
{
	struct job *job = recover->job;
	if (recover->work)
		return;
	if (recover->state == RECOVER_IDLE && everybody_waits(job)) {
		recover_start(recover, job->ranks[0].restore_step);
		return;
	}
	if (recover->state != RECOVER_CLAIM)
		return;
	if (!everybody_waits(job)) { /* a deadline has passed meanwhile */
		refuse(recover, -ETIMEDOUT, "no free slot to restore into: a save is still being written");
		return;
	}
	if (!claim_all(recover))
		return; /* a commit still reads them: the next tick tries again */
	struct recover_work *w = work_new(recover, true);
	if (!w) {
		refuse(recover, -ENOMEM, "no memory to recover");
		return;
	}
	memcpy(w->slots, recover->slots, sizeof(w->slots));
	start_work(recover, w, RECOVER_FETCH);
}

void recover_cancel(struct recover *recover)
{
	recover->state = RECOVER_IDLE;
	if (!recover->work)
		end_claim(recover, false);
}
