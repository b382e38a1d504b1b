#include "base/clock.h"
#include "format/arena/losses.h"
#include "libckpt/ranks.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int open_at(const char *socket, int timeout_ms, ckpt **s, char why[256])
{
	ckpt_options o = {.size = sizeof(o), .job = "j", .socket = socket, .world = 1, .timeout_ms = timeout_ms};
	return ckpt_open(&o, s, why, 256);
}

Test(session, open_tells_the_daemon_who_we_are)
{
	struct ranks c;
	ckpt_options o = {.size = sizeof(o), .slots = 5};
	ranks_open(&c, 2, &o);
	struct wire_hello h = fake_hello(c.f, 1);
	cr_assert_eq(h.role, ROLE_RANK);
	cr_assert_str_eq(h.job, "ranks");
	cr_assert_eq(h.rank, 1);
	cr_assert_eq(h.world, 2);
	cr_assert_eq(h.local_world, 2);
	cr_assert_eq(h.slots, 5);
	cr_assert_eq(h.epoch, 0);
	cr_assert_str_eq(h.version, ckpt_version());
	cr_assert_eq(ckpt_rank(c.s[1]), 1);
	cr_assert_eq(ckpt_world(c.s[1]), 2);
	cr_assert_eq(ckpt_epoch(c.s[1]), 0);
	cr_assert_str_eq(ckpt_error(c.s[1]), "");
	ranks_down(&c);
}

Test(session, no_daemon_is_said_after_the_deadline)
{
	ckpt *s = (ckpt *)1;
	char why[256];
	uint64_t t = clock_now();
	cr_assert_eq(open_at("/tmp/ckpt-nobody-here.sock", 60, &s, why), -ENOTCONN);
	cr_assert_lt(clock_now() - t, 20 * CLOCK_NS_PER_S);
	cr_assert_null(s);
	cr_assert(strstr(why, "/tmp/ckpt-nobody-here.sock") && strstr(why, "ckptd"), "%s", why);
}

static void *live_soon(void *arg)
{
	fake_live(arg);
	return NULL;
}

Test(session, a_daemon_that_is_starting_is_waited_for)
{
	struct fake *f = fake_start(1);
	pthread_t thread;
	ckpt *s;
	char why[256];
	fake_die(f);
	cr_assert_eq(pthread_create(&thread, NULL, live_soon, f), 0);
	cr_assert_eq(open_at(fake_socket(f), 10000, &s, why), 0, "%s", why);
	pthread_join(thread, NULL);
	ckpt_close(s);
	fake_stop(f);
}

Test(session, a_silent_daemon_costs_the_deadline)
{
	struct fake *f = fake_start(1);
	ckpt *s;
	char why[256];
	fake_manners(f, &(struct fake_manners){.silent = true});
	cr_assert_eq(open_at(fake_socket(f), 60, &s, why), -ENOTCONN);
	cr_assert(strstr(why, "does not answer"), "%s", why);
	fake_stop(f);
}

Test(session, another_protocol_names_both_sides)
{
	struct fake *f = fake_start(1);
	ckpt *s;
	char why[256];
	fake_manners(f, &(struct fake_manners){.protocol = 9});
	cr_assert_eq(open_at(fake_socket(f), 5000, &s, why), -EPROTONOSUPPORT);
	cr_assert(strstr(why, "protocol 9") && strstr(why, "speaks 2"), "%s", why);
	fake_manners(f,
		     &(struct fake_manners){.hello = {.rc = -EPROTONOSUPPORT, .text = "you speak 1, I speak 2 to 3"}});
	cr_assert_eq(open_at(fake_socket(f), 5000, &s, why), -EPROTONOSUPPORT);
	cr_assert(strstr(why, "2 to 3"), "%s", why);
	fake_stop(f);
}

