#include "base/clock.h"
#include "libckpt/ranks.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

struct heard {
	int fd;
	uint32_t epoch;
	unsigned times;
	char reason[128];
};

static void on_epoch(void *arg, uint32_t epoch, const char *reason)
{
	struct heard *h = arg;
	h->epoch = epoch;
	h->times++;
	snprintf(h->reason, sizeof(h->reason), "%s", reason);
	eventfd_write(h->fd, 1);
}

static bool await_epoch(struct heard *h, int ms)
{
	eventfd_t count;
	struct pollfd p = {.fd = h->fd, .events = POLLIN};
	return poll(&p, 1, ms) == 1 && !eventfd_read(h->fd, &count);
}

static struct heard heard;

static ckpt_options listening(void)
{
	heard = (struct heard){.fd = eventfd(0, EFD_CLOEXEC)};
	return (ckpt_options){.size = sizeof(ckpt_options), .on_epoch = on_epoch, .on_epoch_arg = &heard};
}

Test(service, a_new_epoch_calls_back_once)
{
	struct ranks c;
	ckpt_options o = listening();
	ranks_up(&c, 1, &o);
	fake_epoch(c.f, 2, "rank 3 died (signal 9)");
	cr_assert(await_epoch(&heard, 5000));
	cr_assert_eq(heard.epoch, 2);
	cr_assert_str_eq(heard.reason, "rank 3 died (signal 9)");
	fake_epoch(c.f, 2, "again");
	fake_epoch(c.f, 3, "rank 1 died");
	cr_assert(await_epoch(&heard, 5000));
	cr_assert_eq(heard.epoch, 3);
	cr_assert_eq(heard.times, 2);
	ranks_down(&c);
}

/* Waits up to 5 s until it is so. */
static bool over_is(ckpt *s, bool over)
{
	struct pollfd p = {.fd = ckpt_epoch_fd(s), .events = POLLIN};
	return poll(&p, 1, over ? 5000 : 0) == over;
}

Test(service, the_descriptor_is_readable_while_the_joined_epoch_is_over)
{
	struct ranks c;
	ranks_open(&c, 1, NULL);
	ranks_register(&c);
	fake_epoch(c.f, 2, "before anyone has joined");
	ranks_join(&c);
	cr_assert(over_is(c.s[0], false));
	fake_epoch(c.f, 3, "rank 3 died (signal 9)");
	cr_assert(over_is(c.s[0], true));
	cr_assert(over_is(c.s[0], true), "until it joins again");
	fake_epoch(c.f, 4, "and rank 1");
	ranks_join(&c);
	cr_assert_eq(ckpt_epoch(c.s[0]), 4);
	cr_assert(over_is(c.s[0], false));
	fake_epoch(c.f, 5, "again");
	cr_assert(over_is(c.s[0], true));
	ranks_down(&c);
}

static void *join_in_thread(void *arg)
{
	struct ranks *c = arg;
	return (void *)(intptr_t)ckpt_join(c->s[0], NULL, 0, NULL, -1);
}

Test(service, an_epoch_that_a_join_enters_is_not_told_but_a_later_one_is)
{
	struct ranks c;
	ckpt_options o = listening();
	pthread_t thread;
	void *rc;
	ranks_up(&c, 1, &o);
	fake_manners(c.f, &(struct fake_manners){.hold_join = true});
	cr_assert_eq(pthread_create(&thread, NULL, join_in_thread, &c), 0);
	fake_await(c.f, WIRE_JOIN, 2);
	fake_epoch(c.f, 2, "while joining");
	fake_let_join(c.f);
	pthread_join(thread, &rc);
	cr_assert_eq((intptr_t)rc, 0);
	cr_assert_eq(ckpt_epoch(c.s[0]), 2);
	fake_epoch(c.f, 3, "after");
	cr_assert(await_epoch(&heard, 5000));
	cr_assert_eq(heard.epoch, 3);
	cr_assert_eq(heard.times, 1);
	ranks_down(&c);
}

