#include "store/restore_maker.h"

#include "base/bytes.h"
#include "base/cleanup.h"
#include "format/tensor/digest.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t memory; /* of restore_options */

static bool overlapping; /* wants write to the same memory */

static uint64_t want_bytes(const struct want *want)
{
	return region_volume(&want->shape, &want->region) * dtype_size(want->dtype);
}

/* What was told to have arrived. */
struct told {
	const struct want *wants;
	_Atomic unsigned **leaves;
	_Atomic unsigned wrong;
};

static void arrived(void *arg, size_t index, uint64_t first, uint64_t count)
{
	struct told *told = arg;
	const struct want *want = &told->wants[index];
	for (uint64_t leaf = first; leaf < first + count; leaf++) {
		const uint8_t *at = (const uint8_t *)want->data + leaf * LEAF_SIZE;
		uint64_t len = min_u64(want_bytes(want) - leaf * LEAF_SIZE, LEAF_SIZE);
		told->wrong += !overlapping && digest_leaf(at, len) != want->leaves[leaf];
		told->leaves[index][leaf]++;
	}
}

static void told_each_once(const struct told *told, size_t n)
{
	cr_expect_eq(told->wrong, 0, "%u leaves were told of that were not there", told->wrong);
	for (size_t i = 0; i < n; i++)
		for (uint64_t leaf = 0; leaf < leaf_count(want_bytes(&told->wants[i])); leaf++)
			cr_expect_eq(told->leaves[i][leaf], 1, "want %zu, leaf %lu", i, (unsigned long)leaf);
}

static int restore(struct maker *m, const struct want *wants, size_t n, struct err *err)
{
	struct restore_plan *plan = NULL;
	struct told told = {.wants = wants, .leaves = calloc(n, sizeof(*told.leaves))};
	struct restore_options options = {.threads = 3, .memory = memory, .arrived = arrived, .arg = &told};
	for (size_t i = 0; i < n; i++)
		told.leaves[i] = calloc(leaf_count(want_bytes(&wants[i])) + 1, sizeof(**told.leaves));
	int rc = restore_plan_make(&m->ck, wants, n, &plan, err);
	cr_assert_eq(rc, 0, "%s", err->text);
	rc = restore_execute(plan, &options, err);
	restore_plan_free(plan);
	if (!rc)
		told_each_once(&told, n);
	for (size_t i = 0; i < n; i++)
		free(told.leaves[i]);
	free(told.leaves);
	return rc;
}

static void expect_restored(struct maker *m, const uint32_t *tensors, struct want *wants, size_t n)
{
	struct err err = {""};
	cr_assert_eq(restore(m, wants, n, &err), 0, "%s", err.text);
	for (size_t i = 0; i < n; i++) {
		cr_expect(maker_holds(m, tensors[i], &wants[i]), "want %zu", i);
		maker_want_free(&wants[i]);
	}
}

/* rows x columns, saved by `from` ranks in rows or columns, wanted by `to` in rows or columns. */
static void reshard(enum dtype dtype, uint64_t rows, uint64_t columns, uint32_t from, bool from_rows, uint32_t to,
		    bool to_rows)
{
	struct maker m;
	maker_open(&m);
	maker_tensor(&m, "other", DTYPE_U8, shape2(3, 5)); /* so that nothing is aligned */
	uint32_t w = maker_tensor(&m, "w", dtype, shape2(rows, columns));
	for (uint32_t r = 0; r < from; r++) {
		uint64_t row = rows * r / from, next_row = rows * (r + 1) / from;
		uint64_t column = columns * r / from, next_column = columns * (r + 1) / from;
		if (r == 0)
			maker_piece(&m, r, 0, box2(0, 0, 3, 5));
		maker_piece(&m, r, w,
			    from_rows ? box2(row, 0, next_row - row, columns)
				      : box2(0, column, rows, next_column - column));
	}
	maker_write(&m);
	struct want wants[8];
	uint32_t tensors[8];
	for (uint32_t r = 0; r < to; r++) {
		uint64_t row = rows * r / to, next_row = rows * (r + 1) / to;
		uint64_t column = columns * r / to, next_column = columns * (r + 1) / to;
		tensors[r] = w;
		wants[r] = maker_want(&m, w,
				      to_rows ? box2(row, 0, next_row - row, columns)
					      : box2(0, column, rows, next_column - column));
	}
	expect_restored(&m, tensors, wants, to);
	maker_close(&m);
}

Test(restore, same_layout)
{
	reshard(DTYPE_F32, 1001, 3001, 4, true, 4, true);
}

Test(restore, rows_to_columns)
{
	reshard(DTYPE_BF16, 1001, 3001, 4, true, 4, false);
}

