/* What a node writes of what others hold, too, and what it can mend of it out of memory. */
#include "checkpoint/part_layout.h"

#include "base/cleanup.h"
#include "checkpoint/file_span.h"
#include "checkpoint/node_part.h"
#include "checkpoint/repair_donor.h"
#include "ckptd/job_maker.h"
#include "format/make_registration.h"

#include <criterion/criterion.h>
#include <string.h>

enum { ELEMENTS = 3 * LEAF_SIZE + 1000 };

static struct memory *mem;
static struct node_part_rank rank;
static struct part_layout *kept;

static void fill_rank(const char *const *names, uint32_t n)
{
	struct registration reg = {.rank = 0, .world = 2};
	struct layout layout;
	struct err err = {{0}};
	struct shape shape = shape1(ELEMENTS);
	for (uint32_t i = 0; i < n; i++)
		add_tensor(&reg, names[i], DTYPE_U8, shape, "dp", region_whole(&shape));
	struct table *table = maker_table(&reg);
	const struct registration *list[] = {&table->reg};
	cr_assert_eq(layout_make(list, 1, false, LAYOUT_FILE_MAX, &layout, &err), 0, "%s", err.text);
	cr_assert_eq(memory_create("main", table, &layout, 3, HUGE_PAGES_NEVER, &mem, &err), 0, "%s", err.text);
	table_put(table);
	for (uint64_t i = 0; i < n * ELEMENTS; i++)
		memory_slot(mem, 1)[i] = (uint8_t)(i * 31 + i / 251);
	rank = (struct node_part_rank){.mem = mem, .slot = 1};
	kept = NULL;
}

static void setup(void)
{
	fill_rank((const char *[]){"w"}, 1);
}

static void teardown(void)
{
	part_layout_put(kept);
	memory_put(mem);
}

TestSuite(part_layout, .init = setup, .fini = teardown);

static void make(uint32_t part, uint32_t of)
{
	struct share_parts parts = {.n = 1, .of[0] = {part, of}};
	struct err err = {{0}};
	cr_assert_eq(part_layout_make(&rank, 1, &parts, &kept, &err), 0, "%s", err.text);
}

Test(part_layout, it_is_made_anew_for_other_parts_only)
{
	make(1, 2);
	struct part_layout *first = part_layout_get(kept);
	make(1, 2);
	cr_expect_eq(kept, first);
	make(0, 2);
	cr_expect_neq(kept, first);
	cr_expect(part_layout_of(kept, 0, mem));
	cr_expect(!part_layout_of(kept, 1, mem), "there is one rank");
	part_layout_put(first);
}

Test(part_layout, it_is_of_one_table)
{
	make(1, 2);
	struct part_layout *first = kept;
	mem->sum.low ^= 1;
	cr_expect(!part_layout_of(kept, 0, mem));
	part_layout_get(first);
	make(1, 2);
	cr_expect_neq(kept, first);
	part_layout_put(first);
}

/* Its first and its last leaves; others write what is between them. */
static void make_mixed(struct err *err, int expected)
{
	static const struct share_run runs[] = {{1, 0, LEAF_SIZE}, {1, 0, 0}, {1, 0, UINT64_MAX}};
	AUTO_WBUF struct wbuf text = {0};
	struct share_parts parts = {.n = 1, .of[0].parts = SHARE_MIXED, .nruns = 3};
	for (int i = 0; i < 3; i++)
		share_run_put(&text, &runs[i]);
	parts.runs = text.data;
	cr_assert_eq(part_layout_make(&rank, 1, &parts, &kept, err), expected, "%s", err->text);
}

Test(part_layout, runs_of_another_table_make_none)
{
	struct err err = {{0}};
	make(1, 2);
	struct part_layout *first = kept;
	make_mixed(&err, -EINVAL);
	cr_expect_eq(kept, first);
	cr_expect(strstr(err.text, "not what its 1 ranks hold"), "%s", err.text);
}

Test(part_layout, a_part_has_its_own_header_and_is_mended_from_its_place_in_the_slot)
{
	uint8_t buf[4096];
	make(1, 2);
	const struct part_layout_rank *own = part_layout_of(kept, 0, mem);
	cr_assert(own && own->layout.nfiles == 1);
	const struct layout_file *lf = &own->layout.files[0];
	cr_expect_eq(lf->data_size, ELEMENTS - 2 * LEAF_SIZE);
	struct manifest_file file = {
		.rank = 0, .part = lf->part, .data_at = own->heads[0].len, .size = own->heads[0].len + lf->data_size};
	memcpy(file.group, lf->group, sizeof(file.group));
	struct donor donor = {.nparts = 1, .parts = calloc(1, sizeof(*donor.parts)), .layout = part_layout_get(kept)};
	cr_assert(donor.parts);
	donor.parts[0] = (struct donor_part){memory_get(mem), 1};
	cr_assert_eq(donor_read(&donor, &file, file.data_at + 100, sizeof(buf), buf), 0);
	cr_expect_eq(memcmp(buf, memory_slot(mem, 1) + 2 * LEAF_SIZE + 100, sizeof(buf)), 0);
	cr_assert_eq(donor_read(&donor, &file, 0, 100, buf), 0);
	cr_expect_eq(memcmp(buf, own->heads[0].data, 100), 0);
	part_layout_put(donor.layout);
	donor.layout = NULL;
	cr_expect_eq(donor_read(&donor, &file, file.data_at + 100, sizeof(buf), buf), -ENOENT,
		     "all of it is another file");
	donor_drop(&donor);
}

/* A table of three tensors, of which the node writes the first leaf of the first, and the last. */
Test(part_layout, what_is_written_of_a_mixture_is_mended_piece_by_piece)
{
	uint8_t buf[LEAF_SIZE + 4096];
	struct err err = {{0}};
	teardown();
	fill_rank((const char *[]){"a", "b", "c"}, 3);
	make_mixed(&err, 0);
	const struct part_layout_rank *own = part_layout_of(kept, 0, mem);
	cr_assert(own && own->layout.nfiles == 1);
	const struct layout_file *lf = &own->layout.files[0];
	cr_assert_eq(lf->data_size, LEAF_SIZE + ELEMENTS);
	cr_expect_eq(file_span_count(&own->layout, lf), 2);
	struct manifest_file file = {
		.rank = 0, .part = lf->part, .data_at = own->heads[0].len, .size = own->heads[0].len + lf->data_size};
	memcpy(file.group, lf->group, sizeof(file.group));
	struct donor donor = {.nparts = 1, .parts = calloc(1, sizeof(*donor.parts)), .layout = part_layout_get(kept)};
	cr_assert(donor.parts);
	donor.parts[0] = (struct donor_part){memory_get(mem), 1};
	cr_assert_eq(donor_read(&donor, &file, file.data_at, sizeof(buf), buf), 0);
	cr_expect_eq(memcmp(buf, memory_slot(mem, 1), LEAF_SIZE), 0);
	cr_expect_eq(memcmp(buf + LEAF_SIZE, memory_slot(mem, 1) + 2 * ELEMENTS, 4096), 0);
	donor_drop(&donor);
}
