#include "judge/judge.h"
#include "scratch.h"
#include "store_maker.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[SCRATCH_MAX];
static struct invariant found[JUDGE_INVARIANTS];
static struct err err;
static char checkpoint[SCRATCH_MAX + 64];

static void put(const char *name, const char *text)
{
	char path[SCRATCH_MAX + 64];
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	FILE *f = fopen(path, "w");
	cr_assert(f, "%s", path);
	fputs(text, f);
	fclose(f);
}

/* A store with step 10 of epoch 1. */
static void setup(void)
{
	char root[SCRATCH_MAX + 64];
	scratch_new(folder);
	snprintf(root, sizeof(root), "%s/store", folder);
	struct store_spec spec = {.root = root, .job = "campaign", .id = {10, 1}, .rows = 6, .cols = 5};
	cr_assert_eq(store_make(&spec, &err), 0, "%s", err.text);
	store_dir(&spec, checkpoint, sizeof(checkpoint));
	put("spans", "");
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

/* Its spans are dated by its own time of day. */
Test(campaign_judge, a_host_whose_clock_is_ahead_is_judged_by_the_time_of_the_journal)
{
#define NODES "{\"event\":\"begin\",\"nodes\":2}\n"
#define HOST(node, ahead)                                                                                              \
	"{\"event\":\"host\",\"node\":" node ",\"host\":\"a\",\"address\":\"::1\",\"ahead_ns\":" ahead "}\n"
	put("node-0.spans", "");
	put("node-1.spans", RECOVERY("9", "9000", "null"));
	cr_expect_str_eq(judge(NODES HOST("0", "8000") HOST("1", "0") DURABLE("10") END), "restored ");
	cr_expect_str_eq(judge(NODES HOST("0", "0") HOST("1", "8000") DURABLE("10") END), "", "it was before that");
	put("node-1.spans", RECOVERY("9", "1050", "null"));
	cr_expect_str_eq(judge(NODES HOST("0", "0") HOST("1", "-8000") DURABLE("10") END), "restored ");
}

Test(campaign_judge, the_older_part_of_the_span_log_is_judged_too)
{
	put("spans", RECOVERY("10", "9000", "null"));
	put("spans.1", RECOVERY("9", "9000", "null"));
	cr_expect_str_eq(judge(DURABLE("10") END), "restored ");
	cr_expect_eq(found[2].looked_at, 2);
}

Test(campaign_judge, no_span_escapes)
{
	static char spans[100000];
	memset(spans, ' ', sizeof(spans) - 300);
	snprintf(spans + sizeof(spans) - 300, 300, "{}\n%s", RECOVERY("9", "9000", "null"));
	put("spans", spans);
	cr_expect_str_eq(judge(DURABLE("10") END), "restored ", "behind a line of any length");
	put("spans", "{\"s\n" RECOVERY("9", "9000", "null"));
	cr_expect_str_eq(judge(DURABLE("10") END), "restored ", "behind a line in which its writer was killed");
	put("spans", "no JSON\n" RECOVERY("9", "9000", "null"));
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

#define NAMED(rank) "{\"event\":\"named\",\"node\":0,\"by\":\"launcher\",\"rank\":" rank ",\"wall_ns\":6000}\n"

Test(campaign_judge, a_hang_that_nobody_named_is_found)
{
	cr_expect_str_eq(judge(FAULT("absent", "1") END), "hangs ");
	cr_expect_str_eq(judge(NAMED("0") FAULT("absent", "1") END), "hangs ", "another one was");
	cr_expect_str_eq(judge(NAMED("1") FAULT("absent", "1") END), "");
	cr_expect_eq(found[4].looked_at, 1);
	cr_expect_str_eq(judge(NAMED("1") END), "hangs ", "nothing was done to it");
}

Test(campaign_judge, who_was_in_another_collective_is_told_by_the_log_of_the_trainer)
{
	cr_expect_str_eq(judge(FAULT("mismatch", "1") END), "hangs ");
	put("train.jsonl",
	    "{\"event\":\"recovery\",\"rank\":0,\"at_ns\":6000,\"left\":\"mismatch: rank 1 was in a #7 of 4 "
	    "bytes; 3 ranks in b #7 of 4 bytes\"}\n");
	cr_expect_str_eq(judge(FAULT("mismatch", "1") END), "");
	put("node-0.spans", "");
	put("node-1.spans", "");
#define TWO "{\"event\":\"begin\",\"nodes\":2,\"ranks\":4}\n"
#define AHEAD "{\"event\":\"host\",\"node\":0,\"host\":\"a\",\"address\":\"::1\",\"ahead_ns\":3000}\n"
	cr_expect_str_eq(judge(TWO AHEAD FAULT("mismatch", "1") END), "hangs ", "by the journal that was before");
}

#define LASTED(kind, from, ms)                                                                                         \
	"{\"event\":\"fault\",\"index\":0,\"kind\":\"" kind "\",\"rank\":0,\"outcome\":\"fired\",\"wall_ns\":" from    \
	",\"ms\":" ms "}\n"
#define LOSS(kind, ns) "{\"event\":\"loss\",\"node\":0,\"kind\":\"" kind "\",\"wall_ns\":" ns "}\n"

Test(campaign_judge, a_spike_of_the_loss_that_nobody_named_is_found)
{
	cr_expect_str_eq(judge(LASTED("loss-spike", "5000000", "2.0") END), "losses ");
	cr_expect_str_eq(judge(LOSS("spike", "6000000") LASTED("loss-spike", "5000000", "2.0") END), "");
	cr_expect_eq(found[6].looked_at, 1);
	cr_expect_str_eq(judge(LOSS("spike", "4000000") LASTED("loss-spike", "5000000", "2.0") END), "losses ",
			 "that was before it");
	cr_expect_str_eq(judge(LOSS("not-finite", "6000000") LASTED("loss-spike", "5000000", "2.0") END), "losses ");
	cr_expect_str_eq(judge(LASTED("kill", "6000000", "9.0") LASTED("loss-spike", "5000000", "2.0") END), "",
			 "it was cut off");
	cr_expect_str_eq(judge(LASTED("kill", "3000000", "1.0") LASTED("loss-spike", "5000000", "2.0") END), "losses ",
			 "the other was over");
	cr_expect_str_eq(judge("{\"event\":\"fault\",\"index\":1,\"kind\":\"flip-file\",\"outcome\":\"not-fired\","
			       "\"wall_ns\":6000000,\"ms\":1}\n" LASTED("loss-spike", "5000000", "2.0") END),
			 "", "it was not waited for, although the other had no effect");
}

Test(campaign_judge, what_is_left_behind_is_found)
{
	put("s", "");
	cr_expect_str_eq(judge(DURABLE("10") END), "left ");
}

/* The journal ends at 5000, the daemon's time of day was 86400 s ahead. */
Test(campaign_judge, a_recovery_that_is_dated_a_day_ahead_is_judged_by_when_it_was)
{
	put("spans", RECOVERY("9", "86400000002000", "null"));
	cr_expect_str_eq(judge("{\"event\":\"durable\",\"step\":10,\"epoch\":1,\"wall_ns\":4000}\n" FAULT("clock-jump",
													  "0") END),
			 "", "it was durable after that");
	put("spans", RECOVERY("9", "86400000009000", "null"));
	cr_expect_str_eq(judge(DURABLE("10") FAULT("clock-jump", "0") END), "restored ");
}

#define REPLICATED(step) "{\"event\":\"replicated\",\"step\":" step ",\"epoch\":1,\"wall_ns\":1000}\n"

Test(campaign_judge, what_was_replicated_before_a_node_was_killed_must_be_restored)
{
	put("spans", RECOVERY("11", "9000", "null"));
	cr_expect_str_eq(judge(DURABLE("10") REPLICATED("12") END), "restored ", "no storage is asked for it");
	cr_expect(strstr(found[2].text, "although step 12 of epoch 1 was replicated"), "%s", found[2].text);
	cr_expect_eq(found[0].looked_at, 1);
	put("spans", RECOVERY("12", "9000", "null"));
	cr_expect_str_eq(judge(DURABLE("10") REPLICATED("12") END), "");
	put("spans", RECOVERY("11", "9000", "\"step 12 epoch 1: nobody has the part of rank 2\""));
	cr_expect_str_eq(judge(DURABLE("10") REPLICATED("12") END), "");
}

#define STARTED(ns) "{\"event\":\"started\",\"wall_ns\":" ns "}\n"

Test(campaign_judge, copies_end_with_the_nodes_and_what_is_durable_does_not)
{
	put("spans", RECOVERY("11", "9000", "null"));
	cr_expect_str_eq(judge(STARTED("500") DURABLE("10") REPLICATED("12") STARTED("5000") END), "");
	cr_expect_str_eq(judge(STARTED("500") DURABLE("10") REPLICATED("12") STARTED("9500") END), "restored ");
	put("spans", RECOVERY("9", "9000", "null"));
	cr_expect_str_eq(judge(STARTED("500") DURABLE("10") REPLICATED("12") STARTED("5000") END), "restored ");
}

#define BEGIN(nodes) "{\"event\":\"begin\",\"nodes\":" nodes "}\n"

Test(campaign_judge, every_node_of_several_is_judged)
{
	static const char *const files[] = {"node-0.spans", "node-1.spans"};
	for (size_t i = 0; i < 2; i++)
		put(files[i], "");
	put("spans", RECOVERY("9", "9000", "null"));
	cr_expect_str_eq(judge(BEGIN("2") DURABLE("10") END), "", "that is no file of a node");
	put("node-1.spans", RECOVERY("9", "9000", "null"));
	cr_expect_str_eq(judge(BEGIN("2") DURABLE("10") END), "restored ");
	put("node-1.s", "");
	cr_expect_str_eq(judge(BEGIN("2") DURABLE("10") END), "restored left ");
}

Test(campaign_judge, a_namespace_that_somebody_has_is_left_behind)
{
	cr_expect_str_eq(judge("{\"event\":\"left\",\"text\":\"process 7 is in it\"}\n" END), "left ");
	cr_expect(strstr(found[5].text, "process 7"), "%s", found[5].text);
}

Test(campaign_judge, what_has_not_ended_is_not_judged)
{
	put("journal", DURABLE("10"));
	cr_expect_eq(campaign_judge(folder, found, &err), -ENODATA);
	put("journal", "no JSON\n");
	cr_expect_eq(campaign_judge(folder, found, &err), -EBADMSG);
}
