#include "format/layout_job.h"

static void two_halves(struct job *job)
{
	job_init(job, 2);
	for (uint32_t r = 0; r < 2; r++)
		add_tensor(&job->regs[r], "w", DTYPE_F32, shape2(8, 8), "", box2(4 * r, 4, 0, 8));
}

#define SET(field, text) snprintf(field, sizeof(field), "%s", text)

#define REFUSED(complete, rc, words, ...)                                                                              \
	do {                                                                                                           \
		struct job job;                                                                                        \
		two_halves(&job);                                                                                      \
		struct entry *e = job.regs[1].entries;                                                                 \
		struct err err = {0};                                                                                  \
		(void)e;                                                                                               \
		__VA_ARGS__;                                                                                           \
		int got = job_make(&job, complete, LAYOUT_FILE_MAX, &err);                                             \
		cr_assert_eq(got, rc, "%d, not %d: %s", got, rc, err.text);                                            \
		cr_assert(strstr(err.text, words), "\"%s\" is not in: %s", words, err.text);                           \
		for (int i = 0; i < 2; i++)                                                                            \
			cr_assert(!job.layouts[i].pieces && !job.layouts[i].files && !job.layouts[i].npieces);         \
		job_free(&job);                                                                                        \
	} while (0)

Test(layout_fault, ranks_that_disagree_are_named)
{
	REFUSED(false, -EINVAL, "\"w\" is a tensor F32 [8, 8] in group params on rank 0, but a tensor BF16 [8, 8]",
		e->dtype = DTYPE_BF16);
	REFUSED(false, -EINVAL, "but a tensor F32 [8, 9] in group params on rank 1", e->shape.dim[1] = 9);
	REFUSED(false, -EINVAL, "in group optimizer on rank 1", SET(e->group, "optimizer"));
	REFUSED(false, -EINVAL, "a blob of the job", e->kind = ENTRY_JOB_BLOB);
	REFUSED(false, -EEXIST, "rank 0's [0:4, 0:8] and rank 1's [3:7, 0:8] overlap", e->pieces[0].offset[0] = 3);
	REFUSED(false, -EEXIST, "rank 0's [0:4, 0:8] and rank 1's [0:4, 0:8] overlap", e->pieces[0].offset[0] = 0);
	REFUSED(true, -ENODATA, "no rank holds element 56, at [7, 0]", e->pieces[0].extent[0] = 3);
	REFUSED(false, -EINVAL, "replicas of group \"dp\" differ: rank 0 has [0:4, 0:8], rank 1 has [3:7, 0:8]",
		SET(e->replica, "dp");
		SET(job.regs[0].entries->replica, "dp"); e->pieces[0].offset[0] = 3);
	REFUSED(false, -EINVAL, "replicas of group \"dp\" differ: rank 0 has [0:4, 0:8], rank 1 has [0:3, 0:8]",
		SET(e->replica, "dp");
		SET(job.regs[0].entries->replica, "dp"); e->pieces[0].offset[0] = 0; e->pieces[0].extent[0] = 3);
	REFUSED(false, -EINVAL, "rank 0 registered twice", job.regs[1].rank = 0);
	REFUSED(false, -EINVAL, "rank 0 says that the job has 2 ranks, rank 1 says 3", job.regs[1].world = 3);
	REFUSED(false, -EINVAL, "rank 2 of 2", job.regs[1].rank = 2);
}

Test(layout_fault, cut_and_damaged_encodings_are_refused_or_in_bounds)
{
	uint64_t seed = 11;
	unsigned accepted = 0, refused = 0;
	for (int round = 0; round < 40; round++) {
		struct job job;
		random_job(&seed, &job);
		cr_assert_eq(job_make(&job, true, 100000, NULL), 0);
		AUTO_WBUF struct wbuf out = {0};
		cr_assert_eq(layout_encode(&job.layouts[0], &out), 0);
		for (size_t len = 0; len < out.len; len++) {
			struct rbuf in = rbuf_of(out.data, len);
			struct layout back;
			cr_assert_eq(layout_decode(&in, &job.regs[0], &back, NULL), -EBADMSG);
			cr_assert(!back.pieces && !back.files);
		}
		for (int k = 0; k < 1000; k++) {
			size_t at = random_below(&seed, out.len);
			uint8_t was = out.data[at];
			out.data[at] = (uint8_t)random_below(&seed, 256);
			struct rbuf in = rbuf_of(out.data, out.len);
			struct layout back;
			if (layout_decode(&in, &job.regs[0], &back, NULL) == 0) {
				check_one(&job.regs[0], &back, UINT64_MAX);
				layout_free(&back);
				accepted++;
			} else {
				refused++;
			}
			out.data[at] = was;
		}
		job_free(&job);
	}
	cr_assert(accepted > 100 && refused > 10000, "%u accepted, %u refused", accepted, refused);
}

Test(layout_fault, another_rank_s_layout_is_refused)
{
	struct job job;
	two_halves(&job);
	cr_assert_eq(job_make(&job, true, LAYOUT_FILE_MAX, NULL), 0);
	AUTO_WBUF struct wbuf out = {0};
	cr_assert_eq(layout_encode(&job.layouts[1], &out), 0);
	struct rbuf in = rbuf_of(out.data, out.len);
	struct layout back;
	struct err err = {0};
	cr_assert_eq(layout_decode(&in, &job.regs[0], &back, &err), -EBADMSG);
	cr_assert(strstr(err.text, "layout of rank 0: it is of rank 1 of 2"), "%s", err.text);
	job_free(&job);
}
