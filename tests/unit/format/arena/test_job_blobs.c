#include "format/arena/job_blobs.h"
#include "format/make_registration.h"

#include <criterion/criterion.h>

#include <stdio.h>

Test(job_blobs, a_blob_of_the_job_is_on_every_rank)
{
	struct registration regs[3] = {{.rank = 4, .world = 9}, {.rank = 5, .world = 9}, {.rank = 7, .world = 9}};
	const struct registration *all[] = {&regs[0], &regs[1], &regs[2]};
	struct err err;
	for (int r = 0; r < 3; r++) {
		add_blob(&regs[r], "clock", ENTRY_JOB_BLOB, 8);
		add_blob(&regs[r], "rng", ENTRY_RANK_BLOB, 8);
	}
	cr_assert_eq(registrations_share_blobs(all, 3, &err), 0);
	add_blob(&regs[1], "loader\"", ENTRY_JOB_BLOB, 8);
	cr_assert_eq(registrations_share_blobs(all, 3, &err), -EINVAL);
	cr_assert(strstr(err.text, "blob \"loader\\\"\" of the job is registered on rank 5, but not on rank 4"), "%s",
		  err.text);
	cr_assert_eq(registrations_share_blobs(all + 1, 1, &err), 0);
	add_blob(&regs[0], "loader\"", ENTRY_JOB_BLOB, 8);
	cr_assert_eq(registrations_share_blobs(all, 3, &err), -EINVAL);
	cr_assert(strstr(err.text, "on rank 4, but not on rank 7"), "%s", err.text);
	add_blob(&regs[2], "loader\"", ENTRY_JOB_BLOB, 8);
	cr_assert_eq(registrations_share_blobs(all, 3, &err), 0);
	for (int r = 0; r < 3; r++)
		registration_free(&regs[r]);
}

/* n blobs, the last of `last` bytes, beside what is none of the job. */
static struct job_blobs of_a_table(uint32_t n, const char *format, uint64_t last)
{
	struct registration reg = {.rank = 1, .world = 2};
	struct job_blobs blobs;
	struct err err;
	char name[NAME_TENSOR_MAX];
	add_tensor(&reg, "w", DTYPE_F32, shape1(10), "", region_flat(0, 10));
	add_blob(&reg, "rng", ENTRY_RANK_BLOB, 8);
	for (uint32_t i = n; i-- > 0;) {
		snprintf(name, sizeof(name), format, i);
		add_blob(&reg, name, ENTRY_JOB_BLOB, i + 1 == n ? last : 8);
	}
	cr_assert_eq(registration_index(&reg, &err), 0);
	job_blobs_of(&reg, &blobs);
	registration_free(&reg);
	return blobs;
}

static struct job_blobs there_and_back(const struct job_blobs *blobs)
{
	AUTO_WBUF struct wbuf out = {0};
	struct job_blobs back;
	job_blobs_put(&out, blobs);
	cr_assert_eq(wbuf_finish(&out), 0);
	struct rbuf r = rbuf_of(out.data, out.len);
	job_blobs_get(&r, &back);
	cr_assert_eq(rbuf_finish(&r), 0);
	return back;
}

/* As two nodes compare them: one knows of the other's what it was told. */
static const char *told(struct job_blobs a, struct job_blobs b)
{
	static struct err err;
	struct job_blobs back = there_and_back(&b);
	err.text[0] = 0;
	int rc = job_blobs_compare(&a, 3, &back, 7, &err);
	cr_assert(rc == 0 || rc == -EINVAL);
	cr_assert_eq(rc != 0, err.text[0] != 0);
	return err.text;
}

Test(job_blobs, those_of_two_nodes_are_compared_by_name_and_size)
{
	cr_expect_str_eq(told(of_a_table(0, "", 8), of_a_table(0, "", 8)), "");
	cr_expect_str_eq(told(of_a_table(3, "b%02u", 8), of_a_table(3, "b%02u", 8)), "");
	cr_expect_str_eq(
		told(of_a_table(2, "b%02u", 8), of_a_table(3, "b%02u", 8)),
		"blob \"b02\" of the job is registered on rank 7, but not on rank 3: register it on every rank, or "
		"with scope rank");
	cr_expect(strstr(told(of_a_table(1, "a%u\n", 8), of_a_table(1, "b%u", 8)), "blob \"a0\\n\" of the job is"));
	cr_expect_str_eq(told(of_a_table(3, "b%02u", 8), of_a_table(3, "b%02u", 9)),
			 "blob \"b02\" of the job has 8 bytes on rank 3, but 9 on rank 7");
}

Test(job_blobs, what_differs_behind_those_that_are_named_is_found)
{
	struct job_blobs a = of_a_table(JOB_BLOBS_NAMED + 1, "b%02u", 8);
	cr_expect_str_eq(told(a, of_a_table(JOB_BLOBS_NAMED + 1, "b%02u", 8)), "");
	cr_expect(strstr(told(a, of_a_table(JOB_BLOBS_NAMED + 1, "b%02u", 9)),
			 "rank 3 has registered 17 blobs of the job and rank 7 17"));
	cr_expect(strstr(told(a, of_a_table(JOB_BLOBS_NAMED + 2, "b%02u", 8)), "of the job and rank 7 18"));
	cr_expect(strstr(told(a, of_a_table(JOB_BLOBS_NAMED, "b%02u", 8)), "and rank 7 16, and they are not the same"));
}

Test(job_blobs, what_is_not_in_order_is_no_message)
{
	static const struct job_blobs twice = {.n = 2, .digest = 1, .named = {{"b", 8}, {"b", 8}}};
	AUTO_WBUF struct wbuf out = {0};
	struct job_blobs back;
	job_blobs_put(&out, &twice);
	struct rbuf r = rbuf_of(out.data, out.len);
	job_blobs_get(&r, &back);
	cr_expect(r.failed);
}
