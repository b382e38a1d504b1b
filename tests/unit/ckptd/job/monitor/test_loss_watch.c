#include "ckptd/job_of.h"
#include "job/monitor/loss_watch.h"

#include "daemon.h"
#include "job/job.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 2 };

static struct daemon d;
static struct job job;
static struct rank ranks[RANKS];
static struct memory mem[RANKS];
static uint64_t step;

static void setup(void)
{
	daemon_init(&d);
	job = (struct job){JOB_OF(d), .name = "main", .world = 4, .nlocal = RANKS, .epoch = 2, .ranks = ranks};
	for (uint32_t r = 0; r < RANKS; r++) {
		mem[r] = (struct memory){.head = calloc(1, sizeof(struct arena_head))};
		ranks[r] = (struct rank){.job = &job, .id = 2 + r, .index = r, .state = RANK_JOINED, .mem = &mem[r]};
	}
	step = 0;
}

static void teardown(void)
{
	for (uint32_t r = 0; r < RANKS; r++)
		free(mem[r].head);
}

TestSuite(loss_watch, .init = setup, .fini = teardown);

static void say(uint32_t rank, double loss)
{
	losses_put(&mem[rank].head->losses,
		   &(struct loss_said){.step = step, .epoch = job.epoch, .loss = loss, .gradient_norm = -1});
}

/* Steps of both ranks with these losses; it is looked now and then. */
static void train(unsigned steps, double one, double other)
{
	for (unsigned i = 0; i < steps; i++) {
		step++;
		say(0, one + 0.01 * (i % 7)), say(1, other - 0.01 * (i % 5));
		if (i % 10 == 9)
			loss_watch_tick(&job);
	}
	loss_watch_tick(&job);
}

static const char *text_of(const struct loss_episode *e)
{
	static char text[LOSS_TEXT_MAX + 32];
	return loss_episode_text(e, text, sizeof(text));
}

Test(loss_watch, no_number_of_one_rank_is_an_episode_with_its_rank_and_its_end)
{
	const struct loss_watch *w = &job.loss;
	train(100, 2, 3);
	cr_assert_eq(w->nepisodes, 0u);
	cr_assert_eq(w->now.steps, 100u);
	cr_assert_float_eq(w->now.losses.median, 2.5, 0.1);
	train(1, 2, NAN);
	cr_assert_eq(w->nepisodes, 1u);
	const struct loss_episode *e = loss_watch_open(w);
	cr_assert(e && e->by_rank && e->rank == 3 && e->found.step == 101);
	cr_assert_str_eq(text_of(e), "the loss of step 101 is NaN, as rank 3 says");
	cr_assert_eq(w->counts[LOSS_NOT_FINITE], 1u);
	cr_assert_not(job.stop, "it warns");
	train(LOSS_CALM + 1, 2, 3);
	cr_assert_null(loss_watch_open(w));
	cr_assert(w->nepisodes == 1 && w->episodes[0].until_wall_ns);
}

Test(loss_watch, a_spike_of_one_rank_of_two_is_one_of_the_job)
{
	train(100, 2, 3);
	train(3, 2, 30);
	const struct loss_episode *e = loss_watch_open(&job.loss);
	cr_assert(e && e->found.kind == LOSS_SPIKE && !e->by_rank);
	cr_assert(strstr(text_of(e), "the loss is 16 at step 103"), "%s", text_of(e));
}

Test(loss_watch, another_epoch_ends_it_and_it_is_found_anew)
{
	const struct loss_watch *w = &job.loss;
	train(50, 2, 3);
	train(1, NAN, 3);
	job.epoch = 3;
	step -= 20;
	train(1, 2, 3);
	cr_assert_null(loss_watch_open(w));
	train(1, NAN, 3);
	cr_assert(loss_watch_open(w) && w->nepisodes == 2);
	cr_assert_eq(w->counts[LOSS_NOT_FINITE], 2u);
}

Test(loss_watch, the_oldest_episodes_make_room)
{
	const struct loss_watch *w = &job.loss;
	for (unsigned i = 0; i < LOSS_EPISODES + 3; i++) {
		train(LOSS_CALM + 1, 2, 3);
		train(1, NAN, 3);
	}
	cr_assert_eq(w->nepisodes, (uint32_t)LOSS_EPISODES);
	cr_assert_eq(w->counts[LOSS_NOT_FINITE], LOSS_EPISODES + 3u);
	cr_assert_eq(loss_watch_open(w)->found.step, step);
	for (unsigned i = 0; i + 1 < LOSS_EPISODES; i++)
		cr_assert(w->episodes[i].until_wall_ns && w->episodes[i].found.step < w->episodes[i + 1].found.step);
}

Test(loss_watch, the_policy_halts_for_no_number_and_for_a_lasting_rise_but_not_for_a_spike)
{
	job.policy.loss_policy = LOSS_HALT;
	train(200, 2, 3);
	train(3, 30, 30);
	cr_assert_eq(loss_watch_open(&job.loss)->found.kind, LOSS_SPIKE);
	cr_assert_not(job.stop);
	train(600, 4, 6);
	cr_assert_eq(loss_watch_open(&job.loss)->found.kind, LOSS_DIVERGED);
	cr_assert(job.stop);
	for (uint32_t r = 0; r < RANKS; r++)
		cr_assert_eq(mem[r].head->stop, 1, "its ranks are asked to end");
}

Test(loss_watch, a_job_that_goes_on_after_a_halt_is_halted_again)
{
	job.policy.loss_policy = LOSS_HALT;
	train(1, NAN, 3);
	cr_assert(job.stop);
	job.stop = false;
	job.epoch = 3;
	train(1, NAN, 3);
	cr_assert(job.stop);
}

Test(loss_watch, before_the_first_epoch_and_without_arenas_there_is_nothing)
{
	say(0, NAN);
	job.epoch = 0;
	loss_watch_tick(&job);
	job.epoch = 2;
	ranks[0].mem = ranks[1].mem = NULL;
	loss_watch_tick(&job);
	cr_assert_eq(job.loss.now.steps, 0u);
}