Test(session, a_rank_that_is_held_by_a_living_process_is_busy)
{
	struct fake *f = fake_start(1);
	ckpt *s;
	char why[256];
	fake_manners(f, &(struct fake_manners){.hello = {.rc = -EBUSY, .text = "rank 0 is held by process 77"}});
	cr_assert_eq(open_at(fake_socket(f), 300, &s, why), -EBUSY);
	cr_assert(strstr(why, "process 77"), "%s", why);
	fake_stop(f);
}

Test(session, a_predecessor_in_its_last_moments_is_waited_for)
{
	struct fake *f = fake_start(1);
	ckpt *s;
	char why[256];
	fake_manners(f, &(struct fake_manners){.hello = {.rc = -EAGAIN, .text = "dying"}, .hello_times = 3});
	cr_assert_eq(open_at(fake_socket(f), 5000, &s, why), 0, "%s", why);
	ckpt_close(s);
	fake_stop(f);
}

struct brief {
	const char *socket;
	int rc;
	char why[256];
};

static void *open_briefly(void *arg)
{
	struct brief *brief = arg;
	ckpt *s;
	brief->rc = open_at(brief->socket, 1500, &s, brief->why);
	return NULL;
}

Test(session, who_was_refused_until_the_time_was_over_hears_why)
{
	struct fake *f = fake_start(1);
	struct brief brief = {.socket = fake_socket(f)};
	pthread_t thread;
	fake_manners(f, &(struct fake_manners){.hello = {.rc = -EAGAIN, .text = "dying"}});
	cr_assert_eq(pthread_create(&thread, NULL, open_briefly, &brief), 0);
	fake_await(f, WIRE_HELLO, 2);
	fake_manners(f, &(struct fake_manners){.silent = true}); /* as one that is too busy at the end */
	pthread_join(thread, NULL);
	cr_assert_eq(brief.rc, -EBUSY, "%d: %s", brief.rc, brief.why);
	cr_assert(strstr(brief.why, "dying"), "%s", brief.why);
	fake_stop(f);
}

static void *open_patiently(void *arg)
{
	ckpt *s;
	char why[256];
	int rc = open_at(arg, 20000, &s, why);
	if (!rc)
		ckpt_close(s);
	else
		fprintf(stderr, "open: %s\n", why);
	return (void *)(intptr_t)rc;
}

Test(session, a_dying_predecessor_is_waited_for_until_the_deadline_and_its_name_for_two_seconds_more)
{
	struct fake *f = fake_start(1);
	pthread_t thread;
	void *rc;
	uint64_t t = clock_now();
	fake_manners(f, &(struct fake_manners){.hello = {.rc = -EAGAIN, .text = "dying"}});
	cr_assert_eq(pthread_create(&thread, NULL, open_patiently, (void *)fake_socket(f)), 0);
	for (unsigned n = 1; clock_now() - t < 2100 * CLOCK_NS_PER_MS; n++)
		fake_await(f, WIRE_HELLO, n);
	fake_manners(f,
		     &(struct fake_manners){.hello = {.rc = -EBUSY, .text = "held by process 77"}, .hello_times = 3});
	pthread_join(thread, &rc);
	cr_assert_eq((intptr_t)rc, 0);
	fake_stop(f);
}

Test(session, a_holder_that_lives_is_given_two_seconds)
{
	struct fake *f = fake_start(1);
	ckpt *s;
	char why[256];
	uint64_t t = clock_now();
	fake_manners(f, &(struct fake_manners){.hello = {.rc = -EBUSY, .text = "rank 0 is held by process 77"}});
	cr_assert_eq(open_at(fake_socket(f), 60000, &s, why), -EBUSY);
	cr_assert_geq(clock_now() - t, 2 * CLOCK_NS_PER_S);
	cr_assert_lt(clock_now() - t, 30 * CLOCK_NS_PER_S);
	cr_assert(strstr(why, "process 77"), "%s", why);
	fake_stop(f);
}

