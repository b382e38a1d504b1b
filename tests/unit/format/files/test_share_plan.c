/* Nodes that hold different subsets of a replica group: each byte is written once, and none of them writes more than it has to. */
#include "format/files/share_plan.h"

#include "format/files/share_balance.h"
#include "format/files/share_units.h"
#include "format/share_nodes.h"

#include <criterion/criterion.h>

TestSuite(share_plan, .init = setup, .fini = teardown, .timeout = 120);

static void expect_bytes(uint32_t node, uint64_t leaves)
{
	cr_expect_eq(bytes_written(&nodes[node]), leaves * LEAF_SIZE, "node %u writes %lu bytes", node,
		     (unsigned long)bytes_written(&nodes[node]));
}

Test(share_plan, what_two_of_three_nodes_hold_is_divided_between_them)
{
	static const char *const names[] = {"a", "b", "c"};
	for (uint32_t i = 0; i < 3; i++) {
		struct node *node = add_node(1 + i % 2);
		have(node, names[i], "dp", 12);
		have(node, names[(i + 1) % 3], "dp", 12);
	}
	assign();
	for (uint32_t i = 0; i < 3; i++) {
		expect_written_once(names[i], 12);
		expect_bytes(i, 12);
	}
}

Test(share_plan, what_one_node_alone_holds_is_written_by_it_and_the_others_write_the_rest)
{
	for (uint32_t i = 0; i < 3; i++)
		have(add_node(1), "w", "dp", 12);
	have(&nodes[0], "alone", "dp", 8);
	assign();
	expect_written_once("w", 12);
	expect_written_once("alone", 8);
	expect_bytes(0, 8);
	expect_bytes(1, 6);
	expect_bytes(2, 6);
}

Test(share_plan, subsets_of_subsets)
{
	static const char *const names[] = {"a", "b", "c", "d"};
	for (uint32_t i = 0; i < 4; i++) {
		struct node *node = add_node(1);
		for (uint32_t k = 0; k <= i; k++)
			have(node, names[k], "dp", 6);
	}
	assign();
	for (uint32_t i = 0; i < 4; i++) {
		expect_written_once(names[i], 6);
		expect_bytes(i, 6);
	}
}

Test(share_plan, what_has_nothing_in_common_is_written_by_who_has_it)
{
	have(add_node(1), "a", "dp", 3);
	have(add_node(1), "b", "dp", 5);
	assign();
	expect_bytes(0, 3);
	expect_bytes(1, 5);
}

Test(share_plan, pieces_that_are_not_contiguous_are_written_whole)
{
	for (uint32_t i = 0; i < 3; i++)
		have_columns(add_node(1 + i % 2), "w", "dp");
	have(&nodes[1], "more", "dp", 3);
	assign();
	for (uint64_t at = 0; at < 16 * LEAF_SIZE; at += LEAF_SIZE / 2 + 1)
		cr_expect_eq(times_written("w", at), 1);
	expect_written_once("more", 3);
	expect_bytes(0, 8);
	expect_bytes(1, 3);
	expect_bytes(2, 8);
}

Test(share_plan, shares_beyond_their_number_are_divided_piece_by_piece)
{
	for (uint32_t i = 0; i < 3; i++) {
		struct node *node = add_node(1);
		for (uint32_t k = i; k < SHARES_MAX + 3; k++) {
			char name[16], group[16];
			snprintf(name, sizeof(name), "t%u", k);
			snprintf(group, sizeof(group), "g%02u", k);
			have(node, name, group, 1);
		}
	}
	assign();
	for (uint32_t k = 0; k < SHARES_MAX + 3; k++) {
		char name[16];
		snprintf(name, sizeof(name), "t%u", k);
		expect_written_once(name, 1);
	}
}

/* ---- whatever it is ------------------------------------------------------------------------------------------------ */

enum { TENSORS = 8 };

