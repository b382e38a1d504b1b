/* The kernels in the emulator, against their CPU references, bit by bit. Every buffer ends where its bytes do, so that the address
 * sanitizer sees a read or a write beside them. */
#include "../sample.h"
#include "gpu/gpu_table.h"

#include "../../../cuda/emulator.h"

#include "format/files/planes.h"
#include "format/tensor/digest.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

static char *random_bytes(uint64_t *rng, size_t n)
{
	char *p = malloc(n ? n : 1);
	for (size_t i = 0; i < n; i++)
		p[i] = (char)(sample_next(rng) >> 32);
	return p;
}

/* A table of some spans, with what the references make of them. */
struct load {
	size_t n;
	struct gpu_span *spans;
	uint64_t *before, units, bytes, *want;
	struct gpu_table table;
	char *packed; /* all of them, arena_at bytes from here */
};

/* Sets where they stand in the arena: end to end, with a gap now and then. */
static struct load load_make(struct span *spans, size_t n, uint64_t *rng)
{
	struct load l = {.n = n};
	for (size_t i = 0, leaves = 0; i < n; i++) {
		l.bytes += sample_below(rng, 3) ? 0 : sample_below(rng, 20);
		spans[i].arena_at = l.bytes;
		spans[i].first_leaf = leaves;
		l.bytes += span_bytes(&spans[i]);
		leaves += leaf_count(span_bytes(&spans[i]));
		l.units = leaves;
	}
	l.spans = malloc(n * sizeof(*l.spans));
	l.before = malloc((n + 1) * sizeof(*l.before));
	l.want = malloc(l.units * 8 + 1);
	l.packed = calloc(1, l.bytes + 1);
	for (size_t i = 0; i < n; i++) {
		span_pack(&spans[i], l.packed + spans[i].arena_at, 0, span_bytes(&spans[i]));
		digest_leaves(l.packed + spans[i].arena_at, span_bytes(&spans[i]), l.want + spans[i].first_leaf);
	}
	struct span_list list;
	cr_assert_eq(span_list_init(&list, spans, n, NULL), 0);
	cr_assert_eq(gpu_table_fill(list.spans, n, l.spans, l.before), l.units);
	span_list_free(&list);
	l.table = (struct gpu_table){l.spans, l.before, n};
	return l;
}

static void load_free(struct load *l)
{
	free(l->spans);
	free(l->before);
	free(l->want);
	free(l->packed);
}

static void check_digests(const struct load *l, const char *what, uint64_t which)
{
	uint64_t *leaves = malloc(l->units * 8 + 1), half = which % 4 ? 0 : l->units / 2;
	memset(leaves, 0xa5, l->units * 8);
	cr_assert_eq(gpu_digest(&l->table, 0, half, leaves, NULL, 1, NULL), 0);
	cr_assert_eq(gpu_digest(&l->table, half, l->units - half, leaves, NULL, 1 + (unsigned)(which % 5), NULL), 0);
	for (uint64_t i = 0; i < l->units; i++)
		cr_assert_eq(leaves[i], l->want[i], "%s %lu: leaf %lu of %lu", what, which, i, l->units);
	free(leaves);
}

static void check_pack(const struct load *l, const char *what, uint64_t which)
{
	char *arena = calloc(1, l->bytes + 1);
	cr_assert_eq(gpu_pack(&l->table, 0, l->units, NULL, arena, 1 + (unsigned)(which % 3), NULL), 0);
	cr_assert(!memcmp(arena, l->packed, l->bytes), "%s %lu", what, which);
	free(arena);
}

/* Every third leaf had another digest before: it alone is packed. */
static void check_changed(const struct load *l, const char *what, uint64_t which)
{
	char *arena = malloc(l->bytes + 1), *want = malloc(l->bytes + 1);
	uint64_t *leaves = malloc(l->units * 8 + 1), half = l->units / 2;
	uint8_t *changed = malloc(l->units + 1);
	memset(arena, 0x5a, l->bytes);
	memset(want, 0x5a, l->bytes);
	memset(changed, 0x77, l->units + 1);
	for (uint64_t u = 0, i = 0; u < l->units; u++) {
		while (l->before[i + 1] <= u)
			i++;
		uint64_t at = (u - l->before[i]) * LEAF_SIZE, n = l->spans[i].bytes - at;
		leaves[u] = l->want[u] ^ (u % 3 == which % 3);
		if (u % 3 == which % 3)
			memcpy(want + l->spans[i].arena_at + at, l->packed + l->spans[i].arena_at + at,
			       n < LEAF_SIZE ? n : LEAF_SIZE);
	}
	cr_assert_eq(gpu_digest(&l->table, 0, half, leaves, changed, 2, NULL), 0);
	cr_assert_eq(gpu_digest(&l->table, half, l->units - half, leaves, changed, 1, NULL), 0);
	cr_assert_arr_eq(leaves, l->want, l->units * 8);
	for (uint64_t u = 0; u < l->units; u++)
		cr_assert_eq(changed[u], u % 3 == which % 3, "%s %lu: leaf %lu", what, which, u);
	cr_assert_eq(changed[l->units], 0x77);
	cr_assert_eq(gpu_pack(&l->table, 0, half, changed, arena, 1, NULL), 0);
	cr_assert_eq(gpu_pack(&l->table, half, l->units - half, changed, arena, 2, NULL), 0);
	cr_assert(!memcmp(arena, want, l->bytes), "%s %lu", what, which);
	free(changed);
	free(leaves);
	free(want);
	free(arena);
}

