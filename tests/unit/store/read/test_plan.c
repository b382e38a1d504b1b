#include "store/restore_maker.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Plans one want and expects the given error; the message must hold all of the given texts. */
static void expect_error(struct maker *m, const struct want *wants, size_t n, int rc, const char *const *texts)
{
	struct restore_plan *plan = NULL;
	struct err err = {""};
	cr_assert_eq(restore_plan_make(&m->ck, wants, n, &plan, &err), rc, "%s", err.text);
	cr_assert_null(plan);
	for (; *texts; texts++)
		cr_expect(strstr(err.text, *texts), "\"%s\" is not in \"%s\"", *texts, err.text);
	for (size_t i = 0; i < n; i++)
		cr_expect(maker_untouched(&wants[i]));
}

#define EXPECT_ERROR(m, wants, n, rc, ...)                                                                             \
	do {                                                                                                           \
		const char *const texts_[] = {__VA_ARGS__, NULL};                                                      \
		expect_error(m, wants, n, rc, texts_);                                                                 \
	} while (0)

/* w: 8x8 F32 in two row halves on ranks 0 and 1. */
static uint32_t make_halves(struct maker *m)
{
	maker_open(m);
	uint32_t w = maker_tensor(m, "w", DTYPE_F32, shape2(8, 8));
	maker_piece(m, 0, w, box2(0, 0, 4, 8));
	maker_piece(m, 1, w, box2(4, 0, 4, 8));
	return w;
}

Test(plan, missing_tensor)
{
	struct maker m;
	uint32_t w = make_halves(&m);
	struct want want = maker_want(&m, w, box2(0, 0, 8, 8));
	want.tensor = "v";
	want.owner = 5;
	EXPECT_ERROR(&m, &want, 1, -EINVAL, "tensor v", "rank 5", "step-000000001000.e0003");
	want.optional = true;
	struct restore_plan *plan = NULL;
	cr_assert_eq(restore_plan_make(&m.ck, &want, 1, &plan, NULL), 0);
	uint64_t useful = 1, read = 1;
	restore_plan_cost(plan, &useful, &read);
	cr_expect_eq(useful, 0);
	cr_expect_eq(read, 0);
	cr_expect_eq(restore_execute(plan, &(struct restore_options){0}, NULL), 0);
	cr_expect(maker_untouched(&want));
	restore_plan_free(plan);
	maker_want_free(&want);
	maker_close(&m);
}

Test(plan, other_dtype_or_shape_names_both_sides)
{
	struct maker m;
	uint32_t w = make_halves(&m);
	struct want want = maker_want(&m, w, box2(0, 0, 8, 8));
	want.dtype = DTYPE_I32;
	EXPECT_ERROR(&m, &want, 1, -EINVAL, "I32 [8, 8]", "F32 [8, 8]");
	want.dtype = DTYPE_F32;
	want.shape = shape2(16, 4);
	EXPECT_ERROR(&m, &want, 1, -EINVAL, "F32 [16, 4]", "F32 [8, 8]");
	maker_want_free(&want);
	maker_close(&m);
}

Test(plan, region_outside_the_shape)
{
	struct maker m;
	uint32_t w = make_halves(&m);
	struct want want = maker_want(&m, w, box2(0, 0, 8, 8));
	want.region = box2(1, 0, 8, 8);
	EXPECT_ERROR(&m, &want, 1, -ERANGE, "tensor w");
	maker_want_free(&want);
	maker_close(&m);
}

Test(plan, part_never_saved)
{
	struct maker m;
	maker_open(&m);
	uint32_t w = maker_tensor(&m, "w", DTYPE_F32, shape2(8, 8));
	maker_piece(&m, 0, w, box2(0, 0, 4, 8));
	maker_piece(&m, 1, w, box2(4, 1, 4, 7));
	struct want want = maker_want(&m, w, box2(2, 0, 6, 8));
	EXPECT_ERROR(&m, &want, 1, -ENODATA, "tensor w", "[2:8, 0:8]", "4 of 48 elements", "number 16 of the region");
	maker_want_free(&want);
	maker_close(&m);
}

Test(plan, saved_twice)
{
	struct maker m;
	maker_open(&m);
	uint32_t w = maker_tensor(&m, "w", DTYPE_F32, shape2(8, 8));
	maker_piece(&m, 0, w, box2(0, 0, 5, 8));
	maker_piece(&m, 1, w, box2(4, 0, 3, 8)); /* as many elements as wanted, but a hole too */
	struct want want = maker_want(&m, w, box2(0, 0, 8, 8));
	EXPECT_ERROR(&m, &want, 1, -EEXIST, "tensor w", "[0:5, 0:8]", "[4:7, 0:8]", "rank-00000", "rank-00001");
	maker_want_free(&want);
	maker_close(&m);
}

Test(plan, further_problems_are_counted)
{
	struct maker m;
	uint32_t w = make_halves(&m);
	struct want wants[3];
	for (int i = 0; i < 3; i++) {
		wants[i] = maker_want(&m, w, box2(0, 0, 8, 8));
		wants[i].tensor = i == 2 ? "u" : "v";
	}
	EXPECT_ERROR(&m, wants, 3, -EINVAL, "and 2 more problems");
	for (int i = 0; i < 3; i++)
		maker_want_free(&wants[i]);
	maker_close(&m);
}

