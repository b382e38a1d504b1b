#include "job/apart.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "cluster/room.h"
#include "job/job.h"
#include "participant/room.h"
#include "replication/room.h"
#include "runtime/room.h"

uint64_t apart_until(uint64_t since_ns, uint64_t peer_timeout_ns, uint64_t now)
{
	return now + peer_timeout_ns / 2 + min_u64(now - min_u64(since_ns, now), peer_timeout_ns);
}

static bool is_apart(const struct job *job)
{
	const struct net *net = job->peers->net;
	return job->spread && net && (net_silent(net) || !coordinator_in_reach(job->control, job->name));
}

void apart_tick(struct job *job, uint64_t now)
{
	if (!is_apart(job)) {
		job->apart_since_ns = 0;
		return;
	}
	if (!job->apart_since_ns)
		log_debug("job %s: a node is silent: no heartbeat is expected", job->name);
	job->apart_since_ns = job->apart_since_ns ? job->apart_since_ns : now;
	uint64_t until = apart_until(job->apart_since_ns, job->runtime->config.peer_timeout_ms * CLOCK_NS_PER_MS, now);
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (job->ranks[r].mem)
			atomic_store(&job->ranks[r].mem->head->apart_ns, until);
}
