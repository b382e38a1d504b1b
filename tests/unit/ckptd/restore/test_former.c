/* What former ranks have left, read by ranks that hold it otherwise divided: every element in its place, with its digest; what does not fit is
 * refused with both sides named, and what is damaged is found. */
#include "restore/former.h"

#include "arena/slot_check.h"
#include "ckptd/job_maker.h"
#include "format/make_registration.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 2 * MAKER_ROWS, RANKS_MAX = 4, SHARED = 30 * 500 };

static struct maker made;
static struct former_source source;
static struct memory *mems[RANKS_MAX];
static uint32_t slots[RANKS_MAX], nranks;
static struct err err;
static const struct step_id kept = {10, 1};

static void setup(void)
{
	maker_new(&made, kept);
	source = (struct former_source){.id = kept, .world = MAKER_WORLD, .saved_world = MAKER_WORLD};
	cr_assert_eq(former_source_make(&source, MAKER_WORLD), 0);
	for (uint32_t r = 0; r < MAKER_WORLD; r++)
		former_source_add(&source, made.mem[r], 0);
	nranks = 0;
	err = (struct err){{0}};
}

static void teardown(void)
{
	for (uint32_t r = 0; r < nranks; r++)
		memory_put(mems[r]);
	former_source_end(&source);
	maker_free(&made);
}

TestSuite(former, .init = setup, .fini = teardown);

/* Arenas of other ranks, a slot of each claimed. They are not to be complete: a test leaves out what it likes. */
static void make_arenas(struct registration *regs, uint32_t n)
{
	struct table *tables[RANKS_MAX];
	const struct registration *list[RANKS_MAX];
	struct layout layouts[RANKS_MAX];
	for (uint32_t r = 0; r < n; r++) {
		tables[r] = maker_table(&regs[r]);
		list[r] = &tables[r]->reg;
	}
	cr_assert_eq(layout_make(list, n, false, LAYOUT_FILE_MAX, layouts, &err), 0, "%s", err.text);
	for (uint32_t r = 0; r < n; r++) {
		cr_assert_eq(memory_create("main", tables[r], &layouts[r], ARENA_SLOTS_MIN, HUGE_PAGES_NEVER, &mems[r],
					   &err),
			     0, "%s", err.text);
		table_put(tables[r]);
		slots[r] = (uint32_t)memory_claim(mems[r], kept);
		memset(memory_slot(mems[r], slots[r]), 0xa5, mems[r]->slot_size);
	}
	nranks = n;
}

static _Atomic uint64_t told;
static uint32_t bad;

static void there(const struct former_target *target, uint32_t rank, uint64_t first, uint64_t count)
{
	cr_assert_leq(first + count, target->mems[rank]->layout.nleaves);
	told += count;
}

static int fill(void)
{
	const struct former_target target = {.mems = mems, .slots = slots, .n = nranks, .there = there};
	told = 0;
	return former_read(&source, &target, &bad, &err);
}

/* All elements of a tensor, by their numbers, out of the pieces of some ranks. */
static void assemble(struct memory *const *from, const uint32_t *at, uint32_t n, const char *name, uint8_t *out)
{
	for (uint32_t r = 0; r < n; r++)
		for (uint32_t p = 0; p < from[r]->layout.npieces; p++) {
			const struct layout_piece *piece = &from[r]->layout.pieces[p];
			const struct entry *e = &from[r]->table->reg.entries[piece->entry];
			const uint8_t *data = memory_slot(from[r], at[r]) + piece->slot_at;
			unsigned size = dtype_size(e->dtype);
			uint64_t volume;
			if (strcmp(e->name, name) != 0)
				continue;
			cr_assert_eq(shape_volume(&e->shape, &volume), 0);
			for (uint64_t i = 0; i < volume; i++) {
				uint64_t before = region_rank(&e->shape, &piece->region, i);
				if (region_rank(&e->shape, &piece->region, i + 1) > before)
					memcpy(out + i * size, data + before * size, size);
			}
		}
}

