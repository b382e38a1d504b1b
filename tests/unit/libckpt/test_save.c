#include "crew.h"

#include "session.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

/* The one slot of the rank that holds the step. */
static uint32_t slot_of(struct crew *c, uint32_t rank, uint64_t step)
{
	struct arena_head *head = fake_head(c->f, rank);
	for (uint32_t i = 0; i < head->nslots; i++)
		if (head->slots[i].state == SLOT_CAPTURING && head->slots[i].step == step)
			return i;
	cr_assert_fail("rank %u has no slot with step %lu", rank, (unsigned long)step);
	return 0;
}

/* Reads element `global` of a captured tensor out of the slots, whoever captured it. */
static double captured_value(struct crew *c, const char *name, uint64_t step, uint64_t global)
{
	for (uint32_t r = 0; r < c->world; r++) {
		const struct registration *reg = fake_registration(c->f, r);
		const struct layout *layout = fake_layout(c->f, r);
		for (uint32_t i = 0; i < layout->npieces; i++) {
			const struct layout_piece *p = &layout->pieces[i];
			const struct entry *e = &reg->entries[p->entry];
			struct region one = region_flat(global, 1);
			struct overlap o;
			struct region_run run;
			if (strcmp(e->name, name) != 0)
				continue;
			overlap_init(&o, &e->shape, &p->region, &one);
			if (!overlap_next(&o, &run))
				continue;
			const uint8_t *at = fake_slot(c->f, r, slot_of(c, r, step)) + p->slot_at;
			if (e->dtype == DTYPE_F32)
				return ((const float *)at)[run.src];
			return ((const uint16_t *)at)[run.src];
		}
	}
	cr_assert_fail("nobody captured element %lu of %s", (unsigned long)global, name);
	return 0;
}

Test(save, every_kind_of_piece_is_captured_packed)
{
	struct crew c;
	crew_up(&c, 2, NULL);
	crew_fill(&c, 5);
	crew_save(&c, 120, CKPT_MEMORY);
	for (uint32_t i = 0; i < CREW_ROWS * CREW_COLS; i += 97)
		cr_assert_eq(captured_value(&c, "w", 120, i), (float)(i * 3 + 5));
	for (uint32_t i = 0; i < CREW_FLAT; i++)
		cr_assert_eq(captured_value(&c, "flat", 120, i), (float)(i * 7 + 5));
	for (uint32_t i = 0; i < 2 * CREW_BOX_ROWS * CREW_BOX_COLS; i++) {
		uint32_t rank = i / (CREW_BOX_ROWS * CREW_BOX_COLS), row = i / CREW_BOX_COLS % CREW_BOX_ROWS;
		uint16_t want = (uint16_t)(row * CREW_BOX_STRIDE + i % CREW_BOX_COLS + rank * 1000 + 5);
		cr_assert_eq(captured_value(&c, "box", 120, i), want);
	}
	crew_down(&c);
}

Test(save, source_digests_match_what_stands_in_the_slot)
{
	struct crew c;
	crew_up(&c, 2, NULL);
	crew_fill(&c, 6);
	crew_save(&c, 7, CKPT_MEMORY);
	for (uint32_t r = 0; r < 2; r++) {
		const struct layout *layout = fake_layout(c.f, r);
		uint32_t slot = slot_of(&c, r, 7);
		const uint64_t *leaves = fake_leaves(c.f, r, slot);
		cr_assert_gt(layout->npieces, 0);
		for (uint32_t i = 0; i < layout->npieces; i++) {
			const struct layout_piece *p = &layout->pieces[i];
			uint64_t want[8];
			cr_assert_leq(leaf_count(p->bytes), 8);
			digest_leaves(fake_slot(c.f, r, slot) + p->slot_at, p->bytes, want);
			cr_assert_arr_eq(leaves + p->first_leaf, want, leaf_count(p->bytes) * sizeof(*want));
		}
	}
	crew_down(&c);
}

