/* Commits over the real disk, in a directory of their own. */
#include "checkpoint/node_part.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "checkpoint/directory.h"
#include "ckptd/job_maker.h"
#include "scratch.h"
#include "store/check/verify.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>

enum { WAIT_S = 60 };

static const struct step_id id = {.step = 7, .epoch = 2};

static char path[SCRATCH_MAX];
static struct disk *disk;
static int root;
static struct maker m;
static struct node_part_rank ranks[MAKER_WORLD];
static int finished, written;

static void setup(void)
{
	struct err err = {{0}};
	scratch_new(path);
	cr_assert_eq(repo_create(path, &err), 0, "%s", err.text);
	cr_assert_eq(disk_new(path, &disk, &root, &err), 0, "%s", err.text);
	maker_new(&m, id);
	for (uint32_t r = 0; r < MAKER_WORLD; r++)
		ranks[r] = (struct node_part_rank){.mem = m.mem[r], .slot = 0, .leaves = m.leaves[r]};
	finished = written = 0;
}

static void teardown(void)
{
	failpoint_arm(NULL, NULL);
	maker_free(&m);
	disk_free(disk);
	scratch_remove(path);
}

TestSuite(commit, .init = setup, .fini = teardown);

static void on_done(struct node_part *c)
{
	(void)c;
	finished++;
}

static void on_written(struct node_part *c)
{
	(void)c;
	written++;
}

static struct node_part *start(bool digests_ready)
{
	struct node_part *c = calloc(1, sizeof(*c));
	cr_assert(c);
	*c = (struct node_part){.disk = disk,
				.root = root,
				.job = "main",
				.node = "n0",
				.id = id,
				.world = MAKER_WORLD,
				.nranks = MAKER_WORLD,
				.ranks = ranks,
				.digests_ready = digests_ready,
				.data_written = on_written,
				.done = on_done};
	maker_commit(c);
	return c;
}

/* Until it is done and nothing that nobody waits for (a close) is pending either. */
static void run(void)
{
	uint64_t deadline = clock_deadline(WAIT_S * CLOCK_NS_PER_S);
	while ((!finished || disk_pending(disk)) && clock_now() < deadline)
		disk_poll(disk, deadline);
	cr_assert_eq(finished, 1, "done was called %d times", finished);
}

static int commit_once(char *text, size_t size)
{
	finished = 0;
	struct node_part *c = start(true);
	run();
	int rc = c->rc;
	if (text)
		snprintf(text, size, "%s", c->err.text);
	cr_assert(rc == 0 || c->err.text[0], "an error without a sentence");
	node_part_free(c);
	return rc;
}

static void expect_verified(void)
{
	struct repo repo;
	struct err err = {{0}};
	struct verify_result result;
	struct verify_options options = {.depth = VERIFY_DATA, .share = 1, .threads = 1};
	cr_assert_eq(repo_open(path, &repo, &err), 0, "%s", err.text);
	int rc = verify_checkpoint(&repo, "main", id, &options, &result, &err);
	repo_close(&repo);
	cr_assert_eq(rc, 0, "%s", err.text);
	cr_assert_eq(result.findings, 0u);
	cr_assert_gt(result.leaves, 0u);
}

/* Checkpoints of a state that a scan finds. */
static size_t found(enum checkpoint_state state)
{
	struct repo repo;
	struct err err = {{0}};
	AUTO_FREE struct checkpoint_ref *refs = NULL;
	size_t n = 0, count = 0;
	cr_assert_eq(repo_open(path, &repo, &err), 0, "%s", err.text);
	cr_assert_eq(repo_scan(&repo, NULL, &refs, &n, &err), 0, "%s", err.text);
	repo_close(&repo);
	for (size_t i = 0; i < n; i++)
		count += refs[i].state == state;
	return count;
}

static void arm(const char *spec)
{
	struct err err = {{0}};
	cr_assert_eq(failpoint_arm(spec, &err), 0, "%s", err.text);
}

Test(commit, what_is_committed_is_whole)
{
	cr_assert_eq(commit_once(NULL, 0), 0);
	cr_assert_eq(written, 1);
	cr_assert_eq(found(CHECKPOINT_COMMITTED), 1u);
	expect_verified();
}