static void expect_same(const char *name, size_t bytes)
{
	uint8_t *was = calloc(1, bytes), *is = calloc(1, bytes);
	cr_assert(was && is);
	assemble(source.mems, source.slots, source.n, name, was);
	assemble(mems, slots, nranks, name, is);
	cr_expect_arr_eq(was, is, bytes, "%s differs", name);
	free(was);
	free(is);
}

static void expect_whole(void)
{
	uint64_t leaf, leaves = 0;
	expect_same("w", ROWS * 8);
	expect_same("shared", SHARED * 4);
	expect_same("config", 100);
	expect_same("rng@00000", 32);
	for (uint32_t r = 0; r < nranks; r++) {
		cr_expect(slot_check(mems[r], slots[r], &leaf), "the digests of rank %u are wrong from leaf %lu on", r,
			  (unsigned long)leaf);
		leaves += mems[r]->layout.nleaves;
	}
	cr_expect_eq(told, leaves, "%lu of %lu leaves were told of", (unsigned long)told, (unsigned long)leaves);
}

static struct registration rank_of(uint32_t rank, uint32_t world, uint64_t start, uint64_t count, uint64_t column,
				   uint64_t columns)
{
	struct shape rows = shape1(ROWS), shared = shape2(30, 500);
	struct registration reg = {.rank = rank, .world = world};
	struct region box = {.kind = REGION_BOX, .offset = {0, column}, .extent = {30, columns}};
	add_tensor(&reg, "w", DTYPE_U64, rows, "", region_flat(start, count));
	add_tensor(&reg, "shared", DTYPE_F32, shared, "", box);
	add_blob(&reg, "config", ENTRY_JOB_BLOB, 100);
	add_blob(&reg, "rng", ENTRY_RANK_BLOB, 32);
	return reg;
}

Test(former, one_rank_reads_what_two_have_left)
{
	struct registration reg = rank_of(0, 1, 0, ROWS, 0, 500);
	make_arenas(&reg, 1);
	cr_assert_eq(fill(), 0, "%s", err.text);
	expect_whole();
}

Test(former, ranges_of_other_lengths_and_columns_for_rows)
{
	static const uint8_t nothing[32];
	struct registration regs[3] = {rank_of(0, 3, 0, 1001, 0, 7), rank_of(1, 3, 1001, 50000, 7, 400),
				       rank_of(2, 3, 51001, ROWS - 51001, 407, 93)};
	make_arenas(regs, 3);
	cr_assert_eq(fill(), 0, "%s", err.text);
	expect_whole();
	expect_same("rng@00001", 32);
	for (uint32_t p = 0; p < mems[2]->layout.npieces; p++) {
		const struct layout_piece *piece = &mems[2]->layout.pieces[p];
		if (!strcmp(mems[2]->table->reg.entries[piece->entry].name, "rng@00002"))
			cr_expect_arr_eq(memory_slot(mems[2], slots[2]) + piece->slot_at, nothing, 32,
					 "a blob that nobody had");
	}
}

Test(former, an_older_slot_is_another_step)
{
	struct registration reg = rank_of(0, 1, 0, ROWS, 0, 500);
	make_arenas(&reg, 1);
	for (uint32_t r = 0; r < MAKER_WORLD; r++) {
		cr_assert_eq(memory_claim(made.mem[r], (struct step_id){11, 1}), 1);
		memset(memory_slot(made.mem[r], 1), 7, made.mem[r]->slot_size);
		memory_digest(made.mem[r], 1, 0, made.mem[r]->layout.nleaves, memory_leaves(made.mem[r], 1));
		source.slots[r] = 1;
	}
	cr_assert_eq(fill(), 0, "%s", err.text);
	expect_whole();
}

static bool says(const char *a, const char *b)
{
	return strstr(err.text, a) && strstr(err.text, b) && strstr(err.text, "step 10 epoch 1");
}

Test(former, another_dtype_is_refused)
{
	struct shape rows = shape1(ROWS);
	struct registration reg = {.rank = 0, .world = 1};
	add_tensor(&reg, "w", DTYPE_F64, rows, "", region_flat(0, ROWS));
	make_arenas(&reg, 1);
	cr_expect_eq(fill(), -EINVAL);
	cr_expect(says("tensor w: rank 0 wants F64 [80000]", "has U64 [80000]"), "%s", err.text);
	cr_expect_eq(memory_slot(mems[0], slots[0])[0], 0xa5, "something was copied all the same");
}

