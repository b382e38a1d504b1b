/* Directories of checkpoints over the real disk, in a store of their own; what nodes would write is written by hand. */
#include "checkpoint/directory.h"

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "ckptd/job_maker.h"
#include "format/files/manifest.h"
#include "scratch.h"
#include "store/read/repo.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>

enum { WAIT_S = 60, NODES = 20 /* more than are looked at at a time */ };

static const struct step_id id = {.step = 7, .epoch = 2};
static uint64_t maker;

static char path[SCRATCH_MAX];
static struct disk *disk;
static int root;
static struct seen {
	int made, sealed, failed, left, done;
	bool found, kept;
	int rc;
	struct err err;
} seen;

static void setup(void)
{
	struct err err = {{0}};
	log_set_level(LOG_ERROR);
	maker = 17;
	scratch_new(path);
	cr_assert_eq(repo_create(path, &err), 0, "%s", err.text);
	cr_assert_eq(disk_new(path, &disk, &root, &err), 0, "%s", err.text);
}

static void teardown(void)
{
	failpoint_arm(NULL, NULL);
	disk_free(disk);
	scratch_remove(path);
}

TestSuite(directory, .init = setup, .fini = teardown);

static void on_made(struct directory *s)
{
	seen.made++;
	seen.found = s->found;
}

static void on_sealed(struct directory *s)
{
	(void)s;
	seen.sealed++;
}

static void on_failed(struct directory *s)
{
	seen.failed++;
	seen.rc = s->rc;
	seen.err = s->err;
}

static void on_left(struct directory *s)
{
	seen.left++;
	seen.kept = s->kept;
}

static void on_done(struct directory *s)
{
	seen.done++;
	directory_free(s);
}

static void poll_until(const int *count)
{
	uint64_t deadline = clock_deadline(WAIT_S * CLOCK_NS_PER_S);
	while ((!*count || disk_pending(disk)) && clock_now() < deadline)
		disk_poll(disk, deadline);
	cr_assert_eq(*count, 1);
}

static struct directory *start(void)
{
	struct directory *s = calloc(1, sizeof(*s));
	cr_assert(s);
	seen = (struct seen){0};
	*s = (struct directory){.disk = disk,
				.root = root,
				.job = "main",
				.id = id,
				.maker = maker,
				.made = on_made,
				.sealed = on_sealed,
				.failed = on_failed,
				.left = on_left,
				.done = on_done};
	directory_start(s);
	return s;
}

static struct directory *make(void)
{
	struct directory *s = start();
	poll_until(&seen.made);
	return s;
}

static const char *directory(void)
{
	static char dir[2 * SCRATCH_MAX];
	char name[NAME_DIR_MAX];
	name_dir(id, name);
	snprintf(dir, sizeof(dir), "%s/main/%s", path, name);
	return dir;
}

/* Where it is until it is a checkpoint. */
static const char *work(void)
{
	static char dir[2 * SCRATCH_MAX];
	char name[NAME_WORK_MAX];
	name_work(id, maker, name);
	snprintf(dir, sizeof(dir), "%s/main/%s", path, name);
	return dir;
}

static bool is_in(const char *dir, const char *name)
{
	char file[4 * SCRATCH_MAX];
	struct stat st;
	snprintf(file, sizeof(file), "%s/%s", dir, name);
	return !stat(file, &st);
}

static bool stands(const char *name)
{
	return is_in(directory(), name);
}

static struct manifest_node nodes[NODES];

static void node_text(uint32_t n, char text[64])
{
	snprintf(text, 64, "what node %u has written", n);
}

/* What each node writes in the end, and reports. */
static void write_nodes(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		char text[64];
		node_text(i, text);
		snprintf(nodes[i].name, sizeof(nodes[i].name), "n%02u", i);
		name_node(nodes[i].name, nodes[i].file);
		nodes[i].size = strlen(text);
		nodes[i].digest = digest_bytes(text, strlen(text));
		scratch_write(work(), nodes[i].file, text, strlen(text));
	}
}

