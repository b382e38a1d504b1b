#include "judge/hangs.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* Times are in seconds; hang-timeout is 4 s: a rank must be named within 8 s, on two nodes within 18 s. */
#define BEGIN "{\"event\":\"begin\",\"nodes\":1,\"ranks\":4,\"hang_ms\":4000,\"peer_ms\":10000}\n"
#define BEGIN_TWO "{\"event\":\"begin\",\"nodes\":2,\"ranks\":4,\"hang_ms\":4000,\"peer_ms\":10000}\n"
#define NS(s) #s "000000000"
#define FAULT_FOR(i, first, kind, rank, node, at, ms, for_ms)                                                          \
	"{\"event\":\"fault\",\"index\":" #i ",\"first\":" #first ",\"kind\":\"" kind "\",\"rank\":" #rank             \
	",\"node\":" #node ",\"outcome\":\"fired\",\"wall_ns\":" NS(at) ",\"ms\":" #ms ",\"for_ms\":" #for_ms "}\n"
#define FAULT(i, first, kind, rank, at) FAULT_FOR(i, first, kind, rank, 0, at, 0.0, 0)
#define NAMED(by, rank, at)                                                                                            \
	"{\"event\":\"named\",\"by\":\"" by "\",\"rank\":" #rank ",\"node\":0,\"wall_ns\":" NS(at) "}\n"
#define STANDSTILL(rank, at)                                                                                           \
	"{\"event\":\"standstill\",\"node\":0,\"rank\":" #rank ",\"after_ms\":1900.0,\"wall_ns\":" NS(at) "}\n"
#define DAEMON(answers, at) "{\"event\":\"daemon\",\"node\":0,\"answers\":" #answers ",\"wall_ns\":" NS(at) "}\n"
#define WAYS(event, ms, at) "{\"event\":\"" event "\",\"node\":0,\"for_ms\":" #ms ",\"wall_ns\":" NS(at) "}\n"
#define LEFT(text, at) "{\"event\":\"recovery\",\"rank\":0,\"at_ns\":" NS(at) ",\"left\":\"" text "\"}\n"

static struct invariant found;

/* The lines of the journal, then those of the trainer; when the job was in an epoch (0: never). What was broken, or "". */
static const char *judge_all(const char *journal, const char *train, uint64_t entered)
{
	struct campaign_hangs h = {0};
	const char *texts[] = {journal, train};
	found = (struct invariant){.held = true};
	for (int i = 0; i < 2; i++)
		for (const char *at = texts[i]; *at; at = strchr(at, '\n') + 1) {
			json_t *line = json_loadb(at, (size_t)(strchr(at, '\n') - at), 0, NULL);
			cr_assert(line, "%s", at);
			cr_assert_eq(i ? campaign_hangs_take_train(&h, line, 0) : campaign_hangs_take(&h, line), 0);
			json_decref(line);
		}
	if (entered)
		cr_assert_eq(campaign_hangs_entered(&h, entered * 1000000000), 0);
	campaign_hangs_judge(&h, &found);
	campaign_hangs_free(&h);
	cr_assert_eq(found.held, !*found.text);
	return found.text;
}

static const char *judge(const char *journal)
{
	return judge_all(journal, "", 0);
}

static void expect_broken(const char *is, const char *why)
{
	cr_expect(strstr(is, why), "%s: %s", why, is);
}

Test(campaign_hangs, each_that_hangs_must_be_named)
{
	static const char *const kinds[] = {"absent", "stop", "never-ends", "mismatch"};
	char journal[1024];
	for (size_t i = 0; i < 4; i++) {
		snprintf(journal, sizeof(journal), BEGIN FAULT(0, 0, "%s", 1, 100), kinds[i]);
		expect_broken(judge(journal), "of rank 1 (fault 0) was not named within 8.0 s");
		cr_expect_eq(found.looked_at, 1);
		snprintf(journal, sizeof(journal), BEGIN NAMED("launcher", 1, 104) FAULT(0, 0, "%s", 1, 100), kinds[i]);
		cr_expect_str_eq(judge(journal), "");
	}
	cr_expect_str_eq(judge(BEGIN STANDSTILL(1, 102) FAULT(0, 0, "absent", 1, 100)), "");
	cr_expect_str_eq(judge(BEGIN NAMED("rank", 1, 102) FAULT(0, 0, "never-ends", 1, 100)), "");
	cr_expect_str_eq(judge(BEGIN FAULT(0, 0, "kill", 1, 100)), "");
	cr_expect_eq(found.looked_at, 0);
}

