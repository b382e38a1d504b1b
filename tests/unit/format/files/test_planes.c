#include "format/files/planes.h"
#include "format/sample.h"

#include <criterion/criterion.h>

enum { MAX = 300 };

Test(planes, plane_p_is_byte_p_of_each_element)
{
	const uint8_t elements[] = {1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 14, 15, 16, 17, 18};
	uint8_t plane[8];
	planes_split(elements, 8, 2, 1, plane);
	cr_expect_arr_eq(plane, ((uint8_t[]){2, 4, 6, 8, 12, 14, 16, 18}), 8);
	planes_split(elements, 4, 4, 0, plane);
	cr_expect_arr_eq(plane, ((uint8_t[]){1, 5, 11, 15}), 4);
	planes_split(elements, 2, 8, 7, plane);
	cr_expect_arr_eq(plane, ((uint8_t[]){8, 18}), 2);
	planes_split(elements, 3, 1, 0, plane);
	cr_expect_arr_eq(plane, elements, 3);
}

Test(planes, joining_undoes_splitting_at_every_length_and_alignment)
{
	uint64_t seed = 1;
	for (unsigned size = 1; size <= 8; size *= 2)
		for (uint32_t n = 0; n < MAX; n++) {
			uint8_t src[8 * MAX + 8], back[8 * MAX + 8] = {0}, split[8][MAX + 1];
			const uint8_t *planes[8];
			unsigned off = n % 7;
			for (size_t i = 0; i < sizeof(src); i++)
				src[i] = (uint8_t)sample_random(&seed);
			for (unsigned p = 0; p < size; p++) {
				split[p][n] = 0xee;
				planes_split(src + off, n, size, p, split[p]);
				cr_assert_eq(split[p][n], 0xee, "size %u, %u elements: beyond the plane", size, n);
				planes[p] = split[p];
			}
			planes_join(planes, n, size, back + off);
			cr_assert_arr_eq(back + off, src + off, n * size, "size %u, %u elements", size, n);
			cr_assert_eq(back[off + n * size], 0, "size %u, %u elements: beyond the end", size, n);
		}
}
