/* Power that is cut on purpose: what an fsync has confirmed stays, what none has may go, and what is of others is left alone. */
#include "store/disk/power.h"
#include "store/disk_fixture.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SEEDS = 64, LEN = 64 * 1024 };

static void setup(void)
{
	disk_setup();
	power_remember(true);
}

static void teardown(void)
{
	power_remember(false);
	disk_teardown();
}

TestSuite(power, .init = setup, .fini = teardown);

static struct power_losses cut(uint64_t seed)
{
	struct power_losses l;
	power_cut(d, seed, &l);
	power_restore();
	return l;
}

/* With seed 1 all is lost. */
static struct power_losses cut_all(void)
{
	return cut(1);
}

static uint64_t size_of(const char *name)
{
	struct disk_stat st;
	cr_assert_eq(disk_stat_at(d, root, name, &st), 0, "%s", name);
	return st.size;
}

static int put(const char *name, const void *data, size_t len, bool sync)
{
	int file = create(name, 0);
	cr_assert_eq(transfer(DISK_WRITE, file, (void *)data, 0, len), (int64_t)len);
	if (sync)
		cr_assert_eq(disk_fsync(d, file), 0);
	return file;
}

static void put_closed(const char *name, const char *text, bool sync)
{
	cr_assert_eq(disk_close_file(d, put(name, text, strlen(text), sync)), 0);
}

Test(power, what_was_fsynced_stays)
{
	put_closed("a", "safe", true);
	put_closed("b", "too", true);
	cr_assert_eq(do_names(DISK_RENAME, "b", "c"), 0);
	cr_assert_eq(do_name(DISK_MKDIR, "sub"), 0);
	cr_assert_eq(disk_fsync(d, root), 0);
	struct power_losses l = cut_all();
	cr_expect_eq(l.files + l.names, 0);
	expect_contents("a", "safe", 4);
	expect_contents("c", "too", 3);
	cr_expect(exists("sub"));
}

Test(power, bytes_that_were_not_fsynced_are_lost)
{
	put_closed("a", "gone", false);
	cr_assert_eq(disk_fsync(d, root), 0);
	struct power_losses l = cut_all();
	cr_expect_eq(l.files, 1);
	cr_expect_eq(l.lost_bytes, 4);
	cr_expect_eq(size_of("a"), 0, "the name was safe, and nothing else");
}

Test(power, what_was_written_after_an_fsync_is_lost_and_what_before_it_stays)
{
	int file = put("a", "safe", 4, true);
	cr_assert_eq(transfer(DISK_WRITE, file, (void *)"gone", 4, 4), 4);
	cr_assert_eq(disk_close_file(d, file), 0);
	cr_assert_eq(disk_fsync(d, root), 0);
	cut_all();
	expect_contents("a", "safe", 4);
}

/* Of each piece all or nothing; over the seeds both, and sizes of then and of now. */
Test(power, bytes_are_lost_in_part)
{
	AUTO_FREE uint8_t *want = pattern(LEN, 7);
	unsigned lost = 0, kept = 0, cut_short = 0;
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		uint8_t is[LEN] = {0};
		cr_assert_eq(disk_close_file(d, put("a", want, LEN, false)), 0);
		cr_assert_eq(disk_fsync(d, root), 0);
		cut(seed);
		cut_short += size_of("a") == 0;
		int file = disk_open_at(d, root, "a", DISK_RDONLY);
		int64_t n = transfer(DISK_READ, file, is, 0, LEN);
		for (int64_t at = 0; at < n; at += DISK_ALIGN) {
			bool same = !memcmp(is + at, want + at, DISK_ALIGN);
			cr_expect(same || (!is[at] && !memcmp(is + at, is + at + 1, DISK_ALIGN - 1)), "at %ld", at);
			kept += same;
			lost += !same;
		}
		disk_close_file(d, file);
		do_name(DISK_UNLINK, "a");
	}
	cr_expect(lost && kept && cut_short && cut_short < SEEDS, "%u %u %u", lost, kept, cut_short);
}

Test(power, names_that_were_not_fsynced_are_lost)
{
	put_closed("old", "is old", true);
	put_closed("gone", "was removed", true);
	put_closed("under-work", "has a name", true);
	cr_assert_eq(disk_fsync(d, root), 0);
	cr_assert_eq(disk_put_file(d, root, "old", "is new", 6, true, NULL), 0);
	cr_assert_eq(do_name(DISK_UNLINK, "gone"), 0);
	cr_assert_eq(do_names(DISK_RENAME, "under-work", "named"), 0);
	cr_assert_eq(do_names(DISK_LINK, "named", "second"), 0);
	cr_assert_eq(do_name(DISK_MKDIR, "sub"), 0);
	put_closed("made", "", true);
	struct power_losses l = cut_all();
	cr_expect_eq(l.names, 5);
	cr_expect_eq(l.lost_names, 5);
	expect_contents("old", "is new", 6);
	expect_contents("gone", "was removed", 11);
	expect_contents("under-work", "has a name", 10);
	cr_expect(!exists("named") && !exists("second") && !exists("sub") && !exists("made"));
}

/* As disk_put_file does it, without its last fsync. */
Test(power, what_was_replaced_comes_back)
{
	put_closed("a", "one", true);
	cr_assert_eq(disk_fsync(d, root), 0);
	put_closed("b", "two", true);
	cr_assert_eq(do_names(DISK_RENAME, "b", "a"), 0);
	cr_expect_eq(cut_all().lost_names, 2);
	expect_contents("a", "one", 3);
	cr_expect(!exists("b"));
}

/* The last ones go, none before a later one. */
Test(power, names_are_lost_in_their_order)
{
	bool seen[5] = {false};
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		unsigned n = 0;
		for (char name[2] = "a"; *name <= 'd'; ++*name)
			put_closed(name, "", true);
		cut(seed);
		for (char name[2] = "a"; *name <= 'd'; ++*name)
			n += exists(name);
		for (char name[2] = "a"; *name <= 'd'; ++*name) {
			cr_expect_eq(exists(name), *name < (char)('a' + n), "seed %lu", seed);
			do_name(DISK_UNLINK, name);
		}
		cr_assert_eq(disk_fsync(d, root), 0);
		seen[n] = true;
	}
	cr_expect(seen[0] && seen[1] && seen[2] && seen[3] && seen[4]);
}

Test(power, what_others_have_put_there_since_stays)
{
	put_closed("a", "mine", false);
	cr_assert_eq(do_name(DISK_MKDIR, "sub"), 0);
	scratch_write(path, "other", "another's", 9);
	cr_assert_eq(renameat(root, "other", root, "a"), 0);
	scratch_write(path, "sub/other", "another's", 9);
	cut_all();
	expect_contents("a", "another's", 9);
	expect_contents("sub/other", "another's", 9);
}

Test(power, what_is_forgotten_counts_as_durable)
{
	put_closed("a", "kept", false);
	power_remember(false);
	power_remember(true);
	cr_expect_eq(cut_all().files, 0);
	expect_contents("a", "kept", 4);
}

/* No descriptor stays of a file that was fsynced and closed, or that is gone: its directory could not be removed on NFS. */
Test(power, nothing_is_held_that_is_durable_or_gone)
{
	int before = dup(root);
	close(before);
	put_closed("a", "one", true);
	put_closed("b", "two", false);
	cr_assert_eq(do_name(DISK_UNLINK, "b"), 0);
	cr_assert_eq(disk_fsync(d, root), 0);
	int after = dup(root);
	close(after);
	cr_expect_eq(after, before);
}
