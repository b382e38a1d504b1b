/* For who looks for the cause of a failure: what everybody is at. */
#include "control/host/coordinator_host.h"
#include "control/membership/membership.h"
#include "coordinator/assignment.h"
#include "fleet.h"
#include "replication/replication.h"

#include <stdio.h>

static void tell_rank(const struct fleet_rank *r)
{
	printf("rank %u of %u on node %u: %s%s%s, epoch %u%s%s%s%s%s, next step %lu\n", r->id, r->world, r->home,
	       r->alive ? "alive" : "dead", r->doomed ? ", told to end" : "", r->pauses ? ", in a fence" : "", r->epoch,
	       r->rank ? "" : ", not connected", r->registering ? ", registers" : "", r->joining ? ", joins" : "",
	       r->joined ? ", joined" : "",
	       r->restored    ? ", restored"
	       : r->restoring ? ", restores"
			      : "",
	       (unsigned long)r->next_step);
	for (uint32_t i = 0; r->mem && i < r->mem->nslots; i++) {
		struct arena_slot *s = &r->mem->head->slots[i];
		printf("  slot %u: %s step %lu epoch %u done %d fenced %u\n", i,
		       atomic_load(&s->state) ? "used" : "free", (unsigned long)s->step, s->epoch, (int)s->done,
		       s->fenced);
	}
}

static void tell_copy(void *arg, const struct replica_item *item)
{
	(void)arg;
	printf("  holds step %lu epoch %u of rank %u\n", (unsigned long)item->id.step, item->id.epoch, item->rank);
}

static void tell_capacity(const struct fleet_node *n)
{
	const struct fleet_assignment *c = &n->assignment;
	const struct membership *at = NULL;
	struct membership_view v;
	printf("  launcher: %s%s%s, %u processes, plan %u, world %u:",
	       !c->runs      ? "none"
	       : n->launcher ? "there"
			     : "alone",
	       c->spare ? ", spare" : "", c->leaving ? ", leaving" : "", c->processes, c->plan, c->world);
	for (uint32_t i = 0; i < c->nplaces; i++)
		printf(" %u%s", c->places[i].id,
		       c->places[i].retired   ? " (retired)"
		       : c->places[i].process ? ""
					      : " (none)");
	printf("\n");
	while (n->up && membership_next(&n->daemon.control, &at, &v)) {
		printf("  membership: plan %u, world %u of %u to %u, state %d%s:", v.assignment->number,
		       v.assignment->world, v.assignment->least, v.assignment->want, assignment_state(v.assignment),
		       v.quiescing ? ", settling" : "");
		for (uint32_t i = 0; i < v.assignment->nnodes; i++)
			printf(" %u/%u%s%s", v.assignment->nodes[i].has, v.assignment->nodes[i].offers,
			       v.assignment->nodes[i].spare ? "s" : "", v.assignment->nodes[i].leaving ? "l" : "");
	}
}

static void tell_node(struct fleet_node *n)
{
	struct job *job = fleet_job(n);
	struct coord_view v = n->up ? host_view(&n->daemon.control, FLEET_JOB) : (struct coord_view){0};
	printf("node %u: %s, %u ranks; coordinates epoch %u, entered %u, attending %u\n", n->id, n->up ? "up" : "down",
	       fleet.elastic ? n->assignment.nplaces : n->nranks, v.epoch, v.entered, v.attending);
	if (fleet.elastic)
		tell_capacity(n);
	if (n->up)
		replica_inventory(n->daemon.peers.replica, FLEET_JOB, tell_copy, NULL);
	if (!job)
		return;
	printf("  job: epoch %u, known %u; restore in state %d; copies of step %lu epoch %u, replicated %lu.%u, "
	       "durable %lu.%u, why '%s'\n",
	       job->epoch, job->known, job->restore.state, (unsigned long)job->copies.id.step, job->copies.id.epoch,
	       (unsigned long)job->copies.replicated.step, job->copies.replicated.epoch,
	       (unsigned long)job->copies.durable.step, job->copies.durable.epoch, job->copying.why.text);
	printf("  resize: plan %u, next %u, settling %d; saves %s, %s; host %s\n", job->resize.plan,
	       job->resize.next.number, job->resize.quiesce_ns != 0, saves_idle_here(&job->saves) ? "idle" : "at work",
	       restore_idle(&job->restore) ? "no restore" : "a restore",
	       host_busy(&n->daemon.control, FLEET_JOB) ? "busy" : "idle");
	list_for(it, &job->saves.snapshots) {
		const struct snapshot *s = list_entry(it, struct snapshot, link);
		printf("  step %lu epoch %u: %s, shown as %d, rc %d, storage %d, commit %s\n",
		       (unsigned long)s->id.step, s->id.epoch, snapshot_state_name(s->state), s->shown_level, s->rc,
		       s->storage_rc, s->commit ? node_part_state_name(s->commit->state) : "none");
		for (uint32_t p = 0; p < s->nparts; p++)
			printf("    part of rank %u: state %d, slot %u%s, %u copies\n", job->ranks[p].id,
			       s->parts[p].state, s->parts[p].slot, s->parts[p].orphan ? ", orphan" : "",
			       s->parts[p].mem ? s->parts[p].mem->slots[s->parts[p].slot].copies : 0);
	}
}

void fleet_tell(void)
{
	for (unsigned i = 0; i < fleet.n; i++)
		tell_node(&fleet.nodes[i]);
	fleet_each(r) tell_rank(r);
}
