/* Commits after a previous one: what has not changed is linked to it. Over the real disk. */
#include "checkpoint/previous.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "checkpoint/node_part.h"
#include "ckptd/job_maker.h"
#include "scratch.h"
#include "store/check/verify.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <sys/stat.h>

enum { WAIT_S = 60, FULL_EVERY = 10 };

static char path[SCRATCH_MAX];
static struct disk *disk;
static int root;
static struct maker m;
static struct node_part_rank ranks[MAKER_WORLD];
static struct previous previous;
static uint64_t full_every;
static bool finished;

static struct step_id step(uint64_t n)
{
	return (struct step_id){.step = n, .epoch = 1};
}

static void setup(void)
{
	struct err err = {{0}};
	scratch_new(path);
	cr_assert_eq(repo_create(path, &err), 0, "%s", err.text);
	cr_assert_eq(disk_new(path, &disk, &root, &err), 0, "%s", err.text);
	maker_new(&m, step(1));
	for (uint32_t r = 0; r < MAKER_WORLD; r++)
		ranks[r] = (struct node_part_rank){.mem = m.mem[r], .slot = 0, .leaves = m.leaves[r]};
	full_every = FULL_EVERY;
}

static void teardown(void)
{
	failpoint_arm(NULL, NULL);
	previous_free(&previous);
	maker_free(&m);
	disk_free(disk);
	scratch_remove(path);
}

TestSuite(previous, .init = setup, .fini = teardown);

static void on_done(struct node_part *c)
{
	(void)c;
	finished = true;
}

static struct node_part *start(uint64_t n, bool digests_ready)
{
	struct node_part *c = calloc(1, sizeof(*c));
	cr_assert(c);
	*c = (struct node_part){.disk = disk,
				.root = root,
				.job = "main",
				.node = "n0",
				.id = step(n),
				.world = MAKER_WORLD,
				.nranks = MAKER_WORLD,
				.ranks = ranks,
				.previous = &previous,
				.full_every = full_every,
				.digests_ready = digests_ready,
				.done = on_done};
	finished = false;
	maker_commit(c);
	return c;
}

static void poll_until(const struct node_part *c, bool (*there)(const struct node_part *c))
{
	uint64_t deadline = clock_deadline(WAIT_S * CLOCK_NS_PER_S);
	while (!there(c) && clock_now() < deadline)
		disk_poll(disk, deadline);
	cr_assert(there(c));
}

static bool is_done(const struct node_part *c)
{
	(void)c;
	return finished && !disk_pending(disk);
}

/* Everything is written but what stands back for the digests. */
static bool waits_for_digests(const struct node_part *c)
{
	return c->state == NODE_PART_DATA && c->started == c->nfiles && !c->in_flight;
}

static uint64_t finish(struct node_part *c)
{
	poll_until(c, is_done);
	cr_assert_eq(c->rc, 0, "%s", c->err.text);
	previous_take(&previous, c);
	uint64_t linked = c->linked_files;
	node_part_free(c);
	return linked;
}

/* Number of files that were linked. */
static uint64_t commit_step(uint64_t n, bool digests_ready)
{
	struct node_part *c = start(n, digests_ready);
	if (!digests_ready) {
		uint64_t deadline = clock_deadline(WAIT_S * CLOCK_NS_PER_S);
		while (!waits_for_digests(c) && c->state != NODE_PART_DIGESTS && clock_now() < deadline)
			disk_poll(disk, deadline);
		node_part_digests_ready(c);
	}
	return finish(c);
}

/* The first byte of a rank's slot changes: its first file does. */
static void change(uint32_t rank)
{
	memory_slot(m.mem[rank], 0)[0] ^= 1;
	memory_digest(m.mem[rank], 0, 0, m.mem[rank]->layout.nleaves, m.leaves[rank]);
}

static uint32_t nfiles(void)
{
	return m.mem[0]->layout.nfiles + m.mem[1]->layout.nfiles;
}

static void name_of(uint64_t n, uint32_t rank, char dst[SCRATCH_MAX + 256])
{
	char dir[NAME_DIR_MAX], file[NAME_FILE_MAX];
	const struct layout_file *lf = &m.mem[rank]->layout.files[0];
	name_dir(step(n), dir);
	name_data(rank, MAKER_WORLD, lf->group, lf->part, file);
	snprintf(dst, SCRATCH_MAX + 256, "%s/main/%s/%s", path, dir, file);
}

static ino_t inode(uint64_t n, uint32_t rank)
{
	char name[SCRATCH_MAX + 256];
	struct stat st;
	name_of(n, rank, name);
	cr_assert_eq(stat(name, &st), 0, "%s", name);
	return st.st_ino;
}

static int verify(uint64_t n)
{
	struct repo repo;
	struct err err = {{0}};
	struct verify_result result;
	struct verify_options options = {.depth = VERIFY_DATA, .share = 1, .threads = 1};
	cr_assert_eq(repo_open(path, &repo, &err), 0, "%s", err.text);
	int rc = verify_checkpoint(&repo, "main", step(n), &options, &result, &err);
	repo_close(&repo);
	return rc;
}

static void remove_step(uint64_t n)
{
	char dir[SCRATCH_MAX + 64], name[NAME_DIR_MAX];
	name_dir(step(n), name);
	snprintf(dir, sizeof(dir), "%s/main/%s", path, name);
	scratch_remove(dir);
}

Test(previous, what_has_not_changed_is_linked)
{
	cr_assert_eq(commit_step(1, true), 0u);
	cr_assert_eq(commit_step(2, true), nfiles());
	cr_assert_eq(inode(1, 0), inode(2, 0));
	cr_assert_eq(verify(2), 0);
}