Test(session, a_dying_predecessor_that_never_ends_is_busy_at_the_deadline)
{
	struct fake *f = fake_start(1);
	ckpt *s;
	char why[256];
	fake_manners(f, &(struct fake_manners){.hello = {.rc = -EAGAIN, .text = "process 77 is dying"}});
	cr_assert_eq(open_at(fake_socket(f), 300, &s, why), -EBUSY);
	cr_assert(strstr(why, "process 77"), "%s", why);
	fake_stop(f);
}

Test(session, whether_there_is_storage_can_be_asked)
{
	struct ranks c;
	ckpt_snapshot *snap;
	ranks_up(&c, 1, NULL);
	cr_assert_eq(ckpt_has_storage(c.s[0]), 1);
	fake_die(c.f);
	cr_assert_eq(ckpt_has_storage(c.s[0]), 1, "what it said holds while it is away");
	fake_manners(c.f, &(struct fake_manners){.no_storage = true});
	fake_live(c.f);
	fake_await(c.f, WIRE_REGISTER, 2);
	cr_assert_eq(ckpt_has_storage(c.s[0]), 0);
	ranks_join(&c);
	cr_assert_eq(ckpt_begin(c.s[0], 1, CKPT_STORAGE, NULL, &snap), -EINVAL);
	cr_assert(strstr(ckpt_error(c.s[0]), "has no store"), "%s", ckpt_error(c.s[0]));
	ranks_save(&c, 1, CKPT_MEMORY);
	ranks_down(&c);
}

Test(session, no_snapshot_is_refused)
{
	cr_assert_eq(ckpt_fence(NULL, NULL), -EINVAL);
	cr_assert_eq(ckpt_poll(NULL), -EINVAL);
	cr_assert_eq(ckpt_wait(NULL, CKPT_CAPTURED, 0), -EINVAL);
	ckpt_snapshot_free(NULL);
}

Test(session, close_says_goodbye)
{
	struct ranks c;
	ranks_up(&c, 1, NULL);
	cr_assert_eq(ckpt_close(c.s[0]), 0);
	cr_assert_eq(fake_count(c.f, WIRE_BYE), 1);
	cr_assert_eq(fake_count(c.f, WIRE_HELLO), 1, "and does not come back");
	c.s[0] = NULL;
	ranks_down(&c);
	cr_assert_eq(ckpt_close(NULL), 0);
}

static void *fail_elsewhere(void *arg)
{
	ckpt_register_blob(arg, NULL, CKPT_SCOPE_JOB, NULL, 0);
	return (void *)(intptr_t)(strstr(ckpt_error(arg), "blob") != NULL);
}

Test(session, errors_belong_to_thread_and_session)
{
	struct ranks c;
	pthread_t thread;
	void *said;
	ckpt_snapshot *snap;
	ranks_open(&c, 2, NULL);
	cr_assert_eq(ckpt_begin(c.s[0], 1, (ckpt_target)9, NULL, &snap), -EINVAL);
	cr_assert(strstr(ckpt_error(c.s[0]), "target 9"));
	cr_assert_str_eq(ckpt_error(c.s[1]), "");
	cr_assert_eq(pthread_create(&thread, NULL, fail_elsewhere, c.s[0]), 0);
	pthread_join(thread, &said);
	cr_assert(said);
	cr_assert(strstr(ckpt_error(c.s[0]), "target 9"), "another thread's failure is its own");
	ranks_down(&c);
}

