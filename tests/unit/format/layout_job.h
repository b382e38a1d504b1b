/* A job of up to eight ranks, built by hand or at random, and what every layout of it promises. */
#ifndef TEST_LAYOUT_JOB_H
#define TEST_LAYOUT_JOB_H

#include "format/arena/witness.h"
#include "make_registration.h"
#include "random_region.h"

#include <criterion/criterion.h>

enum { RANKS = 8 };

struct job {
	uint32_t n;
	struct registration regs[RANKS];
	const struct registration *list[RANKS]; /* what layout_make gets, in any order */
	struct layout layouts[RANKS];
};

static inline void job_init(struct job *job, uint32_t n)
{
	*job = (struct job){.n = n};
	for (uint32_t r = 0; r < n; r++) {
		job->regs[r] = (struct registration){.rank = r, .world = n};
		job->list[r] = &job->regs[r];
	}
}

static inline int job_make(struct job *job, bool complete, uint64_t file_max, struct err *err)
{
	return layout_make(job->list, job->n, complete, file_max, job->layouts, err);
}

static inline void job_free(struct job *job)
{
	for (uint32_t r = 0; r < job->n; r++) {
		layout_free(&job->layouts[r]);
		registration_free(&job->regs[r]);
	}
}

static inline const struct entry *entry_of(const struct registration *reg, const struct layout_piece *p)
{
	return &reg->entries[p->entry];
}

/* What is read to compare replicas lies within the leaves of a slot. */
static inline void check_witnesses(const struct registration *reg, const struct layout *l)
{
	struct witnesses w;
	uint64_t own = 0, end = l->nleaves + l->nwitnesses;
	cr_assert_eq(witnesses_make(reg, l, &w), 0);
	for (uint32_t i = 0; i < w.npieces; i++) {
		cr_assert(w.pieces[i].first_leaf <= end && w.pieces[i].nleaves <= end - w.pieces[i].first_leaf);
		own += w.pieces[i].own ? w.pieces[i].nleaves : 0;
	}
	cr_assert_eq(own, l->nwitnesses);
	witnesses_free(&w);
}

/* What every layout promises, on its own. */
static inline void check_one(const struct registration *reg, const struct layout *l, uint64_t file_max)
{
	uint64_t slot = 0, leaves = 0, bytes = 0;
	uint32_t pieces = 0;
	cr_assert(l->rank == reg->rank && l->world == reg->world);
	check_witnesses(reg, l);
	for (uint32_t i = 0; i < l->nfiles; i++) {
		const struct layout_file *f = &l->files[i];
		uint64_t at = 0;
		cr_assert_eq(f->slot_at, slot);
		cr_assert_eq(f->slot_at % LAYOUT_ALIGN, 0u);
		cr_assert_eq(f->first_piece, pieces);
		cr_assert_gt(f->npieces, 0u);
		cr_assert(f->data_size <= file_max || f->npieces == 1, "a file above its bound");
		bool same_group = i && !strcmp(f[-1].group, f->group);
		cr_assert_eq(f->part, same_group ? f[-1].part + 1 : 0);
		cr_assert(!i || same_group || strcmp(f[-1].group, f->group) < 0);
		for (uint32_t k = 0; k < f->npieces; k++, pieces++) {
			const struct layout_piece *p = &l->pieces[pieces];
			const struct entry *e = entry_of(reg, p);
			unsigned size = dtype_size(e->dtype);
			cr_assert(p->file == i && p->at == at && p->slot_at == slot + at && p->first_leaf == leaves);
			cr_assert_eq(p->bytes, region_volume(&e->shape, &p->region) * size);
			cr_assert_eq(p->at % size, 0u);
			cr_assert_str_eq(e->group, f->group);
			cr_assert_eq(overlap_volume(&e->shape, &p->region, &e->pieces[p->source]) * size, p->bytes);
			if (k) {
				const struct entry *before = entry_of(reg, &p[-1]);
				int order = strcmp(before->name, e->name);
				cr_assert_geq(dtype_size(before->dtype), size);
				cr_assert(dtype_size(before->dtype) != size || order <= 0);
				cr_assert(order ||
					  region_first(&e->shape, &p[-1].region) < region_first(&e->shape, &p->region));
			}
			at += p->bytes;
			leaves += leaf_count(p->bytes);
		}
		cr_assert_eq(f->data_size, at);
		bytes += at;
		slot += align_up(at, LAYOUT_ALIGN);
	}
	cr_assert(pieces == l->npieces && l->slot_size == slot && l->nleaves == leaves && l->data_bytes == bytes);
}

/* One tensor, split at random; ranks fall into classes, each class holds some of the pieces as replicas. */
static inline void random_tensor(uint64_t *seed, struct job *job, const char *name)
{
	static const char *const groups[] = {"params", "optimizer", "a"};
	static const enum dtype dtypes[] = {DTYPE_F64, DTYPE_F32, DTYPE_BF16, DTYPE_U8};
	struct shape shape = random_shape(seed);
	for (uint32_t d = 0; d < shape.ndim; d++)
		shape.dim[d] *= random_below(seed, 2) ? 1 + random_below(seed, 100) : 1;
	struct region pieces[8];
	size_t n = split_region(seed, &shape, region_whole(&shape), pieces, 1 + random_below(seed, 8));
	uint64_t nclasses = 1 + random_below(seed, job->n), class_of[RANKS], piece_class[8];
	unsigned members[RANKS] = {0};
	for (uint32_t r = 0; r < job->n; r++) {
		class_of[r] = r < nclasses ? r : random_below(seed, nclasses);
		members[class_of[r]]++;
	}
	for (size_t p = 0; p < n; p++)
		piece_class[p] = random_below(seed, nclasses);
	const char *group = groups[random_below(seed, 3)];
	enum dtype dtype = dtypes[random_below(seed, 4)];
	bool one_name = random_below(seed, 2);
	for (uint32_t r = 0; r < job->n; r++) {
		char replica[16] = "";
		if (members[class_of[r]] > 1 || random_below(seed, 2))
			snprintf(replica, sizeof(replica), "dp%u", one_name ? 0 : (unsigned)class_of[r]);
		struct entry *e = add_entry(&job->regs[r], name, ENTRY_TENSOR, dtype, shape, group, replica);
		size_t begin = n ? random_below(seed, n) : 0; /* replicas need not agree on the order of their pieces */
		for (size_t k = 0; k < n; k++)
			if (piece_class[(begin + k) % n] == class_of[r])
				add_piece(e, pieces[(begin + k) % n]);
	}
}

static inline void random_job(uint64_t *seed, struct job *job)
{
	job_init(job, 1 + (uint32_t)random_below(seed, RANKS));
	for (uint64_t t = random_below(seed, 12); t > 0; t--) {
		char name[16];
		snprintf(name, sizeof(name), "t%llu", (unsigned long long)(t * 7 % 12));
		random_tensor(seed, job, name);
	}
	uint64_t size = random_below(seed, 1 << 20);
	for (uint32_t r = 0; r < job->n; r++) {
		add_blob(&job->regs[r], "rng", ENTRY_RANK_BLOB, random_below(seed, 5000));
		add_blob(&job->regs[r], "config", ENTRY_JOB_BLOB, size);
	}
}

#endif
