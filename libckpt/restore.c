/* Restore: the daemon brings the step into slots of the local arenas; each rank copies what it registered out of its own slot
 * and, for replicated state of which its neighbours hold parts, out of theirs. Captured pieces are taken whole, so that each
 * leaf is checked where it arrives. The arenas are shared: that a slot still holds the step is looked up before and after it is
 * copied from. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "session.h"
#include "spans.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define GRACE (500 * CLOCK_NS_PER_MS) /* as in join.c */

/* What one device gets out of one arena. */
struct load {
	const struct arena *from;
	uint32_t slot;
	struct step_id id; /* what the slot must hold, from the first byte to the last */
	const struct capture_device *to;
	struct span *spans;
	size_t n;
};

struct plan_of_loads {
	struct load *loads;
	size_t n;
	uint64_t bytes;
};

static void loads_free(struct plan_of_loads *plan)
{
	for (size_t i = 0; i < plan->n; i++)
		free(plan->loads[i].spans);
	free(plan->loads);
}

/* ---- planning: touches nothing ----------------------------------------------------------------------------------- */

static bool replicated(const struct entry *e)
{
	return e->kind == ENTRY_JOB_BLOB || (e->kind == ENTRY_TENSOR && e->replica[0]);
}

/* My piece of which `theirs`, captured by a neighbour, is all or a part: the same entry, the same piece, the same replica group.
 * NULL: it is not mine. */
static const struct region *mine_of(const struct table *table, const struct arena *from,
				    const struct layout_piece *theirs, uint32_t *entry, uint32_t *piece)
{
	const struct entry *their = &from->reg.entries[theirs->entry];
	int64_t at = replicated(their) ? table_find(table, their->name) : -ENOENT;
	if (at < 0)
		return NULL;
	const struct entry *e = &table->reg.entries[at];
	if (e->kind != their->kind || e->dtype != their->dtype || strcmp(e->replica, their->replica) != 0 ||
	    !shape_equal(&e->shape, &their->shape))
		return NULL;
	for (uint32_t p = 0; p < e->npieces; p++) {
		if (!region_equal(&e->shape, &e->pieces[p], &their->pieces[theirs->source]))
			continue;
		*entry = (uint32_t)at;
		*piece = p;
		return &e->pieces[p];
	}
	return NULL;
}

static const struct region *held_of(const struct stage *stage, const struct table *table, const struct arena *from,
				    const struct layout_piece *p, uint32_t *entry, uint32_t *piece)
{
	if (from != stage->arenas.own)
		return mine_of(table, from, p, entry, piece);
	*entry = p->entry;
	*piece = p->source;
	return &table->reg.entries[p->entry].pieces[p->source];
}

/* Appends the piece when it is mine and lives on this device. */
static int load_piece(const struct stage *stage, const struct table *table, struct load *load,
		      const struct layout_piece *p, bool keep_rank_blobs, uint64_t *bytes, struct err *err)
{
	uint32_t entry, piece;
	const struct region *held = held_of(stage, table, load->from, p, &entry, &piece);
	if (!held || !p->bytes || table->held[entry].device != load->to->ordinal)
		return 0;
	const struct entry *e = &table->reg.entries[entry];
	*bytes += p->bytes;
	if (e->kind == ENTRY_RANK_BLOB && keep_rank_blobs)
		return 0;
	struct span *span = &load->spans[load->n];
	if (span_of(&e->shape, dtype_size(e->dtype), held, &table->held[entry].places[piece], &p->region, span))
		return err_set(err, -EBADMSG, "tensor %s: a captured piece of rank %u does not fit what is registered",
			       e->name, load->from->rank);
	span->arena_at = p->slot_at;
	span->first_leaf = p->first_leaf;
	load->n++;
	return 0;
}

static int plan_load(const struct stage *stage, const struct table *table, struct load *load, bool keep_rank_blobs,
		     uint64_t *bytes, struct err *err)
{
	const struct layout *layout = &load->from->layout;
	load->spans = calloc((size_t)layout->npieces + 1, sizeof(*load->spans));
	if (!load->spans)
		return err_set(err, -ENOMEM, "no memory for %u spans", layout->npieces);
	for (uint32_t i = 0; i < layout->npieces; i++) {
		int rc = load_piece(stage, table, load, &layout->pieces[i], keep_rank_blobs, bytes, err);
		if (rc)
			return rc;
	}
	return 0;
}