Test(save, the_slot_tells_the_daemon_everything)
{
	struct crew c;
	ckpt_snapshot *snap;
	crew_up(&c, 1, NULL);
	cr_assert_eq(ckpt_begin(c.s[0], 33, CKPT_STORAGE, NULL, &snap), 0);
	cr_assert(fake_rang(c.f));
	struct arena_slot *slot = &fake_head(c.f, 0)->slots[slot_of(&c, 0, 33)];
	cr_assert_eq(slot->epoch, 1);
	cr_assert_eq(slot->target, SLOT_STORAGE);
	cr_assert_eq(slot->flags, 0);
	cr_assert_gt(slot->begin_ns, 0);
	cr_assert_eq(slot->fenced, 0);
	cr_assert_eq(ckpt_fence(snap, NULL), 0);
	cr_assert(fake_rang(c.f));
	cr_assert_eq(slot->fenced, 1);
	cr_assert_eq(slot->done, 1);
	cr_assert_eq(slot->progress, fake_layout(c.f, 0)->data_bytes);
	cr_assert_eq(ckpt_fence(snap, NULL), 0, "a second fence changes nothing");
	cr_assert_eq(ckpt_snapshot_step(snap), 33);
	ckpt_snapshot_free(snap);
	fake_publish(c.f, &(struct fake_level){.id = {33, 1}, .level = LEVEL_DURABLE});
	crew_down(&c);
}

Test(save, a_snapshot_that_was_never_fenced_is_given_up_by_the_next)
{
	struct crew c;
	ckpt_snapshot *first, *second;
	crew_up(&c, 1, NULL);
	cr_assert_eq(ckpt_begin(c.s[0], 1, CKPT_MEMORY, NULL, &first), 0);
	struct arena_slot *slot = &fake_head(c.f, 0)->slots[slot_of(&c, 0, 1)];
	cr_assert_eq(ckpt_begin(c.s[0], 2, CKPT_MEMORY, NULL, &second), 0);
	cr_assert_eq(slot->fenced, 2);
	cr_assert_eq(ckpt_fence(first, NULL), -ECANCELED);
	cr_assert(strstr(ckpt_error(c.s[0]), "step 1:"), "%s", ckpt_error(c.s[0]));
	cr_assert_eq(ckpt_fence(second, NULL), 0);
	ckpt_snapshot_free(first);
	ckpt_snapshot_free(second);
	crew_down(&c);
}

Test(save, freeing_an_unfenced_snapshot_gives_it_up)
{
	struct crew c;
	ckpt_snapshot *snap;
	crew_up(&c, 1, NULL);
	cr_assert_eq(ckpt_begin(c.s[0], 1, CKPT_MEMORY, NULL, &snap), 0);
	struct arena_slot *slot = &fake_head(c.f, 0)->slots[slot_of(&c, 0, 1)];
	ckpt_snapshot_free(snap);
	cr_assert_eq(slot->fenced, 2);
	cr_assert_eq(ckpt_begin(c.s[0], 2, CKPT_MEMORY, NULL, &snap), 0);
	cr_assert_eq(ckpt_fence(snap, NULL), 0);
	slot = &fake_head(c.f, 0)->slots[slot_of(&c, 0, 2)];
	ckpt_snapshot_free(snap);
	cr_assert_eq(slot->fenced, 1, "a fenced one goes its way");
	crew_down(&c);
}

