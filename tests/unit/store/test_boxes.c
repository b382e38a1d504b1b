#include "scratch.h"
#include "store/read/boxes.h"
#include "store/read/contents.h"
#include "store_maker.h"

#include "base/cleanup.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char root[SCRATCH_MAX];
static struct store_spec spec;
static struct repo repo;
static struct checkpoint ck;
static struct contents contents;
static struct err err;

static void open_store(uint64_t rows, uint64_t cols, bool packed)
{
	scratch_new(root);
	spec = (struct store_spec){.root = root,
				   .id = {7, 1},
				   .world = 4,
				   .nodes = 2,
				   .rows = rows,
				   .cols = cols,
				   .packed = packed,
				   .seed = packed ? STORE_WEIGHTS | 5 : 5};
	cr_assert_eq(store_make(&spec, &err), 0, "%s", err.text);
	cr_assert_eq(repo_open(root, &repo, &err), 0, "%s", err.text);
	cr_assert_eq(checkpoint_open(&repo, "main", spec.id, &ck, &err), 0, "%s", err.text);
	cr_assert_eq(contents_make(&ck, &contents, &err), 0, "%s", err.text);
}

static void close_store(void)
{
	contents_free(&contents);
	checkpoint_close(&ck);
	repo_close(&repo);
	scratch_remove(root);
}

TestSuite(boxes, .fini = close_store);

static const struct manifest_tensor *tensor(const char *name)
{
	const struct content *c = contents_find(&contents, name);
	cr_assert_not_null(c, "%s", name);
	return c->meta;
}

static int read_boxes(const struct box *boxes, size_t n)
{
	return boxes_read(&ck, boxes, n, &(struct restore_options){.threads = 2}, &err);
}

/* What the region must be, packed; malloc'ed. */
static uint8_t *due(const struct manifest_tensor *t, const struct region *region, uint64_t *bytes)
{
	*bytes = region_volume(&t->shape, region) * dtype_size(t->dtype);
	uint8_t *p = malloc(*bytes + 1);
	store_fill(spec.seed, t->name, t->dtype, &t->shape, region, p);
	return p;
}

static void check_packed(const char *name, struct region region)
{
	uint64_t bytes;
	const struct manifest_tensor *t = tensor(name);
	AUTO_FREE uint8_t *want = due(t, &region, &bytes), *got = calloc(1, bytes + 1);
	const struct box box = {.tensor = t, .region = region, .data = got, .packed = true};
	cr_assert_eq(read_boxes(&box, 1), 0, "%s: %s", name, err.text);
	cr_assert_arr_eq(got, want, bytes, "%s", name);
}

static struct region box2(uint64_t row, uint64_t col, uint64_t rows, uint64_t cols)
{
	return (struct region){.kind = REGION_BOX, .offset = {row, col}, .extent = {rows, cols}};
}

Test(boxes, any_box_of_any_tensor_whoever_saved_it)
{
	open_store(64, 48, false);
	for (size_t i = 0; i < contents.n; i++)
		check_packed(contents.list[i].meta->name, region_whole(&contents.list[i].meta->shape));
	static const char *const names[] = {"rowwise", "colwise", "moment", "embed"};
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		check_packed(names[i], box2(10, 5, 30, 40));
		check_packed(names[i], box2(63, 47, 1, 1));
		check_packed(names[i], box2(3, 3, 0, 4));
	}
}

Test(boxes, packed_files_too)
{
	open_store(512, 256, true);
	check_packed("rowwise", box2(100, 17, 300, 200));
	check_packed("moment", box2(0, 0, 512, 256));
}

