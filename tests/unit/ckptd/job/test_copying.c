/* What becomes of the copies of a job that ends on this node. */
#include "job/copying.h"

#include "base/log.h"
#include "ckptd/job_of.h"
#include "cluster/roster.h"
#include "daemon.h"
#include "job/job.h"
#include "replication/replication_private.h"
#include "runtime/workers.h"

#include <criterion/criterion.h>
#include <string.h>

enum { EPOCH = 2 };

static struct daemon here;
static struct job job;
static struct replica *replica;

static void setup(void)
{
	static const char text[] = "n0 127.0.0.1:7000\n";
	static const uint64_t no_limit;
	struct err err = {{0}};
	log_set_level(LOG_ERROR);
	daemon_init(&here);
	cr_assert_eq(pool_new(1, &here.runtime.pool, &err), 0, "%s", err.text);
	cr_assert_eq(roster_parse("nodes", text, strlen(text), &here.peers.roster, &err), 0, "%s", err.text);
	here.runtime.config.memory_limit = UINT64_MAX;
	struct replica_config config = {.pool = here.runtime.pool,
					.memory = &here.runtime.memory,
					.memory_limit = &here.runtime.config.memory_limit,
					.roster = here.peers.roster,
					.bandwidth = &no_limit};
	cr_assert_eq(replica_new(&config, &replica), 0);
	here.peers.replica = replica;
	job = (struct job){JOB_OF(here), .name = "main", .world = 2, .nlocal = 2, .epoch = EPOCH, .spread = true};
	copying_epoch(&job);
}

static void teardown(void)
{
	pool_free(here.runtime.pool);
	replica_free(replica);
	roster_free(here.peers.roster);
}

TestSuite(copying, .init = setup, .fini = teardown, .timeout = 60);

/* A copy that another node offers: of the present epoch, or of a later one. */
static int hold(struct step_id id)
{
	struct err err = {{0}};
	struct arrival *arrival = NULL;
	const struct peer_shape shape = {.table = {1, 2}, .table_len = 100, .nleaves = 4, .slot_size = 4096};
	struct wish w = {.world = 2, .id = id, .shape = &shape};
	int rc = make_arrival(copied_find(replica, "main"), &w, &arrival, &err);
	if (!rc)
		arrival->holding->arrival = NULL;
	free(arrival);
	return rc;
}

Test(copying, with_a_job_that_had_all_its_ranks_here_copies_are_forgotten)
{
	copying_end(&job);
	cr_expect_eq(hold((struct step_id){10, EPOCH}), -ESTALE, "it was offered before");
	cr_expect_eq(hold((struct step_id){10, EPOCH + 1}), 0, "another job of that name has begun");
}

Test(copying, with_ranks_of_other_nodes_nothing_is_forgotten)
{
	job.world = 3;
	copying_end(&job);
	cr_expect_eq(hold((struct step_id){10, EPOCH}), 0);
}

/* Its processes are lost before they began, and the next plan gives all ranks to another node. */
Test(copying, ranks_that_a_plan_has_given_may_go_on_elsewhere_in_the_same_epoch)
{
	job.resize.plan = 2;
	copying_end(&job);
	cr_expect_eq(hold((struct step_id){10, EPOCH}), 0);
}
