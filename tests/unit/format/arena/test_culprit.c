#include "format/arena/culprit.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { N = 4 };

static struct suspect all[N];

/* All are in the same collective, and fell silent one after the other. */
static void setup(void)
{
	for (uint32_t i = 0; i < N; i++) {
		all[i] = (struct suspect){.rank = 10 + i,
					  .is = {.beat_ns = 100 + i,
						 .step = 5,
						 .in_collective = true,
						 .collective = 7,
						 .bytes = 4096,
						 .since_ns = 100}};
		snprintf(all[i].is.op, sizeof(all[i].is.op), "reduce");
	}
}

TestSuite(culprit, .init = setup);

static uint32_t found(void)
{
	const struct suspect *c = culprit_find(all, N, 1000);
	cr_assert(c);
	return c->rank;
}

static const char *text(uint32_t at)
{
	static char dst[CULPRIT_TEXT_MAX];
	return culprit_text(all, N, &all[at], dst);
}

/* From the weakest hint to the strongest: each goes before those above it. */
Test(culprit, one_hint_goes_before_another)
{
	cr_expect_eq(found(), 10u, "fell silent first");
	all[1].is.step = 4;
	cr_expect_eq(found(), 11u, "is at an earlier step");
	all[2].is.bytes = 8;
	cr_expect_eq(found(), 12u, "is in a collective of another size");
	all[3].is.collective = 6;
	cr_expect_eq(found(), 13u, "is in an earlier one");
	all[0].is.in_collective = false;
	cr_expect_eq(found(), 10u, "is in none");
	all[1].stopped = true;
	cr_expect_eq(found(), 11u, "is stopped");
}

Test(culprit, who_gave_a_heartbeat_lately_is_not_to_blame)
{
	all[0].is.in_collective = false;
	all[0].is.beat_ns = 2000;
	cr_expect_eq(found(), 11u);
	cr_expect_null(culprit_find(all, N, 50));
	cr_expect_null(culprit_find(all, 0, 1000));
}

Test(culprit, it_stands_out_when_they_are_not_all_at_the_same)
{
	cr_expect_not(culprit_stands_out(all, N, &all[0]));
	cr_expect_not(culprit_stands_out(all, 1, &all[0]));
	all[1].is.step = 4;
	cr_expect(culprit_stands_out(all, N, &all[1]));
	for (uint32_t i = 0; i < N; i++) {
		all[i].is.in_collective = false;
		all[i].is.step = 5;
	}
	cr_expect_not(culprit_stands_out(all, N, &all[1]), "nobody tells of collectives");
	setup();
	all[2].is.in_collective = false;
	cr_expect(culprit_stands_out(all, N, &all[2]));
	all[2].is.in_collective = true;
	snprintf(all[2].is.op, sizeof(all[2].is.op), "gather");
	cr_expect(culprit_stands_out(all, N, &all[2]));
	setup();
	all[1].stopped = true;
	cr_expect(culprit_stands_out(all, N, &all[1]));
}

Test(culprit, the_sentence_has_what_it_and_the_others_are_in)
{
	cr_expect_str_eq(text(0), "last at step 5, in reduce #7 of 4096 bytes");
	all[2].is.in_collective = false;
	cr_expect_str_eq(text(2),
			 "last at step 5, in no collective; rank 10 and others are in reduce #7 of 4096 bytes");
	all[2].stopped = true;
	cr_expect(strstr(text(2), "last at step 5, stopped, in no collective"));
	all[0].is.in_collective = all[1].is.in_collective = false;
	cr_expect(strstr(text(2), "; rank 13 is in reduce #7"));
	all[3].is.in_collective = false;
	cr_expect_str_eq(text(2), "last at step 5, stopped, in no collective");
}
