#include "client/capture/capture.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "ckpt.h"

#include <string.h>

/* ---- witnesses --------------------------------------------------------------------------------------------------- */

/* By default where a replica lives on a GPU, which reads it at the speed of its memory. */
static bool votes_by_default(const struct table *table)
{
	for (uint32_t i = 0; i < table->reg.nentries; i++)
		if (witness_wanted(&table->reg.entries[i]) && table->reg.entries[i].npieces &&
		    table->held[i].device != CKPT_HOST)
			return true;
	return false;
}

static int prepare_witnesses(struct capture *c, const struct table *table, const struct settings *settings,
			     struct err *err)
{
	bool wanted = settings->vote == VOTE_AUTO ? votes_by_default(table) : settings->vote == VOTE_ALWAYS;
	if (!wanted || table->reg.world == 1)
		return 0;
	if (witnesses_make(&table->reg, &c->arena->layout, &c->witnesses))
		return err_set(err, -ENOMEM, "no memory to digest replicas");
	if (c->witnesses.nsets > WITNESS_SETS_MAX)
		return err_set(
			err, -E2BIG,
			"replicas of %u groups are more than can be compared between ranks (%d): use fewer replica "
			"groups, or CKPT_VOTE=0",
			c->witnesses.nsets, WITNESS_SETS_MAX);
	c->votes = c->witnesses.npieces != 0;
	return 0;
}

/* ---- devices ----------------------------------------------------------------------------------------------------- */

static int open_device(struct capture *c, int ordinal, const struct device_layers *layers, struct err *err)
{
	if (c->ndevices == ARENA_PARTS)
		return err_set(err, -E2BIG, "the state lives on more than %d devices", ARENA_PARTS);
	struct capture_device *d = &c->devices[c->ndevices];
	*d = (struct capture_device){.ordinal = ordinal, .ops = ordinal == CKPT_HOST ? layers->host : layers->cuda};
	if (!d->ops)
		return err_set(err, -ENODEV, "device %d: this build of the library has no CUDA", ordinal);
	int rc = d->ops->open(ordinal, &d->dev, err);
	if (rc)
		return err_prefix(err, rc, "device %d", ordinal);
	c->ndevices++;
	d->lock = &c->slots.devices;
	rc = d->ops->arena_attach(d->dev, c->arena->base, ordinal == CKPT_HOST ? c->arena->size : c->arena->slots_at,
				  err);
	if (rc)
		return err_prefix(err, rc, "device %d", ordinal);
	d->attached = true;
	return 0;
}

static int device_index(const struct capture *c, int ordinal)
{
	for (uint32_t i = 0; i < c->ndevices; i++)
		if (c->devices[i].ordinal == ordinal)
			return (int)i;
	return -1;
}

/* The index of an entry's device, which is opened when it is the first of it; or -errno. */
static int use_device(struct capture *c, int ordinal, const struct device_layers *layers, struct err *err)
{
	int at = device_index(c, ordinal), rc = 0;
	if (at < 0)
		rc = open_device(c, ordinal, layers, err);
	return rc ? rc : at >= 0 ? at : (int)c->ndevices - 1;
}

/* Also devices from which others capture all that is replicated. */
static int open_witnessed(struct capture *c, const struct table *table, const struct device_layers *layers,
			  struct err *err)
{
	for (uint32_t i = 0; c->votes && i < c->witnesses.npieces; i++) {
		const struct witness_piece *p = &c->witnesses.pieces[i];
		int at = p->own ? use_device(c, table->held[p->entry].device, layers, err) : 0;
		if (at < 0)
			return at;
		c->votes = c->digests && (!p->own || c->devices[at].ops->digests(c->devices[at].dev));
	}
	if (c->votes)
		c->nactive = c->ndevices;
	return 0;
}

