/* The memory model of the emulator: it shows what is missing between two threads. And the kernels under it. */
#include "../sample.h"
#include "gpu/gpu_table.h"
#include "weak_probe.h"

#include "../../../cuda/emulator.h"

#include "format/files/planes.h"
#include "format/tensor/digest.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

/* The kernels, under the names that the memory model's have. */
int weak_gpu_digest(const struct gpu_table *table, uint64_t first, uint64_t units, uint64_t *leaves, uint8_t *changed,
		    unsigned blocks, void *stream);
int weak_gpu_pieces(const struct gpu_table *table, const uint64_t *leaves, uint64_t *out, unsigned blocks,
		    void *stream);
int weak_gpu_pack(const struct gpu_table *table, uint64_t first, uint64_t units, const uint8_t *changed, void *base,
		  unsigned blocks, void *stream);
int weak_gpu_unpack(const struct gpu_table *table, uint64_t first, uint64_t units, const void *base, unsigned blocks,
		    void *stream);
int weak_gpu_planes(const void *elements, uint64_t n, unsigned size, void *planes, unsigned blocks, void *stream);
int weak_gpu_tell(void *at, uint64_t value, unsigned width, void *stream);

enum { SEEDS = 20 };

static void expect_sound(const char *what, uint64_t which)
{
	cr_assert_eq(emulator_faults(), 0u, "%s %lu: %s", what, which, emulator_fault());
}

static void expect_fault(const char *word)
{
	cr_assert_gt(emulator_faults(), 0u, "not found: %s", word);
	cr_assert(strstr(emulator_fault(), word), "%s", emulator_fault());
	emulator_forget_faults();
}

Test(weak, what_one_block_tells_another_needs_a_fence_on_both_sides)
{
	uint32_t *parts = calloc(9, sizeof(*parts));
	for (int fences = 0; fences < 4; fences++)
		for (uint64_t seed = 0; seed < SEEDS; seed++) {
			emulator_seed(seed);
			parts[7] = 0;
			cr_assert_eq(probe_last_block(6, parts, &parts[7], &parts[8], fences), 0);
			if (fences < 3)
				expect_fault("reads what is written");
			else
				expect_sound("seed", seed);
			cr_assert_eq(parts[8], 7u * 15, "the order was a good one nevertheless");
		}
	free(parts);
}

Test(weak, lanes_are_ordered_by_syncwarp_and_by_no_shuffle)
{
	uint32_t *out = calloc(4, sizeof(*out));
	cr_assert_eq(probe_warp(out, 0), 0);
	expect_fault("reads what is written");
	memset(out, 0, 4 * sizeof(*out));
	cr_assert_eq(probe_warp(out, 1), 0);
	expect_sound("synced", 1);
	for (int i = 0; i < 4; i++)
		cr_assert_eq(out[i], i % 2 ? 1520u : 496u);
	free(out);
}

Test(weak, warps_are_ordered_by_syncthreads_and_by_no_syncwarp)
{
	uint32_t *out = calloc(64, sizeof(*out));
	cr_assert_eq(probe_block(out, 1), 0);
	expect_sound("barrier", 1);
	cr_assert_eq(probe_block(out, 0), 0);
	cr_assert_gt(emulator_faults(), 0u);
	free(out);
}

Test(weak, what_the_host_is_told_needs_a_fence_for_the_system)
{
	uint32_t *words = calloc(2, sizeof(*words));
	emulator_host_reads(&words[1], sizeof(*words));
	for (int fence = 0; fence < 2; fence++) {
		cr_assert_eq(probe_host(&words[0], &words[1], fence), 0);
		expect_fault("without a fence for the system");
	}
	cr_assert_eq(probe_host(&words[0], &words[1], 2), 0);
	expect_sound("fence", 2);
	free(words);
}

Test(weak, atomics_are_no_race)
{
	unsigned *n = calloc(1, sizeof(*n));
	cr_assert_eq(probe_counter(4, n), 0);
	expect_sound("counter", 0);
	cr_assert_eq(*n, 256u);
	free(n);
}

/* One loses its turn between reading and writing, and what another has added is lost. */
Test(weak, lanes_of_a_warp_do_not_run_in_lockstep)
{
	unsigned lost = 0, *word = calloc(1, sizeof(*word));
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		emulator_seed(seed);
		*word = 0;
		cr_assert_eq(probe_lost_update(word), 0);
		lost += 32 - *word;
		expect_fault("what is");
	}
	cr_assert_gt(lost, 0u);
	cr_assert_lt(lost, 31u * SEEDS);
	free(word);
}

/* ---- the kernels ------------------------------------------------------------------------------------------------- */

enum { SPANS = 6 };

struct load {
	struct sample samples[SPANS];
	struct span_list list;
	struct gpu_table table;
	struct gpu_span *spans;
	uint64_t *before, units, bytes, *want, *leaves;
	char *packed, *arena;
	uint8_t *changed;
};