Test(save, full_slots_are_busy_and_say_by_whom)
{
	struct crew c;
	ckpt_snapshot *snap;
	crew_up(&c, 1, NULL);
	crew_save(&c, 100, CKPT_MEMORY);
	crew_save(&c, 110, CKPT_MEMORY);
	crew_save(&c, 120, CKPT_MEMORY);
	fake_publish(c.f, &(struct fake_level){.id = {110, 1}, .level = LEVEL_CAPTURED});
	cr_assert_eq(ckpt_begin(c.s[0], 130, CKPT_MEMORY, NULL, &snap), -EBUSY);
	cr_assert_null(snap);
	cr_assert(strstr(ckpt_error(c.s[0]), "step 100 (not seen"), "%s", ckpt_error(c.s[0]));
	cr_assert(strstr(ckpt_error(c.s[0]), "step 110 (captured)"), "%s", ckpt_error(c.s[0]));
	fake_free(c.f, 0, slot_of(&c, 0, 110));
	crew_save(&c, 130, CKPT_MEMORY);
	crew_down(&c);
}

Test(save, a_step_is_saved_once_per_epoch)
{
	struct crew c;
	ckpt_snapshot *snap;
	crew_up(&c, 1, NULL);
	crew_save(&c, 5, CKPT_MEMORY);
	cr_assert_eq(ckpt_begin(c.s[0], 5, CKPT_MEMORY, NULL, &snap), -EALREADY);
	fake_free(c.f, 0, slot_of(&c, 0, 5));
	cr_assert_eq(ckpt_begin(c.s[0], 5, CKPT_MEMORY, NULL, &snap), -EALREADY, "also when its slot is free again");
	fake_publish(c.f, &(struct fake_level){.id = {6, 1}, .level = LEVEL_CAPTURED});
	cr_assert_eq(ckpt_begin(c.s[0], 6, CKPT_MEMORY, NULL, &snap), -EALREADY, "by a predecessor of this process");
	fake_epoch(c.f, 2, "rank 0 was replaced");
	crew_join(&c);
	crew_save(&c, 5, CKPT_MEMORY);
	crew_down(&c);
}

Test(save, a_step_that_only_another_rank_has_begun_is_not_saved_yet)
{
	struct crew c;
	crew_up(&c, 2, NULL);
	fake_publish(c.f, &(struct fake_level){.id = {5, 1}, .late_rank = 0, .late_phase = LATE_BEGIN});
	crew_save(&c, 5, CKPT_MEMORY);
	crew_down(&c);
}

Test(save, a_new_epoch_stops_begin_and_fence)
{
	struct crew c;
	ckpt_snapshot *snap, *none;
	crew_up(&c, 2, NULL);
	cr_assert_eq(ckpt_begin(c.s[0], 9, CKPT_MEMORY, NULL, &snap), 0);
	fake_epoch_quietly(c.f, 2);
	cr_assert_eq(ckpt_fence(snap, NULL), -ESTALE);
	cr_assert_eq(ckpt_poll(snap), -ESTALE);
	cr_assert_eq(ckpt_begin(c.s[1], 9, CKPT_MEMORY, NULL, &none), -ESTALE);
	cr_assert(strstr(ckpt_error(c.s[1]), "epoch 2"), "%s", ckpt_error(c.s[1]));
	ckpt_snapshot_free(snap);
	crew_join(&c);
	cr_assert_eq(ckpt_epoch(c.s[0]), 2);
	crew_save(&c, 9, CKPT_MEMORY);
	crew_down(&c);
}

Test(save, arguments_are_checked)
{
	struct crew c;
	ckpt_snapshot *snap;
	crew_open(&c, 1, NULL);
	cr_assert_eq(ckpt_begin(c.s[0], 1, CKPT_MEMORY, NULL, &snap), -EINVAL);
	cr_assert(strstr(ckpt_error(c.s[0]), "ckpt_join"), "%s", ckpt_error(c.s[0]));
	crew_register(&c);
	crew_join(&c);
	cr_assert_eq(ckpt_begin(c.s[0], STEP_MAX + 1, CKPT_MEMORY, NULL, &snap), -EINVAL);
	cr_assert_eq(ckpt_begin(c.s[0], 1, (ckpt_target)7, NULL, &snap), -EINVAL);
	crew_down(&c);
}

