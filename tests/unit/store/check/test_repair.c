/* Checkpoints of the same state, of which one is damaged. */
#include "store/check/repair.h"

#include "store/verify_fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct repair_result mended;
static char donor_dir[SCRATCH_MAX + 64];
static struct step_id other = {.step = 90, .epoch = 1};

/* Two checkpoints of the same bytes; the fixture's `dir` is the one that gets damaged. */
static void make_two(void)
{
	struct step_id mine;
	make(2, 1, 400, 300);
	mine = spec.id;
	spec.id = other;
	cr_assert_eq(store_make(&spec, &why), 0, "%s", why.text);
	store_dir(&spec, donor_dir, sizeof(donor_dir));
	spec.id = mine;
}

static void note(void *arg, const char *file, const char *tensor, uint64_t from, uint64_t to, const char *text)
{
	(void)tensor, (void)from, (void)to, (void)text;
	repair_note(arg, file);
}

static int verify_noting(struct repair *r)
{
	struct verify_options options = {.depth = VERIFY_DATA, .share = 1, .threads = 1, .finding = note, .arg = r};
	struct err found = {{0}};
	return verify_checkpoint(&repo, "main", spec.id, &options, &result, &found);
}

static int repair(bool trial, const struct repair_memory *memory)
{
	struct repair *r;
	cr_assert_eq(repair_new(&repo, "main", spec.id, &r), 0);
	verify_noting(r);
	int rc = repair_run(r, trial, memory, &mended, &why);
	repair_free(r);
	return rc;
}

static void flip(const char *folder, const char *name, off_t at)
{
	char path[2 * SCRATCH_MAX + 200];
	uint8_t byte;
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	cr_assert_geq(fd, 0, "%s", path);
	cr_assert_eq(pread(fd, &byte, 1, at), 1, "%s has no byte %ld", path, (long)at);
	byte ^= 0x10;
	cr_assert_eq(pwrite(fd, &byte, 1, at), 1);
	close(fd);
}

static off_t size_of(const char *name)
{
	struct stat st;
	cr_assert_eq(stat(path_of(name), &st), 0);
	return st.st_size;
}

static void expect_tidy(const char *after)
{
	AUTO_CLOSEDIR DIR *stream = opendir(dir);
	cr_assert(stream);
	for (struct dirent *e; (e = readdir(stream));)
		cr_assert(e->d_name[0] != '.' || !strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."),
			  "%s: %s is left over", after, e->d_name);
}

static void expect_whole(void)
{
	cr_assert_eq(verify(VERIFY_DATA, 1), 0, "%s: %s", first.file, first.text);
	expect_tidy("whole");
}

#define PARAMS "rank-00000-of-00002.params.safetensors"
#define SIDECAR "rank-00000-of-00002.params.xxh"
#define OPTIMIZER "rank-00001-of-00002.optimizer.safetensors"

TestSuite(repair, .init = verify_setup, .fini = verify_teardown);

Test(repair, a_flipped_byte_is_taken_from_a_donor)
{
	make_two();
	flip(dir, PARAMS, size_of(PARAMS) - 1);
	cr_assert_eq(repair(true, NULL), 0, "a trial: %s", why.text);
	cr_assert_eq(verify(VERIFY_DATA, 1), -EBADMSG, "a trial changes nothing");
	cr_assert_eq(repair(false, NULL), 0, "%s", why.text);
	cr_assert_eq(mended.files, 1u);
	cr_assert_eq(mended.mended, 1u);
	cr_assert_eq(mended.leaves, 1u);
	expect_whole();
}

Test(repair, header_cut_growth_and_loss_are_mended)
{
	make_two();
	flip(dir, PARAMS, 20);
	cr_assert_eq(truncate(path_of(OPTIMIZER), 5000), 0);
	cr_assert_eq(repair(false, NULL), 0, "%s", why.text);
	cr_assert_eq(mended.mended, 2u);
	expect_whole();
	cr_assert_eq(unlink(path_of(PARAMS)), 0);
	cr_assert_eq(truncate(path_of(OPTIMIZER), size_of(OPTIMIZER) + 9), 0);
	cr_assert_eq(repair(false, NULL), 0, "%s", why.text);
	expect_whole();
}

Test(repair, two_damaged_copies_help_each_other)
{
	make_two();
	flip(dir, PARAMS, size_of(PARAMS) - 1);
	flip(donor_dir, PARAMS, 4096);
	cr_assert_eq(repair(false, NULL), 0, "%s", why.text);
	expect_whole();
}