static struct load *load_make(uint64_t *rng)
{
	struct load *l = calloc(1, sizeof(*l));
	struct span spans[SPANS];
	for (size_t i = 0; i < SPANS; i++) {
		l->samples[i] = sample_make(rng, 3);
		spans[i] = l->samples[i].span;
		spans[i].arena_at = l->bytes += sample_below(rng, 3);
		spans[i].first_leaf = l->units;
		l->bytes += span_bytes(&spans[i]);
		l->units += leaf_count(span_bytes(&spans[i]));
	}
	l->spans = calloc(SPANS, sizeof(*l->spans));
	l->before = calloc(SPANS + 1, sizeof(*l->before));
	l->want = calloc(l->units + 1, 8);
	l->leaves = calloc(l->units + 1, 8);
	l->changed = calloc(l->units + 1, 1);
	l->packed = calloc(l->bytes + 1, 1);
	l->arena = calloc(l->bytes + 1, 1);
	for (size_t i = 0; i < SPANS; i++) {
		span_pack(&spans[i], l->packed + spans[i].arena_at, 0, span_bytes(&spans[i]));
		digest_leaves(l->packed + spans[i].arena_at, span_bytes(&spans[i]), l->want + spans[i].first_leaf);
	}
	cr_assert_eq(span_list_init(&l->list, spans, SPANS, NULL), 0);
	gpu_table_fill(l->list.spans, SPANS, l->spans, l->before);
	l->table = (struct gpu_table){l->spans, l->before, SPANS};
	return l;
}

static void load_free(struct load *l)
{
	for (size_t i = 0; i < SPANS; i++)
		free(l->samples[i].room);
	span_list_free(&l->list);
	free(l->spans);
	free(l->before);
	free(l->want);
	free(l->leaves);
	free(l->changed);
	free(l->packed);
	free(l->arena);
	free(l);
}

Test(weak, digests_packs_and_unpacks_have_no_race_and_are_right)
{
	uint64_t rng = 11;
	for (uint64_t round = 0; round < 12; round++) {
		struct load *l = load_make(&rng);
		emulator_seed(round);
		cr_assert_eq(weak_gpu_digest(&l->table, 0, l->units, l->leaves, l->changed, 2, NULL), 0);
		expect_sound("digests, round", round);
		cr_assert_arr_eq(l->leaves, l->want, l->units * 8);
		cr_assert_eq(weak_gpu_pack(&l->table, 0, l->units, NULL, l->arena, 2, NULL), 0);
		expect_sound("pack, round", round);
		cr_assert_arr_eq(l->arena, l->packed, l->bytes);
		cr_assert_eq(weak_gpu_unpack(&l->table, 0, l->units, l->arena, 2, NULL), 0);
		expect_sound("unpack, round", round);
		load_free(l);
	}
}

/* Leaves of a few bytes one behind the other go through the same memory of a warp. */
Test(weak, short_leaves_one_behind_the_other_have_no_race)
{
	enum { LEAVES = 40 };
	struct span spans[LEAVES];
	uint64_t rng = 12, *leaves = calloc(LEAVES, 8), *before = calloc(LEAVES + 1, 8);
	struct gpu_span *table = calloc(LEAVES, sizeof(*table));
	char *room = calloc(LEAVES, 256);
	for (size_t i = 0; i < LEAVES * 256; i++)
		room[i] = (char)(sample_next(&rng) >> 32);
	for (size_t i = 0; i < LEAVES; i++)
		spans[i] = (struct span){
			.memory = room + 256 * i, .row_bytes = 1 + sample_below(&rng, 240), .first_leaf = i};
	gpu_table_fill(spans, LEAVES, table, before);
	struct gpu_table t = {table, before, LEAVES};
	cr_assert_eq(weak_gpu_digest(&t, 0, LEAVES, leaves, NULL, 1, NULL), 0);
	expect_sound("short leaves", 0);
	for (size_t i = 0; i < LEAVES; i++)
		cr_assert_eq(leaves[i], digest_leaf(spans[i].memory, spans[i].row_bytes));
	free(room);
	free(table);
	free(before);
	free(leaves);
}

Test(weak, pieces_and_planes_have_no_race)
{
	enum { LEAVES = 700, ELEMENTS = 5000 };
	uint64_t rng = 13, *digests = calloc(LEAVES, 8), *out = calloc(2, 8), *before = calloc(2, 8);
	struct gpu_span *span = calloc(1, sizeof(*span));
	uint8_t *planes = calloc(ELEMENTS, 4);
	for (size_t i = 0; i < LEAVES; i++)
		digests[i] = sample_next(&rng);
	before[1] = LEAVES;
	struct gpu_table table = {span, before, 1};
	cr_assert_eq(weak_gpu_pieces(&table, digests, out, 1, NULL), 0);
	expect_sound("pieces", 0);
	cr_assert_eq(out[0], digest_piece(digests, LEAVES).low);
	cr_assert_eq(weak_gpu_planes(digests, LEAVES, 4, planes, 2, NULL), 0);
	expect_sound("planes", 0);
	free(planes);
	free(span);
	free(before);
	free(out);
	free(digests);
}

Test(weak, the_counter_is_told_behind_a_fence)
{
	uint64_t *counter = calloc(1, 8);
	emulator_host_reads(counter, sizeof(*counter));
	cr_assert_eq(weak_gpu_tell(counter, 9, 8, NULL), 0);
	expect_sound("tell", 0);
	cr_assert_eq(*counter, 9u);
	free(counter);
}