Test(restore, columns_to_rows)
{
	reshard(DTYPE_F32, 3001, 1001, 4, false, 4, true);
}

Test(restore, columns_with_tiny_rows)
{
	reshard(DTYPE_BF16, 300001, 8, 8, false, 3, true);
	reshard(DTYPE_U8, 300001, 8, 3, true, 8, false);
}

Test(restore, four_ranks_to_three_one_and_eight)
{
	reshard(DTYPE_F32, 1003, 777, 4, true, 3, true);
	reshard(DTYPE_F32, 1003, 777, 4, true, 1, true);
	reshard(DTYPE_F32, 1003, 777, 4, false, 8, false);
}

/* Reads of a few leaves, at whatever byte they begin. */
Test(restore, with_the_smallest_buffers)
{
	memory = 1;
	reshard(DTYPE_U8, 1001, 3001, 4, true, 3, false);
	reshard(DTYPE_F32, 1003, 777, 4, false, 4, false);
}

Test(restore, flat_ranges_and_boxes_both_ways)
{
	struct maker m;
	maker_open(&m);
	struct shape shape = {3, {61, 47, 83}};
	uint64_t volume = 61 * 47 * 83;
	uint32_t a = maker_tensor(&m, "a", DTYPE_F64, shape), b = maker_tensor(&m, "b", DTYPE_BF16, shape);
	for (uint32_t r = 0; r < 5; r++) {
		uint64_t from = volume * r / 5, to = volume * (r + 1) / 5;
		struct region box = {REGION_BOX, {0, 47 * r / 5, 0}, {61, 47 * (r + 1) / 5 - 47 * r / 5, 83}, 0, 0};
		maker_piece(&m, r, a, region_flat(from, to - from));
		maker_piece(&m, r, b, box);
	}
	maker_write(&m);
	struct want wants[6];
	uint32_t tensors[6] = {a, a, a, b, b, b};
	for (uint32_t r = 0; r < 3; r++) {
		uint64_t from = volume * r / 3, to = volume * (r + 1) / 3;
		struct region box = {REGION_BOX, {0, 0, 83 * r / 3}, {61, 47, 83 * (r + 1) / 3 - 83 * r / 3}, 0, 0};
		wants[r] = maker_want(&m, a, box);
		wants[3 + r] = maker_want(&m, b, region_flat(from, to - from));
	}
	expect_restored(&m, tensors, wants, 6);
	maker_close(&m);
}

Test(restore, scalars_empty_regions_and_several_wants_of_one_piece)
{
	struct maker m;
	maker_open(&m);
	uint32_t s = maker_tensor(&m, "scalar", DTYPE_F64, (struct shape){0, {0}});
	uint32_t v = maker_tensor(&m, "vector", DTYPE_I16, (struct shape){1, {1000000}});
	uint32_t e = maker_tensor(&m, "empty", DTYPE_F32, shape2(0, 7));
	maker_piece(&m, 0, s, (struct region){.kind = REGION_BOX});
	maker_piece(&m, 0, e, box2(0, 0, 0, 7));
	maker_piece(&m, 0, v, region_flat(0, 1000000));
	maker_write(&m);
	uint32_t tensors[5] = {s, s, v, v, e};
	struct want wants[5] = {maker_want(&m, s, (struct region){.kind = REGION_BOX}),
				maker_want(&m, s, region_flat(0, 1)), maker_want(&m, v, region_flat(10, 999990)),
				maker_want(&m, v, region_flat(0, 500001)), maker_want(&m, e, box2(0, 0, 0, 7))};
	expect_restored(&m, tensors, wants, 5);
	maker_close(&m);
}

/* Two destinations in one memory: what ends up there is digested right for one of them at most, unless the digests are those with
 * which it was read. */
Test(restore, digests_of_a_saved_piece_are_those_that_were_checked)
{
	enum { COLUMNS = 3 * LEAF_SIZE + 5 };
	struct maker m;
	maker_open(&m);
	uint32_t w = maker_tensor(&m, "w", DTYPE_U8, shape2(2, COLUMNS));
	maker_piece(&m, 0, w, box2(0, 0, 1, COLUMNS));
	maker_piece(&m, 0, w, box2(1, 0, 1, COLUMNS));
	maker_write(&m);
	struct want wants[2] = {maker_want(&m, w, box2(0, 0, 1, COLUMNS)),
				maker_want(&m, w, region_flat(COLUMNS, COLUMNS))};
	struct err err = {""};
	cr_assert_eq(restore(&m, wants, 2, &err), 0, "%s", err.text);
	AUTO_FREE uint8_t *rows = malloc(2 * COLUMNS);
	memcpy(rows, wants[0].data, COLUMNS);
	memcpy(rows + COLUMNS, wants[1].data, COLUMNS);
	cr_expect(maker_holds(&m, w, &wants[0]) && maker_holds(&m, w, &wants[1]));

	void *own = wants[1].data;
	wants[1].data = wants[0].data;
	memset(wants[0].leaves, 0, 4 * sizeof(uint64_t));
	memset(wants[1].leaves, 0, 4 * sizeof(uint64_t));
	overlapping = true;
	cr_assert_eq(restore(&m, wants, 2, &err), 0, "%s", err.text);
	cr_expect(maker_digested(&wants[0], rows, COLUMNS));
	cr_expect(maker_digested(&wants[1], rows + COLUMNS, COLUMNS));
	wants[1].data = own;
	maker_want_free(&wants[0]);
	maker_want_free(&wants[1]);
	maker_close(&m);
}