Test(save, a_daemon_without_a_store_refuses_storage)
{
	struct crew c = {.f = fake_start(1), .world = 1};
	ckpt_snapshot *snap;
	ckpt_options o = {.size = sizeof(o), .socket = fake_socket(c.f), .world = 1, .timeout_ms = 5000};
	fake_manners(c.f, &(struct fake_manners){.no_storage = true});
	cr_assert_eq(ckpt_open(&o, &c.s[0], NULL, 0), 0);
	crew_register(&c);
	crew_join(&c);
	cr_assert_eq(ckpt_begin(c.s[0], 1, CKPT_STORAGE, NULL, &snap), -EINVAL);
	cr_assert(strstr(ckpt_error(c.s[0]), "no store"), "%s", ckpt_error(c.s[0]));
	crew_save(&c, 1, CKPT_MEMORY);
	crew_down(&c);
}

Test(save, a_rank_that_captures_nothing_is_complete_at_once)
{
	struct crew c;
	uint8_t nothing = 0;
	crew_open(&c, 2, NULL);
	/* One byte that all hold: rank 0 captures it. */
	for (int r = 0; r < 2; r++)
		cr_assert_eq(ckpt_register_blob(c.s[r], "b", CKPT_SCOPE_JOB, &nothing, 1), 0);
	crew_join(&c);
	crew_save(&c, 3, CKPT_MEMORY);
	cr_assert_eq(fake_layout(c.f, 0)->npieces + fake_layout(c.f, 1)->npieces, 1);
	for (uint32_t r = 0; r < 2; r++)
		cr_assert_eq(fake_head(c.f, r)->slots[slot_of(&c, r, 3)].done, 1);
	crew_down(&c);
}

/* ---- strict mode ------------------------------------------------------------------------------------------------- */

Test(save, strict_mode_passes_state_that_stands_still)
{
	struct crew c;
	crew_up(&c, 1, &(ckpt_options){.size = sizeof(ckpt_options), .strict = 1});
	crew_fill(&c, 3);
	for (uint64_t step = 1; step <= 3; step++)
		crew_save(&c, step, CKPT_MEMORY);
	crew_down(&c);
}

/* ---- devices that the test drives -------------------------------------------------------------------------------- */

/* A device layer whose captures end when the test says so. Both the host's and the "CUDA" one: two devices of one rank. */
struct plan {
	struct span *spans;
	size_t n;
	uint8_t *base;
	struct capture_target target;
	int refuse; /* launch fails with it */
	int fence;  /* fence answers it */
};

static struct plan *last_plan[2]; /* by device: host, cuda */
static unsigned launches[2];
static int refuse_launch[2], fence_answer[2];

struct device {
	int index;
};

static int dev_open(int ordinal, struct device **out, struct err *err)
{
	(void)err;
	*out = calloc(1, sizeof(**out));
	(*out)->index = ordinal == DEVICE_HOST ? 0 : 1;
	return 0;
}

static void dev_close(struct device *dev)
{
	free(dev);
}

static bool dev_digests(const struct device *dev)
{
	(void)dev;
	return true;
}

static int dev_attach(struct device *dev, void *base, size_t size, struct err *err)
{
	(void)dev, (void)base, (void)size, (void)err;
	return 0;
}

static void dev_detach(struct device *dev, void *base)
{
	(void)dev, (void)base;
}

static int dev_plan_new(struct device *dev, void *base, const struct span *spans, size_t n, uint64_t granule,
			struct plan **out, struct err *err)
{
	(void)dev, (void)granule, (void)err;
	*out = calloc(1, sizeof(**out));
	(*out)->spans = calloc(n + 1, sizeof(*spans));
	memcpy((*out)->spans, spans, n * sizeof(*spans));
	(*out)->n = n;
	(*out)->base = base;
	(*out)->refuse = dev->index; /* which device, for launch */
	return 0;
}

static void dev_plan_free(struct plan *plan)
{
	if (plan)
		free(plan->spans);
	free(plan);
}

