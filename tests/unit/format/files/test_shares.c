#include "format/files/shares.h"

#include "base/cleanup.h"
#include "format/files/share_units.h"
#include "format/share_nodes.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(shares_of_nodes, .init = setup, .fini = teardown);

Test(shares_of_nodes, nodes_that_hold_the_same_share_it)
{
	for (int i = 0; i < 3; i++)
		have(add_node(2), "w", "dp", 12);
	assign();
	expect_written_once("w", 12);
	for (uint32_t i = 0; i < 3; i++) {
		cr_expect_eq(nodes[i].shares.n, 1);
		cr_expect_eq(nodes[i].shares.of[0].what, nodes[0].shares.of[0].what);
		cr_expect_eq(nodes[i].shares.of[0].cut, nodes[0].shares.of[0].cut, "whatever its ranks are");
		cr_expect_eq(nodes[i].shares.of[0].bytes, 12 * LEAF_SIZE);
		cr_expect(nodes[i].parts.of[0].part == i && nodes[i].parts.of[0].parts == 3);
		cr_expect_eq(bytes_written(&nodes[i]), 4 * LEAF_SIZE);
	}
}

/* As after the loss of one process of six: nodes of two, two and one. */
Test(shares_of_nodes, nodes_with_fewer_ranks_write_as_much)
{
	for (uint32_t i = 0; i < 3; i++)
		have(add_node(i == 2 ? 1 : 2), "w", "dp", 12);
	assign();
	cr_expect_eq(nodes[2].shares.of[0].what, nodes[0].shares.of[0].what);
	cr_expect_neq(nodes[2].shares.of[0].cut, nodes[0].shares.of[0].cut);
	expect_written_once("w", 12);
	for (uint32_t i = 0; i < 3; i++)
		cr_expect_eq(bytes_written(&nodes[i]), 4 * LEAF_SIZE);
}

Test(shares_of_nodes, no_part_is_smaller_than_the_least)
{
	static const struct {
		uint64_t leaves, least;
		uint32_t writers;
	} cases[] = {{8, 8, 1}, {15, 8, 1}, {16, 8, 2}, {24, 8, 3}, {99, 8, 3}, {1, 8, 1}};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t writers = 0;
		teardown();
		setup();
		for (int n = 0; n < 3; n++)
			have(add_node(1), "w", "dp", cases[i].leaves);
		assign_by(cases[i].least * LEAF_SIZE);
		expect_written_once("w", cases[i].leaves);
		for (uint32_t n = 0; n < 3; n++)
			writers += bytes_written(&nodes[n]) > 0;
		cr_expect_eq(writers, cases[i].writers, "%lu leaves: %u", (unsigned long)cases[i].leaves, writers);
	}
}

Test(shares_of_nodes, small_ones_are_not_all_written_by_the_same_node)
{
	for (int n = 0; n < 3; n++) {
		struct node *node = add_node(1);
		have(node, "a", "x", 2);
		have(node, "b", "y", 2);
		have(node, "c", "z", 2);
	}
	assign_by(16 * LEAF_SIZE);
	for (uint32_t n = 0; n < 3; n++)
		cr_expect_eq(bytes_written(&nodes[n]), 2 * LEAF_SIZE);
}

Test(shares_of_nodes, what_is_not_contiguous_is_shared_by_files)
{
	file_max = 1; /* a file for each piece */
	for (int n = 0; n < 3; n++)
		have_columns(add_node(n == 2 ? 2 : 1), "w", "dp");
	assign();
	cr_expect_eq(nodes[0].shares.of[0].bytes, 0);
	for (uint64_t at = 0; at < 16 * LEAF_SIZE; at += LEAF_SIZE / 2 + 1)
		cr_expect_eq(times_written("w", at), 1);
	for (uint32_t n = 0; n < 3; n++)
		cr_expect_eq(bytes_written(&nodes[n]), n < 2 ? 8 * LEAF_SIZE : 0, "the last has it in other files");
}

