#include "format/random_region.h"
#include "format/tensor/region.h"

#include <criterion/criterion.h>

static struct region box(uint64_t o0, uint64_t e0, uint64_t o1, uint64_t e1)
{
	return (struct region){.kind = REGION_BOX, .offset = {o0, o1}, .extent = {e0, e1}};
}

Test(region, volume_is_the_product)
{
	uint64_t volume;
	cr_assert_eq(shape_volume(&(struct shape){0}, &volume), 0);
	cr_assert_eq(volume, 1u);
	cr_assert_eq(shape_volume(&(struct shape){.ndim = 3, .dim = {4, 5, 6}}, &volume), 0);
	cr_assert_eq(volume, 120u);
	cr_assert_eq(shape_volume(&(struct shape){.ndim = 2, .dim = {4, 0}}, &volume), 0);
	cr_assert_eq(volume, 0u);
}

Test(region, volumes_that_could_overflow_are_refused)
{
	uint64_t volume;
	cr_assert_eq(shape_volume(&(struct shape){.ndim = 1, .dim = {(1ull << 59) - 1}}, &volume), 0);
	cr_assert_eq(shape_volume(&(struct shape){.ndim = 1, .dim = {1ull << 59}}, &volume), -EOVERFLOW);
	cr_assert_eq(shape_volume(&(struct shape){.ndim = 2, .dim = {1ull << 32, 1ull << 32}}, &volume), -EOVERFLOW);
	cr_assert_eq(shape_volume(&(struct shape){.ndim = 3, .dim = {1ull << 32, 0, 1ull << 32}}, &volume), -EOVERFLOW);
	cr_assert_eq(shape_volume(&(struct shape){.ndim = 1, .dim = {UINT64_MAX}}, &volume), -EOVERFLOW);
	cr_assert_eq(shape_volume(&(struct shape){.ndim = NDIM_MAX + 1}, &volume), -EINVAL);
	cr_assert_eq(shape_volume(&(struct shape){.ndim = UINT32_MAX}, &volume), -EINVAL);
}

Test(region, texts_are_short_and_cut)
{
	struct shape shape = {.ndim = 2, .dim = {4096, 1024}};
	struct region r = box(0, 512, 512, 512), flat = region_flat(100, 100);
	char text[64], small[12];
	cr_assert_str_eq(shape_text(&shape, text, sizeof(text)), "[4096, 1024]");
	cr_assert_str_eq(shape_text(&(struct shape){0}, text, sizeof(text)), "[]");
	cr_assert_str_eq(region_text(&shape, &r, text, sizeof(text)), "[0:512, 512:1024]");
	cr_assert_str_eq(region_text(&shape, &flat, text, sizeof(text)), "flat 100:200");
	cr_assert_str_eq(region_text(&shape, &r, small, sizeof(small)), "[0:512, ...");
	cr_assert_str_eq(shape_text(&shape, small, sizeof(small)), "[4096, 1...");
	cr_assert_str_eq(shape_text(&shape, text, 13), "[4096, 1024]");
}

Test(region, bounds_are_named)
{
	struct shape shape = {.ndim = 2, .dim = {8, 4}};
	struct region good[] = {region_whole(&shape), region_flat(0, 32), region_flat(32, 0), box(8, 0, 4, 0),
				box(7, 1, 3, 1)};
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		cr_assert_eq(region_check(&shape, &good[i], NULL), 0, "%zu", i);
	struct region bad[] = {region_flat(0, 33),         region_flat(33, 0),      region_flat(UINT64_MAX, 2),
			       region_flat(2, UINT64_MAX), box(0, 9, 0, 4),         box(8, 1, 0, 4),
			       box(0, 8, UINT64_MAX, 2),   box(0, 8, 2, UINT64_MAX)};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_assert_eq(region_check(&shape, &bad[i], NULL), -ERANGE, "%zu", i);
	struct err err = {0};
	struct region r = box(0, 8, 2, 3);
	cr_assert_eq(region_check(&shape, &r, &err), -ERANGE);
	cr_assert(strstr(err.text, "offset 2 + extent 3 is beyond 4 in dimension 1 of shape [8, 4]"), "%s", err.text);
	r = region_flat(30, 3);
	cr_assert_eq(region_check(&shape, &r, &err), -ERANGE);
	cr_assert(strstr(err.text, "start 30 + count 3 is beyond the 32 elements"), "%s", err.text);
	r.kind = 7;
	cr_assert_eq(region_check(&shape, &r, &err), -EINVAL);
}

