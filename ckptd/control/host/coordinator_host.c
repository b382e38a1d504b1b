#include "control/host/coordinator_host_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "checkpoint/room.h"
#include "cluster/room.h"
#include "control/control.h"
#include "control/election/election.h"
#include "control/election/reach.h"
#include "control/host/outbox.h"
#include "control/lemon/set_aside.h"
#include "control/membership/membership.h"
#include "control/record/directory_lock.h"
#include "control/record/epoch_record.h"
#include "job/room.h"
#include "participant/room.h"
#include "replication/room.h"
#include "runtime/room.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HOSTS_MAX = 256 };

struct coordinator_host *host_find(const struct control *control, const char *job)
{
	list_for(node, &control->hosts) {
		struct coordinator_host *host = list_entry(node, struct coordinator_host, link);
		if (!host->deposed && !strcmp(host->job, job))
			return host;
	}
	return NULL;
}

static void host_free(struct coordinator_host *host)
{
	epochs_forget(host->record);
	net_body_drop(host->joined);
	directories_free(&host->directories);
	coord_free(host->coord);
	plan_record_free(&host->plan);
	asked_record_free(&host->asked);
	directory_lock_give(host->control, &host->directory_lock);
	list_remove(&host->link);
	free(host);
}

void host_end(struct coordinator_host *host)
{
	if (host->ended && !end_waits(host) && !host->directories.n)
		host_free(host);
}

static void tick(struct coordinator_host *host, uint64_t now)
{
	if (host->retry_ns && now >= host->retry_ns)
		host_persist(host, coord_view(host->coord).epoch, coord_reason(host->coord));
	host_expire(host);
	coord_standstill_tick(host->coord);
	host_spill_tick(host);
}

void hosts_tick(struct control *control, uint64_t now)
{
	hand_overs_tick(control, now);
	list_for_safe(node, &control->hosts) {
		struct coordinator_host *host = list_entry(node, struct coordinator_host, link);
		if (!host->deposed)
			tick(host, now);
		host_end(host);
	}
	memberships_tick(control);
	set_aside_tick(control, now);
}

/* ---- life ------------------------------------------------------------------------------------------------------ */

bool hosts_at_work(const struct control *control)
{
	list_for(node, &control->hosts) {
		const struct coordinator_host *host = list_entry(node, struct coordinator_host, link);
		if (directories_at_work(&host->directories) || (host->record && end_waits(host)))
			return true;
	}
	return set_aside_at_work(control);
}

void host_leave_directories(struct control *control, const char *job)
{
	struct coordinator_host *host = host_find(control, job);
	if (host)
		directories_abandon(&host->directories);
}

static bool is_elected(const struct coordinator_host *host)
{
	return host->spread && host->control->registry;
}

void hosts_node_up(struct control *control, uint32_t node)
{
	struct peer_order order = {.type = PEER_ANNOUNCE};
	list_for(it, &control->hosts) {
		struct coordinator_host *host = list_entry(it, struct coordinator_host, link);
		if (is_elected(host) && host_here(control, host->job))
			host_give(host, node, &order);
	}
}

void hosts_abandon(struct control *control)
{
	list_for(node, &control->hosts) {
		struct coordinator_host *host = list_entry(node, struct coordinator_host, link);
		if (host->spread)
			directories_abandon(&host->directories);
	}
}

void hosts_free(struct control *control)
{
	list_for_safe(node, &control->hosts)
		host_free(list_entry(node, struct coordinator_host, link));
	outbox_free(&control->outbox);
	memberships_free(control);
	reach_free(control);
	set_aside_free(control);
}

/* Where the registry says who coordinates, nothing hangs on a lock that a daemon which does not run keeps. */
static int take_directories(struct coordinator_host *host, struct err *err)
{
	host->directory_lock = DIRECTORY_LOCK_NONE;
	return is_elected(host) ? 0 : directory_lock_take(host->control, host->job, &host->directory_lock, err);
}

