#include "launcher/launch_held.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct held_all all;

static int make_arena(size_t size, unsigned seals, struct arena_head **head)
{
	int fd = memfd_create("arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	cr_assert_geq(fd, 0);
	cr_assert_eq(ftruncate(fd, (off_t)size), 0);
	if (head) {
		*head = mmap(NULL, sizeof(**head), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		cr_assert_neq(*head, MAP_FAILED);
	}
	cr_assert_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

Test(launch_held, sees_the_flight_record)
{
	struct wire_arena_of m = {.rank = 2, .size = ARENA_HEAD};
	struct arena_head *head;
	struct flight_view view;
	struct err err = {""};
	uint64_t step;
	held_init(&all);
	cr_expect_not(held_look(&all, 2, &view));
	cr_expect_not(held_newest_step(&all, &step));
	cr_expect_not(held_any_joined(&all));
	cr_assert_eq(held_take(&all, &m, make_arena(ARENA_HEAD, F_SEAL_SHRINK, &head), &err), 0, "%s", err.text);
	cr_expect_eq(all.count, 1);
	cr_expect_not(held_look(&all, 2, &view), "an arena without a heartbeat");
	cr_expect_not(held_any_joined(&all), "it waits to join");
	head->flight.step = 41;
	head->flight.beat_ns = 1000;
	cr_assert(held_look(&all, 2, &view));
	cr_expect(held_any_joined(&all), "by a library that does not tell of epochs");
	cr_expect_eq(view.step, 41);
	cr_expect_not(view.in_collective);
	head->flight.in_collective = 1;
	head->flight.coll_seq = 7;
	head->flight.coll_bytes = 4096;
	memcpy(head->flight.coll_op, "all_reduce", sizeof("all_reduce"));
	cr_assert(held_look(&all, 2, &view));
	cr_expect(view.in_collective);
	cr_expect_eq(view.collective, 7);
	cr_expect_eq(view.bytes, 4096);
	cr_expect_str_eq(view.op, "all_reduce");
	cr_expect(held_newest_step(&all, &step));
	cr_expect_eq(step, 41);
	munmap(head, sizeof(*head));
	held_free(&all);
	cr_expect_eq(all.count, 0);
}

Test(launch_held, tells_a_new_process_from_the_one_before)
{
	struct wire_arena_of m = {.rank = 0, .size = ARENA_HEAD};
	struct arena_head *head;
	struct err err = {""};
	held_init(&all);
	cr_expect_not(held_at_work(&all, 0, 0));
	cr_assert_eq(held_take(&all, &m, make_arena(ARENA_HEAD, F_SEAL_SHRINK, &head), &err), 0);
	head->flight.beat_ns = 1000;
	head->slots[1].begin_ns = 900;
	cr_expect(held_at_work(&all, 0, 999));
	cr_expect_not(held_at_work(&all, 0, 1000));
	head->slots[1].begin_ns = 1100;
	cr_expect(held_at_work(&all, 0, 1000));
	munmap(head, sizeof(*head));
	held_free(&all);
}

Test(launch_held, tells_which_epochs_ranks_have_entered)
{
	struct err err = {""};
	struct arena_head *heads[2];
	held_init(&all);
	cr_expect_eq(held_newest_entered(&all), 0);
	for (uint32_t r = 0; r < 2; r++) {
		struct wire_arena_of m = {.rank = 3 + r, .size = ARENA_HEAD};
		cr_assert_eq(held_take(&all, &m, make_arena(ARENA_HEAD, F_SEAL_SHRINK, &heads[r]), &err), 0);
		cr_expect_eq(held_any_joined(&all), r != 0);
		heads[r]->entry.joined = 8 - r;
	}
	cr_expect_eq(held_entered(&all, 3), 8);
	cr_expect_eq(held_entered(&all, 4), 7);
	cr_expect_eq(held_entered(&all, 5), 0);
	cr_expect_eq(held_newest_entered(&all), 8);
	for (uint32_t r = 0; r < 2; r++)
		munmap(heads[r], sizeof(*heads[r]));
	held_free(&all);
}

Test(launch_held, knows_an_epoch_that_it_was_not_told)
{
	struct wire_arena_of m = {.rank = 0, .size = ARENA_HEAD};
	struct arena_head *head;
	struct err err = {""};
	held_init(&all);
	cr_expect_eq(held_epoch_known(&all, 7), 0, "nobody has joined yet");
	cr_assert_eq(held_take(&all, &m, make_arena(ARENA_HEAD, F_SEAL_SHRINK, &head), &err), 0);
	cr_expect_eq(held_epoch_known(&all, 7), 7);
	head->entry.joined = 6;
	cr_expect_eq(held_epoch_known(&all, 7), 7);
	head->entry.joined = 8;
	cr_expect_eq(held_epoch_known(&all, 7), 8, "its daemon was lost before it told that");
	cr_expect_eq(held_epoch_known(&all, 0), 8);
	cr_assert_eq(held_take(&all, &m, dup(all.list[0].fd), &err), 0);
	cr_expect_eq(held_epoch_known(&all, 0), 8, "a daemon that was started again has handed out the same");
	held_free(&all);
	held_init(&all);
	munmap(head, sizeof(*head));
}

Test(launch_held, takes_what_others_have_entered_for_theirs)
{
	struct wire_arena_of m = {.rank = 0, .size = ARENA_HEAD};
	struct arena_head *head;
	struct err err = {""};
	int fd = make_arena(ARENA_HEAD, F_SEAL_SHRINK, &head);
	held_init(&all);
	head->entry.joined = 8;
	cr_assert_eq(held_take(&all, &m, fd, &err), 0);
	cr_expect_eq(held_epoch_known(&all, 0), 0, "a launcher that has ended held it then");
	head->entry.joined = 9;
	cr_expect_eq(held_epoch_known(&all, 0), 9);
	munmap(head, sizeof(*head));
	held_free(&all);
}

Test(launch_held, replaces_an_arena)
{
	struct wire_arena_of m = {.rank = 1, .size = ARENA_HEAD};
	struct err err = {""};
	held_init(&all);
	cr_assert_eq(held_take(&all, &m, make_arena(ARENA_HEAD, F_SEAL_SHRINK, NULL), &err), 0);
	int first = all.list[0].fd;
	m.size = 2 * ARENA_HEAD;
	cr_assert_eq(held_take(&all, &m, make_arena(2 * ARENA_HEAD, F_SEAL_SHRINK, NULL), &err), 0);
	cr_expect_eq(all.count, 1);
	cr_expect_eq(all.list[0].size, 2 * ARENA_HEAD);
	cr_expect_eq(fcntl(first, F_GETFD), -1);
	held_free(&all);
}

Test(launch_held, refuses_what_is_no_arena)
{
	struct wire_arena_of m = {.rank = 0, .size = ARENA_HEAD};
	struct err err = {""};
	int fds[2];
	held_init(&all);
	cr_expect_eq(held_take(&all, &m, make_arena(ARENA_HEAD, 0, NULL), &err), -EBADMSG, "not sealed");
	cr_expect_eq(held_take(&all, &m, make_arena(2 * ARENA_HEAD, F_SEAL_SHRINK, NULL), &err), -EBADMSG, "size");
	m.size = 100;
	cr_expect_eq(held_take(&all, &m, make_arena(100, F_SEAL_SHRINK, NULL), &err), -EBADMSG, "too small");
	cr_assert_eq(pipe(fds), 0);
	cr_expect_eq(held_take(&all, &m, fds[0], &err), -EBADMSG, "a pipe");
	close(fds[1]);
	cr_expect_eq(all.count, 0);
	for (m.rank = 1000, m.size = ARENA_HEAD; m.rank < 1000 + WIRE_LOCAL_MAX; m.rank++)
		cr_assert_eq(held_take(&all, &m, make_arena(ARENA_HEAD, F_SEAL_SHRINK, NULL), &err), 0);
	cr_expect_eq(held_take(&all, &m, make_arena(ARENA_HEAD, F_SEAL_SHRINK, NULL), &err), -EBADMSG, "too many");
	cr_expect_eq(all.count, WIRE_LOCAL_MAX);
	held_free(&all);
}
