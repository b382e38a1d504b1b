#include "client/restore/loads.h"

#include "base/bytes.h"
#include "base/cleanup.h"
#include "format/tensor/digest.h"

#include <string.h>

enum { WORDS = ARENA_GRANULES / 64 };

static bool has(const uint64_t *set, uint64_t granule)
{
	return set[granule / 64] & 1ull << granule % 64;
}

static uint64_t granules(const struct origin *o)
{
	return div_up(o->from->nleaves, o->granule);
}

/* ---- runs of leaves ---------------------------------------------------------------------------------------------- */

/* The first span that does not end before the leaf. */
static size_t first_span(const struct load *load, uint64_t leaf)
{
	size_t low = 0, high = load->n;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		const struct span *span = &load->spans[mid];
		if (span->first_leaf + leaf_count(span_bytes(span)) <= leaf)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* Appends what stands in leaves [from, to). Leaves are not cut: each is checked where it arrives. */
static size_t add_run(const struct origin *o, const struct load *load, uint64_t from, uint64_t to, struct span *out)
{
	size_t n = 0;
	for (size_t i = first_span(load, from); i < load->n && load->spans[i].first_leaf < to; i++) {
		const struct span *span = &load->spans[i];
		uint64_t bytes = span_bytes(span), first = max_u64(from, span->first_leaf) - span->first_leaf;
		uint64_t end = min_u64((to - span->first_leaf) * LEAF_SIZE, bytes);
		if (!load->rank_blob[i] || !o->no_blobs)
			out[n++] = span_part(span, first * LEAF_SIZE, end - first * LEAF_SIZE);
	}
	return n;
}

static size_t make_batch(const struct origin *o, const struct load *load, const uint64_t *set, struct span *batch)
{
	size_t n = 0;
	for (uint64_t g = 0, end; g < granules(o); g = end) {
		for (end = g; end < granules(o) && has(set, end); end++)
			;
		if (end > g)
			n += add_run(o, load, g * o->granule, min_u64(end * o->granule, o->from->nleaves), batch + n);
		else
			end++;
	}
	return n;
}

static uint64_t bytes_of(const struct span *spans, size_t n)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += span_bytes(&spans[i]);
	return sum;
}

/* ---- copying ----------------------------------------------------------------------------------------------------- */

/* Also after a copy: of bytes of something else no digest can be right. */
static bool still(const struct origin *o, uint32_t turn)
{
	/* What was read before this call was read before the turn is. */
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&arena_head(o->from)->bring.turn, memory_order_relaxed) == turn;
}

static int tell_damage(const struct origin *o, int rc, uint64_t leaf, struct err *err)
{
	char where[700];
	if (rc == -EBADMSG && leaf != UINT64_MAX)
		return err_set(err, rc, "damaged on the way out of the arena of rank %u: %s", o->from->rank,
			       arena_leaf_text(o->from, leaf, where, sizeof(where)));
	return err_prefix(err, rc, "out of the arena of rank %u", o->from->rank);
}

/* Nothing of this arena counts as loaded any more. */
static void forget(const struct loads *loads, struct origin *o)
{
	memset(o->loaded, 0, sizeof(o->loaded));
	atomic_fetch_sub(&loads->progress->done, o->bytes);
	o->bytes = 0;
}

static void tell_progress(const struct loads *loads, struct origin *o)
{
	o->bytes += loads->put;
	atomic_fetch_add(&loads->progress->done, loads->put);
}

/* A device that copies in parts has failed: which of them are right is not known. 1: that is all; what an attempt that is over left behind is
 * no error. */
static int failed_in_parts(struct loads *loads, const struct origin *o, const struct restored_bad *bad, int rc,
			   struct err *err)
{
	const struct origin *of = bad->origin ? bad->origin : o;
	for (uint32_t i = 0; i < loads->n; i++)
		forget(loads, &loads->origins[i]);
	if (of && !loads->finishing && !still(of, of->turn))
		return 1;
	return of ? tell_damage(of, rc, bad->leaf, err) : rc;
}

/* What was put on the way has arrived, and is right. 1: nothing is known of it. */
int loads_end_parts(struct loads *loads, struct err *err)
{
	int rc = 0;
	for (uint32_t i = 0; i < loads->n; i++) {
		const struct origin *o = &loads->origins[i];
		for (uint32_t d = 0; d < o->nloads; d++) {
			const struct capture_device *to = o->loads[d].to;
			struct restored_bad bad;
			struct err why = {0};
			pthread_mutex_lock(to->lock);
			int ended = to->ops->restore_end ? to->ops->restore_end(to->dev, &bad, &why) : 0;
			pthread_mutex_unlock(to->lock);
			if (ended)
				ended = failed_in_parts(loads, NULL, &bad, ended, &why);
			if (ended < 0 && rc >= 0 && err)
				*err = why;
			rc = rc < 0 || !ended ? rc : ended;
		}
	}
	return rc;
}

