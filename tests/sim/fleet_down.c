/* How daemons and nodes come to their end. */
#include "base/clock.h"
#include "control/host/coordinator_host.h"
#include "dispatch/peer_dispatch.h"
#include "fleet.h"
#include "job/rank/prefault.h"
#include "job/spill.h"
#include "net_sim.h"
#include "registry_sim.h"
#include "runtime/loop.h"
#include "runtime/workers.h"
#include "store/disk/disk.h"
#include "upkeep/gc.h"
#include "upkeep/scrub.h"

#include <string.h>

/* What a daemon does while its parts are taken down is not what one does that is killed: it reaches neither disk nor net, and what it
 * does to arenas that others hold is undone. */
static void tear_down(struct fleet_node *n)
{
	static struct arena_head heads[FLEET_PROCESSES_MAX];
	struct daemon *d = &n->daemon;
	bool killed = !n->ending;
	fleet_each(r) if (r->mem && r->home == n->id) memcpy(&heads[r - fleet.ranks], r->mem->head, sizeof(heads[0]));
	d->runtime.stopping = true;
	spills_abandon(&d->jobs, NULL);
	list_for(it, &d->jobs.list)
		restore_cancel(&list_entry(it, struct job, link)->restore); /* it would go on with the pool */
	pool_free(d->runtime.pool);
	prefaults_free(&d->jobs);
	gc_free(d->storage.gc);
	scrub_free(d->storage.scrub);
	peers_close(&d->dispatch);
	spills_free(&d->jobs);
	list_for(it, &d->jobs.list) { /* of what was being fetched nobody hears any more */
		struct restore *restore = &list_entry(it, struct job, link)->restore;
		restore->fetching = 0;
		restore_cancel(restore);
	}
	list_for_safe(it, &d->jobs.list)
		job_free(list_entry(it, struct job, link));
	hosts_free(&d->control);
	packing_free(&d->storage.packing);
	disk_free(d->storage.disk);
	loop_free(d->runtime.loop);
	sources_free(d->runtime.sources);
	n->up = n->joining = n->ending = false;
	client_free(n->launcher);
	n->launcher = NULL;
	fleet_each(r)
	{
		if (r->home != n->id)
			continue;
		r->rank = NULL;
		if (r->mem && killed)
			memcpy(r->mem->head, &heads[r - fleet.ranks], sizeof(heads[0]));
		if (r->client)
			client_clear(r->client);
	}
}

static void kill_daemon(struct fleet_node *n)
{
	halt_daemon_lost();
	if (n->up || n->ending)
		net_sim_kill(n->number);
	registry_sim_kill(n->id);
	n->ending = false;
	if (n->daemon.storage.disk)
		disk_sim_kill_one(n->daemon.storage.disk);
	tear_down(n);
}

void fleet_count_loss(void)
{
	fleet.loss_ns[fleet.losses++ % (sizeof(fleet.loss_ns) / sizeof(fleet.loss_ns[0]))] = clock_now();
}

void fleet_end_launcher(struct fleet_node *n)
{
	struct job *job = fleet_job(n);
	fleet_trace("node %u: its launcher ends", n->id);
	n->ended = true;
	n->ended_ns = clock_now();
	if (job && n->launcher)
		job_disconnected(job, NULL);
	client_free(n->launcher);
	n->launcher = NULL;
	fleet_each(r) if (r->home == n->id) fleet_drop_arena(r);
	fleet_count_loss();
}

void fleet_kill_daemon(struct fleet_node *n)
{
	fleet_trace("node %u: its daemon is killed", n->id);
	kill_daemon(n);
	if (fleet_finished(n)) /* nobody could let it go any more */
		fleet_end_launcher(n);
	fleet_count_loss();
	fleet.faults++;
	fleet_sum.daemons++;
}

/* Its clients lose their connections at once. */
static void hang_up_all(struct fleet_node *n)
{
	fleet_each(r)
	{
		struct job *job = fleet_job(n); /* the one before may have ended it, or moved the ranks */
		if (r->home != n->id || !r->client)
			continue;
		(void)client_moved(r->client, &r->rank);
		if (job && r->rank)
			job_disconnected(job, r->rank);
		r->rank = NULL;
		client_clear(r->client);
	}
	if (fleet_job(n) && n->launcher)
		job_disconnected(fleet_job(n), NULL);
	client_free(n->launcher);
	n->launcher = NULL;
}

void fleet_stop_daemon(struct fleet_node *n)
{
	fleet_trace("node %u: its daemon is told to end", n->id);
	halt_daemon_lost();
	shutdown_begin(&n->shutdown, &n->daemon, clock_now());
	hang_up_all(n);
	n->up = false;
	n->ending = true;
	fleet_count_loss();
	fleet.faults++;
	fleet_sum.stops++;
}

bool fleet_turn_ending(struct fleet_node *n, bool all)
{
	int done = 0, rc;
	struct daemon *d = &n->daemon;
	fleet_name_log(n);
	if (d->storage.disk && fleet_now_and_then(all))
		done += disk_poll(d->storage.disk, 0);
	if (fleet_now_and_then(all))
		done += pool_poll(d->runtime.pool);
	if (fleet_now_and_then(all)) {
		done += net_poll(d->peers.net);
		peers_poll(&d->dispatch);
	}
	gc_poll(d->storage.gc);
	scrub_poll(d->storage.scrub);
	rc = shutdown_tick(&n->shutdown, d, clock_now());
	if (rc == -EAGAIN)
		return done > 0;
	fleet_trace("node %u: its daemon has ended%s", n->id, rc ? " with work in flight" : "");
	if (rc)
		kill_daemon(n);
	else
		tear_down(n);
	if (fleet_finished(n)) /* nobody could let it go any more */
		fleet_end_launcher(n);
	fleet_count_loss(); /* what it held for others since it was told to end, too */
	return true;
}

static void forget_memory(struct fleet_node *n)
{
	fleet_each(r) if (r->home == n->id) fleet_forget_rank(r);
	launcher_lost(n);
	n->heard = 0;
	fleet_count_loss();
	fleet.faults++;
}

void fleet_lose(struct fleet_node *n)
{
	fleet_trace("node %u is lost with its memory", n->id);
	if (n->up || n->joining || n->ending)
		kill_daemon(n);
	forget_memory(n);
	if (fleet.members && rng_chance(world_rng(), 50)) {
		n->machine++;
		fleet_sum.replaced++;
	}
	fleet_sum.losses++;
}

void fleet_power_cut(void)
{
	fleet_trace("all lose power");
	disk_sim_power_cut();
	for (unsigned i = 0; i < fleet.n; i++) {
		struct fleet_node *n = &fleet.nodes[i];
		if (n->up || n->joining || n->ending) {
			if (!n->joining)
				net_sim_kill(n->number);
			registry_sim_kill(i);
			n->ending = false;
			tear_down(n);
		}
		forget_memory(&fleet.nodes[i]);
	}
	fleet_sum.power_cuts++;
}

void fleet_end(void)
{
	disk_sim_kill();
	for (unsigned i = 0; i < fleet.n; i++) {
		if (fleet.nodes[i].up || fleet.nodes[i].joining || fleet.nodes[i].ending)
			kill_daemon(&fleet.nodes[i]);
		forget_memory(&fleet.nodes[i]);
	}
}