static int begin(struct coordinator_host *host, uint32_t world, struct err *err)
{
	struct control *control = host->control;
	struct epochs_start start;
	int rc = take_directories(host, err);
	if (rc)
		return rc;
	rc = epochs_first(control, host->job, &start, err);
	if (rc)
		return err_prefix(err, rc, "job '%s': no epoch can be chosen", host->job);
	/* Nothing later than what the registry has was given, as far as anybody knows, and the plan that its ranks follow stands beside it. */
	uint32_t last = host->spread ? start.elected : 0, plan = membership_plan(control, host->job);
	bool resumes = last && start.next == last + 1 && (!plan || plan == start.plan.number);
	if (host->spread && !resumes && start.next > EPOCH_MAX)
		return err_set(err, -EOVERFLOW, "job '%s' has used up its %u epochs: choose another name", host->job,
			       EPOCH_MAX);
	host->resume_ns = resumes ? clock_now() : 0;
	host->recorded = resumes ? last : 0;
	host->back_recorded = rollbacks_last(&start.back);
	host->plan = start.plan;
	host->plan_recorded = start.plan.number;
	host->asked = start.asked;
	host->end.plan = start.ended;
	if (!host->halt.is.number && !host->halt.asked.number)
		halt_recall(host, &start.asked);
	host->orders = host_orders;
	host->orders.arg = host;
	host->room = host->spread ? roster_room(control->peers->roster) : 1;
	rc = coord_new(host->job, world, host->room, resumes ? last : start.next, &host->orders, &host->coord);
	if (rc)
		return err_set(err, rc, "no memory for job '%s'", host->job);
	coord_recall_rollbacks(host->coord, &start.back);
	directories_init(&host->directories, control->storage->disk, control->storage->root, host->job, host->coord);
	host->directories.pool = control->runtime->pool;
	host->directories.store = control->runtime->config.store;
	host->directories.place = &control->storage->place;
	host->directories.elected = is_elected(host) ? control : NULL;
	host->directories.maker = is_elected(host) ? coordinator_term(control, host->job) : clock_wall();
	return 0;
}

/* All nodes of the job were lost. What was decided is on record: whoever comes goes on as with a daemon that was started again. */
static bool is_forsaken(const struct coordinator_host *host)
{
	return host->spread && !host->deposed && epochs_are_kept(host->control) && !host->record && !host->retry_ns &&
	       !host->spill_ns && !host->hand_over.until_ns && !host->directories.n && !end_waits(host) &&
	       !coord_view(host->coord).attending;
}

static unsigned count(const struct control *control)
{
	unsigned n = 0;
	list_for(node, &control->hosts)
		n++;
	return n;
}

/* Of those with a plan: host_let_go(). */
static bool has_room(struct control *control)
{
	unsigned n = count(control);
	list_for_safe(node, &control->hosts) {
		struct coordinator_host *host = list_entry(node, struct coordinator_host, link);
		if (n < HOSTS_MAX || !is_forsaken(host) || membership_plan(control, host->job))
			continue;
		host_free(host);
		n--;
	}
	return n < HOSTS_MAX;
}

bool host_may_go(const struct control *control, const char *job)
{
	const struct coordinator_host *host = count(control) < HOSTS_MAX ? NULL : host_find(control, job);
	return host && is_forsaken(host) && host->plan_recorded == membership_plan(control, job);
}

void host_let_go(struct control *control, const char *job)
{
	host_free(host_find(control, job));
}

static int host_new(struct control *control, const char *job, uint32_t world, bool spread,
		    const struct coordinator_halt *halt, struct err *err)
{
	if (!has_room(control))
		return err_set(err, -EBUSY, "job '%s': %d jobs are coordinated here already", job, HOSTS_MAX);
	struct coordinator_host *host = calloc(1, sizeof(*host));
	if (!host)
		return err_set(err, -ENOMEM, "no memory for job '%s'", job);
	*host = (struct coordinator_host){.control = control, .spread = spread, .halt = *halt, .begun_ns = clock_now()};
	snprintf(host->job, sizeof(host->job), "%s", job);
	int rc = begin(host, world, err);
	if (rc) {
		plan_record_free(&host->plan);
		asked_record_free(&host->asked);
		directory_lock_give(control, &host->directory_lock);
		free(host);
		return rc;
	}
	list_push(&control->hosts, &host->link);
	if (host->resume_ns)
		coord_resume(host->coord);
	else if (spread)
		coord_withhold(host->coord);
	return 0;
}

/* Nodes of the last world without a process keep what is in their memory: they let it go as soon as it is on storage. -EAGAIN: as far as is
 * known here all of them are such nodes. */
static int ask_to_yield(struct coordinator_host *host)
{
	struct coord_view v = coord_view(host->coord);
	struct peer_order order = {.type = PEER_INVALIDATE_PLAN};
	for (uint32_t n = 0; host->spread && host->control->peers->net && n < host->control->peers->roster->n; n++)
		if (coord_has_joined(host->coord, n))
			host_give(host, n, &order);
	return host->spread && v.entered != v.epoch ? -EAGAIN : -EBUSY;
}

/* A job whose nodes have all gone may come back with another world size. */
int host_open(struct control *control, const char *job, uint32_t world, bool spread, uint32_t plan, struct err *err)
{
	struct coordinator_host *host = host_find(control, job);
	struct coord_view v = host ? coord_view(host->coord) : (struct coord_view){0};
	if (host && v.world == world && host->spread == spread)
		return 0;
	if (host && plan && plan < membership_plan(control, job))
		return 0;
	if (host && v.attending)
		return err_set(err, ask_to_yield(host),
			       "job '%s' runs with world size %u%s; world size %u%s must wait until it has ended", job,
			       v.world, host->spread ? ", on several nodes" : "", world,
			       spread ? ", on several nodes," : "");
	return host_remake(control, job, world, spread, err);
}