/* What was never saved and may be missing: the digests are those of what stands there. */
Test(restore, digests_of_what_is_left_untouched)
{
	struct maker m;
	maker_open(&m);
	uint32_t w = maker_tensor(&m, "w", DTYPE_U8, shape2(1, 100));
	maker_piece(&m, 0, w, box2(0, 0, 1, 100));
	maker_write(&m);
	struct want wants[2] = {maker_want(&m, w, box2(0, 0, 1, 100)), maker_want(&m, w, box2(0, 0, 1, 100))};
	wants[1].tensor = "missing";
	wants[1].optional = true;
	struct err err = {""};
	cr_assert_eq(restore(&m, wants, 2, &err), 0, "%s", err.text);
	cr_expect(maker_holds(&m, w, &wants[0]));
	cr_expect(maker_untouched(&wants[1]));
	cr_expect(maker_digested(&wants[1], wants[1].data, 100));
	maker_want_free(&wants[0]);
	maker_want_free(&wants[1]);
	maker_close(&m);
}

/* Two files of several extents each, one piece per MiB. */
static uint32_t make_large(struct maker *m)
{
	maker_open(m);
	uint32_t w = maker_tensor(m, "w", DTYPE_U8, shape2(40, (1 << 20) + 5));
	for (uint32_t row = 0; row < 40; row++)
		maker_piece(m, row / 20, w, box2(row, 0, 1, (1 << 20) + 5));
	maker_write(m);
	return w;
}

Test(restore, a_flipped_bit_names_file_tensor_and_bytes)
{
	struct maker m;
	uint32_t w = make_large(&m);
	AUTO_CLOSE int fd = maker_file(&m, 1, O_RDWR);
	uint64_t piece = 4096 + 3 * ((1 << 20) + 5ull), at = piece + 2 * 65536 + 77; /* row 23, leaf 2 */
	uint8_t byte;
	cr_assert_eq(pread(fd, &byte, 1, (off_t)at), 1);
	byte ^= 0x10;
	cr_assert_eq(pwrite(fd, &byte, 1, (off_t)at), 1);
	cr_assert_eq(fsync(fd), 0);
	struct want want = maker_want(&m, w, box2(0, 0, 40, (1 << 20) + 5));
	struct err err = {""};
	char range[64];
	snprintf(range, sizeof(range), "bytes %llu to %llu", (unsigned long long)piece + 2 * 65536,
		 (unsigned long long)piece + 3 * 65536);
	cr_expect_eq(restore(&m, &want, 1, &err), -EBADMSG);
	cr_expect(strstr(err.text, "rank-00001-of-100000.params.safetensors"), "%s", err.text);
	cr_expect(strstr(err.text, "tensor w"), "%s", err.text);
	cr_expect(strstr(err.text, range), "%s", err.text);
	maker_want_free(&want);

	/* What the damaged leaf does not concern is restored. */
	uint32_t tensors[2] = {w, w};
	struct want rest[2] = {maker_want(&m, w, box2(0, 0, 23, (1 << 20) + 5)),
			       maker_want(&m, w, box2(23, 3 * 65536, 17, 65536 * 13 + 5))};
	expect_restored(&m, tensors, rest, 2);
	maker_close(&m);
}