/* One piece of packed memory. */
static void check_packed(size_t n, unsigned misplaced, uint64_t *rng)
{
	char *room = random_bytes(rng, n + misplaced);
	struct span span = {.memory = room + misplaced, .row_bytes = n};
	struct load l = load_make(&span, 1, rng);
	check_digests(&l, "length", n);
	check_pack(&l, "length", n);
	load_free(&l);
	free(room);
}

Test(gpu_kernels, leaves_of_every_short_length)
{
	uint64_t rng = 1;
	for (size_t n = 1; n <= 2200; n++)
		check_packed(n, (unsigned)(n % 17), &rng);
}

Test(gpu_kernels, leaves_around_every_boundary_at_every_alignment)
{
	static const size_t edges[] = {240, 1024, 2048, 5 * 1024, 16384, 65536 - 1024, 65536, 65536 + 64, 2 * 65536};
	uint64_t rng = 2;
	for (size_t e = 0; e < sizeof(edges) / sizeof(edges[0]); e++)
		for (int beside = -2; beside <= 2; beside++)
			for (unsigned misplaced = 0; misplaced<16; misplaced += edges[e]> 5000 ? 3 : 1)
				check_packed(edges[e] + (size_t)(long)beside, misplaced, &rng);
}

Test(gpu_kernels, leaves_of_any_length)
{
	uint64_t rng = 3;
	for (int round = 0; round < 150; round++)
		check_packed(1 + sample_below(&rng, 3 * LEAF_SIZE), (unsigned)sample_below(&rng, 16), &rng);
}

/* Tables of spans of every shape, with empty ones among them. */
enum { TABLE_MAX = 70 };

static size_t draw_table(struct sample *samples, struct span *spans, uint64_t *rng, uint32_t dims)
{
	size_t n = 1 + sample_below(rng, sample_below(rng, 4) ? 5 : TABLE_MAX);
	for (size_t i = 0; i < n; i++) {
		samples[i] = sample_make(rng, n > 5 ? 2 : dims);
		spans[i] = samples[i].span;
		if (!sample_below(rng, 6))
			spans[i] = (struct span){.row_bytes = 0};
	}
	return n;
}

static void free_table(struct sample *samples, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(samples[i].room);
}

Test(gpu_kernels, digests_and_packs_spans_of_every_shape)
{
	static struct sample samples[TABLE_MAX];
	static struct span spans[TABLE_MAX];
	uint64_t rng = 4;
	for (uint64_t round = 0; round < 400; round++) {
		size_t n = draw_table(samples, spans, &rng, round % 3 ? 4 : SPAN_NDIM_MAX);
		struct load l = load_make(spans, n, &rng);
		emulator_seed(round);
		check_digests(&l, "round", round);
		check_pack(&l, "round", round);
		check_changed(&l, "round", round);
		load_free(&l);
		free_table(samples, n);
	}
}

Test(gpu_kernels, unpacks_into_spans_of_every_shape_and_beside_none)
{
	static struct sample samples[TABLE_MAX];
	static struct span spans[TABLE_MAX];
	uint64_t rng = 5;
	for (uint64_t round = 0; round < 400; round++) {
		size_t n = draw_table(samples, spans, &rng, round % 3 ? 4 : SPAN_NDIM_MAX);
		struct load l = load_make(spans, n, &rng);
		char *arena = random_bytes(&rng, l.bytes), *want[TABLE_MAX];
		for (size_t i = 0; i < n; i++) {
			struct span there = spans[i];
			want[i] = malloc(samples[i].room_bytes);
			memcpy(want[i], samples[i].room, samples[i].room_bytes);
			if (there.memory)
				there.memory = want[i] + ((char *)there.memory - samples[i].room);
			span_unpack(&there, arena + there.arena_at, 0, span_bytes(&there));
		}
		cr_assert_eq(gpu_unpack(&l.table, 0, l.units, arena, 1 + (unsigned)(round % 3), NULL), 0);
		for (size_t i = 0; i < n; i++) {
			cr_assert(!memcmp(want[i], samples[i].room, samples[i].room_bytes), "round %lu span %zu", round,
				  i);
			free(want[i]);
		}
		free(arena);
		load_free(&l);
		free_table(samples, n);
	}
}