/* While the job is not over, who comes with the new world is still to end. */
int host_remake(struct control *control, const char *job, uint32_t world, bool spread, struct err *err)
{
	struct coordinator_host *host = host_find(control, job);
	if (host && host->hand_over.until_ns)
		return err_set(err, -EAGAIN, "job '%s': it is not known yet whether a node of it is lost", job);
	if (host && host->directories.n)
		return err_set(err, -EAGAIN, "job '%s': directories of its last world are still in use", job);
	if (host && end_waits(host))
		return err_set(err, -EAGAIN, "job '%s' has ended, and that is not on record yet", job);
	struct coordinator_halt halt = {.is = {0}};
	if (host && !host->ended)
		halt = host->halt;
	else
		membership_kept_halt(control, job, &halt);
	halt.holds = false;
	if (host && coord_view(host->coord).entered >= halt.since)
		halt.since = 0; /* the epochs of another coordinator begin later */
	if (host)
		host_free(host);
	int rc = host_new(control, job, world, spread, &halt, err);
	membership_keep_halt(control, job, rc ? &halt : &(struct coordinator_halt){.is = {0}});
	return rc;
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

/* What the disk still does for it is awaited. */
void host_depose(struct control *control, const char *job)
{
	struct coordinator_host *host = host_find(control, job);
	membership_depose(control, job);
	if (!host || !host->spread)
		return;
	log_warn("job %s: this node does not coordinate it any more", job);
	end_deposed(host);
	host->deposed = host->ended = true;
	host->orders = host_no_orders;
	epochs_forget(host->record);
	host->record = NULL;
	directories_abandon(&host->directories);
	host_end(host);
}

/* Those of a host that was deposed, too. */
bool host_writes(const struct control *control, const char *job, const char *name)
{
	list_for(it, &control->hosts) {
		const struct coordinator_host *host = list_entry(it, struct coordinator_host, link);
		if (!strcmp(host->job, job) && directories_write(&host->directories, name))
			return true;
	}
	return false;
}

/* ---- reports --------------------------------------------------------------------------------------------------- */

/* What it has is of a plan that it has forgotten: whether all come who are in the epoch that may go on does not depend on it. */
static bool follows_no_plan(const struct coordinator_host *host, const struct peer_node_join *m)
{
	return host && host->spread && !m->plan && host->plan_recorded > host->end.plan &&
	       coord_view(host->coord).resuming;
}

void host_report(struct control *control, uint32_t node, bool spread, const struct peer_report *r)
{
	struct err err = {{0}};
	if (end_refuses(control, node, spread, r))
		return;
	if (r->type == PEER_CAPACITY || r->type == PEER_QUIESCED || r->type == PEER_PAUSED) {
		membership_report(control, node, spread, r);
		return;
	}
	if (r->type == PEER_REQUEST && r->request.token) {
		operator_requested(control->operators, node, r);
		return;
	}
	if (r->type == PEER_NODE_JOIN && spread && membership_tells_gone(control, node, r))
		return;
	if (r->type == PEER_NODE_JOIN && r->node_join.plan != membership_plan(control, r->job)) {
		membership_joins_by(control, r->job, node, r->node_join.plan);
		return; /* else it is told the one that holds, or that all is over, as soon as its launcher offers something */
	}
	if (r->type == PEER_NODE_JOIN && r->node_join.finished &&
	    host_view(control, r->job).world != r->node_join.world)
		return; /* it asks again, for as long as those may come that are still at work */
	if (r->type == PEER_NODE_JOIN) {
		int rc = host_open(control, r->job, r->node_join.world, spread, r->node_join.plan, &err);
		if (!rc && follows_no_plan(host_find(control, r->job), &r->node_join))
			return; /* it is told the one that holds as soon as its launcher offers something */
		if (!rc)
			rc = membership_node_joins(control, r->job, node, r->node_join.nranks, &err);
		if (rc) {
			host_refuse(control, node, r->job, rc, err.text);
			return;
		}
		host_admit(control, r->job);
		if (r->node_join.plan != membership_plan(control, r->job))
			return; /* it had no part in that, and has told so by coming */
	}
	struct coordinator_host *host = host_find(control, r->job);
	if (host &&
	    host->spread == spread) /* else it is of another job of that name, which was refused here or is over */
		host_hear(host, (struct coord_from){.node = spread ? node : 0, .epoch = r->epoch}, r);
}

void host_knows(struct control *control, const char *job, enum coord_witness witness, uint32_t epoch)
{
	struct coordinator_host *host = host_find(control, job);
	if (host)
		coord_knows(host->coord, 0, witness, epoch);
	outbox_deliver(control); /* the rank that is the witness is greeted with the epoch that it goes on in */
}

struct coord_view host_view(const struct control *control, const char *job)
{
	const struct coordinator_host *host = host_find(control, job);
	return host ? coord_view(host->coord) : (struct coord_view){0};
}

bool host_has(const struct control *control, const char *job)
{
	return host_find(control, job) != NULL;
}