static int open_devices(struct capture *c, const struct table *table, const struct device_layers *layers,
			struct err *err)
{
	const struct layout *layout = &c->arena->layout;
	c->piece_device = calloc((size_t)layout->npieces + 1, 1);
	if (!c->piece_device)
		return err_set(err, -ENOMEM, "no memory for %u pieces", layout->npieces);
	for (uint32_t i = 0; i < layout->npieces; i++) {
		int at = use_device(c, table->held[layout->pieces[i].entry].device, layers, err);
		if (at < 0)
			return at;
		c->piece_device[i] = (uint8_t)at;
	}
	c->nactive = c->ndevices;
	for (uint32_t i = 0; i < c->nactive; i++)
		c->digests = c->digests && c->devices[i].ops->digests(c->devices[i].dev);
	int rc = open_witnessed(c, table, layers, err);
	if (rc)
		return rc;
	for (uint32_t i = 0; i < table->reg.nentries; i++) {
		int at = table->reg.entries[i].npieces ? use_device(c, table->held[i].device, layers, err) : 0;
		if (at < 0)
			return at;
	}
	return 0;
}

static int prepare_strict(struct capture *c, struct err *err)
{
	if (!c->digests)
		return err_set(err, -EOPNOTSUPP, "strict mode needs digests, which the device layer does not give");
	for (uint32_t slot = 0; slot < c->arena->nslots; slot++) {
		c->before[slot] = calloc(c->arena->nleaves + c->arena->nwitnesses + 1, sizeof(uint64_t));
		if (!c->before[slot])
			return err_set(err, -ENOMEM, "no memory for the digests of strict mode");
	}
	return 0;
}

int capture_init(struct capture *c, struct arena *arena, const struct table *table, const struct device_layers *layers,
		 const struct settings *settings, struct err *err)
{
	*c = (struct capture){.arena = arena, .digests = true, .staged = settings->staging};
	pthread_mutex_init(&c->lock, NULL);
	pthread_mutex_init(&c->slots.devices, NULL);
	int rc = prepare_witnesses(c, table, settings, err);
	if (!rc)
		rc = open_devices(c, table, layers, err);
	if (!rc)
		rc = capture_spans_make(c, table, err);
	if (!rc)
		rc = capture_slots_start(c, err);
	if (!rc && settings->strict)
		rc = prepare_strict(c, err);
	if (rc)
		capture_free(c);
	return rc;
}

void capture_free(struct capture *c)
{
	capture_slots_stop(c);
	for (uint32_t i = 0; i < c->ndevices; i++) {
		struct capture_device *d = &c->devices[i];
		for (uint32_t slot = 0; slot < ARENA_SLOTS_MAX; slot++)
			d->ops->plan_free(d->plans[slot]);
		capture_slots_detach(c, d);
		if (d->attached)
			d->ops->arena_detach(d->dev, c->arena->base);
		d->ops->close(d->dev);
	}
	for (uint32_t slot = 0; slot < ARENA_SLOTS_MAX; slot++)
		free(c->before[slot]);
	for (uint32_t i = 0; i < ARENA_PARTS; i++)
		free(c->spans[i]);
	span_index_free(&c->index);
	free(c->piece_device);
	witnesses_free(&c->witnesses);
	pthread_mutex_destroy(&c->slots.devices);
	pthread_mutex_destroy(&c->lock);
	*c = (struct capture){0};
}

/* ---- several devices --------------------------------------------------------------------------------------------- */

static struct arena_part *parts_of(struct capture *c, uint32_t slot)
{
	return arena_head(c->arena)->parts[slot];
}

/* The daemon digests the prefix of pieces that has arrived, so the sum counts whole pieces in the layout's order. */
static void sum_progress(struct capture *c, uint32_t slot, struct capture_cursor *cursor)
{
	const struct layout *layout = &c->arena->layout;
	uint64_t arrived[ARENA_PARTS];
	for (uint32_t i = 0; i < c->nactive; i++)
		arrived[i] = atomic_load_explicit(&parts_of(c, slot)[i].progress, memory_order_acquire);
	for (; cursor->piece < layout->npieces; cursor->piece++) {
		uint32_t d = c->piece_device[cursor->piece];
		uint64_t bytes = layout->pieces[cursor->piece].bytes;
		if (cursor->used[d] + bytes > arrived[d])
			break;
		cursor->used[d] += bytes;
		cursor->bytes += bytes;
	}
	atomic_store_explicit(&arena_head(c->arena)->slots[slot].progress, cursor->bytes, memory_order_release);
}

/* 0 while a device is copying; then 1, or the first failure: of one that was ended early another one is the reason. */
static uint32_t sum_done(struct capture *c, uint32_t slot)
{
	uint32_t all = 1;
	for (uint32_t i = 0; i < c->nactive; i++) {
		uint32_t done = atomic_load_explicit(&parts_of(c, slot)[i].done, memory_order_acquire);
		if (!done)
			return 0;
		if (done != 1 && (all == 1 || all == (uint32_t)-ECANCELED))
			all = done;
	}
	return all;
}

