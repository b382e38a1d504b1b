#include "span.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

static uint64_t next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static uint64_t below(uint64_t *state, uint64_t n)
{
	return next(state) % n;
}

/* A span over distinct bytes of `arena`: dimensions in any order of stride, gaps between rows, some strides negative.
 * */
struct sample {
	struct span span;
	char *room;
	size_t room_bytes;
	uint64_t image; /* bytes without the part */
};

static struct sample sample_make(uint64_t *rng)
{
	static const uint64_t sizes[] = {1, 2, 4, 8, 16, 32, 64, 3, 40, 100};
	struct sample s = {.span.row_bytes = sizes[below(rng, 10)], .span.ndim = (uint32_t)below(rng, 5)};
	uint32_t order[SPAN_NDIM_MAX] = {0, 1, 2, 3};
	for (uint32_t d = s.span.ndim; d-- > 1;) {
		uint32_t other = (uint32_t)below(rng, d + 1), t = order[d];
		order[d] = order[other];
		order[other] = t;
	}
	uint64_t step = s.span.row_bytes;
	s.image = s.span.row_bytes;
	for (uint32_t i = 0; i < s.span.ndim; i++) {
		uint32_t d = below(rng, 2) ? order[i] : s.span.ndim - 1 - i;
		if (s.span.count[d]) /* taken: the first that is free */
			for (d = 0; s.span.count[d]; d++)
				;
		step += below(rng, 3) ? 0 : below(rng, 9);
		s.span.count[d] = 1 + below(rng, 7);
		s.span.stride[d] = (int64_t)step;
		s.image *= s.span.count[d];
		step *= s.span.count[d];
	}
	s.room_bytes = step;
	s.room = malloc(step);
	s.span.memory = s.room;
	for (size_t i = 0; i < step; i++)
		s.room[i] = (char)next(rng);
	for (uint32_t d = 0; d < s.span.ndim; d++)
		if (below(rng, 4) == 0) { /* from its last row backwards */
			s.span.memory = (char *)s.span.memory + s.span.stride[d] * (int64_t)(s.span.count[d] - 1);
			s.span.stride[d] = -s.span.stride[d];
		}
	if (below(rng, 2)) {
		s.span.skip = below(rng, s.image);
		s.span.take = below(rng, s.image - s.span.skip + 1);
	}
	return s;
}

/* The address of byte `at` of the image, by the definition: counters, outermost first. */
static char *naive(const struct span *span, uint64_t at)
{
	uint64_t row = at / span->row_bytes;
	char *p = (char *)span->memory + at % span->row_bytes;
	for (uint32_t d = span->ndim; d-- > 0; row /= span->count[d])
		p += (int64_t)(row % span->count[d]) * span->stride[d];
	return p;
}

Test(span, any_window_packs_as_the_naive_loop_does, .timeout = 60)
{
	uint64_t rng = 1;
	for (int round = 0; round < 4000; round++) {
		struct sample s = sample_make(&rng);
		uint64_t bytes = span_bytes(&s.span), at = below(&rng, bytes + 1), len = below(&rng, bytes - at + 1);
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

Test(span, unpack_writes_its_window_and_nothing_else, .timeout = 60)
{
	uint64_t rng = 2;
	for (int round = 0; round < 4000; round++) {
		struct sample s = sample_make(&rng);
		uint64_t bytes = span_bytes(&s.span), at = below(&rng, bytes + 1), len = below(&rng, bytes - at + 1);
		char *want = malloc(s.room_bytes), *packed = malloc(len + 1);
		memcpy(want, s.room, s.room_bytes);
		for (uint64_t i = 0; i < len; i++) {
			packed[i] = (char)next(&rng);
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
