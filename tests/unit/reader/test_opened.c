#include "reader_store.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(opened, .init = reader_store_make, .fini = reader_store_drop);

static uint64_t step_of(const char *which)
{
	ckpt_reader *r = reader_open(which);
	uint64_t step = ckpt_reader_info(r)->step;
	cr_assert(strstr(ckpt_reader_path(r), ckpt_reader_info(r)->name));
	ckpt_reader_close(r);
	return step;
}

Test(opened, by_what_a_person_says)
{
	cr_expect_eq(step_of(NULL), 30);
	cr_expect_eq(step_of("latest"), 30);
	cr_expect_eq(step_of("healthy"), 20);
	cr_expect_eq(step_of("10"), 10);
	cr_expect_eq(step_of("10.e1"), 10);
	cr_expect_eq(step_of("step-000000000010.e0001"), 10);
	cr_expect_eq(step_of("best"), 20);
}

Test(opened, by_the_environment)
{
	ckpt_reader *r;
	setenv("CKPT_REPO", reader_root, 1);
	cr_assert_eq(ckpt_reader_open(NULL, &r), 0, "%s", ckpt_reader_error());
	ckpt_reader_close(r);
	setenv("CKPT_JOB", "other", 1);
	cr_assert_eq(reader_refused(NULL), -ENOENT);
	cr_assert(strstr(ckpt_reader_error(), "there is no job other in "), "%s", ckpt_reader_error());
	setenv("CKPT_JOB", "", 1);
	cr_assert_eq(ckpt_reader_open(NULL, &r), 0);
	ckpt_reader_close(r);
}

Test(opened, of_several_jobs_one_is_named)
{
	struct err err = {0};
	struct store_spec second = reader_newest;
	ckpt_reader_options o = CKPT_INIT(ckpt_reader_options);
	second.job = "tuned";
	cr_assert_eq(store_make(&second, &err), 0, "%s", err.text);
	o.store = reader_root;
	cr_assert_eq(reader_refused(&o), -ENOTUNIQ);
	cr_assert(strstr(ckpt_reader_error(), "the store has several jobs, name one: main, tuned"), "%s",
		  ckpt_reader_error());
	o.job = "tuned";
	ckpt_reader *r;
	cr_assert_eq(ckpt_reader_open(&o, &r), 0, "%s", ckpt_reader_error());
	cr_assert_str_eq(ckpt_reader_info(r)->job, "tuned");
	ckpt_reader_close(r);
}

Test(opened, every_flipped_bit_of_a_manifest_is_found)
{
	char dir[SCRATCH_MAX + 64];
	ckpt_reader_options o = CKPT_INIT(ckpt_reader_options);
	o.store = reader_root;
	store_dir(&reader_newest, dir, sizeof(dir));
	for (size_t byte = 0, size = scratch_size(dir, "MANIFEST.json"); byte < size; byte += 7) {
		scratch_flip(dir, "MANIFEST.json", byte, byte % 8);
		int rc = reader_refused(&o);
		cr_assert(rc == -EBADMSG || rc == -EPROTONOSUPPORT, "byte %zu: %d", byte, rc);
		scratch_flip(dir, "MANIFEST.json", byte, byte % 8);
	}
}

Test(opened, a_child_has_none)
{
	ckpt_reader *r = reader_open(NULL);
	pid_t pid = fork();
	if (!pid) {
		ckpt_reader_box box = CKPT_INIT(ckpt_reader_box);
		int rc = ckpt_reader_read(r, &box, 1);
		ckpt_reader_close(r);
		_exit(rc == -ECHILD && strstr(ckpt_reader_error(), "after fork") ? 0 : 1);
	}
	int status;
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0);
	cr_assert_eq(ckpt_reader_count(r), 12);
	ckpt_reader_close(r);
}