Test(gpu_kernels, a_flipped_bit_anywhere_changes_its_leaf)
{
	enum { BYTES = 2 * LEAF_SIZE + 777 };
	uint64_t rng = 6;
	char *room = random_bytes(&rng, BYTES);
	struct span span = {.memory = room, .row_bytes = BYTES};
	struct load l = load_make(&span, 1, &rng);
	for (int round = 0; round < 60; round++) {
		uint64_t at = sample_below(&rng, BYTES), leaves[3];
		room[at] ^= (char)(1 << sample_below(&rng, 8));
		cr_assert_eq(gpu_digest(&l.table, 0, l.units, leaves, NULL, 2, NULL), 0);
		for (uint64_t i = 0; i < 3; i++)
			cr_assert_eq(leaves[i] != l.want[i], i == at / LEAF_SIZE, "byte %lu", at);
		room[at] = (l.packed + span.arena_at)[at];
	}
	load_free(&l);
	free(room);
}

Test(gpu_kernels, pieces_have_the_digests_of_the_format)
{
	static struct gpu_span spans[400];
	static uint64_t before[401], out[800];
	uint64_t rng = 7, leaves = 0;
	for (size_t i = 0; i < 400; i++) {
		before[i] = leaves;
		spans[i].first_leaf = leaves;
		leaves += i < 300 ? i : sample_below(&rng, 5000);
	}
	before[400] = leaves;
	uint64_t *digests = (void *)random_bytes(&rng, leaves * 8);
	struct gpu_table table = {spans, before, 400};
	cr_assert_eq(gpu_pieces(&table, digests, out, 3, NULL), 0);
	for (size_t i = 0; i < 400; i++) {
		struct digest want = digest_piece(digests + before[i], before[i + 1] - before[i]);
		cr_assert_eq(out[2 * i], want.low, "%lu leaves", before[i + 1] - before[i]);
		cr_assert_eq(out[2 * i + 1], want.high, "%lu leaves", before[i + 1] - before[i]);
	}
	free(digests);
}

Test(gpu_kernels, planes_are_those_of_packed_files)
{
	static const unsigned sizes[] = {1, 2, 4, 8};
	uint64_t rng = 8;
	for (int round = 0; round < 300; round++) {
		unsigned size = sizes[round % 4], misplaced = (unsigned)sample_below(&rng, 17);
		uint64_t n = sample_below(&rng, round % 7 ? 3000 : 70000);
		char *room = random_bytes(&rng, misplaced + n * size), *elements = room + misplaced;
		uint8_t *planes = malloc(n * size + 1), *want = malloc(n + 1);
		cr_assert_eq(gpu_planes(elements, n, size, planes, 2, NULL), 0);
		for (unsigned p = 0; p < size; p++) {
			planes_split(elements, (uint32_t)n, size, p, want);
			cr_assert(!memcmp(want, planes + p * n, n), "round %d plane %u of %u, %lu elements", round, p,
				  size, n);
		}
		free(want);
		free(planes);
		free(room);
	}
	cr_assert_eq(gpu_planes(&rng, 1, 3, &rng, 1, NULL), 1);
}

Test(gpu_kernels, a_number_is_told_in_its_width)
{
	uint64_t memory[2] = {UINT64_MAX, UINT64_MAX};
	cr_assert_eq(gpu_tell(&memory[0], 0x1122334455667788, 8, NULL), 0);
	cr_assert_eq(memory[0], 0x1122334455667788u);
	cr_assert_eq(gpu_tell((char *)memory + 4, 7, 4, NULL), 0);
	cr_assert_eq(memory[0], 0x0000000755667788u);
	cr_assert_eq(memory[1], UINT64_MAX);
	cr_assert_neq(gpu_tell(memory, 7, 2, NULL), 0);
	cr_assert_eq(gpu_digest_load() || gpu_pack_load() || gpu_tell_load(), 0);
}
