#include "judge/intact.h"
#include "scratch.h"
#include "store_maker.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PARAMS "rank-00000-of-00002.params.safetensors"
#define SIDECAR "rank-00000-of-00002.params.xxh"
#define OPTIMIZER "rank-00000-of-00002.optimizer.safetensors"

static char folder[SCRATCH_MAX], root[SCRATCH_MAX + 16];
static struct invariant found;
static struct err err;
static struct store_spec spec = {.root = root, .job = "campaign", .id = {10, 1}, .rows = 6, .cols = 5};

/* A store with step 10 of epoch 1. */
static void setup(void)
{
	scratch_new(folder);
	snprintf(root, sizeof(root), "%s/store", folder);
	cr_assert_eq(store_make(&spec, &err), 0, "%s", err.text);
}

static void teardown(void)
{
	scratch_remove(folder);
}

TestSuite(campaign_intact, .init = setup, .fini = teardown);

static char *path_in(struct step_id id, const char *file)
{
	static char path[2][SCRATCH_MAX + 400];
	static int turn;
	char dir[SCRATCH_MAX + 200];
	struct store_spec of = spec;
	of.id = id;
	store_dir(&of, dir, sizeof(dir));
	turn = !turn;
	snprintf(path[turn], sizeof(path[turn]), "%s/%s", dir, file);
	return path[turn];
}

/* A bit of its last byte. */
static void damage(const char *file)
{
	const char *path = path_in(spec.id, file);
	FILE *f = fopen(path, "r+");
	cr_assert(f && !fseek(f, -1, SEEK_END), "%s", path);
	int c = fgetc(f);
	cr_assert(!fseek(f, -1, SEEK_END) && fputc(c ^ 1, f) >= 0 && !fclose(f));
}

#define FAULT(kind, text) "{\"event\":\"fault\",\"kind\":\"" kind "\",\"text\":\"" text "\"}\n"
#define FLIPPED(kind, file, step) FAULT(kind, "bit 0 of byte 9 of " file " of step " step " of epoch 1 flipped")
#define ON_ITS_WAY(file, step)                                                                                         \
	FAULT("disk-corrupt", "bit 0 of byte 9 of " file " of step " step " of epoch 1 changed on its way to the "     \
			      "store")
#define IN_MEMORY(kind, rank, step)                                                                                    \
	FAULT(kind, "bit 0 of byte 9 of rank " rank "'s step " step " of epoch 1 flipped in its arena")

/* What was broken, or "". */
static const char *judge(const char *faults)
{
	struct damages all = {0};
	struct checkpoint_ref *refs = NULL;
	struct repo repo;
	size_t n = 0;
	for (const char *at = faults; *at; at = strchr(at, '\n') + 1) {
		json_t *line = json_loadb(at, (size_t)(strchr(at, '\n') - at), 0, NULL);
		cr_assert(line && !damages_take(&all, line), "%s", at);
		json_decref(line);
	}
	found = (struct invariant){.held = true};
	cr_assert_eq(repo_open(root, &repo, &err), 0, "%s", err.text);
	cr_assert_eq(repo_scan(&repo, "campaign", &refs, &n, &err), 0, "%s", err.text);
	cr_assert_eq(campaign_intact(&repo, refs, n, &all, &found, &err), 0, "%s", err.text);
	repo_close(&repo);
	free(refs);
	damages_free(&all);
	cr_assert_eq(found.held, !*found.text);
	return found.text;
}

static void expect_broken(const char *faults, const char *why)
{
	const char *is = judge(faults);
	cr_expect(strstr(is, why), "%s: %s", why, is);
}

#define NOBODY "step 10 of epoch 1 is damaged, and nobody has damaged it"
#define NOTHING_FINDS "was flipped, and nothing finds that"

Test(campaign_intact, what_is_damaged_without_a_fault_is_found)
{
	cr_expect_str_eq(judge(""), "");
	cr_expect_eq(found.looked_at, 1);
	damage(PARAMS);
	expect_broken("", NOBODY);
	expect_broken(FLIPPED("flip-file", PARAMS, "11"), NOBODY); /* another step */
	expect_broken(FLIPPED("flip-file", OPTIMIZER, "10"), NOBODY);
	expect_broken(IN_MEMORY("flip-arena", "1", "10"), NOBODY); /* another rank */
	expect_broken(FAULT("kill", "step 10 of epoch 1"), NOBODY);
	cr_expect_str_eq(judge(FLIPPED("flip-file", PARAMS, "10")), "");
	cr_expect_str_eq(judge(FLIPPED("flip-sidecar", SIDECAR, "10")), "");
	cr_expect_str_eq(judge(FLIPPED("flip-manifest", "MANIFEST.json", "10")), "");
	cr_expect_str_eq(judge(ON_ITS_WAY(PARAMS, "10")), "");
	cr_expect_str_eq(judge(IN_MEMORY("flip-arena", "0", "10")), "");
	cr_expect_str_eq(judge(IN_MEMORY("flip-replica", "0", "10")), "");
}