static int dev_launch(struct plan *plan, void *stream, const struct capture_target *target, unsigned flags,
		      struct err *err)
{
	(void)stream, (void)flags;
	int index = plan->refuse;
	if (refuse_launch[index])
		return err_set(err, refuse_launch[index], "the device refuses");
	plan->target = *target;
	atomic_store(target->progress, 0);
	atomic_store(target->done, 0);
	last_plan[index] = plan;
	launches[index]++;
	return 0;
}

static int dev_fence(struct plan *plan, void *stream, uint64_t deadline, uint64_t *bad_leaf, struct err *err)
{
	(void)stream, (void)deadline;
	int rc = fence_answer[plan->refuse];
	*bad_leaf = plan->spans[0].first_leaf;
	return rc ? err_set(err, rc, "as the test wants") : 0;
}

static const struct device_ops driven = {
	.name = "driven",
	.open = dev_open,
	.close = dev_close,
	.digests = dev_digests,
	.arena_attach = dev_attach,
	.arena_detach = dev_detach,
	.plan_new = dev_plan_new,
	.plan_free = dev_plan_free,
	.plan_launch = dev_launch,
	.plan_fence = dev_fence,
};

static uint64_t plan_bytes(const struct plan *plan)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < plan->n; i++)
		sum += span_bytes(&plan->spans[i]);
	return sum;
}

static void finish_plan(struct plan *plan, uint32_t done)
{
	atomic_store(plan->target.progress, plan_bytes(plan));
	atomic_store(plan->target.done, done);
}

static char on_host[3][64], on_gpu[2][128];

/* a, c on the host; b, d on device 0: interleaved in the layout. */
static void two_devices_up(struct crew *c)
{
	crew_open(c, 1, NULL);
	c->s[0]->layers = (struct device_layers){.host = &driven, .cuda = &driven};
	static const char *const names[] = {"a", "b", "c", "d"};
	for (int i = 0; i < 4; i++) {
		uint64_t shape = i % 2 ? sizeof(on_gpu[0]) : sizeof(on_host[0]);
		ckpt_tensor t = {.size = sizeof(t),
				 .name = names[i],
				 .dtype = CKPT_U8,
				 .ndim = 1,
				 .shape = &shape,
				 .npieces = 1,
				 .pieces = &(ckpt_piece){.data = i % 2 ? on_gpu[i / 2] : on_host[i / 2]},
				 .device = i % 2 ? 0 : CKPT_HOST};
		cr_assert_eq(ckpt_register_tensor(c->s[0], &t), 0, "%s", ckpt_error(c->s[0]));
	}
	crew_join(c);
}

static void await_value(const _Atomic uint32_t *value, uint32_t want)
{
	/* The service thread sums counters every millisecond; nothing announces it. */
	for (int i = 0; i < 5000 && atomic_load(value) != want; i++)
		poll(NULL, 0, 1);
	cr_assert_eq(atomic_load(value), want);
}

Test(save, two_devices_are_one_capture)
{
	struct crew c;
	ckpt_snapshot *snap;
	two_devices_up(&c);
	cr_assert_eq(ckpt_begin(c.s[0], 4, CKPT_MEMORY, NULL, &snap), 0, "%s", ckpt_error(c.s[0]));
	struct arena_slot *slot = &fake_head(c.f, 0)->slots[slot_of(&c, 0, 4)];
	cr_assert_eq(launches[0], 1);
	cr_assert_eq(launches[1], 1);
	/* All of the host's bytes: only piece a is a prefix, since b is not there. */
	finish_plan(last_plan[0], 1);
	for (int i = 0; i < 5000 && atomic_load(&slot->progress) != 64; i++)
		poll(NULL, 0, 1);
	cr_assert_eq(atomic_load(&slot->progress), 64);
	cr_assert_eq(atomic_load(&slot->done), 0);
	finish_plan(last_plan[1], 1);
	await_value(&slot->done, 1);
	cr_assert_eq(atomic_load(&slot->progress), 2 * 64 + 2 * 128);
	cr_assert_eq(ckpt_fence(snap, NULL), 0);
	ckpt_snapshot_free(snap);
	crew_down(&c);
}

