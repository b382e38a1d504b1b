#include "format/files/manifest.h"
#include "format/files/safetensors.h"
#include "format/layout_job.h"

#include <time.h>

/* All ranks together capture each element of `e` exactly once. */
static void check_covered(const struct job *job, const struct entry *e)
{
	const struct region *regions[256];
	uint32_t owners[256];
	size_t n = 0;
	for (uint32_t r = 0; r < job->n; r++)
		for (uint32_t i = 0; i < job->layouts[r].npieces; i++) {
			const struct layout_piece *p = &job->layouts[r].pieces[i];
			if (strcmp(entry_of(&job->regs[r], p)->name, e->name))
				continue;
			cr_assert_lt(n, 256u);
			regions[n] = &p->region;
			owners[n++] = r;
		}
	struct err err = {0};
	cr_assert_eq(region_cover(&e->shape, e->name, regions, owners, n, &err), 0, "%s", err.text);
}

/* Which ranks hold the piece that `p` of rank `r` is (a part of), as a bit mask. */
static unsigned holders_of(const struct job *job, uint32_t r, const struct layout_piece *p)
{
	const struct entry *e = entry_of(&job->regs[r], p);
	unsigned mask = 1u << r;
	for (uint32_t q = 0; q < job->n; q++) {
		const struct entry *other = registration_find(&job->regs[q], e->name);
		bool replica =
			other && (e->kind == ENTRY_JOB_BLOB || (e->replica[0] && !strcmp(e->replica, other->replica)));
		for (uint32_t k = 0; replica && k < other->npieces; k++)
			if (region_equal(&e->shape, &e->pieces[p->source], &other->pieces[k]))
				mask |= 1u << q;
	}
	return mask;
}

/* The bound of layout.h: the share of each holder is within one step of the mean, and a step is a leaf, or where a piece is
 * not contiguous an index of its outermost dimension. */
static void check_balance(const struct job *job)
{
	static uint64_t share[1 << RANKS][RANKS], step[1 << RANKS];
	memset(share, 0, sizeof(share));
	memset(step, 0, sizeof(step));
	for (uint32_t r = 0; r < job->n; r++)
		for (uint32_t i = 0; i < job->layouts[r].npieces; i++) {
			const struct layout_piece *p = &job->layouts[r].pieces[i];
			const struct entry *e = entry_of(&job->regs[r], p);
			const struct region *source = &e->pieces[p->source];
			unsigned mask = holders_of(job, r, p);
			uint64_t slab = LEAF_SIZE;
			if (!region_contiguous(&e->shape, source, NULL, NULL)) {
				uint32_t d = 0;
				while (source->extent[d] == 1)
					d++;
				slab = region_volume(&e->shape, source) / source->extent[d] * dtype_size(e->dtype);
			}
			share[mask][r] += p->bytes;
			step[mask] = max_u64(step[mask], slab);
		}
	for (unsigned mask = 0; mask < 1 << RANKS; mask++) {
		uint64_t total = 0;
		unsigned holders = (unsigned)__builtin_popcount(mask);
		for (uint32_t r = 0; r < RANKS; r++)
			total += share[mask][r];
		for (uint32_t r = 0; total && r < RANKS; r++) {
			int64_t off = (int64_t)share[mask][r] - (int64_t)(total / holders);
			if (mask >> r & 1)
				cr_assert_leq(llabs(off), (int64_t)step[mask] + 1, "ranks %#x: rank %u is %lld off",
					      mask, r, (long long)off);
		}
	}
}

static void assert_same(const struct layout *a, const struct layout *b)
{
	AUTO_WBUF struct wbuf x = {0}, y = {0};
	cr_assert_eq(layout_encode(a, &x), 0);
	cr_assert_eq(layout_encode(b, &y), 0);
	cr_assert(x.len == y.len && !memcmp(x.data, y.data, x.len));
	cr_assert(a->slot_size == b->slot_size && a->nleaves == b->nleaves && a->data_bytes == b->data_bytes);
}