/* Of each tensor: how long it is, and which nodes have it. */
struct mixture {
	uint32_t n;
	uint64_t elements[TENSORS];
	unsigned size[TENSORS];
	uint32_t holders[TENSORS];
	bool whole[TENSORS]; /* it is not contiguous */
};

static void add_one(const struct mixture *m, uint32_t t, struct registration *reg, enum dtype type, bool parts)
{
	char name[16];
	snprintf(name, sizeof(name), "t%u", t);
	uint64_t n = m->elements[t], half = n / 2;
	if (m->whole[t]) {
		struct shape shape = {.ndim = 2, .dim = {n / 2, 2}};
		struct region left = region_whole(&shape), right = left;
		left.extent[1] = right.extent[1] = right.offset[1] = 1;
		add_piece(add_tensor(reg, name, type, shape, "dp", left), right);
		return;
	}
	struct entry *e =
		add_tensor(reg, name, type, shape1(n), "dp", parts ? region_flat(half, n - half) : region_flat(0, n));
	if (parts)
		add_piece(e, region_flat(0, half));
}

static void mix(unsigned *seed, struct mixture *m)
{
	static const enum dtype types[] = {DTYPE_U8, DTYPE_BF16, DTYPE_F32, DTYPE_F64};
	m->n = 1 + (uint32_t)rand_r(seed) % TENSORS;
	for (uint32_t t = 0; t < m->n; t++) {
		enum dtype type = types[rand_r(seed) % 4];
		bool parts = rand_r(seed) % 2;
		m->elements[t] = (uint64_t)rand_r(seed) % (3 * LEAF_SIZE) * (uint64_t)(rand_r(seed) % 3);
		m->whole[t] = rand_r(seed) % 4 == 0 && m->elements[t] % 2 == 0 && m->elements[t];
		m->size[t] = dtype_size(type);
		m->holders[t] = 1 + (uint32_t)rand_r(seed) % ((1u << nnodes) - 1);
		for (uint32_t i = 0; i < nnodes; i++)
			for (uint32_t r = 0; m->holders[t] & 1u << i && r < nodes[i].n; r++)
				if (!r || rand_r(seed) % 2)
					add_one(m, t, &nodes[i].regs[r], type, parts);
	}
}

static void expect_all_once(const struct mixture *m)
{
	uint64_t bytes = 0, written = 0;
	for (uint32_t t = 0; t < m->n; t++) {
		char name[16];
		snprintf(name, sizeof(name), "t%u", t);
		uint64_t n = m->elements[t];
		for (uint64_t at = 0; at < n; at += 4999)
			cr_assert_eq(times_written(name, at), 1);
		cr_assert(!n || times_written(name, n - 1) == 1);
		bytes += n * m->size[t];
	}
	for (uint32_t i = 0; i < nnodes; i++)
		written += bytes_written(&nodes[i]);
	cr_assert_eq(written, bytes);
}

static bool mixture_has_whole(const struct mixture *m)
{
	for (uint32_t t = 0; t < m->n; t++)
		if (m->whole[t])
			return true;
	return false;
}

static bool writes_of(const struct node *node, uint32_t t)
{
	char name[16];
	snprintf(name, sizeof(name), "t%u", t);
	for (uint32_t r = 0; r < node->n; r++)
		for (uint32_t p = 0; p < node->taken[r].npieces; p++)
			if (node->taken[r].pieces[p].bytes &&
			    !strcmp(node->regs[r].entries[node->taken[r].pieces[p].entry].name, name))
				return true;
	return false;
}

/* Nobody writes a part of what another could write who writes much less; of contiguous pieces only. */
static void expect_balance(const struct mixture *m, uint64_t part_min)
{
	uint64_t slack = 2 * part_min + (TENSORS + 1) * LEAF_SIZE;
	for (uint32_t t = 0; t < m->n; t++)
		for (uint32_t i = 0; i < nnodes; i++)
			for (uint32_t k = 0; writes_of(&nodes[i], t) && k < nnodes; k++)
				cr_assert(!(m->holders[t] & 1u << k) ||
						  bytes_written(&nodes[i]) <= bytes_written(&nodes[k]) + slack,
					  "node %u writes %lu, node %u only %lu", i,
					  (unsigned long)bytes_written(&nodes[i]), k,
					  (unsigned long)bytes_written(&nodes[k]));
}

