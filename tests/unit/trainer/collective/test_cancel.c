#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>

#include "collective/cancel.h"
#include "common/deadline.h"

static int readable(const struct cancel *c)
{
	return poll(&(struct pollfd){c->fd, POLLIN, 0}, 1, 0);
}

Test(cancel, news_make_it_readable_and_are_kept)
{
	char reason[CANCEL_REASON_SIZE];
	struct cancel c;
	int64_t before = monotonic_ns();

	cr_assert_eq(cancel_open(&c), 0);
	cr_assert_eq(readable(&c), 0);
	cr_assert_eq(cancel_told(&c, 0, reason), 0);
	cr_assert_str_eq(reason, "");
	cancel_raise(&c, 2, "rank 1 is lost");
	cancel_raise(&c, 1, "older");
	cr_assert_eq(readable(&c), 1);
	cr_assert_geq(cancel_told(&c, 1, reason), before);
	cr_assert_str_eq(reason, "rank 1 is lost");
	cr_assert_eq(cancel_told(&c, 2, reason), 0, "epoch 2 is no news to who is in it");
	cancel_close(&c);
}

Test(cancel, arming_forgets_what_is_old_only)
{
	struct cancel c;

	cr_assert_eq(cancel_open(&c), 0);
	cancel_raise(&c, 2, "a");
	cr_assert_eq(cancel_arm(&c, 2), 0);
	cr_assert_eq(readable(&c), 0);
	cancel_raise(&c, 3, "b");
	cr_assert_eq(cancel_arm(&c, 2), -ESTALE);
	cr_assert_eq(cancel_arm(&c, 3), 0);
	cancel_close(&c);
}

static void *raise_later(void *argument)
{
	nanosleep(&(struct timespec){0, 50000000}, NULL);
	cancel_raise(argument, 1, "older");
	nanosleep(&(struct timespec){0, 50000000}, NULL);
	cancel_raise(argument, 2, "newer");
	return NULL;
}

Test(cancel, wait_is_ended_by_newer_epochs_only)
{
	struct cancel c;
	pthread_t thread;
	char reason[CANCEL_REASON_SIZE];

	cr_assert_eq(cancel_open(&c), 0);
	cr_assert_eq(cancel_wait(&c, 1, deadline_in_ms(20)), -ETIMEDOUT);
	pthread_create(&thread, NULL, raise_later, &c);
	cr_assert_eq(cancel_wait(&c, 1, deadline_in_ms(5000)), 0);
	pthread_join(thread, NULL);
	cr_assert_neq(cancel_told(&c, 1, reason), 0);
	cr_assert_str_eq(reason, "newer");
	cancel_close(&c);
}
