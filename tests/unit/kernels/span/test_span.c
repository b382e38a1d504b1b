#include "../sample.h"

#include "format/tensor/digest.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

/* The address of byte `at` of the image, by the definition: counters, outermost first. */
static char *naive(const struct span *span, uint64_t at)
{
	uint64_t row = at / span->row_bytes;
	char *p = (char *)span->memory + at % span->row_bytes;
	for (uint32_t d = span->ndim; d-- > 0; row /= span->count[d])
		p += (int64_t)(row % span->count[d]) * span->stride[d];
	return p;
}

Test(span, any_window_packs_as_the_naive_loop_does)
{
	uint64_t rng = 1;
	for (int round = 0; round < 4000; round++) {
		struct sample s = sample_make(&rng, round % 2 ? 4 : SPAN_NDIM_MAX);
		uint64_t bytes = span_bytes(&s.span), at = sample_below(&rng, bytes + 1),
			 len = sample_below(&rng, bytes - at + 1);
		cr_assert_eq(span_check(&s.span, NULL, NULL), 0);
		cr_assert_eq(bytes, s.span.take ? s.span.take : s.image - s.span.skip);
		char *packed = malloc(len + 1);
		packed[len] = 0x5a;
		span_pack(&s.span, packed, at, len);
		for (uint64_t i = 0; i < len; i++)
			cr_assert_eq(packed[i], *naive(&s.span, s.span.skip + at + i), "round %d byte %lu", round, i);
		cr_assert_eq(packed[len], 0x5a);
		free(packed);
		free(s.room);
	}
}

Test(span, unpack_writes_its_window_and_nothing_else)
{
	uint64_t rng = 2;
	for (int round = 0; round < 4000; round++) {
		struct sample s = sample_make(&rng, round % 2 ? 4 : SPAN_NDIM_MAX);
		uint64_t bytes = span_bytes(&s.span), at = sample_below(&rng, bytes + 1),
			 len = sample_below(&rng, bytes - at + 1);
		char *want = malloc(s.room_bytes), *packed = malloc(len + 1);
		memcpy(want, s.room, s.room_bytes);
		for (uint64_t i = 0; i < len; i++) {
			packed[i] = (char)sample_next(&rng);
			want[naive(&s.span, s.span.skip + at + i) - s.room] = packed[i];
		}
		span_unpack(&s.span, packed, at, len);
		cr_assert_arr_eq(s.room, want, s.room_bytes, "round %d", round);
		free(want);
		free(packed);
		free(s.room);
	}
}

Test(span, packed_memory_needs_no_loop)
{
	char room[4 * 5 * 6];
	struct span span = {.memory = room,
			    .row_bytes = 2,
			    .ndim = 4,
			    .count = {4, 1, 5, 3},
			    .stride = {30, 777, 6, 2},
			    .skip = 10,
			    .take = 50};
	span_simplify(&span);
	cr_assert_eq(span.ndim, 0u);
	cr_assert_eq(span.row_bytes, 50u);
	cr_assert_eq((char *)span.memory - room, 10);
	cr_assert_eq(span.skip, 0u);
	cr_assert_eq(span.take, 0u);
}

Test(span, loops_that_continue_each_other_are_one)
{
	struct span span = {.memory = &span, .row_bytes = 4, .ndim = 3, .count = {2, 3, 5}, .stride = {240, 80, 16}};
	span_simplify(&span);
	cr_assert_eq(span.ndim, 1u);
	cr_assert_eq(span.count[0], 30u);
	cr_assert_eq(span.stride[0], 16);
}

Test(span, an_empty_span_has_no_bytes)
{
	struct span span = {.row_bytes = 4, .ndim = 2, .count = {0, 5}, .stride = {1, 1}};
	uint64_t bytes = 9;
	cr_assert_eq(span_check(&span, &bytes, NULL), 0);
	cr_assert_eq(bytes, 0u);
	span_pack(&span, NULL, 0, 0);
	struct span_list list;
	cr_assert_eq(span_list_init(&list, &span, 1, NULL), 0);
	cr_assert_eq(list.bytes, 0u);
	span_list_free(&list);
}

