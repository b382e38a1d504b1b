/* Which rank a process is that says HELLO by a plan which is over. */
#include "ckptd/job_of.h"
#include "job/resize.h"

#include "fakes.h"

#include <criterion/criterion.h>

enum { PID = 4711 };

static struct daemon daemon;
static struct job job;
static struct rank rank;

/* The one process here is rank 4 of 6, as its launcher has said. It has not said so itself. */
static void setup(void)
{
	fakes_reset();
	daemon_init(&daemon);
	job = (struct job){JOB_OF(daemon), .name = "gpt", .world = 6, .nlocal = 1, .ranks = &rank};
	rank = (struct rank){.job = &job, .id = 4, .pid = PID, .pidfd = -1, .doorbell = -1};
	fake_saves.job = &job;
}

TestSuite(resize_place, .init = setup);

static struct wire_hello says(uint32_t id, uint32_t world, uint32_t local_world, int pid)
{
	struct wire_hello hello = {
		.role = ROLE_RANK, .rank = id, .world = world, .local_world = local_world, .job = "gpt"};
	resize_place(&daemon.jobs, &hello, pid);
	return hello;
}

static bool is_placed(const struct wire_hello *hello)
{
	return hello->rank == 4 && hello->world == 6 && hello->local_world == 1;
}

Test(resize_place, who_is_another_rank_by_now_hears_which)
{
	struct wire_hello hello = says(5, 8, 2, PID);
	cr_expect(is_placed(&hello) && rank.moved);
}

/* Its neighbour has gone to another node between its start and its first word. */
Test(resize_place, who_is_the_same_rank_beside_fewer_others_is_let_in_as_it_is)
{
	struct wire_hello hello = says(4, 6, 2, PID);
	cr_expect(is_placed(&hello) && !rank.moved);
}

Test(resize_place, another_process_is_who_it_says)
{
	struct wire_hello hello = says(5, 6, 2, PID + 1);
	cr_expect(hello.rank == 5 && hello.local_world == 2 && !rank.moved);
}

Test(resize_place, who_has_said_who_it_is_before_is_who_it_says)
{
	rank.hello_received = true;
	struct wire_hello hello = says(5, 6, 2, PID);
	cr_expect(hello.rank == 5 && hello.local_world == 2 && !rank.moved);
}
