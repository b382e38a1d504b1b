#include "launcher/inject.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct fault faults[FAULTS_MAX];

static size_t parse(const char *spec, uint32_t world, uint64_t seed)
{
	struct err err = {""};
	size_t n = 0;
	cr_assert_eq(inject_parse(spec, world, seed, faults, &n, &err), 0, "%s: %s", spec, err.text);
	return n;
}

Test(inject, reads_every_kind_and_trigger)
{
	cr_assert_eq(
		parse("kill:rank=2@step=40,stop:rank=1:for=2s@step=60,abort:rank=0@t=3s,kill-daemon@t=250ms", 4, 0), 4);
	cr_expect_eq(faults[0].kind, FAULT_KILL);
	cr_expect_eq(faults[0].rank, 2);
	cr_expect_eq(faults[0].trigger, TRIGGER_STEP);
	cr_expect_eq(faults[0].step, 40);
	cr_expect_str_eq(faults[0].text, "kill:rank=2@step=40");
	cr_expect_eq(faults[1].kind, FAULT_STOP);
	cr_expect_eq(faults[1].for_ns, 2 * CLOCK_NS_PER_S);
	cr_expect_eq(faults[1].step, 60);
	cr_expect_eq(faults[2].kind, FAULT_ABORT);
	cr_expect_eq(faults[2].rank, 0);
	cr_expect_eq(faults[2].trigger, TRIGGER_TIME);
	cr_expect_eq(faults[2].at_ns, 3 * CLOCK_NS_PER_S);
	cr_expect_eq(faults[3].kind, FAULT_KILL_DAEMON);
	cr_expect_eq(faults[3].at_ns, 250 * CLOCK_NS_PER_MS);
	cr_expect_str_eq(faults[3].text, "kill-daemon@t=250ms");
	for (size_t i = 0; i < 4; i++)
		cr_expect_eq(faults[i].fired_ns, 0);
}

Test(inject, takes_parameters_on_both_sides_of_the_trigger)
{
	cr_assert_eq(parse("stop:rank=1@step=60:for=1.5s", 2, 0), 1);
	cr_expect_eq(faults[0].for_ns, 1500 * CLOCK_NS_PER_MS);
	cr_expect_eq(faults[0].rank, 1);
	cr_assert_eq(parse("stop@t=0.25s:for=1m:rank=0", 2, 0), 1);
	cr_expect_eq(faults[0].at_ns, 250 * CLOCK_NS_PER_MS);
	cr_expect_eq(faults[0].for_ns, 60 * CLOCK_NS_PER_S);
	cr_assert_eq(parse("stop@t=1.5h:for=0.5s:rank=0", 2, 0), 1);
	cr_expect_eq(faults[0].at_ns, 5400 * CLOCK_NS_PER_S, "the units of settings");
}

Test(inject, hands_a_rank_what_it_is_to_play_and_has_not_yet)
{
	char *text;
	cr_assert_eq(parse("trap:rank=1@step=3,kill:rank=1@step=4,slow:rank=1:for=20ms@step=5,nan:rank=2@step=6,"
			   "never-ends:rank=1@step=7",
			   4, 0),
		     5);
	text = inject_played(faults, 5, 1);
	cr_expect_str_eq(text, "trap@3,slow:20@5,never-ends@7");
	free(text);
	faults[0].fired_ns = 1;
	text = inject_played(faults, 5, 1);
	cr_expect_str_eq(text, "slow:20@5,never-ends@7");
	free(text);
	text = inject_played(faults, 5, 3);
	cr_expect_str_eq(text, "");
	free(text);
	cr_expect_not(fault_played(FAULT_KILL_DAEMON));
}

Test(inject, appends_to_what_is_there)
{
	struct err err = {""};
	size_t n = 0;
	cr_assert_eq(inject_parse("kill:rank=0@step=1", 1, 0, faults, &n, &err), 0);
	cr_assert_eq(inject_parse("kill:rank=0@step=2", 1, 0, faults, &n, &err), 0);
	cr_expect_eq(n, 2);
	cr_expect_eq(faults[1].step, 2);
}

