/* Directories of a job, over the real disk; the coordinator is a fake. What becomes of a single one: unit/ckptd, directory. */
#include "control/record/checkpoint_directories.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "fakes.h"
#include "scratch.h"
#include "store/disk/disk.h"
#include "store/read/repo.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { WAIT_S = 60, MAKER = 17 };

static const struct step_id s10 = {10, 1}, s20 = {20, 1};

static char path[SCRATCH_MAX];
static struct disk *disk;
static int root;
static struct directories directories;

static void setup(void)
{
	struct err err = {{0}};
	fakes_reset();
	scratch_new(path);
	cr_assert_eq(repo_create(path, &err), 0, "%s", err.text);
	cr_assert_eq(disk_new(path, &disk, &root, &err), 0, "%s", err.text);
	directories_init(&directories, disk, root, "gpt", (struct coord *)&directories);
	directories.maker = MAKER;
}

static void teardown(void)
{
	failpoint_arm(NULL, NULL);
	disk_free(disk);
	directories_free(&directories);
	scratch_remove(path);
}

TestSuite(directories, .init = setup, .fini = teardown);

static void run_until(const unsigned *count, unsigned n)
{
	uint64_t deadline = clock_deadline(WAIT_S * CLOCK_NS_PER_S);
	while (*count < n && clock_now() < deadline)
		disk_poll(disk, deadline);
	cr_assert_eq(*count, n);
}

static void run_all(void)
{
	uint64_t deadline = clock_deadline(WAIT_S * CLOCK_NS_PER_S);
	while (disk_pending(disk) && clock_now() < deadline)
		disk_poll(disk, deadline);
}

static bool stands(struct step_id id, const char *name)
{
	char dir[NAME_DIR_MAX], file[3 * SCRATCH_MAX];
	struct stat st;
	name_dir(id, dir);
	snprintf(file, sizeof(file), "%s/gpt/%s/%s", path, dir, name);
	return !stat(file, &st);
}

/* It is under work. */
static bool is_made(struct step_id id)
{
	char dir[NAME_WORK_MAX], file[2 * SCRATCH_MAX];
	struct stat st;
	name_work(id, MAKER, dir);
	cr_expect_eq(directories_write(&directories, dir), directories_have(&directories, id));
	snprintf(file, sizeof(file), "%s/gpt/%s", path, dir);
	return !stat(file, &st);
}

static void make(struct step_id id)
{
	unsigned before = fake_coord.made;
	directories_make(&directories, id);
	run_until(&fake_coord.made, before + 1);
	run_all();
}

/* One node has written its part. */
static void seal(struct step_id id)
{
	static const char text[] = "what a node has written";
	AUTO_WBUF struct wbuf out = {0};
	char dir[NAME_WORK_MAX], at[2 * SCRATCH_MAX];
	struct manifest_node node = {.name = "n1", .size = strlen(text), .digest = digest_bytes(text, strlen(text))};
	struct manifest m = {.job = "gpt", .id = id, .world = 1, .bytes = 1, .stored = 1, .files = 1, .nnodes = 1};
	name_node(node.name, node.file);
	if (stands(id, ""))
		name_dir(id, dir);
	else
		name_work(id, MAKER, dir);
	snprintf(at, sizeof(at), "%s/gpt/%s", path, dir);
	scratch_write(at, node.file, text, strlen(text));
	m.nodes = &node;
	cr_assert_eq(manifest_encode(&m, &out), 0);
	directories_seal(&directories, id, &out);
}

Test(directories, each_is_made_and_sealed_for_itself)
{
	make(s10);
	make(s20);
	cr_expect(!fake_coord.found && directories.n == 2);
	cr_expect(directories_have(&directories, s10) && directories_have(&directories, s20));
	seal(s20);
	run_until(&fake_coord.sealed, 1);
	run_all();
	cr_expect(stands(s20, NAME_MANIFEST) && !stands(s10, NAME_MANIFEST));
	cr_expect(!directories_have(&directories, s20) && directories_have(&directories, s10));
	seal(s10);
	run_until(&fake_coord.sealed, 2);
	run_all();
	cr_expect_eq(directories.n, 0);
}