static void check_wire(const struct registration *reg, const struct layout *l)
{
	AUTO_WBUF struct wbuf out = {0};
	cr_assert_eq(layout_encode(l, &out), 0);
	wbuf_u8(&out, 0x55); /* what follows is not the layout's */
	struct rbuf in = rbuf_of(out.data, out.len);
	struct layout back;
	struct err err = {0};
	cr_assert_eq(layout_decode(&in, reg, &back, &err), 0, "%s", err.text);
	cr_assert_eq(rbuf_left(&in), 1u);
	cr_assert(back.nfiles == l->nfiles && back.npieces == l->npieces);
	cr_assert_eq(memcmp(back.files, l->files, l->nfiles * sizeof(*l->files)), 0);
	for (uint32_t i = 0; i < l->npieces; i++) {
		cr_assert_eq(memcmp(&back.pieces[i].region, &l->pieces[i].region, sizeof(struct region)), 0);
		cr_assert(back.pieces[i].slot_at == l->pieces[i].slot_at && back.pieces[i].at == l->pieces[i].at);
	}
	assert_same(&back, l);
	cr_assert(layout_equal(&back, l));
	if (l->npieces) {
		back.pieces[l->npieces - 1].region.kind ^= 3;
		cr_assert_not(layout_equal(&back, l));
	}
	layout_free(&back);
}

Test(layout, random_jobs_are_captured_exactly_once_balanced_and_aligned)
{
	uint64_t seed = 1;
	for (int round = 0; round < 3000; round++) {
		struct job job;
		struct err err = {0};
		random_job(&seed, &job);
		uint64_t file_max = random_below(&seed, 2) ? LAYOUT_FILE_MAX : 1 + random_below(&seed, 1 << 20);
		cr_assert_eq(job_make(&job, true, file_max, &err), 0, "%d: %s", round, err.text);
		for (uint32_t r = 0; r < job.n; r++) {
			check_one(&job.regs[r], &job.layouts[r], file_max);
			check_wire(&job.regs[r], &job.layouts[r]);
			for (uint32_t e = 0; e < job.regs[r].nentries; e++)
				check_covered(&job, &job.regs[r].entries[e]);
		}
		check_balance(&job);
		job_free(&job);
	}
}

Test(layout, the_order_of_ranks_does_not_matter)
{
	uint64_t seed = 7;
	for (int round = 0; round < 300; round++) {
		struct job job;
		struct layout shuffled[RANKS];
		random_job(&seed, &job);
		cr_assert_eq(job_make(&job, true, LAYOUT_FILE_MAX, NULL), 0);
		for (uint32_t r = job.n; r > 1; r--) {
			uint64_t k = random_below(&seed, r);
			const struct registration *swap = job.list[r - 1];
			job.list[r - 1] = job.list[k];
			job.list[k] = swap;
		}
		cr_assert_eq(layout_make(job.list, job.n, true, LAYOUT_FILE_MAX, shuffled, NULL), 0);
		for (uint32_t r = 0; r < job.n; r++) {
			cr_assert_eq(shuffled[r].rank, job.list[r]->rank);
			assert_same(&shuffled[r], &job.layouts[job.list[r]->rank]);
			layout_free(&shuffled[r]);
		}
		job_free(&job);
	}
}

static void assert_region(const struct shape *shape, const struct region *r, const char *want)
{
	char text[96];
	cr_assert_str_eq(region_text(shape, r, text, sizeof(text)), want);
}

Test(layout, contiguous_replicas_are_cut_at_leaves)
{
	struct job job;
	job_init(&job, 3);
	struct shape shape = shape2(LEAF_SIZE / 4, 10); /* 10 leaves of F32 */
	for (uint32_t r = 0; r < 3; r++)
		add_tensor(&job.regs[r], "w", DTYPE_F32, shape, "dp", region_whole(&shape));
	cr_assert_eq(job_make(&job, true, LAYOUT_FILE_MAX, NULL), 0);
	assert_region(&shape, &job.layouts[0].pieces[0].region, "flat 0:49152");
	assert_region(&shape, &job.layouts[1].pieces[0].region, "flat 49152:114688");
	assert_region(&shape, &job.layouts[2].pieces[0].region, "flat 114688:163840");
	job_free(&job);
}

Test(layout, other_replicas_are_cut_along_their_outermost_dimension)
{
	struct job job;
	job_init(&job, 2);
	struct shape shape = {.ndim = 3, .dim = {5, 7, 8}};
	struct region half = {.kind = REGION_BOX, .offset = {2, 1, 0}, .extent = {1, 5, 4}},
		      rest[] = {
			      {.kind = REGION_BOX, .offset = {2, 1, 4}, .extent = {1, 5, 4}},
			      region_flat(0, 2 * 56 + 8),
			      region_flat(2 * 56 + 48, 8 + 2 * 56),
		      };
	for (uint32_t r = 0; r < 2; r++)
		add_tensor(&job.regs[r], "w", DTYPE_U8, shape, "dp", half);
	for (int i = 0; i < 3; i++)
		add_tensor(&job.regs[0], (char[]){'x', (char)('0' + i), 0}, DTYPE_U8, shape, "", rest[i]);
	cr_assert_eq(job_make(&job, false, LAYOUT_FILE_MAX, NULL), 0);
	cr_assert_eq(job.layouts[0].npieces, 4u);
	assert_region(&shape, &job.layouts[0].pieces[3].region, "[2:3, 1:4, 0:4]");
	assert_region(&shape, &job.layouts[1].pieces[0].region, "[2:3, 4:6, 0:4]");
	cr_assert_eq(job.layouts[1].npieces, 1u);
	job_free(&job);
}