static uint64_t registered_bytes(const struct table *table)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < table->reg.nentries; i++) {
		const struct entry *e = &table->reg.entries[i];
		for (uint32_t p = 0; p < e->npieces; p++)
			sum += region_volume(&e->shape, &e->pieces[p]) * dtype_size(e->dtype);
	}
	return sum;
}

static int plan_arena(const ckpt *s, const struct stage *stage, const struct wire_restored *m, uint32_t i,
		      struct plan_of_loads *plan, struct err *err)
{
	const struct arena *from = arenas_find(&stage->arenas, m->ranks[i]);
	if (!from || m->slots[i] >= from->nslots)
		return err_set(err, -EBADMSG, "the daemon restored into slot %u of rank %u, which is not here",
			       m->slots[i], m->ranks[i]);
	for (uint32_t d = 0; d < stage->capture.ndevices; d++) {
		struct load *load = &plan->loads[plan->n++];
		*load = (struct load){
			.from = from, .slot = m->slots[i], .id = {m->step, m->epoch}, .to = &stage->capture.devices[d]};
		int rc = plan_load(stage, &s->table, load, m->rank_blobs_absent[i], &plan->bytes, err);
		if (rc)
			return rc;
	}
	return 0;
}

/* Every registered byte comes from exactly one captured piece: layout_make split each registered piece over the local ranks. */
static int plan_loads(const ckpt *s, const struct stage *stage, const struct wire_restored *m,
		      struct plan_of_loads *plan, struct err *err)
{
	*plan = (struct plan_of_loads){0};
	plan->loads = calloc((size_t)m->nlocal * ARENA_PARTS, sizeof(*plan->loads));
	if (!plan->loads)
		return err_set(err, -ENOMEM, "no memory for the plan of %u arenas", m->nlocal);
	int rc = 0;
	for (uint32_t i = 0; i < m->nlocal && !rc; i++)
		rc = plan_arena(s, stage, m, i, plan, err);
	uint64_t want = registered_bytes(&s->table);
	if (!rc && plan->bytes != want)
		rc = err_set(err, -EBADMSG,
			     "the arenas hold %" PRIu64 " of the %" PRIu64 " bytes that this rank registered",
			     plan->bytes, want);
	if (rc)
		loads_free(plan);
	return rc;
}

/* ---- execution --------------------------------------------------------------------------------------------------- */

static bool still_holds(const struct load *load)
{
	const struct arena_slot *slot = &arena_head(load->from)->slots[load->slot];
	/* What was copied before this call was read before the record is. */
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&slot->state, memory_order_acquire) == SLOT_CAPTURING &&
	       atomic_load_explicit(&slot->fenced, memory_order_acquire) == 1 &&
	       atomic_load_explicit(&slot->done, memory_order_acquire) == 1 && slot->step == load->id.step &&
	       slot->epoch == load->id.epoch;
}

static int copy(const struct load *load, void *stream, struct err *err)
{
	uint64_t leaf = UINT64_MAX;
	char where[700];
	bool held = still_holds(load);
	int rc = 0;
	if (held)
		rc = load->to->ops->restore(
			load->to->dev, arena_slot_data(load->from, load->slot), load->spans, load->n,
			load->to->ops->digests(load->to->dev) ? arena_slot_leaves(load->from, load->slot) : NULL,
			load->to->ordinal == CKPT_HOST ? NULL : stream, &leaf, err);
	/* Also after a failure: of bytes of another save no digest can be right. */
	if (!held || !still_holds(load))
		return err_set(err, -EBADMSG,
			       "arena of rank %u: the slot was given to another save while it was restored",
			       load->from->rank);
	if (rc == -EBADMSG && leaf != UINT64_MAX)
		return err_set(err, rc, "damaged on the way out of the arena of rank %u: %s", load->from->rank,
			       arena_leaf_text(load->from, leaf, where, sizeof(where)));
	return rc ? err_prefix(err, rc, "out of the arena of rank %u", load->from->rank) : 0;
}

static int execute(const struct plan_of_loads *plan, void *stream, struct err *err)
{
	int rc = 0;
	for (size_t i = 0; i < plan->n && !rc; i++)
		if (plan->loads[i].n)
			rc = copy(&plan->loads[i], stream, err);
	return rc;
}

static int load_all(ckpt *s, struct stage *stage, const struct wire_restored *m, void *stream, uint64_t *bytes,
		    struct err *err)
{
	struct plan_of_loads plan;
	int rc = plan_loads(s, stage, m, &plan, err);
	if (rc)
		return rc;
	*bytes = plan.bytes;
	atomic_store(&s->undefined, true);
	rc = execute(&plan, stream, err);
	if (!rc)
		atomic_store(&s->undefined, false);
	loads_free(&plan);
	return rc;
}