Test(commit, it_waits_for_the_digests)
{
	struct node_part *c = start(false);
	uint64_t deadline = clock_deadline(WAIT_S * CLOCK_NS_PER_S);
	while (c->state != NODE_PART_DIGESTS && clock_now() < deadline)
		disk_poll(disk, deadline);
	cr_assert_eq(c->state, NODE_PART_DIGESTS);
	while (disk_pending(disk))
		disk_poll(disk, deadline);
	cr_assert(!finished);
	cr_assert_eq(found(CHECKPOINT_COMMITTED), 0u);
	node_part_digests_ready(c);
	run();
	cr_assert_eq(c->rc, 0);
	node_part_free(c);
	expect_verified();
}

Test(commit, one_that_is_given_up_while_it_waits_leaves_nothing)
{
	struct node_part *c = start(false);
	uint64_t deadline = clock_deadline(WAIT_S * CLOCK_NS_PER_S);
	while (c->state != NODE_PART_DIGESTS && clock_now() < deadline)
		disk_poll(disk, deadline);
	node_part_abort(c, -EBADMSG, "torn");
	run();
	cr_assert_eq(c->rc, -EBADMSG);
	cr_assert_str_eq(c->err.text, "torn");
	node_part_free(c);
	cr_assert_eq(found(CHECKPOINT_COMMITTED) + found(CHECKPOINT_PARTIAL), 0u);
}

static void end_and_clear(struct node_part *c)
{
	node_part_clear(c, MAKER_NUMBER);
	cr_expect_not(c->cleared, "nobody has said that it failed");
	node_part_end(c);
	cr_assert(!finished && c->state > NODE_PART_STOPPED && c->state < NODE_PART_DONE);
	node_part_clear(c, MAKER_NUMBER);
}

/* A node that has gone on by another plan leaves what it has prepared as it is. Who clears the directory away waits for it all the same. */
Test(commit, one_that_ends_as_it_is_says_that_it_was_to_go)
{
	struct node_part *c = start(true);
	c->prepared = end_and_clear;
	uint64_t deadline = clock_deadline(WAIT_S * CLOCK_NS_PER_S);
	while (c->state != NODE_PART_DONE && clock_now() < deadline)
		disk_poll(disk, deadline);
	cr_expect(c->cleared && !c->rc);
	directory_drop(maker_directory(c), -ECANCELED, "given up");
	run();
	node_part_free(c);
	cr_expect_eq(found(CHECKPOINT_COMMITTED), 0u);
}

static void remove_job(void)
{
	char dir[SCRATCH_MAX + 8];
	snprintf(dir, sizeof(dir), "%s/main", path);
	scratch_remove(dir);
}

Test(commit, given_up_at_any_instant_it_ends_and_leaves_no_part_of_a_checkpoint)
{
	for (int polls = 0; polls < 100; polls++) {
		finished = 0;
		struct node_part *c = start(true);
		for (int i = 0; i < polls && !finished; i++)
			disk_poll(disk, clock_deadline(CLOCK_NS_PER_S));
		bool too_late = finished || c->state >= NODE_PART_STOPPED;
		bool naming = !too_late && maker_directory(c)->naming; /* it becomes one, whatever is said of it */
		node_part_abort(c, -ECANCELED, "given up");
		run();
		bool committed = found(CHECKPOINT_COMMITTED);
		cr_assert_eq(committed, naming || c->rc == 0, "after %d polls: rc %d", polls, c->rc);
		cr_assert(too_late || c->rc == -ECANCELED);
		if (committed)
			expect_verified();
		bool through = committed && !c->rc;
		node_part_free(c);
		if (through)
			return; /* later instants are the same */
		remove_job();
	}
	cr_assert_fail("it never comes to its end");
}

Test(commit, a_second_one_of_the_same_step_finds_the_first)
{
	cr_assert_eq(commit_once(NULL, 0), 0);
	finished = 0;
	struct node_part *c = start(true);
	run();
	cr_assert_eq(c->rc, 0);
	cr_assert(c->already);
	node_part_free(c);
	expect_verified();
}

