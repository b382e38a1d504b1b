#include "config/file.h"

#include "scratch.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static struct sources *s;
static struct err err;

static void setup(void)
{
	err = (struct err){{0}};
	cr_assert_eq(sources_new(&s, &err), 0, "%s", err.text);
}

static void teardown(void)
{
	sources_free(s);
}

TestSuite(file, .init = setup, .fini = teardown);

static int parse(const char *text)
{
	return file_parse(s, "f.conf", text, strlen(text), &err);
}

static const struct given *find(enum setting_scope scope, const char *key, const char *job)
{
	return sources_find(s, setting_find(scope, key), job);
}

Test(file, sections_and_keys_are_taken_with_their_lines)
{
	cr_assert_eq(parse("# all of it\n"
			   "[node]\n"
			   "memory-limit = 4G ; half\n"
			   "\n"
			   "[job]\n"
			   "\tpersist-every=2\r\n"
			   "    save-policy: queue\n"
			   "[job main-*] ; the big ones\n"
			   "persist-every = 3"),
		     0, "%s", err.text);
	cr_assert_eq(find(SCOPE_NODE, "memory-limit", NULL)->value.number, 4ull << 30);
	cr_assert_eq(find(SCOPE_NODE, "memory-limit", NULL)->line, 3u);
	cr_assert_eq(find(SCOPE_JOB, "persist-every", "x")->value.number, 2u);
	cr_assert_eq(find(SCOPE_JOB, "persist-every", "x")->line, 6u);
	cr_assert_eq(find(SCOPE_JOB, "save-policy", "x")->value.number, (uint64_t)SAVE_QUEUE);
	cr_assert_eq(find(SCOPE_JOB, "persist-every", "main-7")->value.number, 3u);
	cr_assert_eq(find(SCOPE_JOB, "persist-every", "main-7")->line, 9u);
}

Test(file, an_empty_file_says_nothing)
{
	cr_assert_eq(parse(""), 0);
	cr_assert_eq(parse("\xef\xbb\xbf[job]\nlinger = 1s\n"), 0, "%s", err.text);
	cr_assert_eq(find(SCOPE_JOB, "linger", NULL)->value.number, 1000u);
}

Test(file, a_path_may_have_blanks)
{
	cr_assert_eq(parse("[node]\nstore = /my store/a=b#c\n"), 0, "%s", err.text);
	cr_assert_str_eq(find(SCOPE_NODE, "store", NULL)->value.text, "/my store/a=b#c");
}

/* inih keeps 49 bytes of a section's name; a job's name may be longer. */
Test(file, a_long_name_of_a_job_is_kept_whole)
{
	char text[160], name[64];
	memset(name, 'n', sizeof(name));
	name[63] = 0;
	snprintf(text, sizeof(text), "[job %s]\nlinger = 1s\n", name);
	cr_assert_eq(parse(text), 0, "%s", err.text);
	cr_assert_eq(find(SCOPE_JOB, "linger", name)->value.number, 1000u);
	name[62] = 0;
	cr_assert_eq(find(SCOPE_JOB, "linger", name)->origin, ORIGIN_DEFAULT);
}

static const struct {
	const char *text, *said;
} mistakes[] = {
	{"[job]\n\nlinger = long\n", "f.conf:3: [job] linger: \"long\" is not allowed: expected a time"},
	{"[job x*]\nsave-policy = all\n",
	 "f.conf:2: [job x*] save-policy: \"all\" is not allowed: expected one of newest"},
	{"[job]\nlinger =\n", "f.conf:2: [job] linger: \"\" is"},
	{"[job]\nlinger = 1s\n[node]\n[job]\nlinger = 2s\n", "f.conf:5: [job] linger: is set twice, first in line 2"},
	{"[job]\nlingering = 1s\n", "f.conf:2: \"lingering\" is not a setting of [job]: there are memory-limit,"},
	{"[node]\nlinger = 1s\n", "f.conf:2: linger is a setting of [job], not of [node]"},
	{"linger = 1s\n", "f.conf:1: \"linger\" stands before the first section"},
	{"[jobs]\n", "f.conf:1: section \"jobs\" is not known"},
	{"[]\n", "f.conf:1: section \"\" is not known"},
	{"[job a/b]\n", "f.conf:1: [job \"a/b\"]: expected a job's name"},
	{"[job .x]\n", "f.conf:1: [job \".x\"]: expected a job's name"},
	{"[user a/b]\n", "f.conf:1: [user \"a/b\"]: expected a user's name"},
	{"[user @]\n", "f.conf:1: [user \"@\"]: expected a user's name"},
	{"[job @team]\n", "f.conf:1: [job \"@team\"]: expected a job's name"},
	{"[users]\n", "f.conf:1: section \"users\" is not known"},
	{"[user]\nlinger = 1s\n", "f.conf:2: linger is a setting of [job], not of [user]"},
	{"[job\n", "f.conf:1: a section's name must end in ]"},
	{"[job] linger = 1s\n", "f.conf:1: nothing but a comment"},
	{"[job]\nlinger\n", "f.conf:2: expected [section], key = value, or a comment"},
	{"[job]\nwhat\nlinger = x\n", "f.conf:2: expected [section]"},
	{"[job]\nlinger = x\nwhat\n", "f.conf:2: [job] linger"},
	/* What would break the line, or the terminal. */
	{"[job]\nlinger = 1\x1b[2J\xff\n", "f.conf:2: [job] linger: \"1\\x1b[2J\\xff\" is not allowed"},
	{"[job]\n\x1b[2J = 1\n", "f.conf:2: \"\\x1b[2J\" is not a setting of [job]"},
	{"\x1b[2J = 1\n", "f.conf:1: \"\\x1b[2J\" stands before"},
	{"[j\x1b\xff]\n", "f.conf:1: section \"j\\x1b\\xff\" is not known"},
	{"[job j\x1b\xff]\n", "f.conf:1: [job \"j\\x1b\\xff\"]: expected a job's name"},
};

