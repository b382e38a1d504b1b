#include "campaign/campaign_judge.h"
#include "scratch.h"
#include "store/read/repo.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static char folder[SCRATCH_MAX];
static struct invariant found[JUDGE_INVARIANTS];
static struct err err;

static void put(const char *name, const char *text)
{
	char path[SCRATCH_MAX + 64];
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	FILE *f = fopen(path, "w");
	cr_assert(f, "%s", path);
	fputs(text, f);
	fclose(f);
}

/* A store with step 10 of epoch 1: a directory with a manifest is committed. */
static void setup(void)
{
	char path[SCRATCH_MAX + 64];
	scratch_new(folder);
	snprintf(path, sizeof(path), "%s/store", folder);
	cr_assert_eq(repo_create(path, &err), 0, "%s", err.text);
	snprintf(path, sizeof(path), "%s/store/campaign", folder);
	cr_assert_eq(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/store/campaign/step-000000000010.e0001", folder);
	cr_assert_eq(mkdir(path, 0700), 0);
	put("store/campaign/step-000000000010.e0001/MANIFEST.json", "{}");
	put("spans", "");
	put("run.log", "");
}

static void teardown(void)
{
	scratch_remove(folder);
}

TestSuite(campaign_judge, .init = setup, .fini = teardown);

#define DURABLE(step) "{\"event\":\"durable\",\"step\":" step ",\"epoch\":1,\"wall_ns\":1000}\n"
#define FAULT(kind, rank)                                                                                              \
	"{\"event\":\"fault\",\"index\":0,\"kind\":\"" kind "\",\"rank\":" rank                                        \
	",\"outcome\":\"fired\",\"wall_ns\":5000}\n"
#define END "{\"event\":\"end\",\"step\":12,\"params\":\"aa\",\"calm_params\":\"aa\"}\n"
#define RECOVERY(step, ended, why)                                                                                     \
	"{\"span\":\"recovery\",\"step\":" step ",\"step_epoch\":1,\"ended_ns\":" ended                                \
	",\"state\":\"done\",\"detect_ns\":100,\"passed_over\":" why "}\n"

/* The invariants that are broken, by their names. */
static const char *judge(const char *journal)
{
	static char names[128];
	put("journal", journal);
	cr_assert_eq(campaign_judge(folder, found, &err), 0, "%s", err.text);
	*names = '\0';
	for (int i = 0; i < JUDGE_INVARIANTS; i++) {
		cr_assert_eq(found[i].held, !*found[i].text, "a broken one says what");
		if (!found[i].held)
			snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s ", found[i].name);
	}
	return names;
}

Test(campaign_judge, all_hold_where_nothing_is_wrong)
{
	cr_expect_str_eq(judge(DURABLE("10") END), "");
	cr_expect_eq(found[0].looked_at, 1);
}

Test(campaign_judge, what_was_durable_and_is_gone_is_found)
{
	cr_expect_str_eq(judge(DURABLE("10") DURABLE("11") END), "durable ");
	cr_expect(strstr(found[0].text, "step 11"), "%s", found[0].text);
}

Test(campaign_judge, what_is_older_than_the_newest_durable_needs_a_reason)
{
	put("spans", RECOVERY("9", "9000", "null"));
	cr_expect_str_eq(judge(DURABLE("10") END), "restored ");
	put("spans", RECOVERY("9", "9000", "\"step 10: damaged\""));
	cr_expect_str_eq(judge(DURABLE("10") END), "");
	put("spans", RECOVERY("10", "9000", "null"));
	cr_expect_str_eq(judge(DURABLE("10") END), "");
	put("spans", RECOVERY("9", "1050", "null"));
	cr_expect_str_eq(judge(DURABLE("10") END), "", "it had begun before that was durable");
	put("spans", RECOVERY("9", "9000", "null"));
	cr_expect_str_eq(judge(DURABLE("10") FAULT("nan", "0") END), "", "training goes back by itself");
}

Test(campaign_judge, the_older_part_of_the_span_log_is_judged_too)
{
	put("spans", RECOVERY("10", "9000", "null"));
	put("spans.1", RECOVERY("9", "9000", "null"));
	cr_expect_str_eq(judge(DURABLE("10") END), "restored ");
	cr_expect_eq(found[1].looked_at, 2);
}

Test(campaign_judge, no_span_escapes)
{
	static char spans[100000];
	memset(spans, ' ', sizeof(spans) - 300);
	snprintf(spans + sizeof(spans) - 300, 300, "{}\n%s", RECOVERY("9", "9000", "null"));
	put("spans", spans);
	cr_expect_str_eq(judge(DURABLE("10") END), "restored ", "behind a line of any length");
	put("spans", "{\n" RECOVERY("9", "9000", "null"));
	put("journal", DURABLE("10") END);
	cr_expect_eq(campaign_judge(folder, found, &err), -EBADMSG);
	cr_expect(strstr(err.text, "spans: line 1 is no JSON"), "%s", err.text);
	put("spans", "{}\n{\"span\":\"reco");
	cr_expect_str_eq(judge(DURABLE("10") END), "", "the last line was cut");
}

Test(campaign_judge, other_parameters_are_found)
{
	cr_expect_str_eq(judge("{\"event\":\"end\",\"step\":12,\"params\":\"aa\",\"calm_params\":\"ab\"}\n"),
			 "parameters ");
	cr_expect_str_eq(judge("{\"event\":\"end\",\"step\":12}\n"), "parameters ");
}

Test(campaign_judge, a_hang_that_nobody_named_is_found)
{
	cr_expect_str_eq(judge(FAULT("absent", "1") END), "hangs ");
	put("run.log", "ckpt run: rank 0 hangs: no heartbeat\n");
	cr_expect_str_eq(judge(FAULT("absent", "1") END), "hangs ", "another one was");
	put("run.log", "ckpt run: rank 1 hangs: no heartbeat\n");
	cr_expect_str_eq(judge(FAULT("absent", "1") END), "");
	cr_expect_str_eq(judge(FAULT("absent", "1") FAULT("absent", "1") END), "hangs ", "it was, once");
}

Test(campaign_judge, what_is_left_behind_is_found)
{
	put("s", "");
	cr_expect_str_eq(judge(DURABLE("10") END), "left ");
}

Test(campaign_judge, what_has_not_ended_is_not_judged)
{
	put("journal", DURABLE("10"));
	cr_expect_eq(campaign_judge(folder, found, &err), -ENODATA);
	put("journal", "no JSON\n");
	cr_expect_eq(campaign_judge(folder, found, &err), -EBADMSG);
}
