/* What ranks hold alike: format/arena/witness.c. */
#include "format/arena/witness.h"

#include "format/layout_job.h"

#include <stdlib.h>

/* Values of a tensor, the same on all ranks: some of "odd" differ where `wrong`. */
static uint8_t *bytes_of(const struct entry *e, const struct region *r, bool wrong)
{
	uint64_t n = region_volume(&e->shape, r) * dtype_size(e->dtype), from = region_first(&e->shape, r);
	uint8_t *bytes = malloc(n + 1);
	for (uint64_t i = 0; i < n; i++)
		bytes[i] = (uint8_t)((i + from) * 31 ^ (i >> 9) ^ (uint64_t)e->name[0]);
	if (wrong && n)
		bytes[n / 2] ^= 4;
	return bytes;
}

/* The table of leaves as a rank leaves it. Captured parts of boxes are not needed: only pieces that are captured whole. */
static uint64_t *leaves_of(const struct registration *reg, const struct layout *l, const struct witnesses *w,
			   const char *wrong)
{
	uint64_t *leaves = calloc(l->nleaves + l->nwitnesses + 1, sizeof(*leaves));
	for (uint32_t i = 0; i < w->npieces; i++) {
		const struct witness_piece *p = &w->pieces[i];
		const struct entry *e = &reg->entries[p->entry];
		const struct region *r = &e->pieces[p->source];
		uint8_t *bytes = bytes_of(e, r, wrong && !strcmp(e->name, wrong));
		cr_assert_eq(p->nleaves, leaf_count(region_volume(&e->shape, r) * dtype_size(e->dtype)));
		cr_assert(p->own == (p->first_leaf >= l->nleaves));
		cr_assert_leq(p->first_leaf + p->nleaves, l->nleaves + l->nwitnesses);
		digest_leaves(bytes, region_volume(&e->shape, r) * dtype_size(e->dtype), leaves + p->first_leaf);
		free(bytes);
	}
	return leaves;
}

/* Each rank registers in an order of its own. */
static void register_replicas(struct job *job, uint32_t rank)
{
	static const char *const names[] = {"a", "b", "bias", "c", "d", "e", "odd", "wte", "zero"};
	for (uint32_t i = 0; i < 9; i++) {
		const char *name = names[(i + rank) % 9];
		struct shape shape = !strcmp(name, "wte")    ? shape2(300, 257)
				     : !strcmp(name, "zero") ? shape2(0, 7)
							     : shape1(70000);
		add_tensor(&job->regs[rank], name, DTYPE_F32, shape, "all", region_whole(&shape));
	}
	add_tensor(&job->regs[rank], "shard", DTYPE_F32, shape2(8, 512), "", box2(rank * 2, 2, 0, 512));
}

static void made(struct job *job, struct witnesses *w)
{
	struct err err = {0};
	cr_assert_eq(job_make(job, true, LAYOUT_FILE_MAX, &err), 0, "%s", err.text);
	for (uint32_t r = 0; r < job->n; r++)
		cr_assert_eq(witnesses_make(&job->regs[r], &job->layouts[r], &w[r]), 0);
}

static uint64_t sum_of(const struct job *job, uint32_t rank, const struct witnesses *w, const char *wrong)
{
	uint64_t *leaves = leaves_of(&job->regs[rank], &job->layouts[rank], w, wrong), sums[16];
	cr_assert_leq(w->npieces, 16);
	witness_sums(w, leaves, sums);
	free(leaves);
	return witness_sum(sums + w->sets[0].first, w->sets[0].n);
}

Test(witness, ranks_that_hold_the_same_have_one_set_and_one_sum_whoever_captures_what)
{
	struct job job;
	struct witnesses w[4];
	job_init(&job, 4);
	for (uint32_t r = 0; r < 4; r++)
		register_replicas(&job, r);
	made(&job, w);
	uint64_t own = 0, right = sum_of(&job, 0, &w[0], NULL);
	for (uint32_t r = 0; r < 4; r++) {
		cr_expect_eq(w[r].nsets, 1);
		cr_expect_eq(w[r].npieces, 8, "not those without elements");
		cr_expect_eq(w[r].sets[0].id, w[0].sets[0].id);
		cr_expect_eq(sum_of(&job, r, &w[r], NULL), right);
		cr_expect_neq(sum_of(&job, r, &w[r], "odd"), right);
		for (uint32_t i = 0; i < w[r].npieces; i++)
			own += w[r].pieces[i].own;
	}
	cr_expect_leq(own, 4 * 8 - 4, "what is captured whole is not digested twice");
	for (uint32_t r = 0; r < 4; r++)
		witnesses_free(&w[r]);
	job_free(&job);
}

Test(witness, a_rank_that_captures_all_digests_nothing_twice)
{
	struct job job;
	struct witnesses w;
	job_init(&job, 1);
	job.regs[0].world = 4;
	register_replicas(&job, 0);
	struct err err = {0};
	cr_assert_eq(job_make(&job, false, LAYOUT_FILE_MAX, &err), 0, "%s", err.text);
	cr_assert_eq(witnesses_make(&job.regs[0], &job.layouts[0], &w), 0);
	cr_expect_eq(job.layouts[0].nwitnesses, 0);
	for (uint32_t i = 0; i < w.npieces; i++)
		cr_expect_not(w.pieces[i].own);
	witnesses_free(&w);
	job_free(&job);
}

/* In an arena that comes back: what stands there was written by a process. Counted twice, it would leave no room for the others. */
Test(witness, a_layout_that_captures_a_piece_twice_is_refused)
{
	struct job job;
	struct layout back;
	struct err err = {0};
	AUTO_WBUF struct wbuf out = {0};
	job_init(&job, 1);
	job.regs[0].world = 4;
	register_replicas(&job, 0);
	cr_assert_eq(job_make(&job, false, LAYOUT_FILE_MAX, &err), 0, "%s", err.text);
	cr_assert_gt(job.layouts[0].npieces, 2);
	job.layouts[0].pieces[2] = job.layouts[0].pieces[1];
	cr_assert_eq(layout_encode(&job.layouts[0], &out), 0);
	struct rbuf in = rbuf_of(out.data, out.len);
	cr_assert_eq(layout_decode(&in, &job.regs[0], &back, &err), -EBADMSG);
	cr_expect(strstr(err.text, "does not follow the piece before it"), "%s", err.text);
	job_free(&job);
}

Test(witness, shards_of_one_replica_group_are_sets_of_their_own)
{
	struct job job;
	struct witnesses w[4];
	job_init(&job, 4);
	for (uint32_t r = 0; r < 4; r++) { /* two shards, each on two ranks */
		struct shape norm = shape1(512);
		add_tensor(&job.regs[r], "w", DTYPE_F32, shape2(8, 512), "data", box2(r % 2 * 4, 4, 0, 512));
		add_tensor(&job.regs[r], "norm", DTYPE_F32, norm, "all", region_whole(&norm));
	}
	made(&job, w);
	for (uint32_t r = 0; r < 4; r++) {
		cr_assert_eq(w[r].nsets, 2);
		cr_expect_eq(w[r].sets[0].id, w[0].sets[0].id, "of norm");
		cr_expect((w[r].sets[1].id == w[0].sets[1].id) == !(r % 2));
	}
	for (uint32_t r = 0; r < 4; r++)
		witnesses_free(&w[r]);
	job_free(&job);
}