/* Tensors of odd sizes and several types, in several groups, by whole and by parts, on nodes of one to four ranks. */
static void have_at_random(unsigned *seed)
{
	static const enum dtype types[] = {DTYPE_U8, DTYPE_BF16, DTYPE_F32, DTYPE_F64};
	uint32_t tensors = 1 + (uint32_t)rand_r(seed) % 6;
	for (uint32_t t = 0; t < tensors; t++) {
		uint64_t n = (uint64_t)rand_r(seed) % (3 * LEAF_SIZE), half = n ? (uint64_t)rand_r(seed) % n : 0;
		enum dtype type = types[rand_r(seed) % 4];
		bool parts = rand_r(seed) % 2;
		char name[16], replica[2] = {(char)('a' + rand_r(seed) % 2), 0};
		snprintf(name, sizeof(name), "t%u", t);
		for (uint32_t i = 0; i < nnodes; i++)
			for (uint32_t r = 0; r < nodes[i].n; r++) {
				struct entry *e = add_tensor(&nodes[i].regs[r], name, type, shape1(n), replica,
							     parts ? region_flat(half, n - half) : region_flat(0, n));
				if (parts)
					add_piece(e, region_flat(0, half));
			}
	}
}

static void expect_all_written_once(void)
{
	const struct registration *reg = &nodes[0].regs[0];
	uint64_t bytes = 0, written = 0;
	for (uint32_t e = 0; e < reg->nentries; e++) {
		uint64_t n = reg->entries[e].shape.dim[0];
		for (uint64_t at = 0; at < n; at += 4999)
			cr_assert_eq(times_written(reg->entries[e].name, at), 1);
		cr_assert(!n || times_written(reg->entries[e].name, n - 1) == 1);
		bytes += n * dtype_size(reg->entries[e].dtype);
	}
	for (uint32_t i = 0; i < nnodes; i++)
		written += bytes_written(&nodes[i]);
	cr_assert_eq(written, bytes);
}

Test(shares_of_nodes, all_is_written_once_whatever_it_is, .timeout = 60)
{
	for (unsigned i = 0; i < 1000; i++) {
		unsigned seed = i;
		teardown();
		setup();
		uint32_t n = 1 + (uint32_t)rand_r(&seed) % NODES_MAX;
		while (nnodes < n)
			add_node(1 + (uint32_t)rand_r(&seed) % RANKS_MAX);
		have_at_random(&seed);
		file_max = rand_r(&seed) % 2 ? LAYOUT_FILE_MAX : 2 * LEAF_SIZE;
		assign_by(1 + (uint64_t)rand_r(&seed) % (2 * LEAF_SIZE));
		expect_all_written_once();
	}
}

/* Two stages of a pipeline, which have the configuration in common, and one group of its own. */
Test(shares_of_nodes, what_only_some_have_beside_what_all_have_is_another_share)
{
	for (uint32_t i = 0; i < 4; i++) {
		struct node *node = add_node(1 + i % 2);
		have(node, i < 2 ? "w0" : "w1", "dp", 12);
		if (i == 0 || i == 3)
			have(node, "embedding", "ends", 4);
		blob(node, "config");
	}
	assign();
	expect_written_once("w0", 12);
	expect_written_once("w1", 12);
	expect_written_once("config", 8);
	expect_written_once("embedding", 4);
	cr_expect(nodes[0].shares.n == 3 && nodes[1].shares.n == 2);
}

Test(shares_of_nodes, other_pieces_or_other_types_are_another_share)
{
	struct node *a = add_node(1), *b = add_node(1), *c = add_node(1);
	have(a, "w", "dp", 2);
	have(b, "v", "dp", 2);
	add_tensor(&c->regs[0], "w", DTYPE_I8, shape1(2 * LEAF_SIZE), "dp", region_flat(0, 2 * LEAF_SIZE));
	assign_by(SHARE_PART_MIN);
	for (uint32_t i = 0; i < 3; i++)
		cr_expect_eq(bytes_written(&nodes[i]), 2 * LEAF_SIZE);
}

Test(shares_of_nodes, a_node_without_replicas_has_no_share)
{
	have(add_node(2), "w", "dp", 2);
	struct node *node = add_node(1);
	add_tensor(&node->regs[0], "m", DTYPE_U8, shape1(10), "", region_flat(0, 10));
	assign();
	cr_expect_eq(node->shares.n, 0);
	cr_expect_eq(node->parts.n, 0);
	expect_written_once("w", 2);
}

Test(shares_of_nodes, beyond_their_number_they_are_one_with_the_last)
{
	for (int i = 0; i < 2; i++) {
		struct node *node = add_node(1);
		for (int k = 0; k < SHARES_MAX + 3; k++) {
			char name[16], group[16];
			snprintf(name, sizeof(name), "t%d", k);
			snprintf(group, sizeof(group), "g%02d", k);
			have(node, name, group, 1);
		}
	}
	assign();
	cr_expect_eq(nodes[0].shares.n, SHARES_MAX);
	for (int k = 0; k < SHARES_MAX + 3; k++) {
		char name[16];
		snprintf(name, sizeof(name), "t%d", k);
		expect_written_once(name, 1);
	}
}