static int copy(struct loads *loads, const struct origin *o, const struct load *load, const uint64_t *set,
		struct err *err)
{
	struct restored_bad bad = {.leaf = UINT64_MAX};
	size_t n = make_batch(o, load, set, loads->batch);
	if (!n)
		return 0;
	loads->put += bytes_of(loads->batch, n);
	const struct device_ops *ops = load->to->ops;
	const void *base = arena_slot_data(o->from, o->slot);
	const uint64_t *leaves = ops->digests(load->to->dev) ? arena_slot_leaves(o->from, o->slot) : NULL;
	void *stream = load->to->ordinal == CKPT_HOST ? NULL : loads->stream;
	atomic_store(loads->undefined, true);
	LOCK_SCOPE(load->to->lock);
	if (!ops->restore_put) {
		int rc = ops->restore(load->to->dev, base, loads->batch, n, leaves, stream, &bad.leaf, err);
		return rc ? tell_damage(o, rc, bad.leaf, err) : 0;
	}
	int rc = ops->restore_put(load->to->dev, base, loads->batch, n, leaves, stream, o, &bad, err);
	return rc ? failed_in_parts(loads, o, &bad, rc, err) : 0;
}

/* 1: nothing is known of what was copied. */
static int copy_all(struct loads *loads, const struct origin *o, const uint64_t *set, struct err *err)
{
	int rc = 0;
	loads->put = 0;
	for (uint32_t d = 0; d < o->nloads && !rc; d++)
		rc = copy(loads, o, &o->loads[d], set, err);
	return rc;
}

static void add_set(uint64_t *to, const uint64_t *set)
{
	for (unsigned i = 0; i < WORDS; i++)
		to[i] |= set[i];
}

/* ---- while it is brought ----------------------------------------------------------------------------------------- */

static bool is_new(const struct origin *o, uint32_t turn)
{
	return turn & 1 && turn != o->before;
}

bool loads_seen(const struct loads *loads)
{
	for (uint32_t i = 0; i < loads->n; i++) {
		const struct origin *o = &loads->origins[i];
		if (is_new(o, atomic_load_explicit(&arena_head(o->from)->bring.turn, memory_order_acquire)))
			return true;
	}
	return false;
}

/* Of another attempt than before. What is on the way of that one ends first. */
static int turn_to(struct loads *loads, struct origin *o, uint32_t turn, struct err *err)
{
	if (turn == o->turn)
		return 0;
	int rc = o->turn ? loads_end_parts(loads, err) : 0;
	forget(loads, o);
	o->turn = turn;
	return rc < 0 ? rc : 0;
}

/* What there is of an attempt that began after the restore was asked for; the origin is made to be of it. false: nothing, or an error. */
static bool look(struct loads *loads, struct origin *o, uint64_t *there, int *rc, struct err *err)
{
	const struct arena_bring *b = &arena_head(o->from)->bring;
	uint32_t turn = atomic_load_explicit(&b->turn, memory_order_acquire);
	if (!is_new(o, turn))
		return false;
	for (unsigned i = 0; i < WORDS; i++)
		there[i] = atomic_load_explicit(&b->there[i], memory_order_acquire);
	uint32_t slot = atomic_load_explicit(&b->slot, memory_order_relaxed);
	struct step_id id = {.step = atomic_load_explicit(&b->step, memory_order_relaxed),
			     .epoch = atomic_load_explicit(&b->epoch, memory_order_relaxed)};
	bool no_blobs = atomic_load_explicit(&b->no_blobs, memory_order_relaxed);
	if (!still(o, turn) || slot >= o->from->nslots)
		return false;
	*rc = turn_to(loads, o, turn, err);
	o->slot = slot;
	o->id = id;
	o->no_blobs = no_blobs;
	return !*rc;
}

static int follow(struct loads *loads, struct origin *o, bool *any, struct err *err)
{
	uint64_t set[WORDS], fresh = 0;
	int rc = 0;
	if (!look(loads, o, set, &rc, err))
		return rc;
	for (unsigned i = 0; i < WORDS; i++)
		fresh |= set[i] &= ~o->loaded[i];
	if (!fresh)
		return 0;
	*any = true;
	rc = copy_all(loads, o, set, err);
	if (rc > 0 || !still(o, o->turn))
		return 0;
	if (!rc) {
		add_set(o->loaded, set);
		tell_progress(loads, o);
	}
	return rc;
}