/* As an earlier life of the daemon leaves it. */
Test(commit, a_half_written_directory_of_its_name_is_moved_aside)
{
	char dir[2 * SCRATCH_MAX], name[NAME_WORK_MAX];
	name_work(id, MAKER_NUMBER, name);
	snprintf(dir, sizeof(dir), "%s/main", path);
	cr_assert_eq(mkdir(dir, 0755), 0);
	snprintf(dir, sizeof(dir), "%s/main/%s", path, name);
	cr_assert_eq(mkdir(dir, 0755), 0);
	scratch_write(dir, "node-n0.json", "{", 1);
	cr_assert_eq(commit_once(NULL, 0), 0);
	expect_verified();
}

static unsigned names_in(const char *dir)
{
	unsigned n = 0;
	DIR *d = opendir(dir);
	for (struct dirent *entry; d && (entry = readdir(d));)
		n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
	if (d)
		closedir(d);
	return n;
}

static unsigned names_in_job(void)
{
	char dir[SCRATCH_MAX + 8];
	snprintf(dir, sizeof(dir), "%s/main", path);
	return names_in(dir);
}

/* A server whose answer was lost is asked again, and says EEXIST or ENOENT of what it has done. */
Test(commit, lost_answers_do_not_fail_it)
{
	static const char *const lost[] = {
		"disk.mkdir.after=error:EEXIST@1",
		"disk.mkdir.after=error:EEXIST@2",
		"disk.mkdir.after=error:EEXIST@2,disk.rename.after=error:ENOENT@1",
		"disk.rename.after=error:ENOENT@1",
		"disk.rename.after=error:EEXIST@1",
	};
	for (size_t i = 0; i < sizeof(lost) / sizeof(lost[0]); i++) {
		char text[ERR_TEXT_MAX];
		unsigned before = open_descriptors();
		arm(lost[i]);
		int rc = commit_once(text, sizeof(text));
		arm("");
		cr_assert_eq(rc, 0, "%s: %s", lost[i], text);
		cr_assert_eq(open_descriptors(), before, "%s: descriptors leak", lost[i]);
		expect_verified();
		remove_job();
	}
}

Test(commit, the_same_answer_about_what_was_not_done_fails_it)
{
	static const char *const refused[] = {"disk.rename=error:EEXIST@1", "disk.rename=error:ENOENT@1"};
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		arm(refused[i]);
		cr_assert_lt(commit_once(NULL, 0), 0, "%s", refused[i]);
		arm("");
		cr_assert_eq(found(CHECKPOINT_COMMITTED), 0u, "%s", refused[i]);
		cr_assert_eq(names_in_job(), 1u, "%s: it may come late, all stays", refused[i]);
		remove_job();
	}
}

/* Not ours: somebody else has written it there meanwhile. */
Test(commit, a_foreign_manifest_is_not_taken_for_its_own)
{
	char dir[SCRATCH_MAX + 64], name[NAME_DIR_MAX];
	uint64_t deadline = clock_deadline(WAIT_S * CLOCK_NS_PER_S);
	struct node_part *c = start(true);
	while (maker_directory(c)->state != DIRECTORY_MANIFEST && clock_now() < deadline)
		disk_poll(disk, deadline);
	name_dir(id, name);
	snprintf(dir, sizeof(dir), "%s/main/%s", path, name);
	cr_assert_eq(mkdir(dir, 0755), 0);
	scratch_write(dir, NAME_MANIFEST, "{}", 2);
	run();
	cr_assert_eq(c->rc, -EEXIST);
	cr_assert(strstr(c->err.text, "another checkpoint"), "%s", c->err.text);
	node_part_free(c);
}

Test(commit, what_is_given_up_is_cleared_away_although_an_answer_is_lost)
{
	arm("commit.node=error:ENOSPC@1,disk.rmdir.after=error:ENOENT@1");
	cr_assert_eq(commit_once(NULL, 0), -ENOSPC);
	arm("");
	cr_assert_eq(names_in_job(), 0u);
}

/* Those that are passed on the way of every commit. */
static const char *const on_the_way[] = {
	"commit.job_dir",   "commit.open_job", "commit.mkdir",         "commit.open_dir",  "commit.data",
	"commit.digests",   "commit.sidecars", "commit.node",          "commit.sync_dir",  "commit.probe",
	"commit.sync_root", "commit.prepared", "commit.manifest",      "commit.name",      "commit.ask",
	"commit.find_job",  "commit.find_dir", "commit.open_node",     "commit.previous",  "commit.ready",
	"commit.look",      "disk.write",      "commit.sync_manifest", "disk.fsync",       "disk.truncate",
	"disk.mkdir",       "disk.open",       "disk.fsync.after",     "disk.write.after", "disk.open.after",
	"disk.rename",
};