Test(service, a_restarted_daemon_gets_the_arena_back_and_saves_go_on)
{
	struct ranks c;
	ckpt_snapshot *snap, *none;
	ckpt_options o = listening();
	ranks_up(&c, 2, &o);
	cr_assert_eq(ckpt_begin(c.s[0], 10, CKPT_MEMORY, NULL, &snap), 0);
	cr_assert_eq(ckpt_fence(snap, NULL), 0);
	ranks_fill(&c, 9);
	fake_die(c.f);
	for (int i = 0; ckpt_begin(c.s[0], 11, CKPT_MEMORY, NULL, &none) != -ENOTCONN; i++) {
		ckpt_snapshot_free(none);
		cr_assert_lt(i, 1000, "the loss of the daemon is not noticed");
		poll(NULL, 0, 1);
	}
	cr_assert_eq(ckpt_wait(snap, CKPT_CAPTURED, 20), -ETIMEDOUT);
	cr_assert(strstr(ckpt_error(c.s[0]), "cannot be reached"), "%s", ckpt_error(c.s[0]));
	fake_live(c.f);
	fake_await(c.f, WIRE_RETURN, 2);
	/* The library rings when it has its new doorbell. */
	cr_assert(fake_rang(c.f));
	cr_assert_eq(fake_hello(c.f, 0).epoch, 1, "it says which epoch it is in");
	fake_publish(c.f, &(struct fake_level){.id = {10, 1}, .level = LEVEL_CAPTURED});
	cr_assert_eq(ckpt_wait(snap, CKPT_CAPTURED, 5000), 0, "%s", ckpt_error(c.s[0]));
	for (int i = 0; ckpt_begin(c.s[1], 12, CKPT_MEMORY, NULL, &none) == -ENOTCONN; i++) {
		cr_assert_lt(i, 5000);
		poll(NULL, 0, 1);
	}
	cr_assert_eq(ckpt_fence(none, NULL), 0);
	cr_assert_eq(heard.times, 0, "the epoch did not change: nobody is called");
	ckpt_snapshot_free(none);
	ckpt_snapshot_free(snap);
	ranks_down(&c);
}

Test(service, a_daemon_that_is_back_but_waits_for_others_is_not_said_to_be_away)
{
	struct ranks c;
	ckpt_snapshot *snap, *none;
	ranks_up(&c, 2, NULL);
	cr_assert_eq(ckpt_begin(c.s[0], 10, CKPT_MEMORY, NULL, &snap), 0);
	cr_assert_eq(ckpt_fence(snap, NULL), 0);
	fake_die(c.f);
	fake_manners(c.f, &(struct fake_manners){.hold_register = true});
	fake_live(c.f);
	fake_await(c.f, WIRE_REGISTER, 4);
	/* The session has sent its REGISTER; that it knows so itself comes a moment later. */
	for (int i = 0; ckpt_begin(c.s[0], 11, CKPT_MEMORY, NULL, &none) == -ENOTCONN; i++) {
		if (strstr(ckpt_error(c.s[0]), "is back"))
			break;
		cr_assert_lt(i, 5000);
		poll(NULL, 0, 1);
	}
	cr_assert(strstr(ckpt_error(c.s[0]), "all 2 ranks"), "%s", ckpt_error(c.s[0]));
	cr_assert_eq(ckpt_wait(snap, CKPT_CAPTURED, 20), -ETIMEDOUT);
	cr_assert(strstr(ckpt_error(c.s[0]), "is back"), "%s", ckpt_error(c.s[0]));
	cr_assert_eq(ckpt_join(c.s[0], NULL, 0, NULL, 20), -ENOTCONN);
	cr_assert(strstr(ckpt_error(c.s[0]), "is back"), "%s", ckpt_error(c.s[0]));
	ckpt_snapshot_free(snap);
	fake_let_register(c.f);
	ranks_join(&c);
	ranks_save(&c, 12, CKPT_MEMORY);
	ranks_down(&c);
}

Test(service, a_daemon_that_lost_the_arenas_is_joined_again)
{
	struct ranks c;
	ckpt_snapshot *snap, *none;
	ranks_up(&c, 1, NULL);
	ranks_fill(&c, 4);
	cr_assert_eq(ckpt_begin(c.s[0], 10, CKPT_MEMORY, NULL, &snap), 0);
	cr_assert_eq(ckpt_fence(snap, NULL), 0);
	fake_die(c.f);
	fake_manners(c.f, &(struct fake_manners){.forget = true});
	fake_live(c.f);
	fake_await(c.f, WIRE_REGISTER, 2);
	int rc = 0;
	for (int i = 0; i < 5000 && (rc = ckpt_begin(c.s[0], 11, CKPT_MEMORY, NULL, &none)) == -ENOTCONN; i++)
		poll(NULL, 0, 1);
	cr_assert_eq(rc, -ESTALE);
	cr_assert_eq(ckpt_wait(snap, CKPT_CAPTURED, 1000), -ECANCELED);
	ckpt_snapshot_free(snap);
	ranks_join(&c);
	ranks_save(&c, 11, CKPT_MEMORY);
	cr_assert(fake_rang(c.f));
	cr_assert_eq(fake_head(c.f, 0)->slots[0].step, 11, "in the new arena");
	ranks_down(&c);
}

