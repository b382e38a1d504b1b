#include "format/arena/losses.h"

#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

enum { PUTS = 200000 };

static struct arena_losses losses;
static uint64_t next;
static struct loss_said said;

static void setup(void)
{
	memset(&losses, 0, sizeof(losses));
	next = 0;
}

TestSuite(losses, .init = setup);

static void put(uint64_t step)
{
	losses_put(&losses,
		   &(struct loss_said){
			   .step = step, .epoch = 3, .loss = (double)step / 2, .gradient_norm = (float)step / 4});
}

Test(losses, each_is_read_once_and_in_its_order)
{
	cr_assert_not(losses_next(&losses, &next, &said));
	put(7);
	put(8);
	cr_assert(losses_next(&losses, &next, &said));
	cr_assert(said.step == 7 && said.epoch == 3 && said.loss == 3.5 && said.gradient_norm == 1.75f);
	cr_assert(losses_next(&losses, &next, &said) && said.step == 8);
	cr_assert_not(losses_next(&losses, &next, &said));
	put(9);
	cr_assert(losses_next(&losses, &next, &said) && said.step == 9);
}

Test(losses, what_is_no_number_comes_as_it_is)
{
	losses_put(&losses, &(struct loss_said){.step = 1, .loss = NAN, .gradient_norm = INFINITY});
	cr_assert(losses_next(&losses, &next, &said));
	cr_assert(isnan(said.loss) && isinf(said.gradient_norm));
}

Test(losses, who_comes_late_gets_the_newest)
{
	for (uint64_t step = 0; step < ARENA_LOSSES + 5; step++)
		put(step);
	for (uint64_t step = 5; step < ARENA_LOSSES + 5; step++)
		cr_assert(losses_next(&losses, &next, &said) && said.step == step, "%lu is not %lu", said.step, step);
	cr_assert_not(losses_next(&losses, &next, &said));
}

Test(losses, a_new_arena_is_read_from_its_beginning)
{
	next = 1000;
	put(4);
	cr_assert(losses_next(&losses, &next, &said) && said.step == 4);
	cr_assert_not(losses_next(&losses, &next, &said));
}

/* Its process has died while it wrote the second one; the next process goes on there. */
Test(losses, one_that_is_half_written_is_passed_over)
{
	put(4);
	put(5);
	losses.ring[1].seq = 3;
	cr_assert(losses_next(&losses, &next, &said) && said.step == 4);
	cr_assert_not(losses_next(&losses, &next, &said));
	losses.count = 1;
	next = 1;
	put(6);
	cr_assert(losses_next(&losses, &next, &said) && said.step == 6);
}

Test(losses, a_count_that_is_a_lie_ends)
{
	losses.count = UINT64_MAX;
	cr_assert_not(losses_next(&losses, &next, &said));
	cr_assert_eq(next, UINT64_MAX);
}

static void *write_all(void *arg)
{
	(void)arg;
	for (uint64_t step = 1; step <= PUTS; step++)
		put(step);
	return NULL;
}

Test(losses, a_loss_never_comes_with_another_step)
{
	pthread_t writer;
	uint64_t last = 0, seen = 0;
	cr_assert_eq(pthread_create(&writer, NULL, write_all, NULL), 0);
	while (last < PUTS) {
		if (!losses_next(&losses, &next, &said))
			continue;
		cr_assert_gt(said.step, last);
		cr_assert(said.loss == (double)said.step / 2 && said.gradient_norm == (float)said.step / 4);
		last = said.step;
		seen++;
	}
	pthread_join(writer, NULL);
	cr_assert_gt(seen, 0u);
}