Test(commit, an_error_anywhere_commits_nothing_leaks_nothing_and_spoils_nothing)
{
	for (size_t i = 0; i < sizeof(on_the_way) / sizeof(on_the_way[0]); i++) {
		char spec[64], text[ERR_TEXT_MAX];
		unsigned before = open_descriptors();
		snprintf(spec, sizeof(spec), "%s=error:EIO@1", on_the_way[i]);
		arm(spec);
		int rc = commit_once(text, sizeof(text));
		arm("");
		cr_assert_eq(rc, -EIO, "%s: %d", spec, rc);
		cr_assert(strstr(text, "Input/output error"), "%s: %s", spec, text);
		cr_assert_eq(found(CHECKPOINT_COMMITTED), 0u, "%s: it is listed", spec);
		cr_assert_eq(open_descriptors(), before, "%s: descriptors leak", spec);
	}
	cr_assert_eq(commit_once(NULL, 0), 0, "the next one");
	expect_verified();
}

/* It fails, and is a checkpoint all the same, a whole one: nobody knows that it is not. */
Test(commit, what_was_named_stays_although_it_fails)
{
	static const char *const late[] = {"commit.sync_name=error:EIO@1", "disk.rename.after=error:EIO@1"};
	for (size_t i = 0; i < sizeof(late) / sizeof(late[0]); i++) {
		arm(late[i]);
		cr_assert_eq(commit_once(NULL, 0), -EIO, "%s", late[i]);
		arm("");
		cr_assert_eq(found(CHECKPOINT_COMMITTED), 1u, "%s", late[i]);
		expect_verified();
		remove_job();
	}
}

/* Whose order it is: who coordinates the job now did not have that directory made, and does not know what becomes of it. */
static uint64_t orderer;
static void (*tell)(struct node_part *c);

static void clear_first(struct node_part *c)
{
	node_part_clear(c, orderer);
	tell(c);
}

Test(commit, what_was_written_is_deleted_by_order_of_its_maker_only)
{
	for (orderer = MAKER_NUMBER; orderer < MAKER_NUMBER + 2; orderer++) {
		char dir[2 * SCRATCH_MAX], name[NAME_WORK_MAX];
		finished = 0;
		struct node_part *c = start(false);
		uint64_t deadline = clock_deadline(WAIT_S * CLOCK_NS_PER_S);
		while (c->state != NODE_PART_DIGESTS && clock_now() < deadline)
			disk_poll(disk, deadline);
		name_work(id, MAKER_NUMBER, name);
		snprintf(dir, sizeof(dir), "%s/main/%s", path, name);
		unsigned files = names_in(dir);
		tell = c->failed;
		c->failed = clear_first;
		node_part_abort(c, -ECANCELED, "given up");
		run();
		node_part_free(c);
		cr_assert_gt(files, 0u);
		cr_assert_eq(names_in(dir), orderer == MAKER_NUMBER ? 0 : files);
		remove_job();
	}
}

/* The removal fails as well: what is left must not be taken for a checkpoint. */
Test(commit, an_error_while_clearing_up_leaves_nothing_that_is_listed)
{
	static const char *const cleaning[] = {"disk.unlink", "disk.rmdir", "disk.unlink.after", "disk.rmdir.after"};
	for (size_t i = 0; i < sizeof(cleaning) / sizeof(cleaning[0]); i++) {
		char spec[96];
		unsigned before = open_descriptors();
		snprintf(spec, sizeof(spec), "commit.node=error:ENOSPC@1,%s=error:EIO@1", cleaning[i]);
		arm(spec);
		cr_assert_eq(commit_once(NULL, 0), -ENOSPC, "%s", spec);
		arm("");
		cr_assert_eq(found(CHECKPOINT_COMMITTED), 0u, "%s", spec);
		cr_assert_eq(open_descriptors(), before, "%s: descriptors leak", spec);
	}
	cr_assert_eq(commit_once(NULL, 0), 0);
	expect_verified();
}