Test(shares, they_are_read_as_they_were_written)
{
	AUTO_WBUF struct wbuf w = {0};
	static const uint8_t units[3 * SHARE_UNIT_SIZE] = {1, 2, 3};
	AUTO_WBUF struct wbuf runs = {0};
	struct shares shares = {.n = 2,
				.of = {{1, 2, 3, 4, 5}, {UINT64_MAX, 4, 0, UINT64_MAX, 3}},
				.listed = 2,
				.units = units},
		      s;
	struct share_parts parts = {.n = 4, .of = {{0, 1}, {0, 0}, {6, 7}, {0, SHARE_MIXED}}, .nruns = 2}, p;
	share_run_put(&runs, &(struct share_run){7, 0, UINT64_MAX});
	share_run_put(&runs, &(struct share_run){1, LEAF_SIZE, 2 * LEAF_SIZE});
	parts.runs = runs.data;
	shares_put(&w, &shares);
	share_parts_put(&w, &parts);
	cr_assert_eq(wbuf_finish(&w), 0);
	struct rbuf r = rbuf_of(w.data, w.len);
	shares_get(&r, &s);
	share_parts_get(&r, &p);
	cr_assert_eq(rbuf_finish(&r), 0);
	cr_expect_eq(memcmp(s.of, shares.of, sizeof(s.of)), 0);
	cr_expect(s.n == 2 && s.listed == 2 && !memcmp(s.units, units, sizeof(units)));
	cr_expect(share_parts_equal(&p, &parts));
	struct share_run run = share_run_get(p.runs, 1);
	cr_expect(run.units == 1 && run.from == LEAF_SIZE && run.to == 2 * LEAF_SIZE);
}

static bool reads(const struct shares *shares, size_t units)
{
	static const uint8_t zeros[8 * SHARE_UNIT_SIZE];
	AUTO_WBUF struct wbuf w = {0};
	struct shares s, none = *shares;
	none.listed = 0;
	shares_put(&w, &none);
	w.len -= sizeof(uint32_t);
	wbuf_u32(&w, shares->listed);
	wbuf_put(&w, zeros, units * SHARE_UNIT_SIZE);
	struct rbuf r = rbuf_of(w.data, w.len);
	shares_get(&r, &s);
	return !rbuf_finish(&r);
}

Test(shares, pieces_are_listed_as_many_as_there_are)
{
	struct shares shares = {.n = 1, .of[0].units = 2, .listed = 1};
	cr_expect(reads(&shares, 2));
	cr_expect(!reads(&shares, 1));
	cr_expect(!reads(&shares, 3));
	shares.listed = 2;
	cr_expect(!reads(&shares, 2), "of a share that is not there");
	shares.listed = 1;
	shares.of[0].units = SHARE_UNITS_MAX + 1;
	cr_expect(!reads(&shares, 2));
}

Test(shares, runs_that_are_none_are_refused)
{
	static const struct share_run wrong[] = {{0, 0, 1}, {SHARE_UNITS_MAX + 1, 0, 1}, {1, 2, 1}};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		AUTO_WBUF struct wbuf w = {0}, run = {0};
		struct share_parts p;
		share_run_put(&run, &wrong[i]);
		share_parts_put(&w, &(struct share_parts){.n = 1, .of[0].parts = 1, .nruns = 1, .runs = run.data});
		struct rbuf r = rbuf_of(w.data, w.len);
		share_parts_get(&r, &p);
		cr_expect(r.failed, "%zu", i);
		wbuf_free(&run);
	}
}

Test(shares, a_part_that_is_none_of_its_parts_is_refused)
{
	static const struct share_part wrong[] = {{1, 1}, {1, 0}, {7, 3}};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		AUTO_WBUF struct wbuf w = {0};
		struct share_parts parts = {.n = 1, .of[0] = wrong[i]}, p;
		share_parts_put(&w, &parts);
		struct rbuf r = rbuf_of(w.data, w.len);
		share_parts_get(&r, &p);
		cr_expect(r.failed, "%u of %u", wrong[i].part, wrong[i].parts);
	}
}