Test(former, another_shape_is_refused)
{
	struct shape rows = shape1(ROWS + 1);
	struct registration reg = {.rank = 0, .world = 1};
	add_tensor(&reg, "w", DTYPE_U64, rows, "", region_flat(0, ROWS));
	make_arenas(&reg, 1);
	cr_expect_eq(fill(), -EINVAL);
	cr_expect(says("wants U64 [80001]", "has U64 [80000]"), "%s", err.text);
}

Test(former, a_tensor_that_nobody_had_is_refused)
{
	struct registration reg = rank_of(0, 1, 0, ROWS, 0, 500);
	add_tensor(&reg, "momentum", DTYPE_F32, shape1(4), "", region_flat(0, 4));
	make_arenas(&reg, 1);
	cr_expect_eq(fill(), -EINVAL);
	cr_expect(says("tensor momentum, which rank 0 wants, is not in", "a world of 2"), "%s", err.text);
}

Test(former, what_another_node_has_is_refused)
{
	struct registration reg = rank_of(0, 1, 0, ROWS, 0, 500);
	make_arenas(&reg, 1);
	memory_put(source.mems[--source.n]);
	cr_expect_eq(fill(), -EINVAL);
	cr_expect(says("tensor w: 40000 of the elements that rank 0 wants", "not in this node's memory"), "%s",
		  err.text);
}

Test(former, damage_is_found_before_anything_is_copied)
{
	struct registration reg = rank_of(0, 1, 0, ROWS, 0, 500);
	make_arenas(&reg, 1);
	memory_slot(made.mem[1], 0)[70000] ^= 1;
	cr_expect_eq(fill(), -EBADMSG);
	cr_expect(strstr(err.text, "is damaged: tensor 'w' of rank 1"), "%s", err.text);
	cr_expect_eq(bad, 1);
	cr_expect_eq(told, 0);
	cr_expect_eq(memory_slot(mems[0], slots[0])[0], 0xa5, "something was copied all the same");
}

/* ---- parts that hold the same ------------------------------------------------------------------------------------ */

/* Once more of rank 0: the second half of "w" once more, and all of what is shared. */
static struct memory *a_third_part(void)
{
	struct registration reg = rank_of(0, MAKER_WORLD, MAKER_ROWS, MAKER_ROWS, 0, 500);
	struct memory *part;
	make_arenas(&reg, 1);
	cr_assert_eq(fill(), 0, "%s", err.text);
	part = mems[0];
	nranks = 0;
	return part;
}

/* Counted, the elements that two parts have twice would stand for those that nobody has. */
Test(former, what_two_have_twice_is_not_taken_for_what_is_lacking)
{
	struct memory *part = a_third_part();
	struct registration reg = rank_of(0, 1, 0, ROWS, 0, 500);
	const struct former_target target = {.mems = mems, .slots = slots, .n = 1, .there = there};
	make_arenas(&reg, 1);
	memory_put(source.mems[0]);
	source.mems[0] = part;
	cr_expect_eq(former_covers(&source, &target, &err), -ENODATA);
	cr_expect_eq(fill(), -EINVAL);
	cr_expect(says("tensor w: 40000 of the elements", "not in this node's memory"), "%s", err.text);
	cr_expect_eq(memory_slot(mems[0], slots[0])[0], 0xa5, "something was copied all the same");
}

Test(former, what_several_have_is_read_once_and_whole)
{
	struct former_source more = {0};
	struct memory *part = a_third_part();
	struct registration reg = rank_of(0, 1, 0, ROWS, 0, 500);
	cr_assert_eq(former_source_make(&more, 3), 0);
	more.id = kept;
	more.world = more.saved_world = MAKER_WORLD;
	former_source_add(&more, part, 0);
	for (uint32_t r = 0; r < MAKER_WORLD; r++)
		former_source_add(&more, source.mems[r], source.slots[r]);
	former_source_end(&source);
	memory_put(part);
	source = more;
	make_arenas(&reg, 1);
	cr_assert_eq(fill(), 0, "%s", err.text);
	expect_whole();
}