Test(save, a_failure_of_one_device_waits_for_the_other)
{
	struct crew c;
	ckpt_snapshot *snap;
	two_devices_up(&c);
	cr_assert_eq(ckpt_begin(c.s[0], 4, CKPT_MEMORY, NULL, &snap), 0);
	struct arena_slot *slot = &fake_head(c.f, 0)->slots[slot_of(&c, 0, 4)];
	finish_plan(last_plan[0], (uint32_t)-EIO);
	finish_plan(last_plan[1], 1);
	await_value(&slot->done, (uint32_t)-EIO);
	ckpt_snapshot_free(snap);
	crew_down(&c);
}

Test(save, a_launch_that_is_refused_frees_nothing_before_the_other_device_ends)
{
	struct crew c;
	ckpt_snapshot *snap;
	two_devices_up(&c);
	refuse_launch[1] = -EIO;
	cr_assert_eq(ckpt_begin(c.s[0], 4, CKPT_MEMORY, NULL, &snap), -EIO);
	cr_assert(strstr(ckpt_error(c.s[0]), "refuses"), "%s", ckpt_error(c.s[0]));
	struct arena_slot *slot = &fake_head(c.f, 0)->slots[slot_of(&c, 0, 4)];
	cr_assert_eq(atomic_load(&slot->done), 0);
	finish_plan(last_plan[0], 1);
	await_value(&slot->done, (uint32_t)-EIO);
	crew_down(&c);
}

Test(save, a_mutation_is_told_although_the_daemon_gave_the_snapshot_up_first)
{
	struct crew c;
	ckpt_snapshot *snap;
	two_devices_up(&c);
	cr_assert_eq(ckpt_begin(c.s[0], 4, CKPT_MEMORY, NULL, &snap), 0);
	fence_answer[0] = -EBADMSG;
	uint32_t at = slot_of(&c, 0, 4);
	fake_head(c.f, 0)->slots[at].epoch = 0;
	fake_free(c.f, 0, at);
	cr_assert_eq(ckpt_fence(snap, NULL), -EBADMSG);
	cr_assert(strstr(ckpt_error(c.s[0]), "tensor a"), "%s", ckpt_error(c.s[0]));
	cr_assert_eq(ckpt_wait(snap, CKPT_CAPTURED, 0), -EBADMSG);
	ckpt_snapshot_free(snap);
	crew_down(&c);
}

Test(save, a_mutation_names_the_tensor)
{
	struct crew c;
	ckpt_snapshot *snap;
	two_devices_up(&c);
	cr_assert_eq(ckpt_begin(c.s[0], 4, CKPT_MEMORY, NULL, &snap), 0);
	fence_answer[0] = -EBADMSG;
	cr_assert_eq(ckpt_fence(snap, NULL), -EBADMSG);
	cr_assert(strstr(ckpt_error(c.s[0]), "tensor a"), "%s", ckpt_error(c.s[0]));
	cr_assert_eq(ckpt_wait(snap, CKPT_CAPTURED, 0), -EBADMSG, "the failure stays");
	cr_assert(strstr(ckpt_error(c.s[0]), "tensor a"), "%s", ckpt_error(c.s[0]));
	fence_answer[0] = -ETIMEDOUT;
	ckpt_snapshot_free(snap);
	cr_assert_eq(ckpt_begin(c.s[0], 5, CKPT_MEMORY, NULL, &snap), 0);
	cr_assert_eq(ckpt_fence(snap, NULL), -ETIMEDOUT);
	cr_assert(strstr(ckpt_error(c.s[0]), "step 5: not captured after 5000 ms"), "%s", ckpt_error(c.s[0]));
	ckpt_snapshot_free(snap);
	crew_down(&c);
}
