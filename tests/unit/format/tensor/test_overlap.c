#include "format/random_region.h"
#include "format/tensor/region.h"

#include <criterion/criterion.h>

/* Walks from where `o` stands and checks the runs against the elements of both, from packed src index `from` on. */
static uint64_t check_walk(struct overlap *o, const uint64_t *src, uint64_t src_n, const uint64_t *dst, uint64_t dst_n,
			   uint64_t from)
{
	struct region_run run, last = {0};
	uint64_t runs = 0, s = from, d = 0;
	while (overlap_next(o, &run)) {
		cr_assert_gt(run.count, 0u);
		for (uint64_t i = 0; i < run.count; i++, s++) {
			for (;; s++) { /* the next element of src that dst has too */
				cr_assert_lt(s, src_n, "a run beyond the intersection");
				while (d < dst_n && dst[d] < src[s])
					d++;
				if (d < dst_n && dst[d] == src[s])
					break;
			}
			cr_assert_eq(run.src + i, s);
			cr_assert_eq(run.dst + i, d);
		}
		if (runs++)
			cr_assert(last.src + last.count != run.src || last.dst + last.count != run.dst,
				  "two runs that are one");
		last = run;
	}
	for (; s < src_n; s++)
		for (uint64_t i = 0; i < dst_n; i++)
			cr_assert_neq(dst[i], src[s], "an element was left out");
	return runs;
}

Test(overlap, runs_are_the_intersection_in_order_and_maximal)
{
	uint64_t seed = 1, src_elements[SMALL_VOLUME], dst_elements[SMALL_VOLUME], runs = 0;
	for (int round = 0; round < 200000; round++) {
		struct shape shape = random_shape(&seed);
		struct region src = random_region(&seed, &shape), dst = random_region(&seed, &shape);
		uint64_t src_n = list_elements(&shape, &src, src_elements);
		uint64_t dst_n = list_elements(&shape, &dst, dst_elements);
		struct overlap o;
		overlap_init(&o, &shape, &src, &dst);
		runs += check_walk(&o, src_elements, src_n, dst_elements, dst_n, 0);
	}
	cr_assert_gt(runs, 30000u);
}

Test(overlap, seek_goes_anywhere)
{
	uint64_t seed = 2, src_elements[SMALL_VOLUME], dst_elements[SMALL_VOLUME];
	for (int round = 0; round < 10000; round++) {
		struct shape shape = random_shape(&seed);
		struct region src = random_region(&seed, &shape), dst = random_region(&seed, &shape);
		uint64_t src_n = list_elements(&shape, &src, src_elements);
		uint64_t dst_n = list_elements(&shape, &dst, dst_elements);
		struct overlap o;
		overlap_init(&o, &shape, &src, &dst);
		for (int k = 0; k < 4; k++) {
			uint64_t from = random_below(&seed, src_n + 3);
			overlap_seek(&o, from);
			check_walk(&o, src_elements, src_n, dst_elements, dst_n, from);
		}
		struct region_run run;
		overlap_seek(&o, UINT64_MAX);
		cr_assert_not(overlap_next(&o, &run));
	}
}

Test(overlap, flat_and_contiguous_regions_are_one_run)
{
	struct shape shape = {.ndim = 3, .dim = {16, 8, 4}};
	struct region flat = region_flat(100, 300), whole = region_whole(&shape);
	struct region rows = {.kind = REGION_BOX, .offset = {4}, .extent = {4, 8, 4}};
	struct region_run run;
	struct overlap o;
	overlap_init(&o, &shape, &flat, &rows);
	cr_assert(overlap_next(&o, &run));
	cr_assert(run.src == 28 && run.dst == 0 && run.count == 128);
	cr_assert_not(overlap_next(&o, &run));
	overlap_init(&o, &shape, &whole, &whole);
	cr_assert(overlap_next(&o, &run));
	cr_assert(run.src == 0 && run.dst == 0 && run.count == 512);
	cr_assert_not(overlap_next(&o, &run));
	overlap_seek(&o, 200);
	cr_assert(overlap_next(&o, &run));
	cr_assert(run.src == 200 && run.dst == 200 && run.count == 312);
}

Test(overlap, rows_to_columns_runs_are_row_segments)
{
	struct shape shape = {.ndim = 2, .dim = {4096, 4096}};
	struct region rows = {.kind = REGION_BOX, .offset = {1024, 0}, .extent = {1024, 4096}};
	struct region columns = {.kind = REGION_BOX, .offset = {0, 2048}, .extent = {4096, 1024}};
	struct overlap o;
	struct region_run run;
	uint64_t n = 0;
	overlap_init(&o, &shape, &rows, &columns);
	for (; overlap_next(&o, &run); n++)
		cr_assert(run.count == 1024 && run.src == n * 4096 + 2048 && run.dst == (1024 + n) * 1024);
	cr_assert_eq(n, 1024u);
}

Test(overlap, the_largest_shapes_do_not_overflow)
{
	struct shape shape = {.ndim = 2, .dim = {1ull << 29, 1ull << 29}};
	struct region columns = {.kind = REGION_BOX, .offset = {0, 1}, .extent = {1ull << 29, 2}};
	struct region end = region_flat((1ull << 58) - 10, 10), all = region_flat(0, 1ull << 58);
	struct region_run run;
	struct overlap o;
	overlap_init(&o, &shape, &all, &columns);
	overlap_seek(&o, (1ull << 58) - (1ull << 29) + 2);
	cr_assert(overlap_next(&o, &run));
	cr_assert_eq(run.src, (1ull << 58) - (1ull << 29) + 2);
	cr_assert_eq(run.dst, (1ull << 30) - 1);
	cr_assert_eq(run.count, 1u);
	cr_assert_not(overlap_next(&o, &run));
	cr_assert_eq(overlap_volume(&shape, &end, &columns), 0u);
	cr_assert_eq(overlap_volume(&shape, &columns, &all), 1ull << 30);
}

Test(overlap, seek_does_not_scan)
{
	struct shape shape = {.ndim = 3, .dim = {1 << 20, 1 << 10, 1 << 10}};
	struct region src = {.kind = REGION_BOX, .extent = {1 << 20, 1 << 10, 512}};
	struct region dst = {.kind = REGION_BOX, .offset = {0, 0, 256}, .extent = {1 << 20, 1 << 10, 512}};
	struct overlap o;
	struct region_run run;
	uint64_t seed = 3, volume = region_volume(&shape, &src);
	overlap_init(&o, &shape, &src, &dst);
	for (int i = 0; i < 1000000; i++) { /* a scan of 2^30 rows would never end */
		uint64_t from = random_below(&seed, volume - 512);
		overlap_seek(&o, from);
		cr_assert(overlap_next(&o, &run));
		cr_assert(run.src >= from && run.src - from < 512);
	}
}