Test(region, volume_contiguity_and_rank_match_brute_force)
{
	uint64_t seed = 1, elements[SMALL_VOLUME];
	for (int round = 0; round < 20000; round++) {
		struct shape shape = random_shape(&seed);
		struct region r = random_region(&seed, &shape);
		cr_assert_eq(region_check(&shape, &r, NULL), 0);
		uint64_t n = list_elements(&shape, &r, elements), start, count, volume;
		cr_assert_eq(region_volume(&shape, &r), n);
		bool contiguous = !n || elements[n - 1] - elements[0] == n - 1;
		cr_assert_eq(region_contiguous(&shape, &r, &start, &count), contiguous);
		if (contiguous) {
			cr_assert_eq(count, n);
			cr_assert_eq(start, n ? elements[0] : 0);
			cr_assert(region_contiguous(&shape, &r, NULL, NULL));
		}
		cr_assert_eq(shape_volume(&shape, &volume), 0);
		for (uint64_t index = 0, below = 0; index <= volume + 2; index++) {
			while (below < n && elements[below] < index)
				below++;
			cr_assert_eq(region_rank(&shape, &r, index), below);
		}
	}
}

Test(region, equality_and_overlap_match_brute_force)
{
	uint64_t seed = 2, a_elements[SMALL_VOLUME], b_elements[SMALL_VOLUME];
	unsigned equal = 0, overlapping = 0;
	for (int round = 0; round < 40000; round++) {
		struct shape shape = random_shape(&seed);
		struct region a = random_region(&seed, &shape), b = random_region(&seed, &shape);
		uint64_t a_n = list_elements(&shape, &a, a_elements), b_n = list_elements(&shape, &b, b_elements);
		bool same = a_n == b_n && !memcmp(a_elements, b_elements, a_n * sizeof(a_elements[0]));
		cr_assert_eq(region_equal(&shape, &a, &b), same);
		uint64_t common = 0;
		for (uint64_t i = 0, k = 0; i < a_n; i++) {
			while (k < b_n && b_elements[k] < a_elements[i])
				k++;
			common += k < b_n && b_elements[k] == a_elements[i];
		}
		cr_assert_eq(region_overlaps(&shape, &a, &b), common > 0);
		cr_assert_eq(overlap_volume(&shape, &a, &b), common);
		equal += same && a_n;
		overlapping += common > 0;
	}
	cr_assert_gt(equal, 100u);
	cr_assert_gt(overlapping, 1000u);
}

Test(region, shapes_are_equal_when_dimensions_are)
{
	struct shape a = {.ndim = 2, .dim = {2, 3, 9}}, b = {.ndim = 2, .dim = {2, 3, 7}};
	cr_assert(shape_equal(&a, &b));
	b.dim[1] = 4;
	cr_assert_not(shape_equal(&a, &b));
	b = (struct shape){.ndim = 1, .dim = {2, 3}};
	cr_assert_not(shape_equal(&a, &b));
}

Test(region, encoding_reads_back)
{
	uint64_t seed = 3;
	for (int round = 0; round < 2000; round++) {
		struct shape shape = random_shape(&seed);
		struct region r = random_region(&seed, &shape), back;
		AUTO_WBUF struct wbuf out = {0};
		region_put(&out, &shape, &r);
		struct rbuf in = rbuf_of(out.data, out.len);
		region_get(&in, &shape, &back);
		cr_assert_eq(rbuf_finish(&in), 0);
		cr_assert_eq(back.kind, r.kind);
		cr_assert(region_equal(&shape, &r, &back));
		in = rbuf_of(out.data, out.len - 1);
		region_get(&in, &shape, &back);
		cr_assert_eq(rbuf_finish(&in), -EBADMSG);
	}
}

Test(region, unknown_kinds_fail_the_reader)
{
	static const uint8_t data[17] = {3};
	struct rbuf in = rbuf_of(data, sizeof(data));
	struct region r;
	region_get(&in, &(struct shape){.ndim = 1, .dim = {1}}, &r);
	cr_assert_eq(rbuf_finish(&in), -EBADMSG);
}