bool capture_combine(struct capture *c, bool *ended)
{
	bool active = false;
	LOCK_SCOPE(&c->lock);
	for (uint32_t slot = 0; c->nactive > 1 && slot < c->arena->nslots; slot++) {
		struct capture_cursor *cursor = &c->cursors[slot];
		if (!cursor->active)
			continue;
		uint32_t done = sum_done(c, slot);
		sum_progress(c, slot, cursor);
		if (done) {
			cursor->active = false;
			*ended = true;
			atomic_store_explicit(&arena_head(c->arena)->slots[slot].done, done, memory_order_release);
		}
		active |= cursor->active;
	}
	return active;
}

static void launch_failed(struct capture *c, uint32_t slot, uint32_t first, int rc)
{
	for (uint32_t i = first; i < c->nactive; i++)
		atomic_store_explicit(&parts_of(c, slot)[i].done, (uint32_t)rc, memory_order_release);
}

static int launch_on(struct capture *c, uint32_t device, uint32_t slot, void *stream, bool strict,
		     const struct capture_target *target, struct err *err)
{
	struct capture_device *d = &c->devices[device];
	return d->ops->plan_launch(d->plans[slot], d->ordinal == CKPT_HOST ? NULL : stream, target,
				   strict ? CAPTURE_STRICT : 0, err);
}

static int launch_all(struct capture *c, uint32_t slot, void *stream, bool strict, struct capture_target target,
		      struct err *err)
{
	int rc = 0;
	LOCK_SCOPE(&c->lock);
	for (uint32_t i = 0; i < c->nactive; i++) {
		struct arena_part *part = &parts_of(c, slot)[i];
		atomic_store(&part->progress, 0);
		atomic_store(&part->done, 0);
	}
	for (uint32_t i = 0; i < c->nactive && !rc; i++) {
		target.progress = &parts_of(c, slot)[i].progress;
		target.done = &parts_of(c, slot)[i].done;
		rc = launch_on(c, i, slot, stream, strict, &target, err);
		if (rc)
			launch_failed(c, slot, i, rc);
	}
	c->cursors[slot] = (struct capture_cursor){.active = true};
	return rc;
}

/* ---- launch ------------------------------------------------------------------------------------------------------ */

/* Of another slot, so that what is found in both has not changed for a while. */
static const uint64_t *newest_leaves(const struct capture *c, uint32_t slot)
{
	const uint64_t *found = NULL;
	struct step_id newest = {0};
	for (uint32_t i = 0; i < c->arena->nslots; i++) {
		const struct arena_slot *record = &arena_head(c->arena)->slots[i];
		struct step_id id = {.step = record->step, .epoch = record->epoch};
		if (i == slot || atomic_load_explicit(&record->state, memory_order_acquire) != SLOT_CAPTURING ||
		    atomic_load_explicit(&record->done, memory_order_acquire) != 1 || step_compare(id, newest) <= 0)
			continue;
		newest = id;
		found = arena_slot_leaves(c->arena, i);
	}
	return found;
}

int capture_launch(struct capture *c, const struct table *table, uint32_t slot, void *stream, bool strict,
		   struct err *err)
{
	LOCK_SCOPE(&c->slots.devices);
	struct arena_slot *record = &arena_head(c->arena)->slots[slot];
	struct capture_target target = {.progress = &record->progress,
					.done = &record->done,
					.leaves = c->digests ? arena_slot_leaves(c->arena, slot) : NULL,
					.before = strict ? c->before[slot] : NULL,
					.held = atomic_exchange(&record->intact, 0),
					.newest = newest_leaves(c, slot)};
	int rc = capture_plans_follow(c, table, slot, err);
	if (!rc && c->nactive > 1)
		return launch_all(c, slot, stream, strict, target, err);
	/* A rank that holds nothing is complete at once. */
	if (!rc && c->nactive)
		rc = launch_on(c, 0, slot, stream, strict, &target, err);
	if (rc || !c->nactive)
		atomic_store_explicit(&record->done, rc ? (uint32_t)rc : 1, memory_order_release);
	return rc;
}