/* Transposed, with gaps, and from the far end: nothing but the elements is touched. */
Test(boxes, memory_may_have_any_steps)
{
	enum { ROWS = 30, COLS = 40, GAP = 3 };
	open_store(64, 48, false);
	struct region region = box2(10, 5, ROWS, COLS);
	uint64_t bytes;
	const struct manifest_tensor *t = tensor("colwise");
	AUTO_FREE uint8_t *want = due(t, &region, &bytes);
	static float transposed[COLS][ROWS + GAP], backwards[ROWS][COLS];
	memset(transposed, 0xa5, sizeof(transposed));
	const struct box boxes[] = {
		{.tensor = t, .region = region, .data = transposed, .stride = {4, sizeof(transposed[0])}},
		{.tensor = t,
		 .region = region,
		 .data = &backwards[ROWS - 1][COLS - 1],
		 .stride = {-(int64_t)sizeof(backwards[0]), -4}},
	};
	cr_assert_eq(read_boxes(boxes, 2), 0, "%s", err.text);
	for (int r = 0; r < ROWS; r++)
		for (int c = 0; c < COLS; c++) {
			const uint8_t *at = want + ((size_t)r * COLS + (size_t)c) * 4;
			cr_assert_arr_eq((uint8_t *)&transposed[c][r], at, 4);
			cr_assert_arr_eq((uint8_t *)&backwards[ROWS - 1 - r][COLS - 1 - c], at, 4);
		}
	for (int c = 0; c < COLS; c++)
		for (int g = ROWS; g < ROWS + GAP; g++)
			cr_assert_eq(((uint8_t *)&transposed[c][g])[0], 0xa5);
}

static uint64_t last_done, last_total;

static int watch(void *arg, uint64_t done, uint64_t total)
{
	cr_assert_geq(done, last_done);
	last_done = done;
	last_total = total;
	return arg && done;
}

Test(boxes, what_is_larger_than_the_window_goes_through_it_in_turns)
{
	open_store(5000, 2000, false); /* 40 MB each */
	const struct manifest_tensor *t = tensor("rowwise"), *u = tensor("moment");
	uint64_t bytes;
	struct region whole = region_whole(&t->shape);
	AUTO_FREE uint8_t *want = due(t, &whole, &bytes), *a = calloc(2, bytes), *b = calloc(2, bytes);
	struct box boxes[] = {
		{.tensor = t, .region = whole, .data = a, .stride = {16000, 8}},
		{.tensor = u, .region = whole, .data = b, .stride = {16000, 8}},
	};
	cr_assert_gt(2 * bytes, BOXES_WINDOW);
	struct restore_options opts = {.progress = watch};
	cr_assert_eq(boxes_read(&ck, boxes, 2, &opts, &err), 0, "%s", err.text);
	for (uint64_t i = 0; i < bytes / 4; i++)
		cr_assert_arr_eq(a + i * 8, want + i * 4, 4, "element %lu", i);
	cr_assert_eq(last_done, 2 * bytes);
	cr_assert_eq(last_total, 2 * bytes);
	last_done = 0;
	opts.arg = &opts;
	cr_assert_eq(boxes_read(&ck, boxes, 2, &opts, &err), -ECANCELED);
}

Test(boxes, damage_is_found_and_named)
{
	open_store(64, 48, false);
	char dir[SCRATCH_MAX + 64], name[NAME_FILE_MAX];
	const struct content *c = contents_find(&contents, "rowwise");
	const struct content_piece *p = &c->pieces[2];
	store_dir(&spec, dir, sizeof(dir));
	snprintf(name, sizeof(name), "%s", p->file->name);
	scratch_flip(dir, name, p->file->data_at + p->piece->at + 8, 3);
	static float got[64][48];
	struct box box = {.tensor = c->meta, .region = region_whole(&c->meta->shape), .data = got, .packed = true};
	cr_assert_eq(read_boxes(&box, 1), -EBADMSG);
	cr_assert(strstr(err.text, name) && strstr(err.text, "rowwise"), "%s", err.text);
	box.region = box2(0, 0, 16, 48);
	cr_assert_eq(read_boxes(&box, 1), 0, "another rank's piece: %s", err.text);
}
