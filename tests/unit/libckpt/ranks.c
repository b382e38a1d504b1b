#include "ranks.h"

#include "client/session/session.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const ckpt_options none = {.size = sizeof(none)};

void ranks_open(struct ranks *c, uint32_t world, const ckpt_options *opts)
{
	*c = (struct ranks){.f = fake_start(world), .world = world};
	for (uint32_t r = 0; r < world; r++) {
		ckpt_options o = opts ? *opts : none;
		char why[256];
		o.job = "ranks";
		o.socket = fake_socket(c->f);
		o.rank = (int)r;
		o.world = o.local_world = (int)world;
		o.timeout_ms = o.timeout_ms ? o.timeout_ms : 5000;
		cr_assert_eq(ckpt_open(&o, &c->s[r], why, sizeof(why)), 0, "%s", why);
	}
}

static void register_rank(ckpt *s, struct ranks_state *st, uint32_t r, uint32_t world)
{
	uint64_t w_shape[] = {RANKS_ROWS, RANKS_COLS}, flat_shape[] = {RANKS_FLAT};
	uint64_t box_shape[] = {RANKS_BOX_ROWS * world, RANKS_BOX_COLS}, offset[] = {RANKS_BOX_ROWS * r, 0};
	uint64_t extent[] = {RANKS_BOX_ROWS, RANKS_BOX_COLS};
	int64_t stride[] = {RANKS_BOX_STRIDE * sizeof(uint16_t), sizeof(uint16_t)};
	st->flat_start = RANKS_FLAT * r / world;
	st->flat_count = RANKS_FLAT * (r + 1) / world - st->flat_start;
	st->w = calloc(RANKS_ROWS * RANKS_COLS, sizeof(float));
	st->flat = calloc(st->flat_count, sizeof(float));
	st->box = calloc(RANKS_BOX_ROWS * RANKS_BOX_STRIDE, sizeof(uint16_t));
	ckpt_tensor t = {.size = sizeof(t),
			 .name = "w",
			 .dtype = CKPT_F32,
			 .ndim = 2,
			 .shape = w_shape,
			 .npieces = 1,
			 .pieces = &(ckpt_piece){.data = st->w},
			 .replica = "dp",
			 .device = CKPT_HOST};
	cr_assert_eq(ckpt_register_tensor(s, &t), 0, "%s", ckpt_error(s));
	t = (ckpt_tensor){.size = sizeof(t),
			  .name = "flat",
			  .dtype = CKPT_F32,
			  .ndim = 1,
			  .shape = flat_shape,
			  .npieces = 1,
			  .pieces = &(ckpt_piece){.data = st->flat, .start = st->flat_start, .count = st->flat_count},
			  .group = "optimizer",
			  .device = CKPT_HOST};
	cr_assert_eq(ckpt_register_tensor(s, &t), 0, "%s", ckpt_error(s));
	t = (ckpt_tensor){.size = sizeof(t),
			  .name = "box",
			  .dtype = CKPT_BF16,
			  .ndim = 2,
			  .shape = box_shape,
			  .npieces = 1,
			  .pieces =
				  &(ckpt_piece){.data = st->box, .offset = offset, .extent = extent, .stride = stride},
			  .device = CKPT_HOST};
	cr_assert_eq(ckpt_register_tensor(s, &t), 0, "%s", ckpt_error(s));
	cr_assert_eq(ckpt_register_blob(s, "clock", CKPT_SCOPE_JOB, st->clock, sizeof(st->clock)), 0, "%s",
		     ckpt_error(s));
	cr_assert_eq(ckpt_register_blob(s, "rng", CKPT_SCOPE_RANK, st->rng, sizeof(st->rng)), 0, "%s", ckpt_error(s));
}

void ranks_register(struct ranks *c)
{
	for (uint32_t r = 0; r < c->world; r++)
		register_rank(c->s[r], &c->state[r], r, c->world);
}

struct call {
	ckpt *s;
	uint64_t step;
	int rc;
	ckpt_restored *out;
};

static void *join_one(void *arg)
{
	struct call *call = arg;
	call->rc = ckpt_join(call->s, NULL, 0, NULL, -1);
	/* Per-thread sentence: only this thread can read it. */
	if (call->rc)
		fprintf(stderr, "join: %s\n", ckpt_error(call->s));
	return NULL;
}

static void *restore_one(void *arg)
{
	struct call *call = arg;
	call->rc = ckpt_restore(call->s, call->step, NULL, call->out, -1);
	if (call->rc)
		fprintf(stderr, "restore: %s\n", ckpt_error(call->s));
	return NULL;
}