Test(plan, nodes_that_disagree)
{
	struct maker m;
	uint32_t w = make_halves(&m);
	struct manifest_tensor tensor = {
		.name = m.node.tensors[w].name, .kind = ENTRY_TENSOR, .dtype = DTYPE_F32, .shape = shape2(8, 9)};
	struct node_manifest nodes[2] = {m.node, {.node = "there", .ntensors = 1, .tensors = &tensor}};
	m.ck.nodes = nodes;
	m.ck.nnodes = 2;
	struct want want = maker_want(&m, w, box2(0, 0, 8, 8));
	EXPECT_ERROR(&m, &want, 1, -EBADMSG, "there", "[8, 9]", "[8, 8]");
	maker_want_free(&want);
	maker_close(&m);
}

Test(plan, sidecar_of_a_needed_file_only)
{
	struct maker m;
	uint32_t w = make_halves(&m);
	maker_write(&m);
	cr_assert_eq(unlinkat(m.repo.root, m.node.files[1].sidecar_name, 0), 0);
	struct want want = maker_want(&m, w, box2(0, 0, 4, 8));
	struct restore_plan *plan = NULL;
	struct err err = {""};
	cr_assert_eq(restore_plan_make(&m.ck, &want, 1, &plan, &err), 0, "%s", err.text);
	restore_plan_free(plan);
	maker_want_free(&want);
	want = maker_want(&m, w, box2(0, 0, 5, 8));
	cr_assert_lt(restore_plan_make(&m.ck, &want, 1, &plan, &err), 0);
	cr_expect(strstr(err.text, m.node.files[1].sidecar_name), "%s", err.text);
	maker_want_free(&want);
	maker_close(&m);
}

Test(plan, sidecar_that_describes_other_pieces)
{
	struct maker m;
	uint32_t w = make_halves(&m);
	maker_write(&m);
	m.node.files[1].pieces[0].at += 4; /* the manifest lies */
	struct want want = maker_want(&m, w, box2(0, 0, 8, 8));
	EXPECT_ERROR(&m, &want, 1, -EBADMSG, m.node.files[1].sidecar_name);
	maker_want_free(&want);
	maker_close(&m);
}

Test(plan, cost_counts_whole_leaves_of_needed_ranges)
{
	struct maker m;
	maker_open(&m);
	uint32_t w = maker_tensor(&m, "w", DTYPE_U8, shape2(16, 65536)); /* a row is a leaf */
	maker_piece(&m, 0, w, box2(0, 0, 16, 65536));
	maker_write(&m);
	struct want wants[2] = {maker_want(&m, w, box2(0, 0, 1, 10)), maker_want(&m, w, box2(15, 0, 1, 10))};
	struct restore_plan *plan = NULL;
	cr_assert_eq(restore_plan_make(&m.ck, wants, 2, &plan, NULL), 0);
	uint64_t useful, read;
	restore_plan_cost(plan, &useful, &read);
	cr_expect_eq(useful, 20);
	cr_expect_eq(read, 2 * 65536);
	restore_plan_free(plan);
	for (int i = 0; i < 2; i++)
		maker_want_free(&wants[i]);
	maker_close(&m);
}

/* Of the processor, so that other load on the machine does not count. */
static double seconds_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Seconds to find out that nothing is wrong with the plan but the last tensor, which is missing: sidecars are not read. */
static double plan_seconds(uint32_t ranks, uint32_t tensors)
{
	struct maker m;
	maker_open(&m);
	for (uint32_t t = 0; t < tensors; t++) {
		char name[32];
		snprintf(name, sizeof(name), "layer.%u", t);
		maker_tensor(&m, name, DTYPE_BF16, shape2(ranks, ranks));
	}
	for (uint32_t r = 0; r < ranks; r++)
		for (uint32_t t = 0; t < tensors; t++) /* rows and columns in turn */
			maker_piece(&m, r, t, t % 2 ? box2(0, r, ranks, 1) : box2(r, 0, 1, ranks));
	struct want *wants = calloc(ranks * tensors + 1, sizeof(*wants));
	for (uint32_t i = 0; i < ranks * tensors; i++) {
		const struct manifest_tensor *t = &m.node.tensors[i % tensors];
		uint32_t r = i / tensors;
		struct region region = i % 2 ? box2(0, r, ranks, 1) : box2(r, 0, 1, ranks);
		wants[i] = (struct want){.tensor = t->name, .dtype = t->dtype, .shape = t->shape, .region = region};
	}
	wants[ranks * tensors] = (struct want){.tensor = "missing"};
	struct restore_plan *plan = NULL;
	double start = seconds_now();
	cr_assert_eq(restore_plan_make(&m.ck, wants, ranks * tensors + 1, &plan, NULL), -EINVAL);
	double seconds = seconds_now() - start;
	free(wants);
	maker_close(&m);
	return seconds;
}

Test(plan, near_linear_in_the_number_of_ranks)
{
	plan_seconds(256, 4); /* warm */
	double few = plan_seconds(2048, 4), many = plan_seconds(16384, 4);
	cr_log_info("%.3f s for 2048 ranks, %.3f s for 16384", few, many);
	/* 8 times the pieces and wants; quadratic would be 64. */
	cr_expect_lt(many, few * 24 + 0.1, "%.3f s for 2048 ranks, %.3f s for 16384", few, many);
}
