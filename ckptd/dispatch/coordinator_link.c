#include "dispatch/coordinator_link.h"

#include "base/log.h"
#include "clients/room.h"
#include "cluster/room.h"
#include "control/room.h"
#include "daemon.h"
#include "job/room.h"
#include "participant/room.h"

void coordinator_link_up(struct daemon *daemon)
{
	list_for(node, &daemon->jobs) {
		struct job *job = list_entry(node, struct job, link);
		if (!job->spread)
			continue;
		resize_apart(job, true);
		resize_say(job);
		halt_together(job);
		if (job->nlocal)
			participant_join(job);
	}
}

void coordinator_link_down(struct daemon *daemon)
{
	spills_abandon(daemon);
	forward_down(daemon);
	list_for(node, &daemon->jobs) {
		struct job *job = list_entry(node, struct job, link);
		if (!job->spread)
			continue;
		halt_apart(job);
		finish_apart(job);
		job_pause(job, UINT64_MAX); /* nobody is there who could begin the next epoch */
		log_warn("job %s: node %s, which coordinates it, cannot be reached: no save is completed until "
			 "it is back",
			 job->name, daemon->roster->nodes[FIRST_NODE].name);
	}
}