Test(repair, what_nobody_has_stays_damaged_and_the_rest_is_mended)
{
	make_two();
	flip(dir, PARAMS, size_of(PARAMS) - 1);
	flip(donor_dir, PARAMS, size_of(PARAMS) - 1);
	flip(dir, OPTIMIZER, size_of(OPTIMIZER) - 1);
	ino_t before;
	struct stat st;
	cr_assert_eq(stat(path_of(PARAMS), &st), 0);
	before = st.st_ino;
	cr_assert_eq(repair(true, NULL), -EBADMSG);
	cr_assert_eq(repair(false, NULL), -EBADMSG);
	cr_assert(strstr(why.text, PARAMS), "%s", why.text);
	cr_assert_eq(mended.mended, 1u);
	cr_assert_eq(stat(path_of(PARAMS), &st), 0);
	cr_assert_eq(st.st_ino, before, "what cannot be mended is left as it is");
	cr_assert_eq(verify(VERIFY_DATA, 1), -EBADMSG);
	cr_assert_str_eq(first.file, PARAMS);
	cr_assert_eq(result.findings, 1u);
}

Test(repair, a_sidecar_is_taken_from_a_donor)
{
	make_two();
	flip(dir, SIDECAR, 70);
	cr_assert_eq(repair(true, NULL), 0, "%s", why.text);
	cr_assert_eq(repair(false, NULL), 0, "%s", why.text);
	cr_assert_eq(mended.files, 1u, "the data file is as it should be");
	expect_whole();
	flip(dir, SIDECAR, 70);
	flip(dir, PARAMS, size_of(PARAMS) - 1);
	cr_assert_eq(repair(false, NULL), 0, "%s", why.text);
	cr_assert_eq(mended.mended, 2u, "both at once");
	expect_whole();
}

Test(repair, a_manifest_is_not)
{
	make_two();
	AUTO_FREE struct names *names = all_names();
	for (size_t i = 0; i < names->n; i++)
		if (!strncmp(names->name[i], "node-", 5))
			flip(dir, names->name[i], 30);
	cr_assert_eq(repair(false, NULL), -EBADMSG);
}

/* Every file of the other checkpoint becomes a link to the damaged one. */
Test(repair, a_checkpoint_that_shares_the_file_gets_the_new_one)
{
	struct stat mine, theirs;
	char path[2 * SCRATCH_MAX + 200];
	make_two();
	spec.id.step = 95;
	cr_assert_eq(store_make(&spec, &why), 0, "the donor: %s", why.text);
	spec.id.step = other.step;
	snprintf(path, sizeof(path), "%s/" PARAMS, donor_dir);
	cr_assert_eq(unlink(path), 0);
	cr_assert_eq(link(path_of(PARAMS), path), 0);
	flip(donor_dir, PARAMS, 4096 * 3);
	spec.id = other;
	cr_assert_eq(verify(VERIFY_DATA, 1), -EBADMSG);
	cr_assert_eq(repair(false, NULL), 0, "%s", why.text);
	cr_assert_eq(mended.siblings, 1u);
	cr_assert_eq(stat(path, &theirs), 0);
	cr_assert_eq(stat(path_of(PARAMS), &mine), 0);
	cr_assert_eq(mine.st_ino, theirs.st_ino);
	cr_assert_eq(mine.st_nlink, 2u);
	expect_whole();
}

/* Memory that has the bytes of one file. */
static char *good;
static size_t good_len;

static int from_memory(void *arg, const struct manifest_file *file, uint64_t from, uint64_t len, void *buf)
{
	(void)arg;
	if (strcmp(file->name, PARAMS) || from + len > good_len)
		return -ENOENT;
	memcpy(buf, good + from, len);
	return 0;
}

Test(repair, memory_is_a_donor_and_is_not_believed_either)
{
	struct repair_memory memory = {.read = from_memory};
	make(2, 1, 400, 300);
	good = scratch_read(dir, PARAMS, &good_len);
	flip(dir, PARAMS, 4096);
	cr_assert_eq(repair(false, NULL), -EBADMSG, "nobody else has it");
	good[4096] ^= 1;
	cr_assert_eq(repair(false, &memory), -EBADMSG, "it is wrong in memory");
	good[4096] ^= 1;
	cr_assert_eq(repair(false, &memory), 0, "%s", why.text);
	expect_whole();
	free(good);
}

Test(repair, storage_that_fails_leaves_the_damaged_file_and_nothing_else)
{
	static const char *const specs[] = {"disk.write=error:ENOSPC@1", "disk.fsync=error:EIO@1",
					    "disk.rename=error:EIO@1"};
	make_two();
	flip(dir, PARAMS, size_of(PARAMS) - 1);
	for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
		cr_assert_eq(failpoint_arm(specs[i], &why), 0, "%s", why.text);
		cr_assert_lt(repair(false, NULL), 0, "%s", specs[i]);
		cr_assert_eq(failpoint_arm("", &why), 0);
		cr_assert_eq(verify(VERIFY_DATA, 1), -EBADMSG, "%s", specs[i]);
		expect_tidy(specs[i]);
	}
	cr_assert_eq(repair(false, NULL), 0, "%s", why.text);
	expect_whole();
}