Test(directories, one_that_is_dropped_stays_until_the_nodes_have_deleted)
{
	make(s10);
	directories_drop(&directories, s10, -ECANCELED, "enough");
	run_until(&fake_coord.left, 1);
	run_all();
	cr_expect(is_made(s10) && !stands(s10, "") && !fake_coord.kept);
	cr_expect(fake_coord.spoiled && fake_coord.rc == -ECANCELED, "the coordinator hears that it has failed");
	cr_expect(directories_have(&directories, s10) && directories.n == 1);
	directories_remove(&directories, s10);
	run_all();
	cr_expect_eq(directories.n, 0);
	cr_expect(!is_made(s10));
	make(s10); /* its name is free */
	cr_expect(is_made(s10) && !fake_coord.found);
}

Test(directories, orders_for_one_that_is_not_there_do_nothing)
{
	AUTO_WBUF struct wbuf text = {0};
	make(s10);
	directories_seal(&directories, s20, &text);
	directories_drop(&directories, s20, -ECANCELED, "enough");
	directories_remove(&directories, s20);
	run_all();
	cr_expect(directories.n == 1 && !fake_coord.sealed && !fake_coord.spoiled && !fake_coord.left);
}

Test(directories, what_cannot_be_made_is_told_to_the_coordinator)
{
	scratch_write(path, "gpt", "", 0);
	directories_make(&directories, s10);
	run_until(&fake_coord.spoiled, 1);
	run_until(&fake_coord.left, 1);
	cr_expect_eq(fake_coord.made, 0);
	cr_expect_lt(fake_coord.rc, 0);
	directories_remove(&directories, s10);
	run_all();
	cr_expect_eq(directories.n, 0);
}

Test(directories, a_store_that_makes_no_progress_is_given_up)
{
	directories_make(&directories, s10);
	directories_expire(&directories, 2000);
	cr_expect_eq(fake_coord.spoiled, 0);
	clock_skip(3 * CLOCK_NS_PER_S);
	directories_expire(&directories, 2000);
	cr_assert_eq(fake_coord.spoiled, 1);
	cr_expect_eq(fake_coord.rc, -ETIMEDOUT);
	cr_expect(strstr(fake_coord.text, "storage made no progress for 2000 ms (commit state "), "%s",
		  fake_coord.text);
	directories_drop(&directories, s10, -ETIMEDOUT, "enough"); /* as the coordinator does then */
	unsigned said = fake_coord.spoiled;
	clock_skip(3 * CLOCK_NS_PER_S);
	directories_expire(&directories, 2000);
	cr_expect_eq(fake_coord.spoiled, said, "it has failed already");
	run_until(&fake_coord.left, 1);
	directories_remove(&directories, s10);
	run_all();
	cr_expect_eq(directories.n, 0);
}

Test(directories, one_that_waits_for_nodes_is_not_given_up)
{
	make(s10);
	clock_skip(60 * CLOCK_NS_PER_S);
	directories_expire(&directories, 2000);
	cr_expect_eq(fake_coord.spoiled, 0, "they have deadlines of their own");
	directories_drop(&directories, s10, -ECANCELED, "enough");
	run_until(&fake_coord.left, 1);
	unsigned said = fake_coord.spoiled;
	clock_skip(60 * CLOCK_NS_PER_S);
	directories_expire(&directories, 2000);
	cr_expect_eq(fake_coord.spoiled, said);
}

Test(directories, a_checkpoint_that_is_there_is_found)
{
	make(s10);
	seal(s10);
	run_until(&fake_coord.sealed, 1);
	run_all();
	make(s10);
	cr_expect(fake_coord.found);
	seal(s10);
	run_until(&fake_coord.sealed, 2);
}
