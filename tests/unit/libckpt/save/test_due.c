#include "base/clock.h"
#include "ckpt.h"
#include "format/arena/schedule.h"
#include "libckpt/ranks.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

static void keep_schedules(struct ranks *c)
{
	for (uint32_t r = 0; r < c->world; r++)
		atomic_store(&fake_head(c->f, r)->schedules_kept, 1);
}

static void tell(struct ranks *c, uint32_t rank, const struct schedule *s)
{
	schedule_put(fake_head(c->f, rank), s);
	fake_wake(c->f);
}

static struct schedule first_of(uint64_t every)
{
	return schedule_next(&(struct schedule){0}, 1, 10, 16, every, 2 * every);
}

Test(due, answers_what_the_schedule_says)
{
	struct ranks c;
	struct schedule s = first_of(4);
	ranks_up(&c, 2, NULL);
	keep_schedules(&c);
	for (uint32_t r = 0; r < 2; r++) {
		tell(&c, r, &s);
		for (uint64_t step = 0; step < s.until; step++)
			cr_expect_eq(ckpt_due(c.s[r], step), (int)schedule_due(&s, step));
		cr_expect_eq(ckpt_due(c.s[r], 8), CKPT_DUE_MEMORY | CKPT_DUE_STORAGE);
		cr_expect_eq(ckpt_due(c.s[r], 12), CKPT_DUE_MEMORY);
		cr_expect_eq(ckpt_due(c.s[r], 13), 0);
	}
	ranks_down(&c);
}

Test(due, asks_for_the_next_one_once_and_long_before_it_is_needed)
{
	struct ranks c;
	struct schedule s = first_of(4);
	uint64_t step = 0, ns = 0;
	ranks_up(&c, 1, NULL);
	keep_schedules(&c);
	tell(&c, 0, &s);
	cr_expect_geq(ckpt_due(c.s[0], s.wanted), 0);
	cr_expect(fake_rang(c.f), "the daemon is to look");
	cr_expect(schedule_asked(fake_head(c.f, 0), 1, &step, &ns) && step == s.wanted);
	ranks_down(&c);
}

struct late {
	struct ranks *c;
	struct schedule s;
};

static void *tell_late(void *arg)
{
	struct late *late = arg;
	uint64_t step, ns;
	while (!schedule_asked(fake_head(late->c->f, 0), 1, &step, &ns) && fake_rang(late->c->f))
		continue;
	tell(late->c, 0, &late->s);
	return NULL;
}

Test(due, waits_for_the_first_answer)
{
	struct ranks c;
	pthread_t thread;
	ranks_up(&c, 1, NULL);
	keep_schedules(&c);
	struct late late = {&c, first_of(4)};
	cr_assert_eq(pthread_create(&thread, NULL, tell_late, &late), 0);
	cr_expect_eq(ckpt_due(c.s[0], 12), CKPT_DUE_MEMORY);
	pthread_join(thread, NULL);
	ranks_down(&c);
}

Test(due, does_not_wait_again_for_what_it_has_waited_for_in_vain)
{
	struct ranks c;
	ckpt_options o = CKPT_INIT(ckpt_options);
	o.timeout_ms = 1000;
	ranks_up(&c, 1, &o);
	keep_schedules(&c);
	cr_expect_eq(ckpt_due(c.s[0], 12), -ETIMEDOUT);
	cr_expect_not_null(strstr(ckpt_error(c.s[0]), "step 12"));
	uint64_t before = clock_now();
	for (int i = 0; i < 20; i++)
		cr_expect_eq(ckpt_due(c.s[0], 13), -ETIMEDOUT);
	cr_expect_lt(clock_now() - before, 10 * CLOCK_NS_PER_S, "20 waits take twice as long");
	struct schedule s = first_of(4);
	tell(&c, 0, &s);
	cr_expect_eq(ckpt_due(c.s[0], 16), CKPT_DUE_MEMORY | CKPT_DUE_STORAGE);
	ranks_down(&c);
}

Test(due, of_an_epoch_that_is_over_nothing_is_due)
{
	struct ranks c;
	struct schedule s = first_of(4);
	ranks_up(&c, 1, NULL);
	keep_schedules(&c);
	tell(&c, 0, &s);
	cr_expect_eq(ckpt_due(c.s[0], 12), CKPT_DUE_MEMORY);
	fake_epoch(c.f, 2, "rank 1 is lost");
	cr_expect_eq(ckpt_due(c.s[0], 12), -ESTALE);
	ranks_down(&c);
}

Test(due, what_a_save_costs_is_told)
{
	struct ranks c;
	ranks_up(&c, 1, NULL);
	const struct arena_stall *all = &fake_head(c.f, 0)->asked.stall, *storage = &fake_head(c.f, 0)->storage_stall;
	cr_expect_eq(atomic_load(&all->saves), 0);
	ranks_save(&c, 5, CKPT_MEMORY);
	cr_expect_eq(atomic_load(&all->saves), 1);
	cr_expect_gt(atomic_load(&all->ns), 0);
	cr_expect(!atomic_load(&storage->saves) && !atomic_load(&storage->ns));
	uint64_t before = atomic_load(&all->ns);
	ranks_save(&c, 6, CKPT_STORAGE);
	cr_expect_eq(atomic_load(&all->saves), 2);
	cr_expect_eq(atomic_load(&storage->saves), 1);
	cr_expect_eq(atomic_load(&storage->ns), atomic_load(&all->ns) - before);
	ranks_down(&c);
}