static void seal(struct directory *s, uint32_t n)
{
	struct wbuf text = {0};
	struct manifest m = {.job = "main", .id = id, .world = n, .bytes = 1, .stored = 1, .files = n, .nnodes = n};
	m.nodes = nodes;
	cr_assert_eq(manifest_encode(&m, &text), 0);
	directory_seal(s, &text);
	wbuf_free(&text);
}

static void expect_failed(struct directory *s, int rc, const char *words)
{
	poll_until(&seen.left);
	cr_expect_eq(seen.failed, 1);
	cr_expect_eq(seen.rc, rc, "%s", err_name(seen.rc));
	cr_expect(strstr(seen.err.text, words), "%s", seen.err.text);
	cr_expect(!stands(""), "it is there");
	cr_expect_eq(seen.sealed, 0);
	directory_remove(s);
	poll_until(&seen.done);
	cr_expect(!is_in(work(), NAME_MANIFEST));
}

static void remove_job(void)
{
	char dir[SCRATCH_MAX + 8];
	snprintf(dir, sizeof(dir), "%s/main", path);
	scratch_remove(dir);
}

static void remove_files(uint32_t n)
{
	char file[4 * SCRATCH_MAX];
	for (uint32_t i = 0; i < n; i++) {
		snprintf(file, sizeof(file), "%s/%s", work(), nodes[i].file);
		remove(file);
	}
}

Test(directory, it_gets_its_manifest_when_every_node_has_its_own_in_it)
{
	struct directory *s = make();
	cr_expect(!seen.found);
	write_nodes(NODES);
	seal(s, NODES);
	poll_until(&seen.done);
	cr_expect_eq(seen.sealed, 1);
	cr_expect(stands(NAME_MANIFEST));
	cr_expect(!is_in(work(), ""));
}

Test(directory, a_seal_that_comes_early_waits)
{
	struct directory *s = start();
	while (!seen.made)
		disk_poll(disk, clock_deadline(CLOCK_NS_PER_S));
	write_nodes(1);
	seal(s, 1); /* the directories above are not fsynced yet */
	poll_until(&seen.done);
	cr_expect_eq(seen.sealed, 1);
}

Test(directory, what_is_missing_is_no_checkpoint)
{
	struct directory *s = make();
	write_nodes(NODES);
	char file[4 * SCRATCH_MAX];
	snprintf(file, sizeof(file), "%s/%s", work(), nodes[NODES / 2].file);
	cr_assert_eq(remove(file), 0);
	seal(s, NODES);
	expect_failed(s, -ENOENT, nodes[NODES / 2].name);
}

Test(directory, what_is_not_as_reported_is_no_checkpoint)
{
	static const char *const other[] = {"what node 1 has writteN", "what node 1 has written, and more", "", "w"};
	for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
		struct directory *s = make();
		write_nodes(3);
		scratch_write(work(), nodes[1].file, other[i], strlen(other[i]));
		seal(s, 3);
		expect_failed(s, -EBADMSG, nodes[1].name);
	}
}

/* Nodes write where the directory was that they opened: not in the one that has the name now. */
Test(directory, what_was_written_into_another_directory_is_not_counted)
{
	struct directory *s = make();
	write_nodes(2);
	directory_drop(s, -ESTALE, "enough");
	expect_failed(s, -ESTALE, "enough");
	maker++;
	s = make();
	seal(s, 2);
	expect_failed(s, -ENOENT, "n00");
	s = make(); /* its own, which it could not remove */
	seal(s, 2);
	expect_failed(s, -ENOENT, "n00");
}

Test(directory, one_that_is_dropped_while_nodes_write_goes_when_they_have_deleted)
{
	struct directory *s = make();
	write_nodes(1);
	directory_drop(s, -ECANCELED, "enough");
	poll_until(&seen.left);
	cr_expect(!stands("") && !seen.kept);
	cr_expect_eq(seen.done, 0);
	remove_files(1);
	directory_remove(s);
	poll_until(&seen.done);
	cr_expect(!is_in(work(), ""));
}

