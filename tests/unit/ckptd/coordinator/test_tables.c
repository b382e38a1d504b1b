#include "coordinator/tables.h"

#include "base/cleanup.h"
#include "format/make_registration.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { RANKS = 4 };

static struct registration regs[RANKS];
static struct tables tables;
static unsigned asked;

static void setup(void)
{
	cr_assert_eq(tables_init(&tables, RANKS), 0);
	for (uint32_t r = 0; r < RANKS; r++)
		regs[r] = (struct registration){.rank = r, .world = RANKS};
	asked = 0;
}

static void teardown(void)
{
	tables_free(&tables);
	for (uint32_t r = 0; r < RANKS; r++)
		registration_free(&regs[r]);
}

TestSuite(tables, .init = setup, .fini = teardown);

static void has(uint32_t rank, const char *name, enum dtype dtype, uint64_t rows)
{
	add_tensor(&regs[rank], name, dtype, shape1(rows), "", region_flat(0, 1));
}

static void ready(uint32_t rank)
{
	struct err err;
	cr_assert_eq(registration_index(&regs[rank], &err), 0, "%s", err.text);
	tables_ready(&tables, rank, tensor_heads_digest(&regs[rank]));
}

static void all_ready(void)
{
	for (uint32_t r = 0; r < RANKS; r++)
		ready(r);
}

/* As its node would. */
static bool answer(const struct peer_tensors_ask *ask, uint32_t most)
{
	AUTO_WBUF struct wbuf heads = {0};
	const struct registration *reg = &regs[ask->rank];
	struct peer_tensors m = {.ask = *ask, .digest = tensor_heads_digest(reg)};
	const struct entry *e = ask->name ? tensor_heads_find(reg, ask->name) : NULL;
	asked++;
	if (e) {
		snprintf(m.name, sizeof(m.name), "%s", e->name);
		tensor_head_text(e, m.text, sizeof(m.text));
	} else if (!ask->name) {
		m.n = tensor_heads_put(reg, ask->first, most, &heads, &m.next);
		m.heads = heads.data;
	}
	return tables_hear(&tables, &m);
}

static int compare(uint32_t most, struct err *err)
{
	struct peer_tensors_ask ask;
	int rc;
	while ((rc = tables_compare(&tables, &ask, err)) == -EINPROGRESS) {
		cr_assert_lt(ask.rank, RANKS);
		cr_assert(answer(&ask, most));
	}
	return rc;
}

Test(tables, ranks_that_know_the_same_are_not_asked)
{
	struct err err;
	for (uint32_t r = 0; r < RANKS; r++)
		has(r, "w", DTYPE_F32, 100);
	all_ready();
	cr_expect_eq(compare(10, &err), 0);
	cr_expect_eq(asked, 0);
}

/* Two stages of a pipeline: layers of their own, and an embedding that both know. */
static void make_stages(void)
{
	char name[32];
	for (uint32_t r = 0; r < RANKS; r++) {
		has(r, "embedding", DTYPE_F32, 100);
		for (int i = 0; i < 25; i++) {
			snprintf(name, sizeof(name), "layer.%u.%d", r / 2, i);
			has(r, name, DTYPE_BF16, 10);
		}
	}
}

Test(tables, one_rank_of_each_kind_lists_its_tensors_and_those_that_agree_are_not_asked_again)
{
	struct err err;
	make_stages();
	all_ready();
	cr_expect_eq(compare(10, &err), 0);
	cr_expect_eq(asked, 6, "two lists in three parts");
	all_ready();
	cr_expect_eq(compare(10, &err), 0);
	cr_expect_eq(asked, 6);
	has(3, "more", DTYPE_F32, 1);
	all_ready();
	cr_expect_eq(compare(10, &err), 0);
	cr_expect_eq(asked, 6 + 9, "there are three kinds now");
}

Test(tables, who_knows_a_tensor_in_another_way_is_named)
{
	struct err err;
	make_stages();
	has(1, "head", DTYPE_F32, 50);
	has(3, "head", DTYPE_F16, 50);
	for (int again = 0; again < 2; again++) {
		all_ready();
		cr_assert_eq(compare(10, &err), -EINVAL);
		cr_expect_str_eq(err.text, "tensor \"head\" is F32 [50] on rank 1, and F16 [50] on rank 3: register it "
					   "alike on all ranks");
	}
}

Test(tables, what_is_not_asked_for_or_of_another_table_counts_for_nothing)
{
	struct peer_tensors_ask ask, other;
	struct err err;
	make_stages();
	all_ready();
	cr_assert_eq(tables_compare(&tables, &ask, &err), -EINPROGRESS);
	cr_assert_eq(tables_compare(&tables, &other, &err), -EINPROGRESS);
	cr_expect_eq(other.rank, RANK_MAX, "it was asked already");
	other = ask;
	other.rank = ask.rank ^ 2;
	cr_expect_not(answer(&other, 10));
	other = ask;
	other.first = 3;
	cr_expect_not(answer(&other, 10));
	uint64_t digest = tables.of[ask.rank];
	tables.of[ask.rank]++;
	cr_expect_not(answer(&ask, 10), "its table is another one by now");
	tables.of[ask.rank] = digest;
	cr_expect(answer(&ask, 10));
	cr_expect_not(answer(&ask, 10), "that was said already");
}

Test(tables, who_is_ready_anew_begins_it_again)
{
	struct peer_tensors_ask ask;
	struct err err;
	make_stages();
	all_ready();
	cr_assert_eq(tables_compare(&tables, &ask, &err), -EINPROGRESS);
	ready(0);
	cr_expect_not(answer(&ask, 10));
	cr_expect_eq(compare(10, &err), 0);
}

/* Two names with one hash, for all that the coordinator can tell. */
Test(tables, words_of_two_tensors_are_no_contradiction)
{
	struct peer_tensors_ask ask;
	struct err err;
	make_stages();
	has(1, "head", DTYPE_F32, 50);
	has(3, "head", DTYPE_F16, 50);
	all_ready();
	int rc;
	while ((rc = tables_compare(&tables, &ask, &err)) == -EINPROGRESS) {
		struct peer_tensors m = {.ask = ask, .digest = tables.of[ask.rank]};
		if (!ask.name) {
			cr_assert(answer(&ask, 100));
			continue;
		}
		snprintf(m.name, sizeof(m.name), "head of %u", ask.rank);
		snprintf(m.text, sizeof(m.text), "as on %u", ask.rank);
		cr_assert(tables_hear(&tables, &m));
	}
	cr_expect_eq(rc, 0);
}

/* Each rank knows others, without an end. */
Test(tables, beyond_what_is_compared_they_agree)
{
	static uint8_t heads[PEER_TENSORS_LISTED * TENSOR_HEAD_SIZE];
	struct peer_tensors_ask ask;
	struct err err;
	uint64_t listed = 0;
	make_stages();
	all_ready();
	int rc;
	while ((rc = tables_compare(&tables, &ask, &err)) == -EINPROGRESS) {
		struct peer_tensors m = {
			.ask = ask, .digest = tables.of[ask.rank], .next = ask.first + 1, .heads = heads};
		struct wbuf out = wbuf_over(heads, sizeof(heads));
		for (m.n = 0; m.n < PEER_TENSORS_LISTED; m.n++) {
			wbuf_u64(&out, ++listed);
			wbuf_u64(&out, 1);
		}
		cr_assert(tables_hear(&tables, &m));
		cr_assert_leq(listed, 2ull * TABLES_HEADS_MAX);
	}
	cr_expect_eq(rc, 0);
	cr_expect_geq(listed, TABLES_HEADS_MAX);
}
