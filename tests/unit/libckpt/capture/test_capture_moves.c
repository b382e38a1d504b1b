/* Pieces that move between saves: what is captured is what stands at their addresses, and a device is told of no others. */
#include "../ranks.h"

#include "client/session/session.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TENSORS = 300, PLACES = 3, EACH = 96, SAVES = 14, BLOCK = 8 };

static struct ranks c;
static uint8_t *memory[PLACES]; /* of all tensors */
static int place[TENSORS];
static struct device_ops host;
static size_t told_all, told_some; /* spans */
static uint64_t rng = 1;

static uint64_t below(uint64_t n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng % n;
}

static int count_all(struct plan *plan, const struct span *spans, size_t n, struct err *err)
{
	told_all += n;
	return device_host.plan_rebind(plan, spans, n, err);
}

static int count_some(struct plan *plan, const struct span *spans, const uint32_t *which, size_t n, struct err *err)
{
	told_some += n;
	return device_host.plan_move(plan, spans, which, n, err);
}

static uint8_t *at(int tensor)
{
	return memory[place[tensor]] + (size_t)tensor * EACH;
}

static const char *name_of(int tensor, char name[16])
{
	snprintf(name, 16, "t%03d", tensor);
	return name;
}

/* Every third one is strided: rows of half a block; every fourth has two pieces. */
static void add(int i)
{
	const uint64_t shape[2] = {EACH / BLOCK, BLOCK / 2}, offset[2][2] = {{0, 0}, {5, 0}},
		       extent[2][2] = {{5, BLOCK / 2}, {EACH / BLOCK - 5, BLOCK / 2}};
	const int64_t stride[2] = {BLOCK, 1};
	bool parts = i % 4 == 0;
	char name[16];
	ckpt_piece pieces[2] = {{.data = at(i), .stride = i % 3 ? NULL : stride},
				{.data = at(i) + 5 * BLOCK, .stride = i % 3 ? NULL : stride}};
	for (int p = 0; p < 2 && parts; p++) {
		pieces[p].offset = offset[p];
		pieces[p].extent = extent[p];
	}
	ckpt_tensor t = {.size = sizeof(t),
			 .name = name_of(i, name),
			 .dtype = CKPT_U8,
			 .ndim = 2,
			 .shape = shape,
			 .group = i % 2 ? "params" : "optimizer",
			 .npieces = parts ? 2 : 1,
			 .pieces = pieces,
			 .device = CKPT_HOST};
	cr_assert_eq(ckpt_register_tensor(c.s[0], &t), 0, "%s", ckpt_error(c.s[0]));
}

static void up(void)
{
	for (int i = 0; i < PLACES; i++)
		memory[i] = malloc((size_t)TENSORS * EACH);
	ranks_open(&c, 1, NULL);
	host = device_host;
	host.plan_rebind = count_all;
	host.plan_move = count_some;
	c.s[0]->layers.host = &host;
	for (int i = 0; i < TENSORS; i++)
		add(i);
	ranks_join(&c);
}

static void down(void)
{
	ranks_down(&c);
	for (int i = 0; i < PLACES; i++)
		free(memory[i]);
}

TestSuite(capture_moves, .init = up, .fini = down);

/* Of what all places have in this step: which tensor and place it is, and which byte. */
static uint8_t byte_of(uint64_t step, int p, int tensor, size_t offset)
{
	return (uint8_t)(step * 131 + (uint64_t)p * 71 + (uint64_t)tensor * 17 + offset * 3);
}

static void fill(uint64_t step)
{
	for (int p = 0; p < PLACES; p++)
		for (int i = 0; i < TENSORS; i++)
			for (size_t b = 0; b < EACH; b++)
				memory[p][(size_t)i * EACH + b] = byte_of(step, p, i, b);
}

static void move(int i)
{
	char name[16];
	place[i] = (place[i] + 1 + (int)below(PLACES - 1)) % PLACES;
	cr_assert_eq(ckpt_rebind(c.s[0], name_of(i, name), 0, at(i)), 0);
	if (i % 4 == 0)
		cr_assert_eq(ckpt_rebind(c.s[0], name, 1, at(i) + 5 * BLOCK), 0);
}

static void check(uint64_t step)
{
	const struct layout *layout = fake_layout(c.f, 0);
	const uint8_t *slot = fake_slot(c.f, 0, ranks_slot(&c, 0, step));
	for (uint32_t k = 0; k < layout->npieces; k++) {
		const struct layout_piece *p = &layout->pieces[k];
		const struct entry *e = &c.s[0]->table.reg.entries[p->entry];
		int i = (int)strtol(e->name + 1, NULL, 10);
		uint64_t row = p->region.kind == REGION_BOX ? p->region.offset[0] : 0;
		for (uint64_t b = 0; b < p->bytes; b++) {
			uint64_t line = row + b / (BLOCK / 2), packed = (row - (p->source ? 5 : 0)) * (BLOCK / 2) + b,
				 offset = i % 3 ? packed + (p->source ? 5 * BLOCK : 0) : line * BLOCK + b % (BLOCK / 2);
			cr_assert_eq(slot[p->slot_at + b], byte_of(step, place[i], i, offset), "step %lu, %s, byte %lu",
				     step, e->name, b);
		}
	}
}

static void save(uint64_t step)
{
	fill(step);
	ranks_save(&c, step, CKPT_MEMORY);
	check(step);
	fake_free(c.f, 0, ranks_slot(&c, 0, step));
}

Test(capture_moves, whatever_has_moved_is_captured_where_it_stands)
{
	for (uint64_t step = 1; step <= SAVES; step++) {
		uint64_t n = step % 4 == 0 ? 0 : below(step % 4 == 1 ? TENSORS : 5);
		for (uint64_t k = 0; k < n; k++)
			move((int)below(TENSORS));
		save(step);
	}
	cr_assert_eq(told_all, 0, "all spans were told %zu", told_all);
	cr_assert_gt(told_some, 0);
}

Test(capture_moves, a_device_is_told_of_what_has_moved_alone)
{
	save(1);
	for (uint64_t step = 2; step < 8; step++) {
		size_t before = told_some;
		move(7);
		save(step);
		/* A slot follows from where it was used last. */
		cr_assert(told_some - before >= 1 && told_some - before <= step, "%zu", told_some - before);
	}
	cr_assert_eq(told_all, 0);
}

Test(capture_moves, more_moves_than_are_kept_are_followed_too)
{
	save(1);
	for (int k = 0; k < TABLE_MOVES + 10; k++)
		move((int)below(TENSORS));
	for (uint64_t step = 2; step < 6; step++)
		save(step);
	cr_assert_gt(told_all, 0);
}

Test(capture_moves, a_device_that_can_only_be_told_all_is_told_all)
{
	host.plan_move = NULL;
	for (uint64_t step = 1; step < 5; step++) {
		move((int)below(TENSORS));
		save(step);
	}
	cr_assert_gt(told_all, 0);
	cr_assert_eq(told_some, 0);
}
