#include "campaign/campaign_worlds.h"
#include "scratch.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char folder[SCRATCH_MAX], said[256];
static struct campaign_stretches all;
static struct err err;

static void setup(void)
{
	scratch_new(folder);
}

static void teardown(void)
{
	free(all.of);
	all = (struct campaign_stretches){.n = 0};
	scratch_remove(folder);
}

TestSuite(campaign_worlds, .init = setup, .fini = teardown);

static void read_log(const char *text)
{
	char path[SCRATCH_MAX + 8];
	snprintf(path, sizeof(path), "%s/log", folder);
	FILE *f = fopen(path, "w");
	cr_assert(f);
	fputs(text, f);
	fclose(f);
	cr_assert_eq(campaign_worlds_read(path, &all, &err), 0, "%s", err.text);
}

/* "world@from" of each stretch. */
static const char *settled(void)
{
	campaign_worlds_settle(&all);
	said[0] = 0;
	for (size_t i = 0; i < all.n; i++)
		snprintf(said + strlen(said), sizeof(said) - strlen(said), "%u@%lu ", all.of[i].world,
			 (unsigned long)all.of[i].from);
	return said;
}

#define START(epoch, world) "[0] rank 0: epoch " epoch ": " world " ranks start at step 0\n"
#define GO_ON(epoch, world, step)                                                                                      \
	"[1] rank 0: epoch " epoch ": " world " ranks go on from a peer at step " step " after 9 ms: it is at step "   \
	"99\n"

Test(campaign_worlds, where_nothing_is_said_there_are_none)
{
	read_log("ckpt run: 4 ranks at step 7\nrank 0: epoch x\nrank 0: epoch 3: rank 2 is away\n");
	cr_expect_str_eq(settled(), "");
}

Test(campaign_worlds, a_world_that_stays_is_one_stretch)
{
	read_log(START("1", "4") GO_ON("2", "4", "8") GO_ON("3", "4", "16"));
	cr_expect_str_eq(settled(), "4@0 ");
}

Test(campaign_worlds, each_change_begins_a_stretch_whichever_log_has_it)
{
	read_log(START("1", "4") GO_ON("4", "4", "30"));
	read_log(GO_ON("3", "2", "20") GO_ON("2", "3", "8"));
	cr_expect_str_eq(settled(), "4@0 3@8 2@20 4@30 ");
}

Test(campaign_worlds, steps_that_are_made_again_belong_to_those_who_made_them_last)
{
	read_log(START("1", "4") GO_ON("2", "2", "20") GO_ON("3", "3", "30") GO_ON("4", "4", "10"));
	cr_expect_str_eq(settled(), "4@0 ");
	read_log(GO_ON("5", "2", "10") GO_ON("6", "3", "10"));
	cr_expect_str_eq(settled(), "4@0 3@10 ");
	read_log(START("7", "2"));
	cr_expect_str_eq(settled(), "2@0 ");
}

Test(campaign_worlds, a_log_that_is_missing_is_named)
{
	cr_expect_eq(campaign_worlds_read("/nowhere/log", &all, &err), -ENOENT);
	cr_expect(strstr(err.text, "/nowhere/log"), "%s", err.text);
}
