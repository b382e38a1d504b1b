#include "format/arena/schedule.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { EPOCH = 3 };

static struct schedule first_of(uint64_t step)
{
	return schedule_next(&(struct schedule){0}, EPOCH, step, 16, 8, 16);
}

Test(schedule, says_what_is_due_by_step)
{
	struct schedule s = first_of(0);
	cr_expect_eq(schedule_due(&s, 0), 0, "there is nothing to save at step 0");
	cr_expect_eq(schedule_due(&s, 7), 0);
	cr_expect_eq(schedule_due(&s, 8), DUE_MEMORY);
	cr_expect_eq(schedule_due(&s, 16), DUE_MEMORY | DUE_STORAGE);
	struct schedule none = schedule_next(&s, EPOCH, 9, 16, 0, 0);
	for (uint64_t step = none.from; step < none.until; step++)
		cr_expect_eq(schedule_due(&none, step), 0);
}

Test(schedule, follows_the_one_before_without_a_gap_and_covers_who_asks)
{
	struct schedule a = first_of(1000), b = schedule_next(&a, EPOCH, 1009, 100, 8, 16),
			c = schedule_next(&b, EPOCH, 5000, 10, 8, 16);
	cr_expect(a.from == 0 && a.until == 1016 && a.wanted >= 1000 && a.wanted < 1016 && a.number == 1);
	cr_expect(b.from == a.until && b.until == 1116 && b.wanted > b.from && b.number == 2);
	cr_expect(c.from == b.until && c.until == 5010 && c.wanted >= 5000, "somebody was far ahead");
	struct schedule one = schedule_next(&a, EPOCH, 0, 1, 8, 16);
	cr_expect(one.from == one.wanted && one.until == one.from + 1);
}

/* Between two saves lies never more than the longer interval of both, whatever changes. */
Test(schedule, no_gap_is_longer_than_the_longer_interval)
{
	static const uint64_t every[] = {8, 100, 95, 40, 41, 7, 60, 59, 200, 1};
	struct schedule s = first_of(0);
	uint64_t last = 0, was = s.memory_every;
	unsigned due = 0;
	for (unsigned i = 0; i < sizeof(every) / sizeof(every[0]); i++) {
		struct schedule next = schedule_next(&s, EPOCH, s.wanted, 30 + i, every[i], 4 * every[i]);
		for (uint64_t step = s.from; step < s.until; step++) {
			if (!schedule_due(&s, step))
				continue;
			cr_expect_leq(step - last, was > s.memory_every ? was : s.memory_every, "at step %lu",
				      (unsigned long)step);
			last = step;
			was = s.memory_every;
			due++;
		}
		s = next;
	}
	cr_expect_gt(due, 10u);
}

Test(schedule, one_that_hardly_differs_is_not_changed)
{
	struct schedule a = schedule_next(&(struct schedule){0}, EPOCH, 1, 50, 100, 400),
			b = schedule_next(&a, EPOCH, 30, 50, 104, 390), c = schedule_next(&b, EPOCH, 80, 50, 130, 390);
	cr_expect(b.memory_every == 100 && b.storage_every == 400 && b.memory_from == a.memory_from);
	cr_expect(c.memory_every == 130 && c.memory_from == c.from, "a new one begins with a save");
	cr_expect(c.storage_every == 400 && c.storage_from == a.storage_from);
}

Test(schedule, is_read_from_the_arena_as_it_was_entered)
{
	struct arena_head *head = calloc(1, sizeof(*head));
	cr_assert_not_null(head);
	struct schedule s = {0}, found, all[ARENA_SCHEDULES + 2];
	cr_expect_eq(schedule_find(head, EPOCH, 5, &found), -EAGAIN);
	cr_expect_eq(schedule_newest(head, EPOCH).number, 0);
	for (unsigned i = 0; i < ARENA_SCHEDULES + 2; i++) {
		all[i] = s = schedule_next(&s, EPOCH, s.until, 10, 3 + i, 30);
		schedule_put(head, &s);
		cr_expect_eq(schedule_newest(head, EPOCH).number, i + 1);
	}
	for (unsigned i = 2; i < ARENA_SCHEDULES + 2; i++) {
		cr_assert_eq(schedule_find(head, EPOCH, all[i].from, &found), 0);
		cr_expect_eq(memcmp(&found, &all[i], sizeof(found)), 0);
		cr_assert_eq(schedule_find(head, EPOCH, all[i].until - 1, &found), 0);
		cr_expect_eq(found.number, i + 1);
	}
	cr_expect_eq(schedule_find(head, EPOCH, all[1].from, &found), -ERANGE, "the eighth after it took its place");
	cr_expect_eq(schedule_find(head, EPOCH, s.until, &found), -EAGAIN);
	cr_expect_eq(schedule_find(head, EPOCH + 1, s.from, &found), -EAGAIN, "of another epoch nothing counts");
	atomic_fetch_add(&head->schedules[s.number % ARENA_SCHEDULES].seq, 1);
	cr_expect_eq(schedule_find(head, EPOCH, s.from, &found), -EAGAIN, "it is being written");
	free(head);
}

Test(schedule, what_a_rank_has_asked_for_is_of_one_epoch)
{
	struct arena_head *head = calloc(1, sizeof(*head));
	uint64_t step = 0, ns = 0;
	cr_assert_not_null(head);
	cr_expect(!schedule_asked(head, EPOCH, &step, &ns));
	schedule_ask(head, EPOCH, 40, 7);
	cr_expect(schedule_asked(head, EPOCH, &step, &ns) && step == 40 && ns == 7);
	schedule_ask(head, EPOCH, 39, 8);
	cr_expect(schedule_asked(head, EPOCH, &step, &ns) && step == 40 && ns == 7, "the furthest counts");
	schedule_ask(head, EPOCH + 1, 12, 9);
	cr_expect(!schedule_asked(head, EPOCH, &step, &ns));
	cr_expect(schedule_asked(head, EPOCH + 1, &step, &ns) && step == 12 && ns == 9, "it went back");
	atomic_store(&head->asked.step, UINT64_MAX);
	cr_expect(!schedule_asked(head, EPOCH + 1, &step, &ns), "nobody asks for such a step");
	free(head);
}

Test(schedule, what_cannot_be_is_refused)
{
	struct schedule good = first_of(4), s;
	struct err err = {{0}};
	cr_expect_eq(schedule_check(&good, false, &err), 0);
	cr_expect_eq(schedule_check(&(struct schedule){0}, true, &err), 0);
	cr_expect_eq(schedule_check(&(struct schedule){0}, false, &err), -EBADMSG);
	s = good;
	s.until = s.wanted;
	cr_expect_eq(schedule_check(&s, false, &err), -EBADMSG);
	s = good;
	s.from = s.wanted + 1;
	cr_expect_eq(schedule_check(&s, false, &err), -EBADMSG);
	s = good;
	s.storage_from = s.from + 1;
	cr_expect_eq(schedule_check(&s, false, &err), -EBADMSG);
	s = good;
	s.memory_every = STEP_MAX + 1;
	cr_expect_eq(schedule_check(&s, false, &err), -EBADMSG);
	s = good;
	s.epoch = EPOCH_MAX + 1;
	cr_expect_eq(schedule_check(&s, false, &err), -EBADMSG);
	s = good;
	s.until = UINT64_MAX;
	cr_expect_eq(schedule_check(&s, false, &err), -EBADMSG);
}
