#include "store/check/verify.h"
#include "store/disk_fixture.h"
#include "store/manage/deposit.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ELEMENTS = 100000 }; /* of 4 bytes: seven leaves */

static char top[SCRATCH_MAX];
static struct repo repo;
static struct err err;
static struct registration reg;
static struct layout layout;
static uint32_t data[ELEMENTS];
static uint64_t step = 7;

static void setup(void)
{
	scratch_new(top);
	cr_assert_eq(repo_create(top, &err), 0, "%s", err.text);
	cr_assert_eq(repo_open(top, &repo, &err), 0, "%s", err.text);
	reg = (struct registration){.world = 1, .nentries = 1, .entries = calloc(1, sizeof(struct entry))};
	struct entry *e = reg.entries;
	*e = (struct entry){.name = strdup("w"), .kind = ENTRY_TENSOR, .dtype = DTYPE_U32, .npieces = 2};
	e->shape = (struct shape){1, {ELEMENTS}};
	snprintf(e->group, sizeof(e->group), "params");
	e->pieces = calloc(2, sizeof(*e->pieces));
	e->pieces[0] = region_flat(0, 40000);
	e->pieces[1] = region_flat(40000, ELEMENTS - 40000);
	const struct registration *regs[] = {&reg};
	cr_assert_eq(layout_make(regs, 1, true, LAYOUT_FILE_MAX, &layout, &err), 0, "%s", err.text);
	for (uint32_t i = 0; i < ELEMENTS; i++)
		data[i] = i * 2654435761u;
}

static void teardown(void)
{
	arm("");
	layout_free(&layout);
	registration_free(&reg);
	repo_close(&repo);
	scratch_remove(top);
}

TestSuite(deposit, .init = setup, .fini = teardown);

static int read_piece(void *arg, uint32_t piece, uint64_t from, void *dst, uint64_t len, struct err *why)
{
	if (arg)
		return err_set(why, -EIO, "the source is broken");
	memcpy(dst, (const uint8_t *)data + layout.pieces[piece].region.start * sizeof(*data) + from, len);
	return 0;
}

static int deposit(void *broken)
{
	struct deposit job = {
		.repo = &repo, .job = "gpt", .node = "import", .id = {step, 1}, .reg = &reg, .layout = &layout};
	job.read = read_piece;
	job.arg = broken;
	err = (struct err){0};
	return deposit_write(&job, &err);
}

static int verify(void)
{
	struct verify_options opts = {.depth = VERIFY_DATA, .share = 1};
	struct verify_result result;
	return verify_checkpoint(&repo, "gpt", (struct step_id){step, 1}, &opts, &result, &err);
}

/* Names in the job's directory. */
static int left(void)
{
	char place[SCRATCH_MAX + 8];
	int n = 0;
	snprintf(place, sizeof(place), "%s/gpt", top);
	DIR *dir = opendir(place);
	for (struct dirent *e; dir && (e = readdir(dir));)
		n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
	if (dir)
		closedir(dir);
	return n;
}

Test(deposit, what_was_written_verifies)
{
	cr_assert_eq(deposit(NULL), 0, "%s", err.text);
	cr_assert_eq(verify(), 0, "%s", err.text);
	cr_assert_eq(left(), 1);
}

Test(deposit, nothing_is_written_over)
{
	cr_assert_eq(deposit(NULL), 0);
	cr_assert_eq(deposit(NULL), -EEXIST);
	cr_assert(strstr(err.text, "step-000000000007.e0001"), "%s", err.text);
	cr_assert_eq(verify(), 0);
}

Test(deposit, a_source_that_fails_leaves_nothing)
{
	cr_assert_eq(deposit(&err), -EIO);
	cr_assert_eq(left(), 0);
	cr_assert_eq(deposit(NULL), 0, "and can be tried again: %s", err.text);
}

/* Whether the job has a checkpoint of that step. */
static bool committed(uint64_t wanted)
{
	struct checkpoint_ref *refs;
	size_t n;
	bool found = false;
	cr_assert_eq(repo_scan(&repo, "gpt", &refs, &n, &err), 0, "%s", err.text);
	for (size_t i = 0; i < n; i++)
		found |= refs[i].id.step == wanted && refs[i].state == CHECKPOINT_COMMITTED;
	free(refs);
	return found;
}

/* Whatever fails on the way, there is a whole checkpoint or none. */
Test(deposit, every_failure_of_the_disk_is_told_and_leaves_no_checkpoint)
{
	static const char *const points[] = {"disk.mkdir", "disk.open", "disk.write", "disk.fsync", "disk.link"};
	unsigned failures = 0;
	for (size_t p = 0; p < sizeof(points) / sizeof(points[0]); p++) {
		for (unsigned n = 1;; n++) {
			char spec[64];
			snprintf(spec, sizeof(spec), "%s=error:EIO@%u", points[p], n);
			step++;
			arm(spec);
			int rc = deposit(NULL);
			arm("");
			if (!rc) { /* past the last operation of that kind */
				cr_assert_eq(verify(), 0, "%s: %s", spec, err.text);
				break;
			}
			failures++;
			cr_assert(err.text[0] && !committed(step), "%s", spec);
			cr_assert_lt(n, 40);
		}
	}
	cr_assert_gt(failures, 15);
}