int loads_follow(struct loads *loads, bool *any, struct err *err)
{
	int rc = 0;
	for (uint32_t i = 0; i < loads->n && !rc; i++)
		rc = follow(loads, &loads->origins[i], any, err);
	return rc;
}

static uint64_t early(const struct loads *loads)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < loads->n; i++) {
		const struct origin *o = &loads->origins[i];
		for (uint32_t d = 0; d < o->nloads; d++)
			sum += bytes_of(loads->batch, make_batch(o, &o->loads[d], o->loaded, loads->batch));
	}
	return sum;
}

/* ---- when all is there ------------------------------------------------------------------------------------------- */

static bool holds(const struct origin *o)
{
	const struct arena_slot *slot = &arena_head(o->from)->slots[o->slot];
	/* What was copied before this call was read before the record is. */
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&slot->state, memory_order_acquire) == SLOT_CAPTURING &&
	       atomic_load_explicit(&slot->fenced, memory_order_acquire) == 1 &&
	       atomic_load_explicit(&slot->done, memory_order_acquire) == 1 && slot->step == o->id.step &&
	       slot->epoch == o->id.epoch;
}

static int given_away(const struct origin *o, struct err *err)
{
	return err_set(err, -EBADMSG, "arena of rank %u: the slot was given to another save while it was restored",
		       o->from->rank);
}

static int copy_rest(struct loads *loads, struct origin *o, struct err *err)
{
	uint64_t rest[WORDS];
	o->rest = false;
	for (uint64_t g = 0; g < granules(o); g++)
		o->rest |= !has(o->loaded, g);
	if (!o->rest)
		return 0;
	for (unsigned i = 0; i < WORDS; i++)
		rest[i] = ~o->loaded[i];
	int rc = holds(o) ? copy_all(loads, o, rest, err) : given_away(o, err);
	if (!rc)
		tell_progress(loads, o);
	return rc;
}

/* What was copied is of the slots as they were then only if they are so still. */
static int copy_all_rest(struct loads *loads, struct err *err)
{
	int rc = 0;
	for (uint32_t i = 0; i < loads->n && !rc; i++)
		rc = copy_rest(loads, &loads->origins[i], err);
	int ended = loads_end_parts(loads, rc ? NULL : err);
	for (uint32_t i = 0; i < loads->n; i++)
		if (loads->origins[i].rest && !holds(&loads->origins[i]))
			return given_away(&loads->origins[i], err);
	return rc ? rc : ended;
}

static struct origin *find(const struct loads *loads, uint32_t rank)
{
	for (uint32_t i = 0; i < loads->n; i++)
		if (loads->origins[i].from->rank == rank)
			return &loads->origins[i];
	return NULL;
}

/* What was copied counts when it is of the attempt that the answer is about. */
static int settle(const struct loads *loads, const struct wire_restored *m, uint32_t i, struct err *err)
{
	struct origin *o = find(loads, m->ranks[i]);
	struct step_id id = {.step = m->step, .epoch = m->epoch};
	if (!o || m->slots[i] >= o->from->nslots)
		return err_set(err, -EBADMSG, "the daemon restored into slot %u of rank %u, which is not here",
			       m->slots[i], m->ranks[i]);
	if (!o->turn || !still(o, o->turn) || o->slot != m->slots[i] || step_compare(o->id, id) != 0 ||
	    o->no_blobs != m->rank_blobs_absent[i])
		forget(loads, o);
	o->slot = m->slots[i];
	o->id = id;
	o->no_blobs = m->rank_blobs_absent[i];
	return 0;
}

int loads_finish(struct loads *loads, const struct wire_restored *m, struct err *err)
{
	int rc = loads_end_parts(loads, err);
	if (rc < 0)
		return rc;
	rc = m->nlocal == loads->n
		     ? 0
		     : err_set(err, -EBADMSG, "the daemon restored %u ranks here, where %u are", m->nlocal, loads->n);
	for (uint32_t i = 0; i < m->nlocal && !rc; i++)
		rc = settle(loads, m, i, err);
	if (rc)
		return rc;
	loads->early = early(loads);
	atomic_store(loads->undefined, true);
	loads->finishing = true;
	return copy_all_rest(loads, err);
}

uint32_t loads_began(const struct loads *loads)
{
	uint32_t began = 0;
	for (uint32_t i = 0; i < loads->n; i++) {
		const struct origin *o = &loads->origins[i];
		uint32_t said = arena_head(o->from)->slots[o->slot].began;
		if (said <= o->id.epoch && said > began)
			began = said;
	}
	return began;
}