Test(campaign_hangs, in_time)
{
	cr_expect_str_eq(judge(BEGIN NAMED("launcher", 1, 107) FAULT(0, 0, "absent", 1, 100)), "");
	expect_broken(judge(BEGIN NAMED("launcher", 1, 109) FAULT(0, 0, "absent", 1, 100)),
		      "was named after 9.0 s: 8.0 s are allowed");
	cr_expect_str_eq(judge(BEGIN_TWO NAMED("launcher", 1, 109) FAULT(0, 0, "absent", 1, 100)), "");
	expect_broken(judge(BEGIN_TWO NAMED("launcher", 1, 119) FAULT(0, 0, "absent", 1, 100)),
		      "was named after 19.0 s: 18.0 s are allowed");
	expect_broken(judge(BEGIN NAMED("launcher", 1, 99) FAULT(0, 0, "stop", 1, 98) FAULT(1, 1, "absent", 1, 100)),
		      "absent of rank 1 (fault 1) was not named");
}

Test(campaign_hangs, each_by_a_name_of_its_own)
{
	expect_broken(
		judge(BEGIN NAMED("launcher", 1, 104) FAULT(0, 0, "absent", 1, 100) FAULT(1, 1, "absent", 1, 105)),
		"(fault 1) was not named");
	expect_broken(
		judge(BEGIN NAMED("launcher", 1, 106) FAULT(0, 0, "absent", 1, 100) FAULT(1, 1, "absent", 1, 105)),
		"(fault 0) was not named");
}

Test(campaign_hangs, the_time_begins_anew_when_what_puts_it_off_is_over)
{
	const char *late = BEGIN NAMED("launcher", 1, 113) FAULT(0, 0, "absent", 1, 100);
	expect_broken(judge(late), "after 13.0 s");
	cr_expect_str_eq(judge_all(late, "", 106), "", "an epoch began");
	expect_broken(judge_all(late, "", 104), "13.0 s: 12.0 s are allowed");
	expect_broken(judge_all(late, "", 109), "13.0 s: 8.0 s are allowed"); /* behind the time */
	cr_expect_str_eq(judge(BEGIN DAEMON(false, 101) DAEMON(true, 102) NAMED("launcher", 1, 113)
				       FAULT(0, 0, "absent", 1, 100)),
			 "", "a daemon was away");
	cr_expect_str_eq(judge(BEGIN NAMED("launcher", 1, 113) FAULT_FOR(0, 0, "stop-daemon", 0, 0, 100, 1000.0, 1000)
				       FAULT(1, 0, "absent", 1, 100)),
			 "", "1 s, 1 s more, and half of peer-timeout");
	expect_broken(judge(BEGIN NAMED("launcher", 1, 116) FAULT_FOR(0, 0, "stop-daemon", 0, 0, 100, 1000.0, 1000)
				    FAULT(1, 0, "absent", 1, 100)),
		      "16.0 s: 15.0 s are allowed");
	expect_broken(judge(BEGIN NAMED("launcher", 1, 113) FAULT_FOR(0, 0, "clock-jump", 0, 0, 100, 1000.0, 1000)
				    FAULT(1, 0, "absent", 1, 100)),
		      "8.0 s are allowed");
}

Test(campaign_hangs, of_two_that_hang_one_is_named_first)
{
	cr_expect_str_eq(judge(BEGIN NAMED("launcher", 2, 104) NAMED("launcher", 1, 111) FAULT(0, 0, "absent", 1, 100)
				       FAULT(1, 0, "never-ends", 2, 100)),
			 "");
	cr_expect_eq(found.looked_at, 2);
	expect_broken(
		judge(BEGIN NAMED("launcher", 2, 104) FAULT(0, 0, "absent", 1, 100) FAULT(1, 0, "never-ends", 2, 100)),
		"(fault 0) was not named within 12.0 s");
}