Test(service, a_snapshot_outlives_the_arena_that_was_replaced_and_the_session)
{
	struct ranks c;
	ckpt_snapshot *snap;
	ranks_up(&c, 1, NULL);
	cr_assert_eq(ckpt_begin(c.s[0], 10, CKPT_MEMORY, NULL, &snap), 0);
	fake_die(c.f);
	fake_manners(c.f, &(struct fake_manners){.forget = true});
	fake_live(c.f);
	fake_await(c.f, WIRE_REGISTER, 2);
	int rc = 0;
	for (int i = 0; i < 5000 && (rc = ckpt_poll(snap)) == CKPT_PENDING; i++)
		poll(NULL, 0, 1);
	cr_assert_eq(rc, -ECANCELED);
	ranks_join(&c);
	ranks_down(&c);
	ckpt_snapshot_free(snap);
}

Test(service, an_epoch_that_was_raised_while_the_daemon_was_away_is_told)
{
	struct ranks c;
	ckpt_options o = listening();
	ranks_up(&c, 1, &o);
	fake_die(c.f);
	fake_live_in(c.f, 7);
	cr_assert(await_epoch(&heard, 5000));
	cr_assert_eq(heard.epoch, 7);
	ranks_join(&c);
	cr_assert_eq(ckpt_epoch(c.s[0]), 7);
	ranks_down(&c);
}

Test(service, a_join_survives_the_death_of_the_daemon)
{
	struct ranks c;
	pthread_t thread;
	void *rc;
	ranks_up(&c, 1, NULL);
	fake_manners(c.f, &(struct fake_manners){.hold_join = true});
	cr_assert_eq(pthread_create(&thread, NULL, join_in_thread, &c), 0);
	fake_await(c.f, WIRE_JOIN, 2);
	fake_die(c.f);
	fake_manners(c.f, &(struct fake_manners){0});
	fake_live(c.f);
	pthread_join(thread, &rc);
	cr_assert_eq((intptr_t)rc, 0);
	ranks_down(&c);
}

Test(service, a_call_without_a_daemon_costs_its_deadline)
{
	struct ranks c;
	ranks_up(&c, 1, NULL);
	fake_die(c.f);
	uint64_t t = clock_now();
	cr_assert_eq(ckpt_join(c.s[0], NULL, 0, NULL, 50), -ENOTCONN);
	cr_assert_lt(clock_now() - t, 20 * CLOCK_NS_PER_S);
	cr_assert(strstr(ckpt_error(c.s[0]), fake_socket(c.f)), "%s", ckpt_error(c.s[0]));
	ckpt_close(c.s[0]);
	c.s[0] = NULL;
	fake_live(c.f);
	ranks_down(&c);
}

Test(service, a_process_without_descriptors_says_so_and_not_that_the_daemon_is_away)
{
	struct ranks c;
	ckpt_snapshot *snap;
	struct rlimit usual;
	ranks_up(&c, 1, NULL);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &usual), 0);
	struct rlimit none = {.rlim_cur = 3, .rlim_max = usual.rlim_max};
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	fake_die(c.f);
	bool said = false;
	for (uint64_t deadline = clock_deadline(60 * CLOCK_NS_PER_S); !said && clock_now() < deadline;
	     poll(NULL, 0, 10)) {
		if (ckpt_begin(c.s[0], 1, CKPT_MEMORY, NULL, &snap) != -ENOTCONN)
			ckpt_snapshot_free(snap); /* it had not noticed yet */
		said = strstr(ckpt_error(c.s[0]), "no file descriptor left") != NULL;
	}
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &usual), 0);
	cr_assert(said, "%s", ckpt_error(c.s[0]));
	cr_assert_not(strstr(ckpt_error(c.s[0]), "cannot be reached"));
	fake_live(c.f);
	ranks_down(&c);
}
