#include "store/manage/retention.h"

#include "base/clock.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOUR (3600 * CLOCK_NS_PER_S)
#define NOW (1000000 * HOUR)

/* n checkpoints of epoch 1, every 100 steps, one every half hour, the last one half an hour ago. */
static void series(struct retention_item *items, size_t n)
{
	memset(items, 0, n * sizeof(*items));
	for (size_t i = 0; i < n; i++) {
		items[i].id = (struct step_id){.step = (i + 1) * 100, .epoch = 1};
		items[i].committed_ns = NOW - (n - i) * HOUR / 2;
	}
}

/* The steps that stay, as text. */
static const char *kept(const struct retention_item *items, size_t n)
{
	static char text[512];
	size_t len = 0;
	text[0] = '\0';
	for (size_t i = 0; i < n; i++)
		if (items[i].keep)
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%llu", len ? " " : "",
						(unsigned long long)items[i].id.step);
	return text;
}

static const char *apply(const struct retention_policy *policy, struct retention_item *items, size_t n)
{
	size_t go = retention_apply(policy, NOW, items, n), gone = 0;
	for (size_t i = 0; i < n; i++)
		gone += !items[i].keep;
	cr_assert_eq(go, gone);
	return kept(items, n);
}

Test(retention, without_a_rule_everything_stays)
{
	struct retention_item items[5];
	series(items, 5);
	cr_assert_str_eq(apply(&(struct retention_policy){0}, items, 5), "100 200 300 400 500");
	cr_assert_eq(items[0].keep, RETENTION_NO_RULE);
	cr_assert_eq(retention_apply(&(struct retention_policy){.keep_last = 1}, NOW, items, 0), 0);
}

