#include "campaign_folder.h"
#include "report/report_html.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(report_html, .init = setup, .fini = teardown);

Test(report_html, a_clock_that_was_set_back_leaves_a_picture)
{
	struct report_spread spreads[REPORT_SPREADS];
	char *page = NULL;
	size_t size;
	put_begin(1);
	put_time("started", 0);
	put("journal", "{\"event\":\"daemon\",\"answers\":false,\"wall_ns\":%llu000000}", SINCE + 4000);
	put("journal", "{\"event\":\"daemon\",\"answers\":true,\"wall_ns\":%llu000000}", SINCE + 1000);
	put_time("stopped", 5000);
	const struct report *r = make();
	cr_assert_eq(report_spreads(r, spreads), 0);
	FILE *f = open_memstream(&page, &size);
	cr_assert(f);
	cr_expect_eq(report_html(f, r, spreads), 0);
	fclose(f);
	cr_expect(strstr(page, "times that it did not answer: 1\"><path class=\"lost\" d=\"\"/>"), "%s", page);
	free(page);
}

Test(report_html, what_is_no_file_does_not_become_one)
{
	char path[SCRATCH_MAX + 16];
	struct stat st;
	put_begin(1);
	const struct report *r = make();
	snprintf(path, sizeof(path), "%s/report.html", folder);
	cr_assert_eq(mkfifo(path, 0600), 0);
	cr_expect_eq(report_write(r, &err), -EINVAL);
	cr_expect(strstr(err.text, "regular file"), "%s", err.text);
	cr_expect(!lstat(path, &st) && S_ISFIFO(st.st_mode));
	unlink(path);
	cr_assert_eq(symlink("journal", path), 0);
	cr_expect_eq(report_write(r, &err), -EINVAL);
	cr_expect(!lstat(path, &st) && S_ISLNK(st.st_mode));
	unlink(path);
	cr_expect_eq(report_write(r, &err), 0, "%s", err.text);
	cr_expect_eq(report_write(r, &err), 0, "a report that is there is replaced: %s", err.text);
}