Test(layout, blobs_of_a_rank_stay_with_it_and_those_of_the_job_are_shared)
{
	struct job job;
	job_init(&job, 2);
	for (uint32_t r = 0; r < 2; r++) {
		add_blob(&job.regs[r], "loader", ENTRY_RANK_BLOB, 8 * LEAF_SIZE);
		add_blob(&job.regs[r], "config", ENTRY_JOB_BLOB, 8 * LEAF_SIZE);
	}
	cr_assert_eq(job_make(&job, true, LAYOUT_FILE_MAX, NULL), 0);
	for (uint32_t r = 0; r < 2; r++) {
		const struct layout *l = &job.layouts[r];
		cr_assert_eq(l->npieces, 2u);
		cr_assert_str_eq(entry_of(&job.regs[r], &l->pieces[1])->name, "config");
		cr_assert_eq(l->pieces[1].bytes, 4 * LEAF_SIZE);
		cr_assert_eq(l->pieces[0].bytes, 8 * LEAF_SIZE);
		cr_assert_eq(l->nfiles, 2u, "what other nodes may have, too, stands in a file of its own");
		cr_assert(!l->files[0].share && l->files[1].share);
	}
	job_free(&job);
}

Test(layout, what_is_of_different_replica_groups_stands_in_different_files)
{
	struct job job;
	job_init(&job, 1);
	for (int i = 0; i < 5; i++) {
		static const char *const names[] = {"a", "b", "c", "d", "e"}, *const groups[] = {"tp", "", "dp", "tp",
												 ""};
		add_tensor(&job.regs[0], names[i], DTYPE_F32, shape1(10), groups[i], region_flat(0, 10));
	}
	add_entry(&job.regs[0], "z", ENTRY_JOB_BLOB, DTYPE_U8, shape1(7), "params", "");
	add_piece(&job.regs[0].entries[5], region_flat(0, 7));
	cr_assert_eq(job_make(&job, true, LAYOUT_FILE_MAX, NULL), 0);
	const struct layout *l = &job.layouts[0];
	static const char *const want[] = {"b", "e", "z", "c", "a", "d"};
	static const uint32_t files[] = {0, 0, 1, 2, 3, 3};
	cr_assert_eq(l->nfiles, 4u);
	for (uint32_t i = 0; i < 6; i++) {
		cr_expect_str_eq(entry_of(&job.regs[0], &l->pieces[i])->name, want[i]);
		cr_expect_eq(l->pieces[i].file, files[i], "%s", want[i]);
	}
	for (uint32_t f = 0; f < 4; f++)
		for (uint32_t g = 0; g < f; g++)
			cr_expect_neq(l->files[f].share, l->files[g].share);
	cr_expect_eq(l->files[0].share, 0);
	job_free(&job);
}

Test(layout, a_sharded_piece_is_captured_as_it_was_registered)
{
	struct job job;
	job_init(&job, 2);
	struct shape shape = shape2(1000, 1000);
	for (uint32_t r = 0; r < 2; r++)
		add_tensor(&job.regs[r], "w", DTYPE_F32, shape, "", box2(500 * r, 500, 0, 1000));
	cr_assert_eq(job_make(&job, true, LAYOUT_FILE_MAX, NULL), 0);
	assert_region(&shape, &job.layouts[1].pieces[0].region, "[500:1000, 0:1000]");
	job_free(&job);
}

