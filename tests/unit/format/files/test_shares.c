#include "format/files/shares.h"

#include "base/cleanup.h"
#include "format/make_registration.h"
#include "format/tensor/region.h"

#include <criterion/criterion.h>
#include <string.h>

enum { RANKS_MAX = 4, NODES_MAX = 4 };

/* The ranks of one node, and what it says. */
struct node {
	uint32_t n;
	struct registration regs[RANKS_MAX];
	const struct registration *list[RANKS_MAX];
	struct layout layouts[RANKS_MAX];
	struct shares shares;
	struct share_parts parts;
};

static struct node nodes[NODES_MAX];
static uint32_t nnodes, nranks;

static void setup(void)
{
	memset(nodes, 0, sizeof(nodes));
	nnodes = nranks = 0;
}

static void teardown(void)
{
	for (uint32_t i = 0; i < nnodes; i++) {
		for (uint32_t r = 0; r < nodes[i].n; r++) {
			registration_free(&nodes[i].regs[r]);
			layout_free(&nodes[i].layouts[r]);
		}
	}
}

TestSuite(shares_of_nodes, .init = setup, .fini = teardown);

static struct node *add_node(uint32_t ranks)
{
	struct node *node = &nodes[nnodes++];
	node->n = ranks;
	for (uint32_t r = 0; r < ranks; r++) {
		node->regs[r] = (struct registration){.rank = nranks++, .world = 64};
		node->list[r] = &node->regs[r];
	}
	return node;
}

/* All of the node's ranks have it. */
static void have(struct node *node, const char *name, const char *replica, uint64_t leaves)
{
	struct shape shape = shape1(leaves * LEAF_SIZE);
	for (uint32_t r = 0; r < node->n; r++)
		add_tensor(&node->regs[r], name, DTYPE_U8, shape, replica, region_whole(&shape));
}

static void blob(struct node *node, const char *name)
{
	for (uint32_t r = 0; r < node->n; r++)
		add_blob(&node->regs[r], name, ENTRY_JOB_BLOB, 8 * LEAF_SIZE);
}

static void say(struct node *node)
{
	const struct layout *layouts[RANKS_MAX];
	struct err err = {0};
	cr_assert_eq(layout_make(node->list, node->n, false, LAYOUT_FILE_MAX, node->layouts, &err), 0, "%s", err.text);
	for (uint32_t r = 0; r < node->n; r++)
		layouts[r] = &node->layouts[r];
	cr_assert_eq(shares_make(layouts, node->list, node->n, &node->shares), 0);
}

static void assign(void)
{
	const struct shares *shares[NODES_MAX];
	struct share_parts *parts[NODES_MAX];
	for (uint32_t i = 0; i < nnodes; i++) {
		say(&nodes[i]);
		shares[i] = &nodes[i].shares;
		parts[i] = &nodes[i].parts;
	}
	cr_assert_eq(shares_assign(shares, parts, nnodes), 0);
}

/* How often the byte of a tensor is written, as a commit does (commit_choose_files). */
static uint32_t times_written(const char *name, uint64_t at)
{
	uint32_t times = 0;
	for (uint32_t i = 0; i < nnodes; i++) {
		struct share_numbers numbers = {0};
		uint32_t seen[SHARES_MAX] = {0};
		for (uint32_t r = 0; r < nodes[i].n; r++) {
			const struct layout *l = &nodes[i].layouts[r];
			for (uint32_t f = 0; f < l->nfiles; f++) {
				uint32_t k = l->files[f].share ? share_number(&numbers, l->files[f].share) : 0;
				const struct share_part *part = &nodes[i].parts.of[k];
				bool ours =
					!l->files[f].share || (part->parts && seen[k]++ % part->parts == part->part);
				for (uint32_t p = 0; ours && p < l->files[f].npieces; p++) {
					const struct layout_piece *piece = &l->pieces[l->files[f].first_piece + p];
					const struct entry *e = &nodes[i].regs[r].entries[piece->entry];
					uint64_t start = 0, count = 0;
					region_contiguous(&e->shape, &piece->region, &start, &count);
					times += !strcmp(e->name, name) && at >= start && at < start + count;
				}
			}
		}
	}
	return times;
}

static void expect_written_once(const char *name, uint64_t leaves)
{
	for (uint64_t i = 0; i < leaves; i++) {
		uint32_t times = times_written(name, i * LEAF_SIZE);
		cr_expect_eq(times, 1, "leaf %lu of %s is written %u times", (unsigned long)i, name, times);
	}
}

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
		cr_expect(nodes[i].parts.of[0].part == i && nodes[i].parts.of[0].parts == 3);
	}
}

/* As after the loss of one process of six: nodes of two, two and one. */
Test(shares_of_nodes, nodes_with_fewer_ranks_cut_it_otherwise_and_leave_it_to_the_others)
{
	for (uint32_t i = 0; i < 3; i++)
		have(add_node(i == 2 ? 1 : 2), "w", "dp", 12);
	assign();
	cr_expect_eq(nodes[2].shares.of[0].what, nodes[0].shares.of[0].what);
	cr_expect_neq(nodes[2].shares.of[0].cut, nodes[0].shares.of[0].cut);
	expect_written_once("w", 12);
	cr_expect_eq(nodes[2].parts.of[0].parts, 0);
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
	assign();
	for (uint32_t i = 0; i < 3; i++)
		cr_expect(nodes[i].parts.of[0].part == 0 && nodes[i].parts.of[0].parts == 1);
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
	struct shares shares = {.n = 2, .of = {{1, 2}, {UINT64_MAX, 4}}}, s;
	struct share_parts parts = {.n = 3, .of = {{0, 1}, {0, 0}, {6, 7}}}, p;
	shares_put(&w, &shares);
	share_parts_put(&w, &parts);
	cr_assert_eq(wbuf_finish(&w), 0);
	struct rbuf r = rbuf_of(w.data, w.len);
	shares_get(&r, &s);
	share_parts_get(&r, &p);
	cr_assert_eq(rbuf_finish(&r), 0);
	cr_expect_eq(memcmp(&s, &shares, sizeof(s)), 0);
	cr_expect_eq(memcmp(&p, &parts, sizeof(p)), 0);
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
