/* Jobs that are coordinated here, and whose nodes are lost: control/host/coordinator_host.c, with a store. */
#include "control/host/coordinator_host.h"

#include "ckptd/job/participation_maker.h"
#include "control/control.h"
#include "control/membership/membership_private.h"
#include "control/record/epoch_record.h"
#include "runtime/loop.h"
#include "scratch.h"
#include "store/read/repo.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>

enum { JOBS = 256 };

static char store[SCRATCH_MAX];

static void setup(void)
{
	participation_maker_setup();
	struct err err = {{0}};
	scratch_new(store);
	cr_assert_eq(repo_create(store, &err), 0, "%s", err.text);
	here.runtime.config.store = store;
	cr_assert_eq(loop_new(&here.runtime.loop, &err), 0, "%s", err.text);
}

static void teardown(void)
{
	participation_maker_teardown();
	loop_free(here.runtime.loop);
	scratch_remove(store);
}

TestSuite(coordinator_host, .init = setup, .fini = teardown);

/* All that is on its way is on record. */
static void settle(void)
{
	struct pollfd fd = {.fd = pool_event_fd(here.runtime.pool), .events = POLLIN};
	while (here.control.records) {
		cr_assert_eq(poll(&fd, 1, 10000), 1, "nothing is recorded");
		pool_poll(here.runtime.pool);
	}
}

/* The other node has part in a job of this number. */
static bool takes_part(unsigned number)
{
	struct peer_report r = {.type = PEER_NODE_JOIN, .node_join = {.world = 4, .nranks = 2}};
	snprintf(r.job, sizeof(r.job), "job-%u", number);
	reports(1, &r);
	settle();
	return host_view(&here.control, r.job).attending;
}

Test(coordinator_host, jobs_whose_nodes_were_lost_do_not_keep_others_out)
{
	for (unsigned i = 0; i < JOBS; i++) {
		cr_assert(takes_part(i), "job %u", i);
		hosts_node_down(&here.control, 1, -ETIMEDOUT, "it is lost");
	}
	cr_expect(host_has(&here.control, "job-0"), "its nodes may come back");
	cr_expect(takes_part(JOBS));
	cr_expect_not(host_has(&here.control, "job-0"));
	cr_expect(takes_part(0), "it comes back all the same");
	cr_expect_eq(host_view(&here.control, "job-0").epoch, 2, "not in an epoch that was given before");
}

/* What a node says of the epochs that it knows of may be wrong, but what is on record can be read. */
Test(coordinator_host, no_epoch_beyond_the_last_is_recorded)
{
	struct peer_report r = {
		.type = PEER_NODE_JOIN, .job = "main", .node_join = {.world = 4, .nranks = 2, .known = EPOCH_MAX}};
	struct begun last;
	struct err err = {{0}};
	reports(1, &r);
	settle();
	cr_expect_gt(host_view(&here.control, "main").epoch, EPOCH_MAX);
	cr_assert_eq(epochs_last(&here.control, "main", &last, &err), 0, "%s", err.text);
	cr_expect_leq(last.id.epoch, EPOCH_MAX);
	begun_free(&last);
}

Test(coordinator_host, jobs_whose_nodes_are_there_stay)
{
	for (unsigned i = 0; i < JOBS; i++)
		cr_assert(takes_part(i), "job %u", i);
	cr_expect_not(takes_part(JOBS));
	cr_expect(host_has(&here.control, "job-0"));
}

/* ---- jobs whose world may change ------------------------------------------------------------------------------- */

/* The other node offers itself to a job of this number, of two ranks, with what it has by this plan. */
static void offers(unsigned number, uint32_t plan)
{
	struct peer_report r = {
		.type = PEER_CAPACITY,
		.assignment = {.want = 2, .least = 2, .processes = 2, .plan = plan, .world = plan ? 2 : 0}};
	snprintf(r.job, sizeof(r.job), "job-%u", number);
	if (plan) {
		r.assignment.n = 2;
		r.assignment.ranks[1] = 1;
	}
	reports(1, &r);
	settle();
	memberships_tick(&here.control);
	settle();
}

static bool is_planned(unsigned number)
{
	char name[NAME_JOB_MAX];
	snprintf(name, sizeof(name), "job-%u", number);
	return host_has(&here.control, name) && membership_plan(&here.control, name);
}

static void lose_all(void)
{
	hosts_node_down(&here.control, 1, -ETIMEDOUT, "it is lost");
	for (struct membership *m = here.control.memberships; m; m = m->next)
		m->wait_ns = 0;
	memberships_tick(&here.control);
}

Test(coordinator_host, planned_jobs_whose_nodes_were_lost_do_not_keep_others_out)
{
	for (unsigned i = 0; i < JOBS - 1; i++) {
		offers(i, 0);
		cr_assert(is_planned(i), "job %u", i);
		lose_all();
	}
	cr_expect(is_planned(0), "its nodes may come back");
	for (unsigned i = JOBS - 1; i < JOBS + 1; i++) {
		offers(i, 0);
		cr_expect(is_planned(i), "job %u", i);
	}
	cr_expect_not(is_planned(0));
	offers(0, 1);
	cr_expect(is_planned(0), "it comes back all the same");
	cr_expect_eq(membership_plan(&here.control, "job-0"), 1, "by the plan that it follows");
}

Test(coordinator_host, a_node_that_offers_itself_to_ever_more_jobs_is_refused)
{
	struct peer_report r = {.type = PEER_CAPACITY, .assignment = {.want = 4, .least = 4, .processes = 2}};
	unsigned n = 0;
	for (unsigned i = 0; i < 4 * JOBS; i++) {
		snprintf(r.job, sizeof(r.job), "job-%u", i);
		reports(1, &r);
	}
	for (const struct membership *m = here.control.memberships; m; m = m->next)
		n++;
	cr_expect_eq(n, 2 * JOBS);
}