Test(share_plan, all_is_written_once_whoever_holds_it)
{
	uint32_t mixed = 0;
	for (unsigned i = 0; i < 1500; i++) {
		unsigned seed = i;
		struct mixture m = {0};
		teardown();
		setup();
		uint32_t n = 2 + (uint32_t)rand_r(&seed) % (NODES_MAX - 1);
		while (nnodes < n)
			add_node(1 + (uint32_t)rand_r(&seed) % 2);
		mix(&seed, &m);
		file_max = rand_r(&seed) % 2 ? LAYOUT_FILE_MAX : 2 * LEAF_SIZE;
		uint64_t part_min = 1 + (uint64_t)rand_r(&seed) % (2 * LEAF_SIZE);
		assign_by(part_min);
		expect_all_once(&m);
		if (!nodes[0].parts.nruns)
			continue;
		mixed++;
		if (!mixture_has_whole(&m))
			expect_balance(&m, part_min);
	}
	cr_expect_gt(mixed, 500);
}

/* ---- limits ------------------------------------------------------------------------------------------------------ */

static int plan_of(const struct shares *of, uint32_t n, struct err *err)
{
	const struct shares *shares[2] = {&of[0], &of[n - 1]};
	uint32_t mixed[2], first[2];
	struct share_parts p[2] = {{0}}, *parts[2] = {&p[0], &p[1]};
	struct wbuf w[2] = {{0}}, *runs[2] = {&w[0], &w[1]};
	cr_assert_eq(shares_mixed(shares, n, mixed, first), 0);
	struct share_planning planning = {.n = n, .shares = shares, .mixed = mixed, .first = first, .part_min = 1};
	int rc = share_plan_make(&planning, runs, parts, err);
	wbuf_free(&w[0]);
	wbuf_free(&w[1]);
	return rc;
}

Test(share_plan, more_pieces_than_a_message_holds_are_refused)
{
	struct shares of[2] = {{.n = 1, .of[0] = {.what = 1, .key = 1, .units = SHARE_UNITS_MAX + 1}},
			       {.n = 1, .of[0] = {.what = 2, .key = 1}}};
	struct err err = {0};
	cr_expect_eq(plan_of(of, 2, &err), -E2BIG);
	cr_expect(strstr(err.text, "32769 pieces"), "%s", err.text);
}

Test(share_plan, pieces_that_were_not_listed_are_missed)
{
	struct shares of[2] = {{.n = 1, .of[0] = {.what = 1, .key = 1, .units = 1}},
			       {.n = 1, .of[0] = {.what = 2, .key = 1}}};
	struct err err = {0};
	cr_expect_eq(plan_of(of, 2, &err), -EBADMSG);
}

enum { AGAIN = 64 };

/* One piece, so often. */
static struct held_share list_again(struct wbuf *units, uint64_t what, uint32_t times)
{
	for (uint32_t i = 0; i < times; i++)
		share_unit_put(units, &(struct share_unit){.sum = 7, .bytes = 3 * LEAF_SIZE, .divides = true});
	return (struct held_share){.what = what, .key = 1, .units = times};
}

/* Each node that holds it would stand there as often, and have a part of it each time, of which it is told one. */
Test(share_plan, a_piece_that_a_node_lists_twice_is_refused)
{
	AUTO_WBUF struct wbuf again = {0}, once = {0};
	struct shares of[2] = {{.n = 1, .listed = 1, .of[0] = list_again(&again, 1, AGAIN)},
			       {.n = 1, .listed = 1, .of[0] = list_again(&once, 2, 1)}};
	struct err err = {0};
	of[0].units = again.data;
	of[1].units = once.data;
	cr_expect_eq(plan_of(of, 2, &err), -EBADMSG);
	cr_expect(strstr(err.text, "twice"), "%s", err.text);
}

