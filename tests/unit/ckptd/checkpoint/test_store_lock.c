#include "checkpoint/store_lock.h"

#include "scratch.h"
#include "store/disk/disk.h"
#include "store/read/repo.h"

#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

static char path[SCRATCH_MAX];
static struct disk *disk;
static int root;
static struct store_lock ours, others;
static struct err err;

static void setup(void)
{
	scratch_new(path);
	cr_assert_eq(disk_new(path, &disk, &root, &err), 0, "%s", err.text);
	cr_assert_eq(store_lock_take(&ours, false, disk, root, path, &err), 0, "%s", err.text);
	others.handle = STORE_LOCK_NONE;
}

static void teardown(void)
{
	store_lock_give(&ours);
	store_lock_give(&others);
	disk_free(disk);
	scratch_remove(path);
}

TestSuite(store_lock, .init = setup, .fini = teardown);

static void delete_it(void)
{
	cr_assert_eq(unlinkat(root, REPO_LOCK, 0), 0);
}

static void look(void)
{
	store_lock_found(&ours, store_lock_look(&ours, disk, root), path);
}

static int take_too(bool shared)
{
	return store_lock_take(&others, shared, disk, root, path, &err);
}

Test(store_lock, keeps_a_second_daemon_out)
{
	cr_expect_eq(store_lock_look(&ours, disk, root), STORE_LOCK_NONE, "nothing has become of it");
	cr_expect_eq(take_too(false), -EWOULDBLOCK);
	cr_expect(strstr(err.text, "another ckptd has the store"), "%s", err.text);
	cr_expect_eq(take_too(true), -EWOULDBLOCK);
	store_lock_give(&ours);
	cr_expect_eq(take_too(false), 0, "%s", err.text);
}

Test(store_lock, is_made_anew_where_somebody_has_deleted_it)
{
	for (int i = 0; i < 2; i++) {
		delete_it();
		look();
		cr_expect_eq(take_too(false), -EWOULDBLOCK);
		cr_expect_not(ours.is_lost);
	}
}

Test(store_lock, is_lost_where_another_daemon_came_first)
{
	delete_it();
	cr_assert_eq(take_too(false), 0, "%s", err.text);
	look();
	cr_expect(ours.is_lost);
	store_lock_give(&ours);
	cr_expect_eq(store_lock_look(&others, disk, root), STORE_LOCK_NONE, "that of the other one stands");
}

Test(store_lock, that_is_shared_is_made_anew_beside_those_of_others)
{
	store_lock_give(&ours);
	cr_assert_eq(store_lock_take(&ours, true, disk, root, path, &err), 0, "%s", err.text);
	delete_it();
	cr_assert_eq(take_too(true), 0, "%s", err.text);
	look();
	cr_expect_not(ours.is_lost);
	store_lock_give(&others);
	cr_expect_eq(take_too(false), -EWOULDBLOCK, "of one in no cluster");
}

Test(store_lock, of_no_store_is_not_looked_for)
{
	store_lock_give(&ours);
	delete_it();
	cr_expect_eq(store_lock_look(&ours, disk, root), STORE_LOCK_NONE);
	cr_expect_neq(faccessat(root, REPO_LOCK, F_OK, 0), 0, "nothing is made");
}
