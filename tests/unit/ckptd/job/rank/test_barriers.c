/* Arenas that come back: job/rank/barriers.c. */
#include "ckptd/job_of.h"
#include "job/rank/barriers.h"

#include "base/log.h"
#include "ckptd/job_maker.h"
#include "daemon.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

static const struct step_id in_slot = {20, 1}, given_back = {10, 1};

static struct daemon here;
static struct job job;
static struct maker made;

static void setup(void)
{
	log_set_level(LOG_ERROR);
	daemon_init(&here);
	here.runtime.config.memory_limit = UINT64_MAX;
	list_init(&here.jobs.list);
	list_init(&here.control.hosts);
	outbox_init(&here.control.outbox);
	job = (struct job){JOB_OF(here), .name = "main", .world = MAKER_WORLD, .nlocal = MAKER_WORLD};
	job.ranks = calloc(job.nlocal, sizeof(*job.ranks));
	cr_assert(job.ranks);
	for (uint32_t r = 0; r < job.nlocal; r++)
		job.ranks[r] = (struct rank){.job = &job, .id = r, .index = r};
	maker_new(&made, in_slot);
	memory_set_epoch(made.mem[1], 1);
	memory_publish(made.mem[1], &(struct level){.id = given_back, .level = LEVEL_CAPTURED});
}

static void teardown(void)
{
	maker_free(&made);
	free(job.ranks);
}

TestSuite(member, .init = setup, .fini = teardown);

static void expect_refused(const char *why)
{
	struct err err = {{0}};
	const struct arena_head *head = made.mem[1]->head;
	cr_expect_eq(atomic_load(&head->status[0].late_phase), 0u);
	cr_expect_lt(job_return(&job, 1, fcntl(made.mem[1]->fd, F_DUPFD_CLOEXEC, 0), &err), 0);
	cr_expect(strstr(err.text, why), "%s", err.text);
	cr_expect_eq(atomic_load(&head->epoch), ARENA_EPOCH_OVER, "saves that are begun there are not refused");
	cr_expect_eq(atomic_load(&head->status[0].late_phase), LATE_GONE, "who waits there waits in vain");
	cr_expect_null(job.ranks[1].mem);
	cr_expect_eq(here.runtime.memory.arenas, 0u);
}

Test(member, an_arena_of_another_world_is_let_go_for_good)
{
	job.world = 4;
	expect_refused("of rank 1 of 2");
}

Test(member, so_is_one_for_which_there_is_no_room)
{
	here.runtime.config.memory_limit = 1;
	expect_refused("memory");
}

Test(member, and_that_of_a_rank_that_is_elsewhere)
{
	job.ranks[1].id = 5;
	job.world = 6;
	expect_refused("rank 1 is none of the 2 here");
}

Test(member, nobody_who_has_finished_is_called_back_while_a_process_of_one_is_left)
{
	struct rank ranks[] = {{.state = RANK_CONNECTED, .pid = 100, .registering = {.seq = 7, .deadline = UINT64_MAX}},
			       {.state = RANK_LEFT},
			       {.state = RANK_LEFT, .launched = 102}};
	struct job three = {JOB_OF(here), .name = "three", .world = 3, .nlocal = 3, .ranks = ranks};
	for (uint32_t r = 0; r < three.nlocal; r++) {
		ranks[r].job = &three;
		ranks[r].id = ranks[r].index = r;
	}
	member_expire(&three, 1);
	cr_expect_eq(ranks[1].state, RANK_LEFT);
	cr_expect_eq(ranks[2].state, RANK_LEFT, "the launcher would kill it");
	ranks[2].launched = 0;
	member_expire(&three, 2);
	cr_expect_eq(ranks[0].state, RANK_CONNECTED);
	cr_expect_eq(ranks[1].state, RANK_ABSENT);
	cr_expect_eq(ranks[2].state, RANK_ABSENT);
}