Test(previous, what_has_changed_is_written_and_the_previous_keeps_its_own)
{
	commit_step(1, true);
	change(0);
	cr_assert_eq(commit_step(2, true), nfiles() - 1);
	cr_assert_neq(inode(1, 0), inode(2, 0));
	cr_assert_eq(inode(1, 1), inode(2, 1));
	cr_assert_eq(verify(1), 0);
	cr_assert_eq(verify(2), 0);
}

Test(previous, before_the_digests_are_there_only_what_was_steady_stands_back)
{
	commit_step(1, true);
	cr_assert_eq(commit_step(2, false), 0u, "nothing is known to be steady yet");
	change(1);
	struct node_part *c = start(3, false);
	poll_until(c, waits_for_digests);
	for (uint32_t i = 0; i < c->nfiles; i++)
		cr_assert(c->cfiles[i].late);
	node_part_digests_ready(c);
	cr_assert_eq(finish(c), nfiles() - 1);
	/* The changed one is no longer steady, and is written at once. */
	c = start(4, false);
	poll_until(c, waits_for_digests);
	unsigned late = 0;
	for (uint32_t i = 0; i < c->nfiles; i++)
		late += c->cfiles[i].late;
	cr_assert_eq(late, nfiles() - 1);
	node_part_digests_ready(c);
	cr_assert_eq(finish(c), nfiles() - 1);
	for (uint64_t n = 1; n <= 4; n++)
		cr_assert_eq(verify(n), 0, "step %lu", (unsigned long)n);
}

Test(previous, a_commit_that_is_given_up_while_files_stand_back_ends)
{
	commit_step(1, true);
	commit_step(2, true);
	unsigned before = open_descriptors();
	struct node_part *c = start(3, false);
	poll_until(c, waits_for_digests);
	node_part_abort(c, -EBADMSG, "torn");
	poll_until(c, is_done);
	cr_assert_eq(c->rc, -EBADMSG);
	node_part_free(c);
	cr_assert_eq(open_descriptors(), before);
	cr_assert_eq(verify(2), 0, "the previous checkpoint is as it was");
}

Test(previous, a_file_serves_a_bounded_number_of_checkpoints)
{
	full_every = 3;
	cr_assert_eq(commit_step(1, true), 0u);
	cr_assert_eq(commit_step(2, true), nfiles());
	cr_assert_eq(commit_step(3, true), nfiles());
	cr_assert_eq(commit_step(4, true), 0u);
	cr_assert_eq(commit_step(5, true), nfiles());
	cr_assert_eq(inode(1, 0), inode(3, 0));
	cr_assert_neq(inode(3, 0), inode(4, 0));
	full_every = 1;
	cr_assert_eq(commit_step(6, true), 0u);
}

Test(previous, one_that_is_gone_or_forgotten_is_done_without)
{
	commit_step(1, true);
	remove_step(1);
	cr_assert_eq(commit_step(2, true), 0u);
	previous_forget(&previous);
	cr_assert_eq(commit_step(3, true), 0u);
	cr_assert_eq(commit_step(4, true), nfiles());
	cr_assert_eq(verify(4), 0);
}

Test(previous, one_that_is_removed_at_any_instant_leaves_a_whole_checkpoint)
{
	for (int polls = 0; polls < 400; polls += 4) {
		uint64_t n = 2 * (uint64_t)polls + 1;
		previous_forget(&previous);
		commit_step(n, true);
		struct node_part *c = start(n + 1, true);
		for (int i = 0; i < polls && !finished; i++)
			disk_poll(disk, clock_deadline(CLOCK_NS_PER_S));
		bool through = finished;
		remove_step(n);
		finish(c);
		cr_assert_eq(verify(n + 1), 0, "after %d polls", polls);
		if (through)
			return;
	}
	cr_assert_fail("it never comes to its end");
}

Test(previous, one_that_is_marked_damaged_or_has_an_unreadable_mark_is_not_linked_to)
{
	for (int damaged = 0; damaged < 2; damaged++) {
		uint64_t n = damaged ? 3 : 1;
		struct health health = {.job = "main", .id = step(n), .damaged = true};
		struct repo repo;
		struct err err = {{0}};
		char dir[SCRATCH_MAX + 64], name[NAME_DIR_MAX];
		commit_step(n, true);
		name_dir(step(n), name);
		snprintf(dir, sizeof(dir), "%s/main/%s", path, name);
		cr_assert_eq(repo_open(path, &repo, &err), 0, "%s", err.text);
		if (damaged)
			cr_assert_eq(checkpoint_put_health(&repo, &health, &err), 0, "%s", err.text);
		else
			scratch_write(dir, NAME_HEALTH, "{}", 2);
		repo_close(&repo);
		cr_assert_eq(commit_step(n + 1, true), 0u);
	}
}

Test(previous, one_that_was_cut_is_not_linked_to)
{
	char name[SCRATCH_MAX + 256];
	commit_step(1, true);
	name_of(1, 0, name);
	cr_assert_eq(truncate(name, 5000), 0);
	cr_assert_eq(commit_step(2, true), nfiles() - 1);
	cr_assert_neq(inode(1, 0), inode(2, 0));
	cr_assert_eq(verify(2), 0);
}

Test(previous, where_links_fail_files_are_written)
{
	static const char *const specs[] = {"disk.link=error:EMLINK@1", "disk.link=error:EXDEV@1",
					    "disk.link=error:EPERM@1", "disk.link=error:ENOENT@1",
					    "disk.link.after=error:EIO@1"};
	commit_step(1, true);
	for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
		struct err err = {{0}};
		cr_assert_eq(failpoint_arm(specs[i], &err), 0, "%s", err.text);
		cr_assert_eq(commit_step(2 + i, true), nfiles() - 1, "%s", specs[i]);
		cr_assert_eq(verify(2 + i), 0, "%s", specs[i]);
	}
}