Test(share_plan, a_piece_in_two_shares_of_a_node_is_refused)
{
	AUTO_WBUF struct wbuf same = {0}, other = {0};
	struct shares of[2] = {{.n = SHARES_MAX, .listed = (1u << SHARES_MAX) - 1}, {.n = 1, .listed = 1}};
	struct err err = {0};
	for (uint32_t i = 0; i < SHARES_MAX; i++)
		of[0].of[i] = list_again(&same, 1, 1);
	of[1].of[0] = list_again(&other, 2, 1);
	of[0].units = same.data;
	of[1].units = other.data;
	cr_expect_eq(plan_of(of, 2, &err), -EBADMSG);
	cr_expect(strstr(err.text, "twice"), "%s", err.text);
}

Test(share_plan, runs_of_other_pieces_write_nothing)
{
	const struct layout *layouts[RANKS_MAX];
	have(add_node(1), "a", "dp", 3);
	have(add_node(1), "b", "dp", 3);
	assign();
	struct node *node = &nodes[0];
	list_layouts(node, layouts);
	static const struct share_run wrong[][2] = {
		{{2, 0, UINT64_MAX}, {0, 0, 0}},          /* more pieces than there are */
		{{1, 0, UINT64_MAX}, {1, 0, UINT64_MAX}}, /* another run after the last */
		{{1, 5, LEAF_SIZE}, {0, 0, 0}},           /* not at a leaf */
		{{0, 0, 0}, {0, 0, 0}},                   /* none at all */
	};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		AUTO_WBUF struct wbuf runs = {0};
		struct layout out;
		struct share_parts parts = {.n = 1, .of[0].parts = SHARE_MIXED};
		for (int k = 0; k < 2 && wrong[i][k].units; k++, parts.nruns++)
			share_run_put(&runs, &wrong[i][k]);
		parts.runs = runs.data;
		cr_expect_eq(shares_take(layouts, node->list, 1, &parts, &out), -EINVAL, "%zu", i);
		cr_expect_eq(out.npieces, 0);
	}
}

/* ---- the balance alone ------------------------------------------------------------------------------------------- */

/* All that the first two hold is theirs; the third can only take what is left to it. */
Test(share_balance, who_has_no_choice_is_spared_by_those_who_have)
{
	struct balance_class classes[] = {{600, 0, 1}, {600, 1, 2}, {600, 3, 3}};
	struct balance_part parts[] = {{.node = 0}, {.node = 0}, {.node = 1}, {.node = 0}, {.node = 1}, {.node = 2}};
	cr_assert_eq(share_balance(classes, 3, parts, 3, 1), 0);
	cr_expect_eq(parts[0].bytes, 600);
	cr_expect_eq(parts[1].bytes, 0);
	cr_expect_eq(parts[2].bytes, 600);
	cr_expect_eq(parts[5].bytes, 600);
}

Test(share_balance, no_part_is_smaller_than_the_least)
{
	struct balance_class classes[] = {{100, 0, 1}, {100, 1, 3}};
	struct balance_part parts[] = {{.node = 0}, {.node = 0}, {.node = 1}, {.node = 2}};
	cr_assert_eq(share_balance(classes, 2, parts, 3, 50), 0);
	cr_expect(!parts[1].bytes && parts[2].bytes == 50 && parts[3].bytes == 50);
	for (uint32_t i = 0; i < 4; i++)
		parts[i].bytes = 0;
	cr_assert_eq(share_balance(classes, 2, parts, 3, 60), 0);
	cr_expect_eq(parts[2].bytes + parts[3].bytes, 100);
	cr_expect(!parts[2].bytes || !parts[3].bytes, "one of them writes all of it");
}