static void all_at_once(void *(*fn)(void *), struct call *calls, uint32_t n)
{
	pthread_t threads[FAKE_WORLD_MAX];
	for (uint32_t r = 0; r < n; r++)
		cr_assert_eq(pthread_create(&threads[r], NULL, fn, &calls[r]), 0);
	for (uint32_t r = 0; r < n; r++)
		pthread_join(threads[r], NULL);
}

void ranks_join(struct ranks *c)
{
	struct call calls[FAKE_WORLD_MAX] = {0};
	for (uint32_t r = 0; r < c->world; r++)
		calls[r].s = c->s[r];
	all_at_once(join_one, calls, c->world);
	for (uint32_t r = 0; r < c->world; r++)
		cr_assert_eq(calls[r].rc, 0);
}

void ranks_up(struct ranks *c, uint32_t world, const ckpt_options *opts)
{
	ranks_open(c, world, opts);
	ranks_register(c);
	ranks_join(c);
}

void ranks_down(struct ranks *c)
{
	for (uint32_t r = 0; r < c->world; r++) {
		ckpt_close(c->s[r]);
		free(c->state[r].w);
		free(c->state[r].flat);
		free(c->state[r].box);
	}
	fake_stop(c->f);
}

/* One rule for filling and for comparing. */
static bool each_value(struct ranks *c, unsigned seed, bool set)
{
	bool same = true;
	for (uint32_t r = 0; r < c->world; r++) {
		struct ranks_state *st = &c->state[r];
#define VALUE(at, value)                                                                                               \
	do {                                                                                                           \
		if (set)                                                                                               \
			(at) = (value);                                                                                \
		else                                                                                                   \
			same &= (at) == (value);                                                                       \
	} while (0)
		for (uint32_t i = 0; i < RANKS_ROWS * RANKS_COLS; i++)
			VALUE(st->w[i], (float)(i * 3 + seed));
		for (uint64_t i = 0; i < st->flat_count; i++)
			VALUE(st->flat[i], (float)((st->flat_start + i) * 7 + seed));
		for (uint32_t i = 0; i < RANKS_BOX_ROWS * RANKS_BOX_STRIDE; i++)
			if (i % RANKS_BOX_STRIDE < RANKS_BOX_COLS)
				VALUE(st->box[i], (uint16_t)(i + r * 1000 + seed));
		for (size_t i = 0; i < sizeof(st->clock); i++)
			VALUE(st->clock[i], (uint8_t)(i + seed));
		for (size_t i = 0; i < sizeof(st->rng); i++)
			VALUE(st->rng[i], (uint8_t)(i + r * 50 + seed));
#undef VALUE
	}
	return same;
}

void ranks_fill(struct ranks *c, unsigned seed)
{
	each_value(c, seed, true);
}

bool ranks_is(struct ranks *c, unsigned seed)
{
	return each_value(c, seed, false);
}

void ranks_save(struct ranks *c, uint64_t step, ckpt_target target)
{
	for (uint32_t r = 0; r < c->world; r++) {
		ckpt_snapshot *snap;
		cr_assert_eq(ckpt_begin(c->s[r], step, target, NULL, &snap), 0, "%s", ckpt_error(c->s[r]));
		cr_assert_eq(ckpt_fence(snap, NULL), 0, "%s", ckpt_error(c->s[r]));
		ckpt_snapshot_free(snap);
	}
}

void ranks_restore(struct ranks *c, uint64_t step, int *rc, ckpt_restored *out)
{
	struct call calls[FAKE_WORLD_MAX] = {0};
	for (uint32_t r = 0; r < c->world; r++) {
		calls[r] = (struct call){.s = c->s[r], .step = step, .out = out ? &out[r] : NULL};
		if (out)
			out[r] = CKPT_INIT(ckpt_restored);
	}
	all_at_once(restore_one, calls, c->world);
	for (uint32_t r = 0; r < c->world; r++)
		rc[r] = calls[r].rc;
}

uint32_t ranks_slot(struct ranks *c, uint32_t rank, uint64_t step)
{
	struct arena_head *head = fake_head(c->f, rank);
	for (uint32_t i = 0; i < head->nslots; i++)
		if (head->slots[i].state == SLOT_CAPTURING && head->slots[i].step == step)
			return i;
	cr_assert_fail("rank %u has no slot with step %lu", rank, (unsigned long)step);
	return 0;
}

void ranks_await_slots(struct ranks *c, uint32_t rank)
{
	const struct stage *stage = c->s[rank]->stage;
	for (uint32_t slot = 0; slot < stage->arenas.own->nslots; slot++) {
		for (int i = 0; i < 5000 && !capture_slot_ready(&stage->capture, slot); i++)
			poll(NULL, 0, 1);
		cr_assert(capture_slot_ready(&stage->capture, slot), "slot %u", slot);
	}
}