Test(campaign_hangs, what_is_not_due_is_counted_with_its_reason)
{
	cr_expect_str_eq(judge(BEGIN FAULT_FOR(0, 0, "stop", 1, 0, 100, 0.0, 500)), "");
	cr_expect_eq(found.not_due, 1);
	cr_expect_str_eq(found.why, "1 stopped for a shorter time");
	expect_broken(judge(BEGIN FAULT_FOR(0, 0, "stop", 1, 0, 100, 0.0, 20000)), "was not named");
	cr_expect_str_eq(judge(BEGIN FAULT(0, 0, "absent", 1, 100) FAULT(1, 0, "kill", 1, 100)), "");
	cr_expect_str_eq(found.why, "1 ended by another fault first");
	expect_broken(judge(BEGIN FAULT(0, 0, "absent", 1, 100) FAULT(1, 0, "kill", 2, 100)), "was not named");
	cr_expect_str_eq(judge(BEGIN FAULT(0, 0, "absent", 1, 100) FAULT_FOR(1, 0, "power-cut", 0, 0, 100, 0.0, 0)),
			 "");
	expect_broken(judge(BEGIN FAULT(0, 0, "absent", 1, 100) FAULT_FOR(1, 0, "power-cut", 0, 1, 100, 0.0, 0)),
		      "was not named");
	expect_broken(judge(BEGIN FAULT(0, 0, "absent", 1, 100) FAULT(1, 1, "kill", 1, 100)), "was not named");
}

Test(campaign_hangs, a_campaign_that_was_stopped_has_nothing_to_show)
{
#define STARTED(at) "{\"event\":\"started\",\"wall_ns\":" NS(at) "}\n"
#define STOPPED(at) "{\"event\":\"stopped\",\"wall_ns\":" NS(at) "}\n"
	cr_expect_str_eq(judge(BEGIN STARTED(90) FAULT(0, 0, "absent", 1, 100) STOPPED(103) STARTED(200)), "");
	cr_expect_str_eq(found.why, "1 the campaign was stopped first");
	expect_broken(judge(BEGIN STARTED(90) FAULT(0, 0, "absent", 1, 100) STOPPED(109) STARTED(200)),
		      "was not named");
	expect_broken(judge(BEGIN STARTED(90) FAULT(0, 0, "absent", 1, 100) STOPPED(103)),
		      "was not named"); /* its end */
}

#define RIGHT "mismatch: rank 1 was in all_gather #7 of 64 bytes; 3 ranks in reduce_scatter #7 of 64 bytes"
#define WRONG "mismatch: rank 2 was in reduce_scatter #7 of 64 bytes; 3 ranks in all_gather #7 of 64 bytes"
#define BOTH                                                                                                           \
	"mismatch: rank 1 was in barrier #7 of 64 bytes, rank 2 in gather #7 of 64 bytes; 2 ranks in all_gather #7 "   \
	"of 64 bytes"
#define UNSURE                                                                                                         \
	"mismatch: rank 1 was in barrier #7 of 64 bytes, rank 2 in gather #7 of 64 bytes; which of them is wrong "     \
	"cannot be told: no more than half agree"

Test(campaign_hangs, of_a_mismatch_the_right_rank_is_named_by_the_ranks)
{
	const char *journal = BEGIN FAULT(0, 0, "mismatch", 1, 100);
	cr_expect_str_eq(judge_all(journal, LEFT(RIGHT, 101), 0), "");
	expect_broken(judge_all(journal, LEFT(WRONG, 101), 0), "mismatch of rank 1 (fault 0) was not named");
	expect_broken(judge_all(journal, LEFT(RIGHT, 101) LEFT(WRONG, 101), 0),
		      "rank 2 was named by the ranks, for another collective");
	expect_broken(judge_all(journal, LEFT(BOTH, 101), 0), "rank 2 was named by the ranks");
	expect_broken(judge_all(journal, LEFT(UNSURE, 101), 0), "was not named");
	expect_broken(judge_all(journal, LEFT("rank 2 has closed the connection", 101), 0), "was not named");
	expect_broken(judge_all(journal, LEFT(RIGHT, 109), 0), "was named after 9.0 s");
	expect_broken(judge_all(BEGIN FAULT(0, 0, "absent", 1, 100), LEFT(RIGHT, 101), 0), "was not named");
	cr_expect_str_eq(
		judge_all(BEGIN FAULT(0, 0, "mismatch", 1, 100) FAULT(1, 0, "mismatch", 2, 100), LEFT(BOTH, 101), 0),
		"");
}

