#include "format/arena/culprit.h"
#include "format/tensor/dtype.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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
	culprit_count(all, N);
	const struct suspect *c = culprit_find(all, N, 1000);
	cr_assert(c);
	return c->rank;
}

static const char *text(uint32_t at)
{
	static char dst[CULPRIT_TEXT_MAX];
	culprit_count(all, N);
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
	all[2].is.bytes = 4096;
	all[2].is.dtype = DTYPE_BF16;
	cr_expect_eq(found(), 12u, "is in one of another type");
	all[3].is.collective = 6;
	cr_expect_eq(found(), 13u, "is in an earlier one");
	all[0].is.in_collective = false;
	cr_expect_eq(found(), 10u, "is in none");
	all[2].is.in_collective = false;
	all[2].is.collective = 5;
	cr_expect_eq(found(), 12u, "is in none, and left an earlier one: the other has left when it was lost");
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

/* Each in a collective of a size of its own, as where ranks send what they have: 16,384 ranks are the most that a job is tried with. */
Test(culprit, a_large_job_is_judged_at_once)
{
	enum { MANY = 16384 };
	struct suspect *many = calloc(MANY, sizeof(*many));
	cr_assert(many);
	for (uint32_t i = 0; i < MANY; i++) {
		many[i] = all[0];
		many[i].rank = MANY - 1 - i;
		many[i].is.bytes = i;
		many[i].is.beat_ns = 100;
	}
	many[9].is.bytes = many[10].is.bytes;
	many[77].is.collective = 6;
	clock_t began = clock();
	for (int i = 0; i < 10; i++)
		culprit_count(many, MANY);
	const struct suspect *c = culprit_find(many, MANY, 1000);
	char dst[CULPRIT_TEXT_MAX];
	cr_expect_str_eq(culprit_text(many, MANY, c, dst),
			 "last at step 5, in reduce #6 of 77 bytes; rank 16373 and others are in "
			 "reduce #7 of 10 bytes");
	cr_expect_eq(c->rank, MANY - 1u - 77);
	cr_expect(many[c->rank].rank == c->rank, "in the order of their ranks");
	cr_expect_lt((double)(clock() - began) / CLOCKS_PER_SEC, 5.0);
	free(many);
}

Test(culprit, the_sentence_has_what_it_and_the_others_are_in)
{
	cr_expect_str_eq(text(0), "last at step 5, in reduce #7 of 4096 bytes");
	all[0].is.dtype = DTYPE_F32;
	cr_expect_str_eq(text(0), "last at step 5, in reduce #7 of 4096 bytes of F32; rank 11 and others are in reduce "
				  "#7 of 4096 bytes");
	all[0].is.dtype = 0;
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
