#include "host/host_copy.h"

#include "base/bytes.h"
#include "format/tensor/digest.h"

#include <criterion/criterion.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 5, NSPANS = 2, LEAVES = 80 + 24 };

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

/* ---- what the arena holds ---- */

/* Captures into an arena that is painted over, so that what is copied shows, and counts the leaves that were. Those must have the
 * right bytes, and all the right digests. */
static unsigned captured_leaves(struct load *l, bool held, bool digests)
{
	static const _Atomic bool go_on;
	_Atomic uint64_t progress = 0;
	uint8_t *packed = malloc(l->bytes);
	uint64_t want[LEAVES];
	unsigned copied = 0;
	struct capture_target target = {.progress = &progress, .leaves = digests ? l->leaves : NULL, .held = held};
	memset(l->arena, 0x11, l->bytes);
	cr_assert_eq(host_capture(&l->list, l->arena, LEAF_SIZE, &target, l->bounce, &go_on), 0);
	cr_assert_eq(atomic_load(&progress), l->bytes);
	for (unsigned i = 0; i < NSPANS; i++) {
		const struct span *span = &l->list.spans[i];
		uint64_t bytes = span_bytes(span);
		span_pack(span, packed, 0, bytes);
		digest_leaves(packed, bytes, want + span->first_leaf);
		for (uint64_t at = 0; at < bytes; at += LEAF_SIZE) {
			const uint8_t *there = l->arena + span->arena_at + at;
			uint64_t n = min_u64(LEAF_SIZE, bytes - at);
			bool painted = there[0] == 0x11 && !memcmp(there, there + 1, n - 1);
			cr_assert(painted || !memcmp(there, packed + at, n));
			copied += !painted;
		}
	}
	cr_assert_arr_eq(l->leaves, want, sizeof(want));
	free(packed);
	return copied;
}

Test(host_copy, what_the_arena_holds_already_is_digested_and_not_copied)
{
	struct load *l = load_make();
	cr_assert_eq(host_restore(&l->list, l->arena, l->leaves, NULL, l->bounce, 1), 0);
	cr_expect_eq(captured_leaves(l, false, true), LEAVES);
	cr_expect_eq(captured_leaves(l, true, true), 0u);
	/* One byte each of three leaves. */
	l->memory[5 * LEAF_SIZE] ^= 1;
	l->memory[79 * LEAF_SIZE + 4320] ^= 1;
	((uint8_t *)l->list.spans[1].memory)[3000 * 160 + 95] ^= 1;
	cr_expect_eq(captured_leaves(l, true, true), 3u);
	cr_expect_eq(captured_leaves(l, true, false), LEAVES, "nothing to compare with");
	cr_expect_eq(captured_leaves(l, false, true), LEAVES);
	load_free(l);
}

Test(host_copy, witnesses_are_digested_behind_what_is_copied_and_not_copied)
{
	enum { BYTES = 3 * LEAF_SIZE + 5 };
	uint8_t *memory = malloc(2 * BYTES), *arena = calloc(1, 2 * BYTES), bounce[LEAF_SIZE];
	for (unsigned i = 0; i < 2 * BYTES; i++)
		memory[i] = (uint8_t)(i * 7 + (i >> 8));
	struct span spans[] = {{.memory = memory, .row_bytes = BYTES},
			       {.memory = memory + BYTES,
				.arena_at = BYTES,
				.row_bytes = BYTES,
				.first_leaf = 4,
				.group = SPAN_WITNESS}};
	uint64_t leaves[8], want[8];
	_Atomic uint64_t progress = 0;
	_Atomic uint32_t done = 0;
	_Atomic bool cancel = false;
	struct capture_target target = {.progress = &progress, .done = &done, .leaves = leaves};
	struct span_list list;
	cr_assert_eq(span_list_init(&list, spans, 2, NULL), 0);
	cr_assert_eq(list.bytes, BYTES);
	cr_assert_eq(host_capture(&list, arena, LEAF_SIZE, &target, bounce, &cancel), 0);
	digest_leaves(memory, BYTES, want);
	digest_leaves(memory + BYTES, BYTES, want + 4);
	cr_expect_arr_eq(leaves, want, sizeof(want));
	cr_expect_arr_eq(arena, memory, BYTES);
	cr_expect(!arena[BYTES] && !memcmp(arena + BYTES, arena + BYTES + 1, BYTES - 1), "it was copied");
	cr_expect_eq(atomic_load(&progress), BYTES);
	host_digest(&list, leaves, bounce);
	memory[BYTES + LEAF_SIZE] ^= 1;
	uint64_t bad = 0;
	cr_expect_eq(host_compare(&list, leaves, &bad, bounce, &cancel), -EBADMSG, "strict mode sees a change of them");
	cr_expect_eq(bad, 5);
	span_list_free(&list);
	struct span late = spans[0];
	spans[0] = spans[1];
	spans[1] = late;
	cr_expect_eq(span_list_init(&list, spans, 2, NULL), -EINVAL, "they stand behind the others");
	free(memory);
	free(arena);
}