static void arm(const char *spec)
{
	struct err err = {{0}};
	cr_assert_eq(failpoint_arm(spec, &err), 0, "%s", err.text);
}

Test(directory, nothing_is_deleted_once_its_name_was_asked_for)
{
	static const char *const specs[] = {"disk.rename=error:EIO@1", "disk.rename.after=error:EIO@1",
					    "disk.fsync=error:EIO@3"};
	for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
		bool named = i > 0;
		struct directory *s = make();
		write_nodes(2);
		arm(specs[i]);
		seal(s, 2);
		poll_until(&seen.left);
		arm("");
		cr_expect(seen.failed && seen.kept, "%s", specs[i]);
		directory_remove(s);
		poll_until(&seen.done);
		cr_expect(is_in(named ? directory() : work(), NAME_MANIFEST), "%s", specs[i]);
		cr_expect(is_in(named ? directory() : work(), nodes[1].file), "%s", specs[i]);
		remove_job();
		maker++;
	}
}

/* What the last coordinator asks of the disk may come when the next one has told durable what both had to make. */
Test(directory, whatever_the_last_coordinator_still_does_leaves_the_checkpoint_of_the_next_one)
{
	for (int which = 0; which < 3; which++) {
		struct directory *old = make();
		write_nodes(2);
		maker++;
		struct directory *s = make();
		write_nodes(2);
		seal(s, 2);
		poll_until(&seen.done);
		cr_assert(stands(NAME_MANIFEST) && stands(nodes[1].file));
		seen = (struct seen){0};
		maker--;
		if (which == 0) {
			directory_drop(old, -EIO, "a node has failed");
			poll_until(&seen.left);
			cr_expect(!seen.kept);
			remove_files(2);
			directory_remove(old);
		} else if (which == 1) {
			seal(old, 2);
		} else {
			directory_abandon(old);
		}
		poll_until(&seen.done);
		cr_expect_eq(seen.sealed, which == 1, "the same was written: it stands there");
		cr_expect(stands(NAME_MANIFEST) && stands(nodes[0].file) && stands(nodes[1].file), "it is spoiled");
		remove_job();
		maker += 2;
	}
}

Test(directory, one_that_is_whole_already_is_compared)
{
	struct directory *s = make();
	write_nodes(2);
	seal(s, 2);
	poll_until(&seen.done);
	s = make();
	cr_expect(seen.found);
	seal(s, 2);
	poll_until(&seen.done);
	cr_expect_eq(seen.sealed, 1);
	s = make();
	seal(s, 1); /* of another world */
	poll_until(&seen.left);
	cr_expect_eq(seen.rc, -EEXIST);
	cr_expect(seen.kept && stands(NAME_MANIFEST));
	directory_remove(s);
	poll_until(&seen.done);
	cr_expect(stands(nodes[0].file));
}

Test(directory, given_up_at_any_instant_it_leaves_no_checkpoint_and_no_handle)
{
	for (int polls = 0; polls < 60; polls++) {
		unsigned before = open_descriptors();
		struct directory *s = start();
		for (int i = 0; i < polls && !seen.sealed; i++) {
			disk_poll(disk, clock_deadline(CLOCK_NS_PER_S));
			if (seen.made && !seen.done && s->state == DIRECTORY_READY) {
				write_nodes(2);
				seal(s, 2);
			}
		}
		if (!seen.sealed)
			directory_drop(s, -ECANCELED, "enough");
		while (!seen.left && !seen.sealed)
			disk_poll(disk, clock_deadline(CLOCK_NS_PER_S));
		bool through = seen.sealed, whole = through || s->naming;
		cr_expect_eq(stands(NAME_MANIFEST), whole, "after %d polls", polls);
		cr_expect_eq(through || seen.kept, whole || !s->dir_made, "after %d polls", polls);
		if (!through)
			directory_remove(s);
		poll_until(&seen.done);
		cr_expect_eq(open_descriptors(), before, "after %d polls", polls);
		if (through)
			return; /* later instants are the same */
		remove_job();
		maker++;
	}
	cr_assert_fail("it never comes to its end");
}
