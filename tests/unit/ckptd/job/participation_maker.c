#include "ckptd/job/participation_maker.h"

#include "base/log.h"
#include "ckptd/job_of.h"
#include "cluster/roster.h"
#include "config/sources.h"
#include "control/host/coordinator_host.h"
#include "control/host/outbox.h"
#include "job/participation.h"
#include "job/restoring.h"
#include "job/saving.h"
#include "runtime/workers.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

struct daemon here;
struct job job;

void participation_maker_setup(void)
{
	static const char text[] = "n0 127.0.0.1:7000\nn1 127.0.0.1:7001\n";
	struct err err = {{0}};
	log_set_level(LOG_ERROR);
	daemon_init(&here);
	list_init(&here.jobs.list);
	list_init(&here.control.hosts);
	outbox_init(&here.control.outbox);
	cr_assert_eq(roster_parse("nodes", text, strlen(text), &here.peers.roster, &err), 0, "%s", err.text);
	cr_assert_eq(pool_new(1, &here.runtime.pool, &err), 0, "%s", err.text);
	cr_assert_eq(sources_new(&here.runtime.sources, &err), 0, "%s", err.text);
	job = (struct job){JOB_OF(here), .name = "main", .world = 4, .nlocal = 2, .spread = true};
	job.ranks = calloc(job.nlocal, sizeof(*job.ranks));
	cr_assert(job.ranks);
	job_init_saves(&job);
	copying_init(&job);
	job_init_restore(&job);
	list_push(&here.jobs.list, &job.link);
}

void participation_maker_teardown(void)
{
	pool_free(here.runtime.pool);
	hosts_free(&here.control);
	sources_free(here.runtime.sources);
	roster_free(here.peers.roster);
	free(job.ranks);
}

void other(enum peer_type type)
{
	struct peer_report r = {.type = type, .job = "main"};
	if (type == PEER_NODE_JOIN)
		r.node_join = (struct peer_node_join){.world = 6, .nranks = 6};
	reports(1, &r);
}

void reports(uint32_t node, const struct peer_report *report)
{
	host_report(&here.control, node, true, report);
	outbox_deliver(&here.control);
}

void take_part(void)
{
	participation_join(&job);
	outbox_deliver(&here.control);
}

void wait_for_epoch(void)
{
	struct pollfd fd = {.fd = pool_event_fd(here.runtime.pool), .events = POLLIN};
	while (!job.epoch) {
		cr_assert_eq(poll(&fd, 1, 10000), 1, "nothing is recorded");
		pool_poll(here.runtime.pool);
		outbox_deliver(&here.control);
	}
}