Test(retention, each_rule_keeps_its_own)
{
	static const struct {
		struct retention_policy policy;
		const char *kept;
	} cases[] = {
		{{.keep_last = 1}, "1000"},
		{{.keep_last = 3}, "800 900 1000"},
		{{.keep_last = UINT32_MAX}, "100 200 300 400 500 600 700 800 900 1000"},
		{{.keep_every = 400}, "400 800 1000"},
		{{.keep_within_ns = HOUR}, "800 900 1000"},
		{{.keep_within_ns = 1}, "1000"},
		{{.keep_hourly = 2}, "800 1000"},
		{{.keep_daily = 7}, "400 1000"},
		{{.keep_last = 2, .keep_every = 500}, "500 900 1000"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct retention_item items[10];
		series(items, 10);
		if (cases[i].policy.keep_daily) /* 100 to 400 were committed the day before */
			for (size_t k = 0; k < 4; k++)
				items[k].committed_ns -= 24 * HOUR;
		cr_expect_str_eq(apply(&cases[i].policy, items, 10), cases[i].kept, "case %zu: %s", i, kept(items, 10));
	}
}

Test(retention, the_newest_that_was_read_back_stays_until_a_newer_one_was)
{
	struct retention_item items[5];
	const struct retention_policy one = {.keep_last = 1};
	series(items, 5);
	items[0].verified = items[1].verified = true;
	cr_assert_str_eq(apply(&one, items, 5), "200 500");
	cr_assert_eq(items[1].keep, RETENTION_VERIFIED);
	items[3].verified = items[3].damaged = true; /* matched once, damaged since */
	cr_assert_str_eq(apply(&one, items, 5), "200 500");
	items[4].verified = true;
	cr_assert_str_eq(apply(&one, items, 5), "500");
}

Test(retention, the_newest_that_the_training_called_healthy_stays)
{
	struct retention_item items[5];
	const struct retention_policy one = {.keep_last = 1};
	series(items, 5);
	items[0].healthy = items[1].healthy = true;
	cr_assert_str_eq(apply(&one, items, 5), "200 500");
	cr_assert_eq(items[1].keep, RETENTION_HEALTHY);
	items[3].healthy = items[3].damaged = true;
	cr_assert_str_eq(apply(&one, items, 5), "200 500", "nobody can go back to a damaged one");
	items[4].healthy = true;
	cr_assert_str_eq(apply(&one, items, 5), "500");
}

Test(retention, what_was_given_up_takes_nobodys_place)
{
	struct retention_item items[6];
	series(items, 6);
	for (size_t i = 2; i < 5; i++)
		items[i].given_up = true;
	items[5].id.epoch = 2;
	cr_assert_str_eq(apply(&(struct retention_policy){.keep_last = 1}, items, 6), "600");
	cr_assert_str_eq(apply(&(struct retention_policy){.keep_last = 2}, items, 6), "200 500 600");
	items[5].damaged = true;
	cr_assert_str_eq(apply(&(struct retention_policy){.keep_last = 1}, items, 6), "200 500 600");
	items[0].verified = items[3].verified = items[1].healthy = items[2].healthy = true;
	cr_assert_str_eq(apply(&(struct retention_policy){.keep_hourly = 1}, items, 6), "100 200 300 400 500 600");
	cr_expect_eq(items[0].keep, RETENTION_VERIFIED);
	cr_expect_eq(items[1].keep, RETENTION_HEALTHY);
	cr_assert_str_eq(apply(&(struct retention_policy){.keep_last = 1}, items, 5), "100 200 300 400 500",
			 "nothing was saved since");
	cr_expect_eq(items[1].keep, RETENTION_NEWEST | RETENTION_HEALTHY | RETENTION_LAST);
}

Test(retention, damaged_ones_take_nobodys_place)
{
	struct retention_item items[5];
	series(items, 5);
	items[4].damaged = items[3].damaged = true;
	cr_assert_str_eq(apply(&(struct retention_policy){.keep_last = 2}, items, 5), "200 300 500");
	cr_assert_str_eq(apply(&(struct retention_policy){.keep_hourly = 1}, items, 5), "300 500");
	cr_assert_str_eq(apply(&(struct retention_policy){.keep_within_ns = HOUR}, items, 5), "100 200 300 500");
}

Test(retention, pinned_tagged_and_used_ones_stay_and_say_why)
{
	struct retention_item items[6];
	char text[RETENTION_TEXT_MAX];
	series(items, 6);
	items[0].pinned = items[0].tagged = true;
	items[1].in_use = true;
	cr_assert_str_eq(apply(&(struct retention_policy){.keep_last = 1}, items, 6), "100 200 600");
	retention_text(items[0].keep, text);
	cr_assert_str_eq(text, "pinned, tagged");
	retention_text(items[5].keep, text);
	cr_assert_str_eq(text, "newest, last");
	retention_text(items[3].keep, text);
	cr_assert_str_eq(text, "");
	retention_text(UINT32_MAX, text);
	cr_assert_lt(strlen(text), RETENTION_TEXT_MAX - 1, "%s", text);
}

Test(retention, of_a_step_in_two_epochs_the_newer_is_kept)
{
	struct retention_item items[6];
	series(items, 6);
	for (size_t i = 3; i < 6; i++)
		items[i].id = (struct step_id){.step = (i - 1) * 100, .epoch = 2}; /* 200 300 400 again */
	const struct retention_policy every = {.keep_every = 200};
	cr_assert_str_eq(apply(&every, items, 6), "200 400");
	cr_assert(!items[1].keep && items[3].keep);
	items[3].damaged = true;
	cr_assert_str_eq(apply(&every, items, 6), "200 400");
	cr_assert(items[1].keep && !items[3].keep);
}

Test(retention, a_clock_that_was_set_back_deletes_nothing_new)
{
	struct retention_item items[3];
	series(items, 3);
	items[1].committed_ns = NOW + 5 * HOUR;
	cr_assert_str_eq(apply(&(struct retention_policy){.keep_within_ns = 1}, items, 3), "200 300");
}

/* Of a node, or of the machine where somebody asks. */
Test(retention, a_clock_that_is_ahead_makes_nothing_old)
{
	struct retention_item items[4];
	const struct retention_policy hour = {.keep_within_ns = HOUR};
	series(items, 4);
	cr_assert_eq(retention_apply(&hour, NOW + 48 * HOUR, items, 4), 1);
	cr_assert_str_eq(kept(items, 4), "200 300 400");
	items[0].damaged = true;
	items[0].committed_ns = NOW + 24 * HOUR;
	cr_assert_eq(retention_apply(&hour, NOW + 48 * HOUR, items, 4), 1, "nor what is damaged");
	cr_assert_str_eq(kept(items, 4), "200 300 400");
}

/* Whatever happened before: what must stay, stays. */
Test(retention, no_draw_of_policy_and_history_breaks_the_promises)
{
	unsigned int seed = 7;
	for (int round = 0; round < 20000; round++) {
		struct retention_item items[12];
		size_t n = 1 + (size_t)rand_r(&seed) % 12, verified = SIZE_MAX;
		series(items, n);
		for (size_t i = 0; i < n; i++) {
			items[i].verified = rand_r(&seed) % 3 == 0;
			items[i].damaged = rand_r(&seed) % 4 == 0;
			items[i].pinned = rand_r(&seed) % 8 == 0;
			items[i].committed_ns = (uint64_t)rand_r(&seed) * HOUR;
			if (items[i].verified && !items[i].damaged)
				verified = i;
		}
		const struct retention_policy policy = {.keep_last = (uint32_t)rand_r(&seed) % 3,
							.keep_every = (uint64_t)(rand_r(&seed) % 3) * 100,
							.keep_within_ns = (uint64_t)(rand_r(&seed) % 2),
							.keep_hourly = (uint32_t)rand_r(&seed) % 3,
							.keep_daily = (uint32_t)rand_r(&seed) % 3};
		apply(&policy, items, n);
		cr_assert(items[n - 1].keep);
		cr_assert(verified == SIZE_MAX || items[verified].keep);
		for (size_t i = 0; i < n; i++)
			cr_assert(!items[i].pinned || items[i].keep);
	}
}

/* Epochs 1 and 2 are one run, 3 began without a restore, 4 was restored from it. */
static void runs(struct retention_item *items)
{
	static const uint32_t epochs[] = {1, 1, 2, 2, 3, 3, 4, 4};
	series(items, 8);
	for (size_t i = 0; i < 8; i++) {
		items[i].id.epoch = epochs[i];
		items[i].began = epochs[i] == 1 || epochs[i] == 3 ? epochs[i] : 0;
	}
}

Test(retention, what_stands_before_a_run_that_began_without_it_stays)
{
	struct retention_item items[8];
	const struct retention_policy two = {.keep_last = 2}, every = {.keep_every = 800};
	char text[RETENTION_TEXT_MAX];
	runs(items);
	cr_expect_str_eq(apply(&two, items, 8), "300 400 600 700 800");
	retention_text(items[3].keep, text);
	cr_expect_str_eq(text, "earlier run");
	retention_text(items[5].keep, text);
	cr_expect_str_eq(text, "begin of a run");
	cr_expect_str_eq(apply(&every, items, 8), "400 600 800", "at least one");
	items[0].verified = items[1].healthy = items[7].verified = items[7].healthy = true;
	cr_expect_str_eq(apply(&two, items, 8), "100 200 300 400 600 700 800");
	items[3].damaged = true;
	cr_expect_str_eq(apply(&every, items, 8), "100 200 300 600 800", "a damaged one is none");
}

Test(retention, what_was_kept_for_the_sake_of_a_run_goes_when_somebody_says_so)
{
	struct retention_item items[8];
	runs(items);
	cr_expect_str_eq(apply(&(struct retention_policy){.keep_last = 2, .give_up_runs = true}, items, 8), "700 800");
	runs(items);
	cr_expect_str_eq(apply(&(struct retention_policy){.keep_last = 2}, items + 4, 4), "700 800", "none is left");
}

Test(retention, a_manifest_that_cannot_be_read_may_have_told_where_a_run_began)
{
	struct retention_item items[8];
	const struct retention_policy one = {.keep_last = 1};
	runs(items);
	items[4].began = items[5].began = 0;
	cr_expect_str_eq(apply(&one, items, 8), "800", "nobody tells it");
	items[5].damaged = items[5].unreadable = true;
	cr_expect_str_eq(apply(&one, items, 8), "400 600 800");
	runs(items);
	items[5].damaged = items[5].unreadable = true;
	cr_expect_str_eq(apply(&one, items, 8), "400 600 800", "the newest of the run stands for it");
	cr_expect_str_eq(apply(&(struct retention_policy){.keep_last = 1, .give_up_runs = true}, items, 8), "800");
}

/* What one round leaves is what the next one decides about. */
Test(retention, an_earlier_run_outlives_any_number_of_rounds)
{
	struct retention_item items[64];
	size_t n = 4;
	runs(items);
	for (uint32_t round = 0; round < 50; round++) {
		items[n] = (struct retention_item){
			.id = {1000 + round, round < 5 ? 3 : 4}, .began = round < 5 ? 3 : 0, .committed_ns = NOW};
		n++;
		retention_apply(&(struct retention_policy){.keep_last = 1}, NOW, items, n);
		size_t left = 0;
		for (size_t i = 0; i < n; i++)
			if (items[i].keep)
				items[left++] = items[i];
		n = left;
	}
	cr_expect_str_eq(kept(items, n), "400 1004 1049");
}
