/* What a rank of a fleet does at work: it saves each step that it takes, as the others do, and its device copies. */
#include "base/clock.h"
#include "fleet.h"
#include "format/tensor/digest.h"
#include "intact.h"

/* As in libckpt/client/save/save.c. */
#define PAUSE_NS (30 * CLOCK_NS_PER_S)

/* Here, or already in the fence of this step. */
static bool has_come(const struct fleet_rank *o, const struct fleet_rank *r)
{
	return o->alive && o->joined && o->restored && o->epoch == r->epoch &&
	       (o->next_step > r->next_step || (o->next_step == r->next_step && !o->pauses));
}

/* No rank takes a step that another one has not come to: they exchange gradients. */
static bool all_take_part(const struct fleet_rank *r)
{
	struct step_id next = {.step = r->next_step, .epoch = r->epoch};
	uint32_t there = 0;
	if (clock_now() < fleet.next_ns && !fleet_save_of(next)->begun)
		return false; /* it computes */
	fleet_each(o) there += has_come(o, r);
	return there == r->world;
}

/* As ckpt_restore and ckpt_beat do; a loop may give no heartbeats (mute). */
static void load(const struct fleet_rank *r)
{
	struct arena_entry *entry = &r->mem->head->entry;
	if (!atomic_load(&entry->loaded_ns))
		atomic_store(&entry->loaded_ns, clock_now());
}

static void beat(const struct fleet_rank *r)
{
	struct arena_entry *entry = &r->mem->head->entry;
	if (!fleet.mute && atomic_load(&entry->stepped_ns) < atomic_load(&entry->loaded_ns))
		atomic_store(&entry->stepped_ns, clock_now());
}

/* What is computed from here on would be repeated if the job went back behind this save. */
static void go_on(struct fleet_rank *r)
{
	beat(r);
	r->pauses = false;
	if (r->saves.epoch == fleet.epochs[fleet.nepochs - 1].epoch && r->saves.step > fleet.finished)
		fleet.finished = r->saves.step;
}

static void begin(struct fleet_rank *r)
{
	struct arena_head *head = r->mem->head;
	struct fleet_save *save = fleet_save_of((struct step_id){.step = r->next_step, .epoch = r->epoch});
	load(r);
	if (!save->begun) { /* every rank decides alike, as a training loop does */
		save->begun = true;
		save->begun_ns = clock_now();
		save->world = save->in = r->world;
		fleet.next_ns = clock_now() + fleet.pace_ns;
		save->to_storage = fleet.stored && ((fleet.quiescing && !fleet.elastic) || rng_chance(world_rng(), 70));
	}
	for (uint32_t i = 0; i < r->mem->nslots && r->slot < 0; i++) {
		uint32_t expected = SLOT_FREE;
		struct arena_slot *s = &head->slots[i];
		if (atomic_load(&s->state) != SLOT_FREE)
			continue;
		s->step = r->next_step;
		s->epoch = r->epoch;
		s->target = save->to_storage ? SLOT_STORAGE : SLOT_MEMORY;
		atomic_store(&s->fenced, 0);
		atomic_store(&s->done, 0);
		atomic_store(&s->progress, 0);
		if (!atomic_compare_exchange_strong(&s->state, &expected, SLOT_CAPTURING))
			continue;
		fleet_sum.intact += intact_take(r->mem, i);
		r->slot = (int)i;
		r->saves = save->id;
		r->piece = 0;
	}
	fleet_trace("rank %u begins step %lu: slot %d", r->id, (unsigned long)r->next_step, r->slot);
	fleet.last_step = r->next_step > fleet.last_step ? r->next_step : fleet.last_step;
	r->worked_ns = clock_now();
	r->next_step++;
	if (r->slot < 0) { /* there is none: it goes on without */
		arena_leave_out(head, save->id);
		r->saves = save->id;
		go_on(r);
	}
}

/* What is copied after somebody has been told to leave the collectives is garbage. */
static void copy_piece(struct fleet_rank *r, uint32_t p, struct step_id id)
{
	const struct layout_piece *piece = &r->mem->layout.pieces[p];
	uint8_t *base = memory_slot(r->mem, (uint32_t)r->slot) + piece->slot_at;
	uint32_t *data = (uint32_t *)base;
	uint64_t start = 0, count = 0;
	bool garbage = fleet.told > id.epoch;
	uint32_t tensor = fleet_tensor(r->mem->table->reg.entries[piece->entry].name);
	region_contiguous(&r->mem->table->reg.entries[piece->entry].shape, &piece->region, &start, &count);
	for (uint64_t i = 0; i < count; i++)
		data[i] = fleet_content(tensor, start + i, id) ^ (garbage ? 0xdead : 0);
	digest_leaves(base, piece->bytes, memory_leaves(r->mem, (uint32_t)r->slot) + piece->first_leaf);
	atomic_fetch_add(&r->mem->head->slots[r->slot].progress, piece->bytes);
}

/* ---- the fence --------------------------------------------------------------------------------------------------------- */

static bool has_failed(const struct arena_head *head, struct step_id id)
{
	for (int i = 0; i < ARENA_STATUS; i++) {
		const struct arena_status *s = &head->status[i];
		if (s->epoch == id.epoch && s->step == id.step)
			return s->level < LEVEL_CAPTURED && s->error;
	}
	return false;
}

/* The world changes with this save. */
static bool pauses(const struct fleet_rank *r)
{
	uint64_t step = atomic_load(&r->mem->head->pause);
	return step && r->saves.step >= step && r->rank && !has_failed(r->mem->head, r->saves) &&
	       clock_now() < r->pause_ns;
}

static void fence(struct fleet_rank *r, struct arena_slot *s, struct step_id id)
{
	struct fleet_save *save = fleet_save_of(id);
	save->fenced |= 1u << r->id;
	if (fleet.told > id.epoch)
		save->late |= 1u << r->id;
	fleet_sum.late += fleet.told > id.epoch;
	save->losses = fleet.losses;
	fleet_trace("rank %u has copied step %lu epoch %u%s", r->id, (unsigned long)id.step, id.epoch,
		    fleet.told > id.epoch ? ", too late" : "");
	atomic_store(&s->fenced, 1);
	r->slot = -1;
	r->pauses = true;
	r->pause_ns = clock_deadline(PAUSE_NS);
	if (atomic_load(&r->mem->head->epoch) == r->epoch && !pauses(r))
		go_on(r);
}

void fleet_capture(struct fleet_rank *r)
{
	struct arena_slot *s = &r->mem->head->slots[r->slot];
	struct step_id id = r->saves;
	if (r->piece < r->mem->layout.npieces)
		copy_piece(r, r->piece++, id);
	else if (!atomic_load(&s->done))
		atomic_store(&s->done, 1);
	else
		fence(r, s, id);
}

/* A device that has begun to copy goes on, also when the rank has been told to leave: only the fence may not come then. */
bool fleet_train(struct fleet_rank *r)
{
	bool left = atomic_load(&r->mem->head->epoch) != r->epoch;
	bool copied = r->slot >= 0 && atomic_load(&r->mem->head->slots[r->slot].done);
	if (r->slot >= 0 && (!left || !copied || rng_chance(world_rng(), 50))) {
		fleet_capture(r);
	} else if (left) {
		r->slot = -1; /* never fenced */
		r->pauses = false;
		return true;
	} else if (r->pauses && pauses(r)) {
		return false;
	} else if (r->pauses) {
		go_on(r);
	} else if (all_take_part(r)) {
		begin(r);
	}
	return false;
}