/* Of what is cut otherwise than it was saved: the damage ends the restore when the first file has been read for long. */
Test(restore, leaves_of_what_is_no_saved_piece_arrive_while_the_rest_is_read)
{
	struct maker m;
	uint32_t w = make_large(&m);
	AUTO_CLOSE int fd = maker_file(&m, 1, O_RDWR);
	cr_assert_eq(pwrite(fd, "damaged", 7, 4096 + 19 * ((1 << 20) + 5ll)), 7);
	cr_assert_eq(fsync(fd), 0);
	struct want want = maker_want(&m, w, box2(0, 0, 40, (1 << 20) + 5));
	struct restore_plan *plan = NULL;
	struct err err = {""};
	uint64_t nleaves = leaf_count(want_bytes(&want)), there = 0;
	_Atomic unsigned *leaves = calloc(nleaves, sizeof(*leaves));
	struct told told = {.wants = &want, .leaves = &leaves};
	struct restore_options options = {.threads = 1, .memory = 1, .arrived = arrived, .arg = &told};
	cr_assert_eq(restore_plan_make(&m.ck, &want, 1, &plan, &err), 0, "%s", err.text);
	cr_expect_eq(restore_execute(plan, &options, &err), -EBADMSG);
	for (uint64_t leaf = 0; leaf < nleaves; leaf++)
		there += leaves[leaf];
	cr_expect_gt(there, 0, "nothing has arrived");
	cr_expect_lt(there, nleaves);
	cr_expect_eq(told.wrong, 0);
	free(leaves);
	restore_plan_free(plan);
	maker_want_free(&want);
	maker_close(&m);
}

Test(restore, a_file_that_became_shorter)
{
	struct maker m;
	uint32_t w = make_large(&m);
	AUTO_CLOSE int fd = maker_file(&m, 0, O_RDWR);
	struct want want = maker_want(&m, w, box2(0, 0, 40, (1 << 20) + 5));
	struct restore_plan *plan = NULL;
	struct err err = {""};
	cr_assert_eq(restore_plan_make(&m.ck, &want, 1, &plan, &err), 0, "%s", err.text);
	cr_assert_eq(ftruncate(fd, 10000000), 0);
	cr_expect_eq(restore_execute(plan, &(struct restore_options){0}, &err), -EBADMSG);
	cr_expect(strstr(err.text, "rank-00000-of-100000.params.safetensors"), "%s", err.text);
	cr_expect(strstr(err.text, "cut short"), "%s", err.text);
	restore_plan_free(plan);
	maker_want_free(&want);
	maker_close(&m);
}

Test(restore, a_file_that_is_gone)
{
	struct maker m;
	uint32_t w = make_large(&m);
	struct want want = maker_want(&m, w, box2(0, 0, 40, (1 << 20) + 5));
	struct restore_plan *plan = NULL;
	struct err err = {""};
	cr_assert_eq(restore_plan_make(&m.ck, &want, 1, &plan, &err), 0, "%s", err.text);
	cr_assert_eq(unlinkat(m.repo.root, m.node.files[1].name, 0), 0);
	cr_expect_eq(restore_execute(plan, &(struct restore_options){0}, &err), -ENOENT);
	cr_expect(strstr(err.text, m.node.files[1].name), "%s", err.text);
	restore_plan_free(plan);
	maker_want_free(&want);
	maker_close(&m);
}

struct seen {
	unsigned calls, cancel_at;
	uint64_t done, total;
	bool back;
};

static int see(void *arg, uint64_t done, uint64_t total)
{
	struct seen *seen = arg;
	seen->back |= done < seen->done;
	seen->done = done;
	seen->total = total;
	return ++seen->calls == seen->cancel_at;
}

Test(restore, progress_ends_at_the_total)
{
	struct maker m;
	uint32_t w = make_large(&m);
	struct want want = maker_want(&m, w, box2(0, 0, 40, (1 << 20) + 5));
	struct restore_plan *plan = NULL;
	struct err err = {""};
	struct seen seen = {0};
	cr_assert_eq(restore_plan_make(&m.ck, &want, 1, &plan, &err), 0, "%s", err.text);
	cr_assert_eq(restore_execute(plan, &(struct restore_options){.progress = see, .arg = &seen}, &err), 0);
	cr_expect_not(seen.back);
	cr_expect_eq(seen.done, seen.total);
	cr_expect_eq(seen.total, 40 * ((1 << 20) + 5));
	restore_plan_free(plan);
	maker_want_free(&want);
	maker_close(&m);
}

Test(restore, cancelled_at_any_call_and_planned_again)
{
	struct maker m;
	uint32_t w = make_large(&m);
	struct want want = maker_want(&m, w, box2(0, 0, 40, (1 << 20) + 5));
	struct restore_plan *plan = NULL;
	struct err err = {""};
	cr_assert_eq(restore_plan_make(&m.ck, &want, 1, &plan, &err), 0, "%s", err.text);
	for (unsigned at = 1; at <= 3; at++) {
		struct seen seen = {.cancel_at = at};
		cr_expect_eq(restore_execute(plan, &(struct restore_options){.progress = see, .arg = &seen}, &err),
			     -ECANCELED);
		cr_expect(strstr(err.text, "cancelled"), "%s", err.text);
	}
	cr_assert_eq(restore_execute(plan, &(struct restore_options){0}, &err), 0, "%s", err.text);
	cr_expect(maker_holds(&m, w, &want));
	restore_plan_free(plan);
	maker_want_free(&want);
	maker_close(&m);
}