/* ---- the call ---------------------------------------------------------------------------------------------------- */

static int ask(ckpt *s, uint64_t step, int timeout_ms, struct wire_restored *m, struct err *err)
{
	uint32_t ms;
	struct frame *reply;
	uint64_t deadline = session_deadline(s, timeout_ms, &ms);
	struct wire_restore request = {.epoch = atomic_load(&s->epoch), .step = step, .timeout_ms = ms ? ms : 1};
	AUTO_WBUF struct wbuf body = {0};
	int rc = wire_restore_encode(&request, &body);
	if (!rc)
		rc = service_call(s, WIRE_RESTORE, &body, WIRE_RESTORED, deadline + GRACE, &reply, err);
	if (rc == -ETIMEDOUT && !err->text[0])
		return err_set(err, rc, "the daemon did not say within %u ms who is late", ms);
	if (rc)
		return rc;
	rc = wire_restored_decode(reply->body, reply->len, m, err);
	frame_free(reply);
	free(reply);
	return rc;
}

static int check_restore(ckpt *s, struct stage *stage, uint64_t step, struct err *err)
{
	if (!step_may_be_asked(step))
		return err_set(err, -EINVAL,
			       "step %" PRIu64 " is not below 10^12, nor CKPT_LATEST or CKPT_LATEST_HEALTHY", step);
	if (!stage || !atomic_load(&s->epoch))
		return err_set(err, -EINVAL, "call ckpt_join before ckpt_restore");
	if (atomic_load(&stage->lost))
		return err_set(err, -ESTALE, "the daemon lost the arenas: call ckpt_join again");
	if (atomic_load_explicit(&stage_head(stage)->epoch, memory_order_acquire) != atomic_load(&s->epoch))
		return err_set(err, -ESTALE, "a new epoch has begun: call ckpt_join again");
	return 0;
}

static void report(const struct wire_restored *m, uint64_t bytes, uint64_t load_ns, ckpt_restored *out)
{
	ckpt_restored r = {.size = out->size,
			   .step = m->step,
			   .epoch = m->epoch,
			   .source = (ckpt_source)m->source,
			   .bytes = bytes,
			   .fetch_ns = m->fetch_ns,
			   .load_ns = load_ns};
	snprintf(r.why, sizeof(r.why), "%.*s", (int)sizeof(r.why) - 1, m->why);
	size_t known = min_u64(out->size, sizeof(r));
	memset(out, 0, out->size);
	memcpy(out, &r, known);
}

/* For the daemon, which tells how long it took. */
static void note_done(struct stage *stage, uint64_t step)
{
	struct arena_entry *entry = &stage_head(stage)->entry;
	atomic_store_explicit(&entry->step, step, memory_order_relaxed);
	atomic_store_explicit(&entry->loaded_ns, clock_now(), memory_order_release);
}

static int restore(ckpt *s, struct stage *stage, uint64_t step, void *stream, ckpt_restored *out, int timeout_ms,
		   struct err *err)
{
	struct wire_restored m;
	uint64_t bytes = 0;
	int rc = check_restore(s, stage, step, err);
	if (!rc)
		rc = ask(s, step, timeout_ms, &m, err);
	if (rc == -ENOENT)
		note_done(stage, 0); /* there was nothing: it begins anew */
	if (rc)
		return rc;
	uint64_t begun = clock_now();
	rc = load_all(s, stage, &m, stream, &bytes, err);
	if (rc)
		return err_prefix(err, rc, "step %" PRIu64, m.step);
	note_done(stage, m.step);
	if (out)
		report(&m, bytes, clock_now() - begun, out);
	return 0;
}

int ckpt_restore(ckpt *s, uint64_t step, void *stream, ckpt_restored *out, int timeout_ms)
{
	struct err err = {0};
	ckpt_restored known;
	int rc = session_check(s, &err);
	if (!rc && out)
		rc = args_take(&known, sizeof(known), sizeof(known), out, "ckpt_restored", &err);
	if (rc)
		return session_fail(s, rc, &err);
	struct stage *stage = session_stage(s);
	rc = restore(s, stage, step, stream, out, timeout_ms, &err);
	stage_put(stage);
	return rc ? session_fail(s, rc, &err) : 0;
}