Test(inject, draws_ranks_that_the_seed_alone_decides)
{
	static const char spec[] =
		"kill:rank=any@step=1,kill:rank=any@step=2,kill:rank=any@step=3,kill:rank=any@step=4,"
		"kill:rank=any@step=5,kill:rank=any@step=6,kill:rank=any@step=7,kill:rank=any@step=8";
	uint32_t first[8];
	unsigned seen = 0, changed = 0;
	cr_assert_eq(parse(spec, 4, 7), 8);
	for (int i = 0; i < 8; i++) {
		cr_expect(faults[i].any_rank);
		cr_assert_lt(faults[i].rank, 4);
		first[i] = faults[i].rank;
		seen |= 1u << first[i];
	}
	cr_expect(seen & (seen - 1), "one rank was drawn eight times");
	cr_assert_eq(parse(spec, 4, 7), 8);
	for (int i = 0; i < 8; i++)
		cr_expect_eq(faults[i].rank, first[i]);
	cr_assert_eq(parse(spec, 4, 8), 8);
	for (int i = 0; i < 8; i++)
		changed += faults[i].rank != first[i];
	cr_expect(changed, "another seed drew the same ranks");
}

Test(inject, names_the_position_of_what_is_wrong)
{
	static const struct {
		const char *spec;
		int position;
		const char *text;
	} cases[] = {
		{"", 1, "a fault is missing"},
		{"kill:rank=2@step=40,", 21, "a fault is missing"},
		{",kill:rank=2@step=40", 1, "a fault is missing"},
		{"murder:rank=2@step=40", 1, "the faults are"},
		{"kill:rank=4@step=40", 11, "0 to 3"},
		{"kill:rank=-1@step=40", 11, "0 to 3"},
		{"kill:rank=@step=40", 11, "0 to 3"},
		{"kill:rank=99999999999999999999999@step=40", 11, "0 to 3"},
		{"kill:rank=1", 1, "a trigger is missing"},
		{"kill@step=40", 1, "which rank"},
		{"kill-daemon:rank=1@step=3", 1, "takes no rank"},
		{"kill:rank=1:for=2s@step=1", 1, "only stop"},
		{"nan:rank=1:for=2s@step=1", 1, "only stop"},
		{"nan@step=1", 1, "which rank"},
		{"trap:rank=1@t=3s", 1, "@step=N is wanted"},
		{"slow:rank=1@step=3", 1, ":for=TIME"},
		{"kill:rank=1@step=x", 18, "a step"},
		{"kill:rank=1@step=1000000000000", 18, "a step"},
		{"kill:rank=1@when=3", 13, "the triggers are"},
		{"kill:rank=1@step=3@t=1s", 20, "one trigger"},
		{"kill:rank=1:rank=2@step=3", 13, "twice"},
		{"stop:rank=1:for=1s:for=2s@step=3", 20, "twice"},
		{"kill:who=1@step=3", 6, "may stand here"},
		{"kill:rank=1@t=3", 15, "a time"},
		{"kill:rank=1@t=0s", 15, "a time"},
		{"kill:rank=1@t=.5s", 15, "a time"},
		{"kill:rank=1@t=1.s", 15, "a time"},
		{"kill:rank=1@t=1.1234567s", 15, "a time"},
		{"kill:rank=1@t=0.0001s", 15, "a time"},
		{"kill:rank=1@t=2000m", 15, "a time"},
		{"kill:rank=1@t=3sx", 15, "a time"},
		{"kill:rank=1@step=3,stop:rank=9@step=5", 30, "0 to 3"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct err err = {""};
		char position[32];
		size_t n = 0;
		snprintf(position, sizeof(position), "position %d,", cases[i].position);
		cr_expect_eq(inject_parse(cases[i].spec, 4, 0, faults, &n, &err), -EINVAL, "%s", cases[i].spec);
		cr_expect(strstr(err.text, position), "%s: %s, not %s", cases[i].spec, err.text, position);
		cr_expect(strstr(err.text, cases[i].text), "%s: %s", cases[i].spec, err.text);
	}
}

Test(inject, bounds_the_number_of_faults)
{
	static char spec[(FAULTS_MAX + 1) * 20];
	struct err err = {""};
	size_t n = 0, at = 0;
	for (int i = 0; i <= FAULTS_MAX; i++)
		at += (size_t)snprintf(spec + at, sizeof(spec) - at, "%skill:rank=0@step=1", i ? "," : "");
	cr_expect_eq(inject_parse(spec, 1, 0, faults, &n, &err), -EINVAL);
	cr_expect_eq(n, FAULTS_MAX);
	cr_expect(strstr(err.text, "256"));
}
