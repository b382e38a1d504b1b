#include "scratch.h"
#include "store/manage/trash.h"

#include "base/clock.h"
#include "base/failpoint.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[SCRATCH_MAX], job[SCRATCH_MAX + 8], one[SCRATCH_MAX + 64];
static struct repo repo;
static struct err err;
static const char name[] = "step-000000000001.e0001";

static void setup(void)
{
	scratch_new(root);
	snprintf(job, sizeof(job), "%s/main", root);
	snprintf(one, sizeof(one), "%s/%s", job, name);
	cr_assert_eq(repo_create(root, &err), 0, "%s", err.text);
	cr_assert_eq(repo_open(root, &repo, &err), 0, "%s", err.text);
	mkdir(job, 0755);
	mkdir(one, 0755);
	scratch_write(one, NAME_MANIFEST, "manifest", 8);
	scratch_write(one, "a.safetensors", "bytes", 5);
	scratch_write(one, "b.safetensors", "bytes", 5);
}

static void teardown(void)
{
	failpoint_arm("", NULL);
	repo_close(&repo);
	scratch_remove(root);
}

TestSuite(trash, .init = setup, .fini = teardown);

static bool there(const char *dir, const char *file)
{
	char path[2 * TRASH_NAME_MAX + SCRATCH_MAX];
	snprintf(path, sizeof(path), "%s/%s", dir, file);
	return access(path, F_OK) == 0;
}

static void arm(const char *spec)
{
	cr_assert_eq(failpoint_arm(spec, &err), 0, "%s", err.text);
}

Test(trash, a_move_whose_answer_was_lost_is_a_move)
{
	char trash[TRASH_NAME_MAX];
	uint64_t freed = 0;
	failpoint_arm("disk.rename.after=error:ENOENT", &err);
	cr_assert_eq(trash_move(&repo, "main", name, trash, &err), 0, "%s", err.text);
	failpoint_arm("", NULL);
	cr_assert_eq(trash_sweep(&repo, "main", trash, &freed, &err), 0, "%s", err.text);
	cr_assert_neq(access(one, F_OK), 0);
	cr_assert_eq(trash_move(&repo, "main", name, trash, &err), -ENOENT, "it is gone");
}

Test(trash, one_at_a_time_decides)
{
	struct repo other;
	cr_assert_eq(repo_open(root, &other, &err), 0);
	int lock = trash_lock(&repo, 0, &err);
	cr_assert_geq(lock, 0, "%s", err.text);
	cr_assert_eq(trash_lock(&other, 0, &err), -EWOULDBLOCK);
	cr_assert(strstr(err.text, REPO_GC_LOCK));
	uint64_t began = clock_now();
	cr_assert_eq(trash_lock(&other, clock_deadline(50 * CLOCK_NS_PER_MS), &err), -EWOULDBLOCK);
	cr_assert_geq(clock_now() - began, 50 * CLOCK_NS_PER_MS);
	disk_close_file(repo.disk, lock);
	lock = trash_lock(&other, 0, &err);
	cr_assert_geq(lock, 0, "%s", err.text);
	disk_close_file(other.disk, lock);
	repo_close(&other);
}

Test(trash, names_are_hidden_and_bounded)
{
	char is[TRASH_NAME_MAX], longest[2 * TRASH_NAME_MAX];
	trash_name(name, 255, is);
	cr_assert_str_eq(is, ".trash-step-000000000001.e0001.ff");
	trash_name(".abandoned-x", 1, is);
	cr_assert_str_eq(is, ".trash-abandoned-x.1");
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = 0;
	trash_name(longest, UINT64_MAX, is);
	cr_assert_lt(strlen(is), TRASH_NAME_MAX);
	cr_assert_str_eq(is + strlen(is) - 17, ".ffffffffffffffff");
}

Test(trash, moves_and_sweeps)
{
	char trash[TRASH_NAME_MAX];
	uint64_t freed = 0;
	cr_assert_eq(trash_move(&repo, "main", name, trash, &err), 0, "%s", err.text);
	cr_assert(!there(job, name) && there(job, trash));
	cr_assert_eq(trash_move(&repo, "main", name, trash, &err), -ENOENT);
	trash_name(name, 0, trash);
	cr_assert_eq(trash_sweep(&repo, "main", trash, &freed, &err), 0, "one that somebody else has swept");
	cr_assert_eq(freed, 0);
}

static void move_and_sweep(int want, uint64_t *freed, char trash[TRASH_NAME_MAX])
{
	cr_assert_eq(trash_move(&repo, "main", name, trash, &err), 0, "%s", err.text);
	cr_assert_eq(trash_sweep(&repo, "main", trash, freed, &err), want, "%s", err.text);
}

Test(trash, a_file_with_another_name_stays_and_is_not_counted)
{
	char trash[TRASH_NAME_MAX], from[SCRATCH_MAX + 96], to[SCRATCH_MAX + 96];
	uint64_t freed = 0;
	size_t len;
	snprintf(from, sizeof(from), "%s/a.safetensors", one);
	snprintf(to, sizeof(to), "%s/kept", job);
	cr_assert_eq(link(from, to), 0);
	move_and_sweep(0, &freed, trash);
	cr_assert(!there(job, trash));
	char *kept = scratch_read(job, "kept", &len);
	cr_assert_eq(len, 5, "the bytes were cut");
	cr_assert(!memcmp(kept, "bytes", 5));
	free(kept);
	cr_assert_lt(freed, 2 * 4096 + 1, "the linked file is not freed");
}

Test(trash, the_manifest_goes_first)
{
	char trash[TRASH_NAME_MAX], dir[SCRATCH_MAX + TRASH_NAME_MAX + 16];
	uint64_t freed = 0;
	arm("disk.unlink=error:EIO@2");
	move_and_sweep(-EIO, &freed, trash);
	snprintf(dir, sizeof(dir), "%s/%s", job, trash);
	cr_assert(!there(dir, NAME_MANIFEST) && there(dir, "a.safetensors") && there(dir, "b.safetensors"));
	arm("");
	cr_assert_eq(trash_sweep(&repo, "main", trash, &freed, &err), 0, "the rest goes later");
	cr_assert(!there(job, trash));
}

Test(trash, without_its_fsync_a_move_fails)
{
	char trash[TRASH_NAME_MAX];
	arm("disk.fsync=error:EIO");
	cr_assert_eq(trash_move(&repo, "main", name, trash, &err), -EIO);
}

Test(trash, what_is_no_file_is_left)
{
	char trash[TRASH_NAME_MAX], dir[SCRATCH_MAX + TRASH_NAME_MAX + 16];
	uint64_t freed = 0;
	snprintf(dir, sizeof(dir), "%s/mine", one);
	mkdir(dir, 0755);
	scratch_write(dir, "precious", "x", 1);
	move_and_sweep(-ENOTEMPTY, &freed, trash);
	snprintf(dir, sizeof(dir), "%s/%s/mine", job, trash);
	cr_assert(there(dir, "precious"));
}

Test(trash, more_files_than_one_listing_holds)
{
	char trash[TRASH_NAME_MAX], file[32];
	uint64_t freed = 0;
	for (int i = 0; i < TRASH_LISTED + 100; i++) {
		snprintf(file, sizeof(file), "f%d", i);
		scratch_write(one, file, "", 0);
	}
	move_and_sweep(0, &freed, trash);
	cr_assert(!there(job, trash));
}
