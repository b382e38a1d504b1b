#include "job/monitor/loss.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

/* A training that is played: the loss falls as a power of the step, as those of language models do, with noise in proportion. */
struct play {
	uint64_t seed;
	double tail;  /* degrees of freedom of Student's t: 2 has no variance, 30 is next to normal */
	double noise; /* of the loss, as a share */
	double drags; /* share of the noise that the next step has, too */
	double before;
};

static double chance(struct play *p)
{
	p->seed ^= p->seed << 13;
	p->seed ^= p->seed >> 7;
	p->seed ^= p->seed << 17;
	return ((double)(p->seed >> 11) + 0.5) / 9007199254740992.0;
}

/* R. W. Bailey: Polar generation of random variates with the t-distribution, 1994. */
static double student(struct play *p)
{
	for (;;) {
		double u = 2 * chance(p) - 1, v = 2 * chance(p) - 1, w = u * u + v * v;
		if (w > 0 && w <= 1)
			return u * sqrt(p->tail * (pow(w, -2 / p->tail) - 1) / w);
	}
}

static double falling(uint64_t step)
{
	return 1.7 + 12 / pow((double)step + 20, 0.3);
}

static double noisy(struct play *p, double level)
{
	p->before = p->drags * p->before + student(p);
	return level * (1 + p->noise * p->before);
}

static double norm_of(struct play *p)
{
	return exp(0.2 * student(p));
}

/* Steps from..to of a good training; how often the judge has changed its mind. */
static unsigned train(struct loss *l, struct play *p, uint64_t from, uint64_t to)
{
	unsigned changes = 0;
	for (uint64_t step = from; step < to; step++)
		changes += loss_step(l, step, noisy(p, falling(step)), norm_of(p));
	return changes;
}

static struct play play(uint64_t seed)
{
	return (struct play){.seed = seed * 0x9e3779b97f4a7c15ull + 1, .tail = 3, .noise = 0.02};
}

Test(loss, a_good_training_is_never_accused)
{
	static const struct {
		double tail, noise, drags;
	} of[] = {{30, 0.001, 0}, {30, 0.05, 0}, {3, 0.02, 0}, {2.5, 0.05, 0}, {30, 0.02, 0.8}, {4, 0.005, 0.5}};
	for (unsigned i = 0; i < sizeof(of) / sizeof(of[0]); i++)
		for (uint64_t seed = 1; seed <= 2; seed++) {
			struct loss l = {0};
			struct play p = play(10 * i + seed);
			p.tail = of[i].tail, p.noise = of[i].noise, p.drags = of[i].drags;
			cr_expect_eq(train(&l, &p, 1, 15000), 0u, "setting %u, seed %lu: step %lu, %s", i, seed,
				     l.found.step, loss_trouble_name(l.found.kind));
			cr_expect_eq(l.steps, 14999u);
		}
}

Test(loss, a_loss_without_noise_is_good)
{
	struct loss l = {0};
	for (uint64_t step = 1; step < 5000; step++)
		cr_assert_not(loss_step(&l, step, falling(step), -1));
	for (uint64_t step = 5000; step < 6000; step++)
		cr_assert_not(loss_step(&l, step, falling(4999), 0));
	l = (struct loss){0};
	for (uint64_t step = 1; step < 1000; step++)
		cr_assert_not(loss_step(&l, step, 0, 1), "a loss of nothing");
}

Test(loss, what_is_too_large_to_calculate_with_is_infinite)
{
	struct loss l = {0};
	cr_assert(loss_step(&l, 1, -1e308, 1));
	cr_assert_eq(l.is, LOSS_NOT_FINITE);
	cr_assert_eq(l.losses.n, 0u);
}

Test(loss, no_number_is_found_at_once_and_is_over_after_calm_steps)
{
	char text[200];
	for (uint64_t at = 1; at < 200; at += 40) {
		struct loss l = {0};
		struct play p = play(at);
		cr_assert_eq(train(&l, &p, 1, at), 0u);
		cr_assert(loss_step(&l, at, at % 3 ? NAN : INFINITY, 1));
		cr_assert_eq(l.is, LOSS_NOT_FINITE);
		cr_assert_eq(l.found.step, at);
		loss_text(&l.found, text, sizeof(text));
		cr_assert(strstr(text, at % 3 ? "is NaN" : "is infinite"), "%s", text);
		cr_assert_not(loss_step(&l, at + 1, NAN, NAN), "it was told");
		cr_assert_eq(train(&l, &p, at + 2, at + 1 + LOSS_CALM), 0u);
		cr_assert(loss_step(&l, at + 1 + LOSS_CALM, noisy(&p, falling(at)), 1));
		cr_assert_eq(l.is, LOSS_GOOD);
	}
}