Test(campaign_intact, what_was_flipped_in_the_store_must_be_found)
{
	expect_broken(FLIPPED("flip-file", PARAMS, "10"),
		      "bit 0 of byte 9 of " PARAMS " of step 10 of epoch 1 " NOTHING_FINDS);
	expect_broken(FLIPPED("flip-sidecar", SIDECAR, "10"), NOTHING_FINDS);
	expect_broken(FLIPPED("flip-manifest", "MANIFEST.json", "10"), NOTHING_FINDS);
	expect_broken(ON_ITS_WAY(PARAMS, "10"), NOTHING_FINDS);
	cr_expect_str_eq(judge(IN_MEMORY("flip-arena", "0", "10") IN_MEMORY("flip-replica", "1", "10")), "",
			 "it need not have been written");
}

Test(campaign_intact, each_of_several_must_be_found)
{
	damage(PARAMS);
	expect_broken(FLIPPED("flip-file", PARAMS, "10") FLIPPED("flip-file", OPTIMIZER, "10"), OPTIMIZER);
	damage("MANIFEST.json");
	cr_expect_str_eq(judge(FLIPPED("flip-file", PARAMS, "10") FLIPPED("flip-file", OPTIMIZER, "10")
				       FLIPPED("flip-manifest", "MANIFEST.json", "10")),
			 "", "files cannot be looked at without it");
}

Test(campaign_intact, what_flipped_twice_or_is_not_in_the_store_is_not_due)
{
	cr_expect_str_eq(judge(FLIPPED("flip-file", PARAMS, "10") FLIPPED("flip-file", PARAMS, "10")), "");
	cr_expect_str_eq(found.why, "2 flipped twice");
	cr_expect_str_eq(judge(FLIPPED("flip-file", PARAMS, "11") IN_MEMORY("flip-arena", "0", "12")), "");
	cr_expect_eq(found.not_due, 2);
	cr_expect_str_eq(found.why, "2 flipped in what is not in the store");
	cr_expect_str_eq(judge(ON_ITS_WAY("VERDICT.json", "10")), "");
	cr_expect_str_eq(found.why, "1 flipped in a mark");
}

static int64_t born(const char *path)
{
	struct statx st;
	cr_assert_eq(statx(AT_FDCWD, path, 0, STATX_BTIME | STATX_MTIME, &st), 0);
	struct statx_timestamp at = st.stx_mask & STATX_BTIME ? st.stx_btime : st.stx_mtime;
	return at.tv_sec * 1000000000ll + at.tv_nsec;
}

/* As a repair does: another file takes its place, once the clock of the file system has gone on. */
static void mend(const char *file)
{
	char text[1 << 16], beside[SCRATCH_MAX + 500];
	const char *path = path_in(spec.id, file);
	int64_t committed = born(path_in(spec.id, "MANIFEST.json"));
	snprintf(beside, sizeof(beside), "%s.new", path);
	FILE *f = fopen(path, "r");
	cr_assert(f);
	size_t n = fread(text, 1, sizeof(text), f);
	fclose(f);
	do {
		unlink(beside);
		f = fopen(beside, "wx");
		cr_assert(f && fwrite(text, 1, n, f) == n && !fclose(f));
	} while (born(beside) <= committed);
	cr_assert_eq(rename(beside, path), 0);
}

Test(campaign_intact, what_was_mended_is_whole)
{
	mend(PARAMS);
	cr_expect_str_eq(judge(FLIPPED("flip-file", PARAMS, "10") ON_ITS_WAY(PARAMS, "10")), "");
	expect_broken(FLIPPED("flip-file", OPTIMIZER, "10"), NOTHING_FINDS);
}

Test(campaign_intact, what_was_damaged_before_it_was_committed_must_not_have_been_called_whole)
{
	damage(PARAMS);
	cr_assert_eq(store_mark_health(&spec, true, "damaged", &err), 0);
	cr_expect_str_eq(judge(IN_MEMORY("flip-arena", "0", "10")), "");
	cr_assert_eq(store_mark_health(&spec, false, "", &err), 0);
	expect_broken(IN_MEMORY("flip-arena", "0", "10"), "its read-back called it whole");
	expect_broken(ON_ITS_WAY(PARAMS, "10"), "its read-back called it whole");
	cr_expect_str_eq(judge(FLIPPED("flip-file", PARAMS, "10")), "", "that was after it");
}

/* One file in both: a tensor that training does not change. */
Test(campaign_intact, what_has_a_file_that_was_damaged_in_another_step_is_damaged_by_that)
{
	struct store_spec other = spec;
	other.id = (struct step_id){11, 1};
	cr_assert_eq(store_make(&other, &err), 0, "%s", err.text);
	damage(PARAMS);
	expect_broken(FLIPPED("flip-file", PARAMS, "11"), NOBODY); /* each has its own */
	const char *path = path_in(spec.id, PARAMS), *link_path = path_in(other.id, PARAMS);
	cr_assert(!unlink(link_path) && !link(path, link_path));
	cr_expect_str_eq(judge(FLIPPED("flip-file", PARAMS, "11")), "");
	expect_broken(FLIPPED("flip-file", OPTIMIZER, "11"), "is damaged, and nobody has damaged it");
}