Test(layout, a_replica_that_no_cut_meets_is_captured_as_it_was_registered)
{
	struct job job;
	job_init(&job, 2);
	struct shape shape = shape2(100, 100);
	for (uint32_t r = 0; r < 2; r++) {
		add_tensor(&job.regs[r], "v", DTYPE_F32, shape, "dp", region_whole(&shape));
		add_tensor(&job.regs[r], "w", DTYPE_F32, shape, "dp", region_whole(&shape));
	}
	cr_assert_eq(job_make(&job, true, LAYOUT_FILE_MAX, NULL), 0);
	for (uint32_t r = 0; r < 2; r++) {
		cr_assert_eq(job.layouts[r].npieces, 1u);
		cr_assert_eq(job.layouts[r].pieces[0].entry, r);
		assert_region(&shape, &job.layouts[r].pieces[0].region, "[0:100, 0:100]");
	}
	job_free(&job);
}

Test(layout, files_are_split_between_pieces)
{
	struct job job;
	job_init(&job, 1);
	static const uint64_t sizes[] = {3000, 3000, 3000, 50000, 1000, 9000};
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		add_tensor(&job.regs[0], (char[]){(char)('a' + i), 0}, DTYPE_U8, shape1(sizes[i]), "",
			   region_flat(0, sizes[i]));
	cr_assert_eq(job_make(&job, true, 10000, NULL), 0);
	static const uint64_t want[] = {9000, 50000, 10000};
	cr_assert_eq(job.layouts[0].nfiles, 3u);
	for (uint32_t f = 0; f < 3; f++) {
		cr_assert_eq(job.layouts[0].files[f].data_size, want[f]);
		cr_assert_eq(job.layouts[0].files[f].part, f);
	}
	cr_assert_eq(job.layouts[0].slot_size, 12288u + 53248u + 12288u);
	job_free(&job);
}

Test(layout, more_parts_than_names_are_refused)
{
	struct job job;
	job_init(&job, 1);
	struct entry *e = add_entry(&job.regs[0], "w", ENTRY_TENSOR, DTYPE_U8, shape1(PART_MAX + 1), "params", "");
	for (uint64_t i = 0; i <= PART_MAX; i++)
		add_piece(e, region_flat(i, 1));
	struct err err = {0};
	cr_assert_eq(job_make(&job, true, 1, &err), -E2BIG);
	cr_assert(strstr(err.text, "a group of rank 0 needs more than 10000 files"), "%s", err.text);
	cr_assert_null(job.layouts[0].pieces);
	e->npieces--;
	cr_assert_eq(job_make(&job, false, 1, &err), 0);
	cr_assert_eq(job.layouts[0].nfiles, PART_MAX);
	job_free(&job);
}

/* Every header of a layout can be written, and no file is cut before its header is worth it. */
static void check_headers(const struct job *job, uint32_t rank, uint64_t least)
{
	const struct layout *l = &job->layouts[rank];
	for (uint32_t f = 0; f < l->nfiles; f++) {
		AUTO_WBUF struct wbuf out = {0};
		cr_assert_eq(safetensors_header(&job->regs[rank], l, f, &out), 0, "part %u", l->files[f].part);
		cr_assert(f + 1 == l->nfiles || out.len >= least, "part %u: %zu bytes", f, out.len);
	}
}

Test(layout, two_hundred_thousand_tensors_are_split_where_the_header_ends)
{
	struct job job;
	job_init(&job, 1);
	for (int i = 0; i < 200000; i++) {
		char name[64];
		snprintf(name, sizeof(name), "model.layers.%d.mlp.experts.%d.down_proj.weight", i / 1000, i % 1000);
		add_tensor(&job.regs[0], name, DTYPE_F32, shape1(2), "", region_flat(0, 2));
	}
	struct err err = {0};
	cr_assert_eq(job_make(&job, true, LAYOUT_FILE_MAX, &err), 0, "%s", err.text);
	cr_assert_eq(job.layouts[0].nfiles, 2u);
	check_one(&job.regs[0], &job.layouts[0], LAYOUT_FILE_MAX);
	check_wire(&job.regs[0], &job.layouts[0]);
	check_headers(&job, 0, SAFETENSORS_HEADER_MAX / 2);
	job_free(&job);
}

Test(layout, the_longest_names_and_shapes_fit_their_headers)
{
	enum { MANY = 30000 };
	char name[NAME_TENSOR_MAX];
	memset(name, '"', sizeof(name) - 1); /* escaped twice in the metadata */
	name[sizeof(name) - 1] = 0;
	struct shape shape = {NDIM_MAX, {1, 1, 1, 1, 1, 1, 1 << 20, 1 << 20}};
	struct job job;
	job_init(&job, 1);
	struct entry *e = add_entry(&job.regs[0], name, ENTRY_TENSOR, DTYPE_F8_E4M3FNUZ, shape, "params", "");
	for (uint64_t i = 0; i < MANY; i++)
		add_piece(e, region_flat((1ull << 39) + 3 * i, 2));
	struct err err = {0};
	cr_assert_eq(job_make(&job, false, LAYOUT_FILE_MAX, &err), 0, "%s", err.text);
	cr_assert_gt(job.layouts[0].nfiles, 2u);
	check_headers(&job, 0, SAFETENSORS_HEADER_MAX / 10 * 8);
	job_free(&job);
}