Test(loss, each_planted_spike_is_found_at_its_third_step)
{
	char text[200];
	for (uint64_t seed = 1; seed <= 100; seed++) {
		struct loss l = {0};
		struct play p = play(seed);
		p.tail = 5;
		uint64_t at = 200 + 37 * seed;
		cr_assert_eq(train(&l, &p, 1, at), 0u);
		cr_assert_not(loss_step(&l, at, 1.6 * falling(at), 1));
		cr_assert_not(loss_step(&l, at + 1, 1.6 * falling(at), 1));
		cr_assert(loss_step(&l, at + 2, 1.5 * falling(at), 1), "seed %lu", seed);
		cr_assert_eq(l.is, LOSS_SPIKE);
		cr_assert(l.found.step == at + 2 && !l.found.by_norm);
		cr_assert_float_eq(l.found.usual, falling(at), 0.1 * falling(at));
		cr_assert(strstr(loss_text(&l.found, text, sizeof(text)), "the loss is "), "%s", text);
		cr_assert_eq(train(&l, &p, at + 3, at + 60), 1u, "it is over");
		cr_assert_eq(l.is, LOSS_GOOD);
	}
}

Test(loss, wild_steps_that_stand_alone_are_no_spike)
{
	struct loss l = {0};
	struct play p = play(1);
	p.tail = 30;
	for (uint64_t step = 1; step < 20000; step++)
		cr_assert_not(loss_step(&l, step, step % 50 < 2 ? 10 : noisy(&p, falling(step)), 1));
}

Test(loss, a_spike_of_the_norm_is_found_also_one_that_is_no_number)
{
	char text[200];
	for (int finite = 0; finite < 2; finite++) {
		struct loss l = {0};
		struct play p = play(7);
		cr_assert_not(loss_step(&l, 0, 5, INFINITY), "a loss scale that begins too large");
		cr_assert_eq(train(&l, &p, 1, 500), 0u);
		double norm = finite ? 500 : INFINITY;
		cr_assert_not(loss_step(&l, 500, falling(500), norm));
		cr_assert_not(loss_step(&l, 501, falling(500), norm));
		cr_assert(loss_step(&l, 502, falling(500), norm));
		cr_assert(l.is == LOSS_SPIKE && l.found.by_norm);
		cr_assert_float_eq(l.found.usual, 1, 0.2);
		cr_assert(strstr(loss_text(&l.found, text, sizeof(text)), "norm of the gradients"), "%s", text);
	}
}

Test(loss, each_lasting_rise_is_found_and_no_return_is_forgotten)
{
	char text[200];
	for (uint64_t seed = 1; seed <= 50; seed++) {
		struct loss l = {0};
		struct play p = play(seed);
		p.tail = 5;
		uint64_t at = 2000 + 100 * seed, step = at;
		cr_assert_eq(train(&l, &p, 1, at), 0u);
		/* By a third in 500 steps: no step is far above those before it. */
		for (; step < at + 2000 && l.is != LOSS_DIVERGED; step++) {
			double rise = fmin((double)(step - at) / 500, 1) / 3;
			loss_step(&l, step, noisy(&p, falling(at) * (1 + rise)), norm_of(&p));
		}
		cr_assert_lt(step, at + 1000, "seed %lu", seed);
		cr_assert(l.found.best_step <= at + 100 && l.found.value > l.found.usual);
		cr_assert(strstr(loss_text(&l.found, text, sizeof(text)), "rises for good"), "%s", text);
		unsigned changes = train(&l, &p, step, step + 2000);
		cr_assert(changes == 1 && l.is == LOSS_GOOD, "it has come back: %u, %s, step %lu", changes,
			  loss_trouble_name(l.is), l.found.step);
	}
}

Test(loss, a_worse_trouble_takes_the_place_of_a_lesser_one)
{
	struct loss l = {0};
	struct play p = play(3);
	train(&l, &p, 1, 500);
	for (uint64_t step = 500; step < 503; step++)
		loss_step(&l, step, 100, 1);
	cr_assert_eq(l.is, LOSS_SPIKE);
	cr_assert(loss_step(&l, 503, NAN, 1));
	cr_assert(l.is == LOSS_NOT_FINITE && l.found.step == 503);
	for (uint64_t step = 504; step < 510; step++)
		cr_assert_not(loss_step(&l, step, 100, 1));
	cr_assert_eq(l.is, LOSS_NOT_FINITE);
}

/* From an older checkpoint the loss is that of then, which is no divergence; from the last one it goes on. */
Test(loss, going_far_back_begins_anew_and_going_back_a_little_does_not)
{
	struct loss l = {0};
	struct play p = play(5);
	train(&l, &p, 1, 20000);
	cr_assert_eq(train(&l, &p, 19900, 20000), 0u);
	cr_assert_eq(l.losses.n, (uint32_t)LOSS_WINDOW);
	cr_assert_eq(train(&l, &p, 100, 110), 0u);
	cr_assert_eq(l.losses.n, 10u);
	cr_assert_eq(train(&l, &p, 110, 20000), 0u);
	cr_assert_eq(l.steps, 19999u + 100 + 19900);
}

Test(loss, going_far_back_ends_what_there_was)
{
	struct loss l = {0};
	struct play p = play(6);
	train(&l, &p, 1, 1000);
	loss_step(&l, 1000, NAN, 1);
	cr_assert(loss_step(&l, 500, 2, 1));
	cr_assert_eq(l.is, LOSS_GOOD);
}
