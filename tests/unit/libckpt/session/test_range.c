#include "libckpt/ranks.h"

#include "format/tensor/region.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { VOLUME_MAX = 4096 };

static uint32_t below(uint32_t n)
{
	return (uint32_t)(random() % n);
}

/* Index in the box of its element with these coordinates, or -1: it is not in it. */
static int64_t index_in(int ndim, const uint64_t *at, const uint64_t *offset, const uint64_t *extent)
{
	int64_t index = 0;
	for (int d = 0; d < ndim; d++) {
		if (at[d] < offset[d] || at[d] - offset[d] >= extent[d])
			return -1;
		index = index * (int64_t)extent[d] + (int64_t)(at[d] - offset[d]);
	}
	return index;
}

/* Each element of the box: in the range, it is at its place in exactly one of the boxes; else in none. */
static void check(int ndim, const uint64_t *offset, const uint64_t *extent, uint64_t start, uint64_t count)
{
	ckpt_box boxes[CKPT_BOXES_MAX];
	uint64_t volume = 1;
	int n = ckpt_range_boxes(ndim, offset, extent, start, count, boxes);
	cr_assert_leq(n, ndim ? 2 * ndim - 1 : 1, "%d boxes of %d dimensions", n, ndim);
	cr_assert_eq(n > 0, count > 0);
	for (int d = 0; d < ndim; d++)
		volume *= extent[d];
	for (uint64_t i = 0; i < volume; i++) {
		uint64_t at[NDIM_MAX], rest = i;
		for (int d = ndim; d-- > 0; rest /= extent[d])
			at[d] = offset[d] + rest % extent[d];
		int found = 0;
		for (int b = 0; b < n; b++) {
			int64_t place = index_in(ndim, at, boxes[b].offset, boxes[b].extent);
			if (place < 0)
				continue;
			found++;
			cr_assert_eq(boxes[b].first + (uint64_t)place, i - start);
		}
		cr_assert_eq(found, i >= start && i - start < count);
	}
}

Test(range, every_range_of_random_boxes_is_cut_into_its_boxes)
{
	srandom(7);
	for (int round = 0; round < 3000; round++) {
		uint64_t offset[NDIM_MAX], extent[NDIM_MAX], volume = 1;
		int ndim = (int)below(NDIM_MAX + 1);
		for (int d = 0; d < ndim; d++) {
			offset[d] = below(50);
			extent[d] = 1 + below(ndim > 5 ? 3 : 5);
			extent[d] = volume * extent[d] > VOLUME_MAX ? 1 : extent[d];
			volume *= extent[d];
		}
		uint64_t start = below((uint32_t)volume + 1);
		check(ndim, offset, extent, start, below((uint32_t)(volume - start) + 1));
	}
}

Test(range, a_range_within_two_rows_is_three_boxes_at_most)
{
	ckpt_box b[CKPT_BOXES_MAX];
	cr_assert_eq(ckpt_range_boxes(2, (uint64_t[]){0, 100}, (uint64_t[]){8, 10}, 7, 40, b), 3);
	cr_assert(b[0].offset[0] == 0 && b[0].offset[1] == 107 && b[0].extent[0] == 1 && b[0].extent[1] == 3 &&
		  !b[0].first);
	cr_assert(b[1].offset[0] == 1 && b[1].offset[1] == 100 && b[1].extent[0] == 3 && b[1].extent[1] == 10 &&
		  b[1].first == 3);
	cr_assert(b[2].offset[0] == 4 && b[2].offset[1] == 100 && b[2].extent[0] == 1 && b[2].extent[1] == 7 &&
		  b[2].first == 33);
	cr_assert_eq(ckpt_range_boxes(2, NULL, (uint64_t[]){8, 10}, 0, 80, b), 1, "the whole");
	cr_assert_eq(ckpt_range_boxes(2, NULL, (uint64_t[]){0, 10}, 0, 0, b), 0, "nothing");
	cr_assert_eq(ckpt_range_boxes(1, NULL, (uint64_t[]){UINT64_MAX}, UINT64_MAX - 1, 1, b), 1);
}

enum { ROWS = 7, COLS = 10, WORLD = 4, HALF = ROWS * COLS / 2 };

/* A tensor cut by columns over two ranks, and each half flat over two more, the second way of cutting not at a row. */
Test(range, shards_of_column_shards_make_the_whole_and_come_back)
{
	struct ranks c;
	static float data[WORLD][HALF];
	const uint64_t shape[] = {ROWS, COLS}, extent[] = {ROWS, COLS / 2};
	ranks_open(&c, WORLD, NULL);
	for (uint32_t r = 0; r < WORLD; r++) {
		ckpt_box boxes[CKPT_BOXES_MAX];
		ckpt_piece pieces[CKPT_BOXES_MAX];
		uint64_t offset[] = {0, r / 2 * (COLS / 2)}, start = r % 2 ? 17 : 0, count = r % 2 ? HALF - 17 : 17;
		int n = ckpt_range_boxes(2, offset, extent, start, count, boxes);
		cr_assert_eq(n, 2);
		for (int i = 0; i < n; i++)
			pieces[i] = (ckpt_piece){
				.data = data[r] + boxes[i].first, .offset = boxes[i].offset, .extent = boxes[i].extent};
		for (uint64_t i = 0; i < count; i++) {
			uint64_t at = start + i;
			data[r][i] = (float)(at / (COLS / 2) * COLS + offset[1] + at % (COLS / 2));
		}
		ckpt_tensor t = CKPT_INIT(ckpt_tensor);
		t.name = "m";
		t.dtype = CKPT_F32;
		t.ndim = 2;
		t.shape = shape;
		t.pieces = pieces;
		t.npieces = n;
		t.device = CKPT_HOST;
		cr_assert_eq(ckpt_register_tensor(c.s[r], &t), 0, "%s", ckpt_error(c.s[r]));
	}
	ranks_join(&c); /* refuses holes and overlaps */
	ranks_save(&c, 1, CKPT_MEMORY);
	/* What was captured is each element at the place that its box gives it in the whole. */
	unsigned seen = 0;
	for (uint32_t r = 0; r < WORLD; r++) {
		const struct layout *layout = fake_layout(c.f, r);
		const uint8_t *slot = fake_slot(c.f, r, ranks_slot(&c, r, 1));
		for (uint32_t p = 0; p < layout->npieces; p++) {
			const struct layout_piece *piece = &layout->pieces[p];
			const float *in = (const float *)(slot + piece->slot_at);
			for (uint64_t i = 0; i < region_volume(&(struct shape){2, {ROWS, COLS}}, &piece->region);
			     i++, seen++) {
				uint64_t row = piece->region.offset[0] + i / piece->region.extent[1];
				uint64_t col = piece->region.offset[1] + i % piece->region.extent[1];
				cr_assert_eq(in[i], (float)(row * COLS + col));
			}
		}
	}
	cr_assert_eq(seen, ROWS * COLS);
	ranks_down(&c);
}