Test(span, what_cannot_be_walked_is_refused)
{
	char room[64];
	const struct {
		struct span span;
		int rc;
	} bad[] = {
		{{.memory = room, .row_bytes = 1, .ndim = SPAN_NDIM_MAX + 1}, -EINVAL},
		{{.memory = NULL, .row_bytes = 1}, -EINVAL},
		{{.memory = room, .row_bytes = 8, .skip = 9}, -EINVAL},
		{{.memory = room, .row_bytes = 8, .skip = 4, .take = 5}, -EINVAL},
		{{.memory = room, .row_bytes = 8, .skip = 4, .take = UINT64_MAX}, -EINVAL},
		{{.memory = room, .row_bytes = UINT64_MAX}, -EOVERFLOW},
		{{.memory = room, .row_bytes = 2, .ndim = 1, .count = {UINT64_MAX / 2 + 1}, .stride = {2}}, -EOVERFLOW},
		{{.memory = room, .row_bytes = 2, .ndim = 1, .count = {3}, .stride = {INT64_MIN}}, -EOVERFLOW},
		{{.memory = room, .row_bytes = 2, .ndim = 1, .count = {3}, .stride = {INT64_MAX / 2}}, -EOVERFLOW},
		{{.memory = room, .row_bytes = 2, .arena_at = UINT64_MAX - 1}, -EOVERFLOW},
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct err err = {""};
		struct span_list list;
		cr_assert_eq(span_check(&bad[i].span, NULL, &err), bad[i].rc, "case %zu", i);
		cr_assert_neq(err.text[0], 0);
		cr_assert_eq(span_list_init(&list, &bad[i].span, 1, &err), bad[i].rc);
		cr_assert(strstr(err.text, "span 0 of 1"));
	}
}

Test(span, a_list_whose_sum_overflows_is_refused)
{
	char room[8];
	struct span big = {.memory = room, .row_bytes = INT64_MAX / 2 + 1}, both[] = {big, big};
	struct span_list list;
	cr_assert_eq(span_list_init(&list, both, 2, NULL), -EOVERFLOW);
}

Test(span, parts_are_what_the_whole_is)
{
	enum { ROW = 1000, ROWS = 700, STRIDE = 1024, SKIP = 12345, TAKE = 5 * LEAF_SIZE + 17 };
	char *memory = calloc(ROWS, STRIDE), *whole = malloc(TAKE), *part = malloc(TAKE);
	struct span span = {.memory = memory,
			    .row_bytes = ROW,
			    .ndim = 1,
			    .count = {ROWS},
			    .stride = {STRIDE},
			    .arena_at = 4096,
			    .first_leaf = 9,
			    .skip = SKIP,
			    .take = TAKE};
	for (int i = 0; i < ROWS * STRIDE; i++)
		memory[i] = (char)(i * 7 / 5);
	span_pack(&span, whole, 0, TAKE);
	for (uint64_t leaf = 0; leaf < 6; leaf++) {
		uint64_t at = leaf * LEAF_SIZE, len = at + 2 * LEAF_SIZE < TAKE ? 2 * LEAF_SIZE : TAKE - at;
		struct span p = span_part(&span, at, len);
		cr_assert_eq(span_bytes(&p), len);
		cr_assert_eq(p.arena_at, 4096 + at);
		cr_assert_eq(p.first_leaf, 9 + leaf);
		span_pack(&p, part, 0, len);
		cr_assert(!memcmp(part, whole + at, len), "leaf %lu", (unsigned long)leaf);
	}
	span.skip = span.take = 0;
	struct span all = span_part(&span, 0, (uint64_t)ROW * ROWS);
	cr_assert(!memcmp(&all, &span, sizeof(all)), "all of it stays as it is");
	free(part);
	free(whole);
	free(memory);
}