/* Every call in a child; the number of the first that does not answer as it must. */
static int calls_of_a_child(ckpt *s, ckpt_snapshot *snap)
{
	ckpt_snapshot *none;
	ckpt_tensor t = {.size = sizeof(t)};
	ckpt_beat(s, 1, CKPT_PHASE_DATA);
	ckpt_beat_loss(s, 1, CKPT_PHASE_DATA, 2.5, 1);
	ckpt_collective_enter(s, "x", 1, 1);
	ckpt_collective_leave(s);
	ckpt_snapshot_free(snap);
	if (ckpt_should_stop(s))
		return 1;
	if (ckpt_begin(s, 2, CKPT_MEMORY, NULL, &none) != -ECHILD)
		return 2;
	if (ckpt_fence(snap, NULL) != -ECHILD || ckpt_poll(snap) != -ECHILD ||
	    ckpt_wait(snap, CKPT_CAPTURED, 0) != -ECHILD)
		return 3;
	if (ckpt_restore(s, 1, NULL, NULL, 0) != -ECHILD || ckpt_join(s, NULL, 0, NULL, 0) != -ECHILD)
		return 4;
	if (ckpt_has_storage(s) != -ECHILD || ckpt_epoch_fd(s) != -ECHILD || ckpt_register_tensor(s, &t) != -ECHILD ||
	    ckpt_register_blob(s, "b", CKPT_SCOPE_JOB, &t, 1) != -ECHILD)
		return 5;
	if (!strstr(ckpt_error(s), "parent"))
		return 6;
	if (ckpt_mark(s, 1, 0, CKPT_HEALTHY, NULL, 0) != -ECHILD || ckpt_rebind(s, "w", 0, &t) != -ECHILD ||
	    ckpt_set_blob(s, "b", NULL, 0) != -ECHILD || ckpt_get_blob(s, "b", NULL, 0) != -ECHILD ||
	    ckpt_wait_slot(s, 0) != -ECHILD || ckpt_fence_group(snap, "params", NULL) != -ECHILD)
		return 7;
	if (ckpt_rank(s) != 0 || ckpt_world(s) != 1 || ckpt_epoch(s) != 1 || ckpt_snapshot_step(snap) != 1)
		return 8;
	return ckpt_close(s) == -ECHILD ? 0 : 9;
}

/* Whether the child has a mapping of an arena. */
static bool maps_an_arena(void)
{
	char line[512];
	bool found = false;
	FILE *maps = fopen("/proc/self/maps", "r");
	while (maps && fgets(line, sizeof(line), maps))
		found |= strstr(line, "fake-arena") != NULL;
	if (maps)
		fclose(maps);
	return found;
}

Test(session, a_child_has_neither_session_nor_arena)
{
	struct ranks c;
	ckpt_snapshot *snap;
	ranks_up(&c, 1, NULL);
	cr_assert_eq(ckpt_begin(c.s[0], 1, CKPT_MEMORY, NULL, &snap), 0);
	cr_assert(maps_an_arena());
	pid_t pid = fork();
	if (!pid)
		_exit(maps_an_arena() ? 100 : calls_of_a_child(c.s[0], snap));
	int status;
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child's step %d failed", WEXITSTATUS(status));
	cr_assert_eq(fake_head(c.f, 0)->flight.beat_ns, 0, "the child's beat did not arrive");
	cr_assert_eq(fake_head(c.f, 0)->losses.count, 0);
	cr_assert_eq(ckpt_fence(snap, NULL), 0, "the parent goes on: %s", ckpt_error(c.s[0]));
	ckpt_snapshot_free(snap);
	ranks_down(&c);
}

/* As if it had died in the collective, or left the epoch out of it. */
Test(session, who_joins_is_in_no_collective)
{
	struct ranks c;
	ranks_open(&c, 1, NULL);
	ranks_register(&c);
	ranks_join(&c);
	ckpt_collective_enter(c.s[0], "barrier", 7, 0);
	fake_epoch(c.f, 2, "rank 1 was replaced");
	ranks_join(&c);
	cr_assert_eq(fake_head(c.f, 0)->flight.in_collective, 0);
	ranks_down(&c);
}

