#include "host_copy.h"

#include "base/bytes.h"
#include "format/digest.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

enum { THREADS = 5, NSPANS = 2, LEAVES = 80 + 24 };

TestSuite(host_copy, .timeout = 60);

/* A packed span and one of short rows, and what the arena holds for them. */
struct load {
	struct span_list list;
	uint8_t *memory, *arena;
	uint64_t bytes, leaves[LEAVES];
	uint8_t bounce[THREADS * LEAF_SIZE];
};

static struct load *load_make(void)
{
	struct load *l = calloc(1, sizeof(*l));
	struct err err;
	uint64_t first = 79 * LEAF_SIZE + 4321, rows = 24 * LEAF_SIZE / 96;
	l->bytes = first + rows * 96;
	l->memory = calloc(1, first + rows * 160);
	l->arena = malloc(l->bytes);
	for (uint64_t i = 0; i < l->bytes; i++)
		l->arena[i] = (uint8_t)(i * 0x9e3779b97f4a7c15ull >> 56);
	struct span spans[NSPANS] = {{.memory = l->memory, .row_bytes = first},
				     {.memory = l->memory + first,
				      .arena_at = first,
				      .row_bytes = 96,
				      .ndim = 1,
				      .count = {rows},
				      .stride = {160},
				      .first_leaf = 80}};
	digest_leaves(l->arena, first, l->leaves);
	digest_leaves(l->arena + first, rows * 96, l->leaves + 80);
	cr_assert_eq(span_list_init(&l->list, spans, NSPANS, &err), 0, "%s", err.text);
	return l;
}

static void load_free(struct load *l)
{
	span_list_free(&l->list);
	free(l->arena);
	free(l->memory);
	free(l);
}

Test(host_copy, restore_is_the_same_with_any_number_of_threads)
{
	for (unsigned threads = 1; threads <= THREADS; threads++) {
		struct load *l = load_make();
		uint8_t *packed = malloc(l->bytes);
		cr_assert_eq(host_restore(&l->list, l->arena, l->leaves, NULL, l->bounce, threads), 0);
		for (unsigned i = 0; i < NSPANS; i++)
			span_pack(&l->list.spans[i], packed + l->list.spans[i].arena_at, 0,
				  span_bytes(&l->list.spans[i]));
		cr_expect(!memcmp(packed, l->arena, l->bytes), "%u threads", threads);
		free(packed);
		load_free(l);
	}
}

Test(host_copy, restore_names_the_lowest_of_several_damaged_leaves)
{
	struct load *l = load_make();
	uint64_t rows_at = l->list.spans[1].arena_at;
	l->arena[rows_at + 3 * LEAF_SIZE + 1] ^= 4;
	for (unsigned round = 0; round < 20; round++) {
		uint64_t bad = UINT64_MAX;
		cr_assert_eq(host_restore(&l->list, l->arena, l->leaves, &bad, l->bounce, THREADS), -EBADMSG);
		cr_assert_eq(bad, 80 + 3);
	}
	l->arena[17 * LEAF_SIZE] ^= 1;
	l->arena[12 * LEAF_SIZE + 100] ^= 1;
	for (unsigned round = 0; round < 20; round++) {
		uint64_t bad = UINT64_MAX;
		cr_assert_eq(host_restore(&l->list, l->arena, l->leaves, &bad, l->bounce, THREADS), -EBADMSG);
		cr_assert_eq(bad, 12);
	}
	cr_expect_eq(host_restore(&l->list, l->arena, NULL, NULL, l->bounce, THREADS), 0);
	load_free(l);
}
