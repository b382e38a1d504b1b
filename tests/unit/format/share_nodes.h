/* Nodes that hold things alike, for tests: what their ranks register, what the nodes say of it, and what they are then to write. */
#ifndef TEST_FORMAT_SHARE_NODES_H
#define TEST_FORMAT_SHARE_NODES_H

#include "format/files/share_plan.h"
#include "format/make_registration.h"
#include "format/tensor/digest.h"
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
	struct wbuf units, runs;
	struct share_parts parts;
	struct layout taken[RANKS_MAX];
};

static struct node nodes[NODES_MAX];
static uint32_t nnodes, nranks;
static uint64_t file_max;

static inline void setup(void)
{
	memset(nodes, 0, sizeof(nodes));
	nnodes = nranks = 0;
	file_max = LAYOUT_FILE_MAX;
}

static inline void teardown(void)
{
	for (uint32_t i = 0; i < nnodes; i++) {
		wbuf_free(&nodes[i].units);
		wbuf_free(&nodes[i].runs);
		for (uint32_t r = 0; r < nodes[i].n; r++) {
			registration_free(&nodes[i].regs[r]);
			layout_free(&nodes[i].layouts[r]);
			layout_free(&nodes[i].taken[r]);
		}
	}
}

static inline struct node *add_node(uint32_t ranks)
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
static inline void have(struct node *node, const char *name, const char *replica, uint64_t leaves)
{
	struct shape shape = shape1(leaves * LEAF_SIZE);
	for (uint32_t r = 0; r < node->n; r++)
		add_tensor(&node->regs[r], name, DTYPE_U8, shape, replica, region_whole(&shape));
}

static inline void blob(struct node *node, const char *name)
{
	for (uint32_t r = 0; r < node->n; r++)
		add_blob(&node->regs[r], name, ENTRY_JOB_BLOB, 8 * LEAF_SIZE);
}

/* By columns: not contiguous. */
static inline void have_columns(struct node *node, const char *name, const char *replica)
{
	struct shape shape = {.ndim = 2, .dim = {8 * LEAF_SIZE, 2}};
	struct region left = region_whole(&shape), right = left;
	left.extent[1] = right.extent[1] = right.offset[1] = 1;
	for (uint32_t r = 0; r < node->n; r++)
		add_piece(add_tensor(&node->regs[r], name, DTYPE_U8, shape, replica, left), right);
}

static inline void list_layouts(const struct node *node, const struct layout **layouts)
{
	for (uint32_t r = 0; r < node->n; r++)
		layouts[r] = &node->layouts[r];
}

static inline void say(struct node *node)
{
	const struct layout *layouts[RANKS_MAX];
	struct err err = {0};
	cr_assert_eq(layout_make(node->list, node->n, false, file_max, node->layouts, &err), 0, "%s", err.text);
	list_layouts(node, layouts);
	cr_assert_eq(shares_make(layouts, node->list, node->n, UINT32_MAX, &node->shares, &node->units), 0);
}

static inline bool is_mixed(const struct share_parts *parts)
{
	return parts->nruns > 0;
}

/* Pieces of a file follow each other in the slot, unless a share is mixed, and each is in its place there and among the leaves. */
static inline void expect_in_place(const struct layout *whole, const struct layout *taken, bool mixed)
{
	for (uint32_t f = 0; f < taken->nfiles; f++) {
		const struct layout_file *file = &taken->files[f];
		uint64_t at = 0;
		cr_assert(file->npieces);
		for (uint32_t i = 0; i < file->npieces; i++) {
			const struct layout_piece *p = &taken->pieces[file->first_piece + i], *q = whole->pieces;
			while (q->entry != p->entry || q->source != p->source || p->slot_at < q->slot_at ||
			       p->slot_at + p->bytes > q->slot_at + q->bytes)
				cr_assert(++q < whole->pieces + whole->npieces);
			cr_assert_eq(p->file, f);
			cr_assert_eq(p->at, at);
			cr_assert(p->slot_at == file->slot_at + at || (mixed && p->slot_at > file->slot_at + at));
			cr_assert_eq((p->slot_at - q->slot_at) % LEAF_SIZE, 0);
			cr_assert_eq(p->first_leaf, q->first_leaf + (p->slot_at - q->slot_at) / LEAF_SIZE);
			at += p->bytes;
		}
		cr_assert_eq(file->data_size, at);
	}
}

static inline void take(struct node *node)
{
	const struct layout *layouts[RANKS_MAX];
	list_layouts(node, layouts);
	cr_assert_eq(shares_take(layouts, node->list, node->n, &node->parts, node->taken), 0);
	for (uint32_t r = 0; r < node->n; r++)
		expect_in_place(&node->layouts[r], &node->taken[r], is_mixed(&node->parts));
}

static inline void assign_by(uint64_t part_min)
{
	const struct shares *shares[NODES_MAX];
	struct share_parts *parts[NODES_MAX];
	struct wbuf *runs[NODES_MAX];
	uint32_t mixed[NODES_MAX], first[NODES_MAX];
	struct err err = {0};
	for (uint32_t i = 0; i < nnodes; i++) {
		say(&nodes[i]);
		shares[i] = &nodes[i].shares;
		parts[i] = &nodes[i].parts;
		runs[i] = &nodes[i].runs;
	}
	cr_assert_eq(shares_mixed(shares, nnodes, mixed, first), 0);
	cr_assert_eq(shares_assign(shares, mixed, parts, nnodes, part_min), 0);
	struct share_planning planning = {
		.n = nnodes, .shares = shares, .mixed = mixed, .first = first, .part_min = part_min};
	cr_assert_eq(share_plan_make(&planning, runs, parts, &err), 0, "%s", err.text);
	for (uint32_t i = 0; i < nnodes; i++)
		take(&nodes[i]);
}

static inline void assign(void)
{
	assign_by(LEAF_SIZE);
}

static inline uint64_t bytes_written(const struct node *node)
{
	uint64_t bytes = 0;
	for (uint32_t r = 0; r < node->n; r++)
		bytes += node->taken[r].data_bytes;
	return bytes;
}

/* How often the byte of a tensor of bytes is written. */
static inline uint32_t times_written(const char *name, uint64_t at)
{
	uint32_t times = 0;
	for (uint32_t i = 0; i < nnodes; i++)
		for (uint32_t r = 0; r < nodes[i].n; r++)
			for (uint32_t p = 0; p < nodes[i].taken[r].npieces; p++) {
				const struct layout_piece *piece = &nodes[i].taken[r].pieces[p];
				const struct entry *e = &nodes[i].regs[r].entries[piece->entry];
				times += !strcmp(e->name, name) && region_rank(&e->shape, &piece->region, at + 1) >
									   region_rank(&e->shape, &piece->region, at);
			}
	return times;
}

static inline void expect_written_once(const char *name, uint64_t leaves)
{
	for (uint64_t i = 0; i < leaves; i++) {
		uint32_t times = times_written(name, i * LEAF_SIZE);
		cr_expect_eq(times, 1, "leaf %lu of %s is written %u times", (unsigned long)i, name, times);
	}
}

#endif
