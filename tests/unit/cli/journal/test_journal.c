#include "journal/journal.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/ckpt-journal-XXXXXX", path[64];

static void setup(void)
{
	cr_assert(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/journal", folder);
}

static void teardown(void)
{
	unlink(path);
	rmdir(folder);
}

TestSuite(campaign_journal, .init = setup, .fini = teardown);

static void put(const char *event)
{
	struct campaign_journal journal;
	struct err err = {""};
	cr_assert_eq(journal_open(path, &journal, &err), 0, "%s", err.text);
	cr_assert_eq(journal_put(&journal, json_pack("{s:s}", "event", event), &err), 0, "%s", err.text);
	journal_close(&journal);
}

static int count(void *arg, const json_t *line)
{
	unsigned *n = arg;
	n[0] += journal_is(line, "first");
	n[1] += journal_is(line, "second");
	return 0;
}

Test(campaign_journal, goes_on_behind_a_line_that_was_cut)
{
	struct err err = {""};
	unsigned n[2] = {0};
	put("first");
	int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	cr_assert_eq(write(fd, "{\"event\":\"cu", 12), 12);
	close(fd);
	put("second");
	cr_expect_eq(journal_read(path, count, n, &err), 0, "%s", err.text);
	cr_expect_eq(n[0], 1);
	cr_expect_eq(n[1], 1);
}

Test(campaign_journal, one_that_is_not_there_is_an_error)
{
	struct err err = {""};
	cr_expect_eq(journal_read(path, count, NULL, &err), -ENOENT);
	cr_expect(strstr(err.text, path), "%s", err.text);
}