Test(campaign_hangs, of_two_ranks_neither_can_be_told)
{
	const char *two =
		"{\"event\":\"begin\",\"nodes\":1,\"ranks\":2,\"hang_ms\":4000}\n" FAULT(0, 0, "mismatch", 1, 100);
	cr_expect_str_eq(judge_all(two, LEFT(UNSURE, 101), 0), "");
	expect_broken(judge_all(two, "", 0), "was not named");
}

Test(campaign_hangs, a_mismatch_that_all_left_for_another_fault_is_not_due)
{
	cr_expect_str_eq(judge(BEGIN FAULT(0, 0, "mismatch", 1, 100) FAULT(1, 0, "kill", 2, 100)), "");
	cr_expect_str_eq(found.why, "1 all left the epoch for another fault first");
	expect_broken(judge(BEGIN FAULT(0, 0, "mismatch", 1, 100) FAULT(1, 0, "disk-full", 2, 100)), "was not named");
	expect_broken(judge(BEGIN FAULT(0, 0, "never-ends", 1, 100) FAULT(1, 0, "kill", 2, 100)), "was not named");
}

Test(campaign_hangs, who_was_named_without_a_cause_is_found)
{
	expect_broken(judge(BEGIN NAMED("launcher", 0, 104)), "rank 0 was named by a launcher");
	expect_broken(judge(BEGIN STANDSTILL(0, 104)), "rank 0 was named by a daemon");
	cr_expect_str_eq(judge(BEGIN "{\"event\":\"standstill\",\"node\":0,\"rank\":null,\"wall_ns\":" NS(104) "}\n"),
			 "");
	expect_broken(judge(BEGIN NAMED("launcher", 0, 104) FAULT(0, 0, "kill", 0, 100)), "rank 0 was named");
	expect_broken(judge(BEGIN NAMED("launcher", 0, 104) NAMED("launcher", 1, 104) FAULT(0, 0, "absent", 1, 100)),
		      "rank 0 was named");
	expect_broken(judge(BEGIN NAMED("launcher", 1, 104) NAMED("launcher", 1, 107) FAULT(0, 0, "absent", 1, 100)
				    FAULT(1, 1, "kill", 0, 106)),
		      "rank 1 was named"); /* all were at work again before */
	cr_expect_str_eq(judge(BEGIN NAMED("launcher", 1, 107) FAULT_FOR(0, 0, "slow", 1, 0, 100, 0.0, 5)
				       FAULT(1, 1, "kill", 0, 106)),
			 "", "it is slow in many steps");
}

Test(campaign_hangs, whom_all_seem_to_wait_for_on_a_broken_network_does_not_count)
{
	cr_expect_str_eq(judge(BEGIN WAYS("cut", 9000, 100) NAMED("launcher", 0, 104) WAYS("joined", 9000, 110)), "");
	expect_broken(judge(BEGIN WAYS("cut", 1000, 100) NAMED("launcher", 0, 104) WAYS("joined", 1000, 110)),
		      "rank 0 was named by a launcher");
	cr_expect_str_eq(judge(BEGIN WAYS("cut", 1000, 100) STANDSTILL(0, 104) WAYS("joined", 1000, 110)), "");
	expect_broken(judge(BEGIN WAYS("cut", 9000, 100) WAYS("joined", 9000, 110) NAMED("launcher", 0, 111)),
		      "rank 0 was named");
	cr_expect_str_eq(judge(BEGIN WAYS("cut", 9000, 100) NAMED("launcher", 1, 104) WAYS("joined", 9000, 110)
				       FAULT_FOR(0, 0, "link-down", 0, 0, 100, 10000.0, 9000)
					       FAULT(1, 0, "absent", 1, 101)),
			 "");
	expect_broken(judge(BEGIN WAYS("cut", 9000, 100) WAYS("joined", 9000, 110) FAULT_FOR(
			      0, 0, "link-down", 0, 0, 100, 10000.0, 9000) FAULT(1, 0, "absent", 1, 101)),
		      "absent of rank 1 (fault 1) was not named");
}