Test(file, mistakes_are_named_with_file_and_line)
{
	for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
		teardown();
		setup();
		cr_assert_eq(parse(mistakes[i].text), -EINVAL, "'%s' is taken", mistakes[i].text);
		cr_assert(!strncmp(err.text, mistakes[i].said, strlen(mistakes[i].said)), "%s", err.text);
	}
}

Test(file, a_key_may_stand_in_sections_of_other_jobs_and_in_another_file)
{
	cr_assert_eq(parse("[job]\nlinger = 1s\n[job a]\nlinger = 2s\n"), 0, "%s", err.text);
	cr_assert_eq(file_parse(s, "g.conf", "[job]\nlinger = 3s\n", 18, &err), 0, "%s", err.text);
}

Test(file, lines_are_bounded)
{
	char text[600] = "[node]\nstore = /";
	memset(text + strlen(text), 'x', 400);
	cr_assert_eq(parse(text), -EINVAL);
	cr_assert(strstr(err.text, "f.conf:2: the line is longer than"), "%s", err.text);
}

Test(file, bytes_that_are_no_text_are_refused)
{
	cr_assert_eq(file_parse(s, "f.conf", "[job]\nlin\0ger = 1s\n", 19, &err), -EINVAL);
	cr_assert(strstr(err.text, "f.conf:2: there is a NUL"), "%s", err.text);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static char folder[SCRATCH_MAX], path[SCRATCH_MAX + 64];

static void write_conf(const char *under, const char *text, size_t len)
{
	snprintf(path, sizeof(path), "%s/%s", folder, under);
	FILE *f = fopen(path, "w");
	cr_assert(f);
	cr_assert_eq(fwrite(text, 1, len, f), len);
	fclose(f);
}

static void setup_files(void)
{
	setup();
	scratch_new(folder);
	unsetenv("CKPT_CONFIG");
	unsetenv("XDG_CONFIG_HOME");
	setenv("HOME", folder, 1);
}

static void teardown_files(void)
{
	scratch_remove(folder);
	teardown();
}

TestSuite(files, .init = setup_files, .fini = teardown_files);

Test(files, a_file_that_is_named_must_be_there)
{
	snprintf(path, sizeof(path), "%s/none", folder);
	cr_assert_eq(file_read_all(s, path, &err), -ENOENT);
	cr_assert(strstr(err.text, path), "%s", err.text);
	setenv("CKPT_CONFIG", path, 1);
	cr_assert_eq(file_read_all(s, NULL, &err), -ENOENT);
}

Test(files, without_a_name_that_of_the_user_is_read_where_it_is)
{
	char ckpt[SCRATCH_MAX + 16];
	cr_assert_eq(file_read_all(s, NULL, &err), 0, "%s", err.text);
	snprintf(ckpt, sizeof(ckpt), "%s/ckpt", folder);
	cr_assert_eq(mkdir(ckpt, 0755), 0);
	write_conf("ckpt/ckpt.conf", "[job]\nlinger = 9s\n", 18);
	setenv("XDG_CONFIG_HOME", folder, 1);
	cr_assert_eq(file_read_all(s, NULL, &err), 0, "%s", err.text);
	cr_assert_eq(find(SCOPE_JOB, "linger", NULL)->value.number, 9000u);
	cr_assert_str_eq(find(SCOPE_JOB, "linger", NULL)->name, path);
}

Test(files, a_file_that_is_named_stands_in_for_the_usual_ones)
{
	write_conf("mine.conf", "[job]\nlinger = 8s\n", 18);
	setenv("CKPT_CONFIG", "/dev/null", 1);
	cr_assert_eq(file_read_all(s, path, &err), 0, "%s", err.text);
	cr_assert_eq(find(SCOPE_JOB, "linger", NULL)->value.number, 8000u);
}

Test(files, a_file_that_is_too_large_is_not_read)
{
	char *text = malloc(CONFIG_FILE_MAX + 1);
	memset(text, '\n', CONFIG_FILE_MAX + 1);
	write_conf("large.conf", text, CONFIG_FILE_MAX + 1);
	free(text);
	cr_assert_eq(file_read(s, path, &err), -EFBIG);
	cr_assert_eq(file_read(s, folder, &err), -EINVAL);
}