Test(session, a_loss_is_handed_over_with_a_heartbeat)
{
	struct ranks c;
	struct loss_said said;
	uint64_t next = 0;
	ranks_open(&c, 1, NULL);
	ckpt_beat_loss(c.s[0], 1, CKPT_PHASE_OPTIMIZER, 2.5, 1);
	ranks_register(&c);
	ranks_join(&c);
	struct arena_head *head = fake_head(c.f, 0);
	ckpt_beat_loss(c.s[0], 42, CKPT_PHASE_OPTIMIZER, 1.25, 0.5);
	cr_assert_eq(head->flight.step, 42);
	cr_assert_eq(head->flight.phase, CKPT_PHASE_OPTIMIZER);
	cr_assert_neq(head->flight.beat_ns, 0);
	ckpt_beat(c.s[0], 43, CKPT_PHASE_FORWARD);
	cr_assert(losses_next(&head->losses, &next, &said));
	cr_assert(said.step == 42 && said.epoch == 1 && said.loss == 1.25 && said.gradient_norm == 0.5);
	cr_assert_not(losses_next(&head->losses, &next, &said), "before the join, and with other heartbeats, none is");
	ranks_down(&c);
}

Test(session, the_flight_record_is_written)
{
	struct ranks c;
	ranks_open(&c, 1, NULL);
	ckpt_beat(c.s[0], 1, CKPT_PHASE_FORWARD);
	cr_assert_eq(ckpt_should_stop(c.s[0]), 0, "before the join there is nobody to ask");
	ranks_register(&c);
	ranks_join(&c);
	uint64_t before = clock_now();
	struct arena_head *head = fake_head(c.f, 0);
	ckpt_beat(c.s[0], 42, CKPT_PHASE_BACKWARD);
	cr_assert_geq(head->flight.beat_ns, before);
	cr_assert_eq(head->flight.step, 42);
	cr_assert_eq(head->flight.phase, CKPT_PHASE_BACKWARD);
	ckpt_collective_enter_typed(c.s[0], "reduce_scatter_and_more", CKPT_BF16, 7, 4096);
	cr_assert_eq(head->typed, arena_typed(7, CKPT_BF16));
	cr_assert_eq(head->flight.in_collective, 1);
	cr_assert_eq(head->flight.coll_seq, 7);
	cr_assert_eq(head->flight.coll_bytes, 4096);
	cr_assert_str_eq(head->flight.coll_op, "reduce_scatter_");
	ckpt_collective_leave(c.s[0]);
	cr_assert_eq(head->flight.in_collective, 0);
	cr_assert_eq(head->waited.seq, 2);
	uint64_t ns = head->waited.ns;
	cr_assert(ns > 0 && ns <= clock_now() - before);
	ckpt_collective_leave(c.s[0]);
	cr_assert_eq(head->waited.seq, 2, "it was in none");
	head->waited.seq = 3; /* another process has died while it left one */
	ckpt_collective_enter(c.s[0], "barrier", 8, 0);
	cr_assert_eq(head->typed, arena_typed(8, 0));
	ckpt_collective_leave(c.s[0]);
	cr_assert(head->waited.seq == 4 && head->waited.ns > ns);
	cr_assert_eq(ckpt_should_stop(c.s[0]), 0);
	atomic_store(&head->stop, 1);
	cr_assert_eq(ckpt_should_stop(c.s[0]), 1);
	ranks_down(&c);
}

/* More sessions in a process than ranks of a node are rare, and one thread for all of them rarer. */
Test(session, a_thread_keeps_the_sentences_of_the_sessions_that_failed_last)
{
	struct ranks four, one;
	ranks_open(&four, 4, NULL);
	ranks_open(&one, 1, NULL);
	for (uint32_t r = 0; r < 4; r++)
		cr_assert_eq(ckpt_rebind(four.s[r], "x", 0, NULL), -ENOENT);
	cr_assert_eq(ckpt_rebind(four.s[0], "y", 0, NULL), -ENOENT);
	cr_assert_eq(ckpt_rebind(one.s[0], "z", 0, NULL), -ENOENT);
	cr_assert(strstr(ckpt_error(four.s[0]), "y"), "%s", ckpt_error(four.s[0]));
	cr_assert_str_eq(ckpt_error(four.s[1]), "", "it failed before all others");
	for (uint32_t r = 2; r < 4; r++)
		cr_assert(strstr(ckpt_error(four.s[r]), "x"));
	cr_assert(strstr(ckpt_error(one.s[0]), "z"));
	ranks_down(&four);
	ranks_down(&one);
}
