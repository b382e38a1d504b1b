#include "store/read/listing.h"

#include "scratch.h"
#include "store_maker.h"

#include "base/cleanup.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[SCRATCH_MAX], dir[SCRATCH_MAX + 64];
static struct store_spec spec;
static struct repo repo;
static struct checkpoint_ref *refs;
static struct listing listing;
static size_t n;
static struct err err;

static void scan(const struct listings *known)
{
	free(refs);
	cr_assert_eq(repo_scan_known(&repo, NULL, known, &refs, &n, &err), 0, "%s", err.text);
}

static void setup(void)
{
	scratch_new(root);
	spec = (struct store_spec){.root = root, .id = {7, 2}, .world = 3, .nodes = 2, .rows = 6, .cols = 6};
	cr_assert_eq(store_make(&spec, &err), 0, "%s", err.text);
	cr_assert_eq(repo_open(root, &repo, &err), 0, "%s", err.text);
	store_dir(&spec, dir, sizeof(dir));
	scan(NULL);
	cr_assert_eq(n, 1);
}

static void teardown(void)
{
	free(refs);
	repo_close(&repo);
	scratch_remove(root);
}

TestSuite(listing, .init = setup, .fini = teardown);

static void look(enum listing_state state, const char *why)
{
	struct err said = {0};
	cr_assert(listing_read(&repo, &refs[0], &listing, &said));
	cr_expect_eq(listing.state, state);
	cr_expect(strstr(said.text, why) && !*why == !said.text[0], "%s", said.text);
}

/* As if it had been noted a minute after the last change. */
static struct listings noted(void)
{
	listing.stamp.noted_ns = listing.stamp.dir_ns + 60000000000ull;
	return (struct listings){&listing, 1};
}

static bool holds(void)
{
	struct listings known = noted();
	scan(&known);
	return n == 1 && refs[0].listing == &listing;
}

Test(listing, says_what_manifest_and_marks_say)
{
	look(LISTING_COMMITTED, "");
	cr_expect(listing.known);
	cr_expect_eq(listing.ranks, 3);
	cr_expect_eq(listing.nodes, 2);
	cr_expect_gt(listing.bytes, 0);
	cr_expect_eq(listing.stored, listing.bytes);
	cr_expect_eq(listing.committed_ns, refs[0].committed_ns);
	cr_expect_not(listing.pinned);
	cr_assert_eq(store_mark_pin(&spec, "for the paper", &err), 0, "%s", err.text);
	cr_assert_eq(store_mark_health(&spec, false, "", &err), 0, "%s", err.text);
	look(LISTING_VERIFIED, "");
	cr_expect(listing.pinned);
	cr_expect_gt(listing.verified_ns, 0);
	cr_expect_eq(listing.mark, LISTING_NO_MARK);
	cr_assert_eq(store_put_mark(&spec, true, "loss is nan", &err), 0, "%s", err.text);
	look(LISTING_VERIFIED, "");
	cr_expect_eq(listing.mark, LISTING_UNHEALTHY);
	cr_assert_eq(store_mark_health(&spec, true, "a leaf differs", &err), 0, "%s", err.text);
	look(LISTING_DAMAGED, "a leaf differs");
}

Test(listing, tells_damage_from_what_was_removed)
{
	scratch_write(dir, "MANIFEST.json", "{}", 2);
	look(LISTING_DAMAGED, "MANIFEST.json");
	cr_expect_not(listing.known);
	scratch_remove(dir);
	cr_expect_not(listing_read(&repo, &refs[0], &listing, &err));
}

Test(listing, holds_until_a_name_in_the_directory_changes)
{
	look(LISTING_COMMITTED, "");
	cr_expect(holds());
	cr_expect_eq(refs[0].state, CHECKPOINT_COMMITTED);
	cr_expect_eq(refs[0].committed_ns, listing.committed_ns);
	cr_expect_str_eq(refs[0].job, "main");
	cr_assert_eq(store_mark_health(&spec, true, "a leaf differs", &err), 0, "%s", err.text);
	cr_expect_not(holds());
	cr_expect_eq(n, 1);
	look(LISTING_DAMAGED, "a leaf differs");
	cr_expect(holds());
}

/* The kernel gives two changes within one tick of its clock the same time. */
Test(listing, of_a_change_that_was_young_proves_nothing)
{
	look(LISTING_COMMITTED, "");
	listing.stamp.noted_ns = listing.stamp.dir_ns + LISTING_YOUNG_NS - 1;
	struct listings known = {&listing, 1};
	scan(&known);
	cr_expect_null(refs[0].listing);
	listing.stamp.noted_ns++;
	scan(&known);
	cr_expect_eq(refs[0].listing, &listing);
}

Test(listing, of_a_directory_that_was_replaced_does_not_hold)
{
	char aside[SCRATCH_MAX + 80];
	look(LISTING_COMMITTED, "");
	snprintf(aside, sizeof(aside), "%s.old", dir);
	cr_assert_eq(rename(dir, aside), 0);
	cr_assert_eq(store_make(&spec, &err), 0, "%s", err.text);
	cr_expect_not(holds());
	cr_expect_eq(n, 1);
	scratch_remove(dir);
	cr_expect_not(holds());
	cr_expect_eq(n, 0, "gone");
	cr_assert_eq(symlink(aside, dir), 0);
	cr_expect_not(holds());
	cr_expect_eq(n, 0, "a link is no checkpoint");
}

Test(listing, of_another_job_is_not_taken)
{
	look(LISTING_COMMITTED, "");
	snprintf(listing.job, sizeof(listing.job), "other");
	cr_expect_not(holds());
	cr_expect_eq(n, 1);
}

Test(listing, is_found_by_job_and_step)
{
	struct listing three[] = {{.job = "a", .id = {9, 1}}, {.job = "b", .id = {5, 1}}, {.job = "b", .id = {2, 2}}};
	struct listings all = {three, 3};
	cr_expect_eq(listings_find(listings_of(&all, "b"), (struct step_id){2, 2}), &three[2]);
	cr_expect_eq(listings_find(listings_of(&all, "a"), (struct step_id){9, 1}), &three[0]);
	cr_expect_null(listings_find(listings_of(&all, "b"), (struct step_id){9, 1}));
	cr_expect_null(listings_find(listings_of(&all, "c"), (struct step_id){2, 2}));
	cr_expect_null(listings_find(listings_of(NULL, "a"), (struct step_id){9, 1}));
}