/* With the longest names it takes the fewest tensors. */
Test(layout, more_than_a_manifest_can_hold_is_refused_with_the_figures)
{
	enum { MANY = NODE_MANIFEST_BYTES_MAX / (2 * NAME_TENSOR_MAX) / 2 };
	char name[NAME_TENSOR_MAX];
	struct job job;
	memset(name, '"', sizeof(name) - 1); /* escaped: two bytes */
	job_init(&job, 2);
	for (int i = 0; i < 2 * MANY; i++) {
		snprintf(name + sizeof(name) - 12, 12, "%011d", i);
		add_tensor(&job.regs[i % 2], name, DTYPE_U8, shape1(2), "", region_flat(0, 2));
	}
	struct err err = {0};
	cr_assert_eq(job_make(&job, false, LAYOUT_FILE_MAX, &err), -E2BIG);
	cr_assert(strstr(err.text, "131072 tensors in") && strstr(err.text, "register larger"), "%s", err.text);
	uint32_t all = job.regs[0].nentries;
	job.regs[0].nentries = job.regs[1].nentries = all / 2;
	cr_assert_eq(job_make(&job, false, LAYOUT_FILE_MAX, &err), 0, "%s", err.text);
	job.regs[0].nentries = job.regs[1].nentries = all;
	job_free(&job);
}

Test(layout, a_tensor_without_elements_is_captured_once)
{
	struct job job;
	job_init(&job, 3);
	struct shape shape = shape2(0, 9);
	add_entry(&job.regs[0], "empty", ENTRY_TENSOR, DTYPE_F32, shape, "params", "");
	add_tensor(&job.regs[1], "empty", DTYPE_F32, shape, "dp", box2(0, 0, 0, 9));
	add_tensor(&job.regs[2], "empty", DTYPE_F32, shape, "dp", box2(0, 0, 0, 9));
	cr_assert_eq(job_make(&job, true, LAYOUT_FILE_MAX, NULL), 0);
	cr_assert(job.layouts[0].npieces == 0 && job.layouts[1].npieces == 1 && job.layouts[2].npieces == 0);
	cr_assert(job.layouts[1].nfiles == 1 && job.layouts[1].slot_size == 0 && job.layouts[1].nleaves == 0);
	check_wire(&job.regs[1], &job.layouts[1]);
	job_free(&job);
}

Test(layout, a_rank_alone_may_hold_a_part_until_the_job_is_complete)
{
	struct job job;
	job_init(&job, 1);
	job.regs[0].world = 4;
	add_tensor(&job.regs[0], "w", DTYPE_F32, shape2(8, 8), "", box2(0, 2, 0, 8));
	struct err err = {0};
	cr_assert_eq(job_make(&job, true, LAYOUT_FILE_MAX, &err), -EINVAL);
	cr_assert(strstr(err.text, "1 ranks registered, not all"), "%s", err.text);
	cr_assert_eq(job_make(&job, false, LAYOUT_FILE_MAX, &err), 0);
	job_free(&job);
}

/* Seconds of processor time: other load on the machine does not count. */
static double cpu_seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

Test(layout, eight_ranks_with_five_thousand_tensors_are_quick)
{
	struct job job;
	job_init(&job, RANKS);
	for (uint32_t r = 0; r < RANKS; r++)
		for (int i = 0; i < 5000; i++) {
			char name[64];
			snprintf(name, sizeof(name), "model.layers.%d.mlp.weight", i * 4001 % 5000);
			struct shape shape = shape2(4096, 1024);
			bool sharded = i % 2;
			add_tensor(&job.regs[r], name, DTYPE_BF16, shape, sharded ? "" : "dp",
				   sharded ? box2(r * 512, 512, 0, 1024) : region_whole(&shape));
		}
	double begin = cpu_seconds();
	cr_assert_eq(job_make(&job, true, LAYOUT_FILE_MAX, NULL), 0);
	double took = cpu_seconds() - begin;
	cr_assert_lt(took, 1.0, "%.3f s, with or without a sanitizer", took);
	job_free(&job);
}
