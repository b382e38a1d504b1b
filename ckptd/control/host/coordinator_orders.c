#include "control/host/coordinator_host_private.h"
#include "control/host/outbox.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "catalog/room.h"
#include "checkpoint/room.h"
#include "cluster/room.h"
#include "control/control.h"
#include "control/membership/membership.h"
#include "control/record/epoch_record.h"
#include "replication/room.h"
#include "runtime/room.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RECORD_RETRY_MS = 1000 };

_Static_assert(NET_BODY_MAX > 4096 + RANK_MAX * (2 + WIRE_ADDRESS_MAX), "JOINED fits, whatever the world");

/* ---- orders ---------------------------------------------------------------------------------------------------- */

static void sent(struct control *control, uint32_t node, const struct peer_order *order, int rc)
{
	if (!rc || rc == -ENOTCONN)
		return; /* the end of the session tells the rest */
	log_warn("job %s: cannot send %s to node %s: %s", order->job, peer_coord_name(order->type),
		 control->peers->roster->nodes[node].name, err_name(rc));
	net_drop(control->peers->net, node, rc);
}

static int encode(const struct control *control, const struct peer_order *order, struct wbuf *text)
{
	peer_term_put(text, coordinator_term(control, order->job));
	return peer_order_encode(order, text);
}

static void send(struct control *control, uint32_t node, const struct peer_order *order)
{
	AUTO_WBUF struct wbuf text = {0};
	int rc = encode(control, order, &text);
	sent(control, node, order, rc ? rc : net_send(control->peers->net, node, order->type, &text));
}

/* Another node may coordinate by now: election_tick() has yet to see it. */
static bool is_deposed(const struct control *control, bool spread, const char *job)
{
	return spread && control->registry && !host_here(control, job);
}

void host_order(struct control *control, bool spread, uint32_t node, const struct peer_order *order)
{
	if (is_deposed(control, spread, order->job))
		return;
	if (!spread || node == control->peers->self)
		outbox_put(control, spread, order);
	else if (control->peers->net) /* else the daemon ends */
		send(control, node, order);
}

void host_resign(struct control *control, const char *job)
{
	struct peer_order order = {.type = PEER_RESIGN};
	const struct coordinator_host *host = host_find(control, job);
	const struct peers *peers = control->peers;
	snprintf(order.job, sizeof(order.job), "%s", job);
	for (uint32_t n = 0; host && host->spread && peers->net && n < peers->roster->n; n++)
		if (n != peers->self && coord_has_joined(host->coord, n))
			send(control, n, &order);
}

void host_give(struct coordinator_host *host, uint32_t node, struct peer_order *order)
{
	memcpy(order->job, host->job, sizeof(order->job));
	host_order(host->control, host->spread, node, order);
}

/* Orders about a directory say whose it is. */
static void emit_for_directory(const struct coordinator_host *host, uint32_t node, const struct peer_order *order)
{
	struct peer_order ours = *order;
	if (order->type == PEER_SPILL)
		ours.spill.maker = host->directories.maker;
	else
		ours.save.maker = host->directories.maker;
	host_order(host->control, host->spread, node, &ours);
}

/* To each node the addresses of all ranks: with thousands of nodes the same megabyte is not made, nor held, for each of them. */
static void emit_joined(struct coordinator_host *host, uint32_t node, const struct peer_order *order)
{
	AUTO_WBUF struct wbuf text = {0};
	struct control *control = host->control;
	if (is_deposed(control, true, host->job) || !control->peers->net)
		return;
	if (host->joined_epoch != order->joined.epoch) {
		net_body_drop(host->joined);
		host->joined = encode(control, order, &text) ? NULL : net_body_new(&text);
		host->joined_epoch = host->joined ? order->joined.epoch : 0;
	}
	sent(control, node, order,
	     host->joined ? net_send_body(control->peers->net, node, order->type, host->joined) : -ENOMEM);
}

/* Nobody else may remove what retention does not keep; and here there may be no ranks of the job. */
static void want_retention(struct coordinator_host *host, enum level_shown level)
{
	struct policy policy;
	sources_fill(host->control->runtime->sources, SCOPE_JOB, host->job, &policy);
	if (level == (policy.verify ? LEVEL_VERIFIED : LEVEL_DURABLE))
		gc_want(host->control->storage->gc, host->job, &policy);
}

/* Told to one node after the other. */
static void note_level(struct coordinator_host *host, struct step_id id, enum level_shown level)
{
	bool again = !step_compare(host->levelled, id) && host->level == level;
	membership_shown(host->control, host->job, id, level);
	host->levelled = id;
	host->level = level;
	if (!again)
		want_retention(host, level);
}

static void emit(void *arg, uint32_t node, const struct peer_order *order)
{
	struct coordinator_host *host = arg;
	if (order->type == PEER_LEVEL)
		note_level(host, order->save.id, (enum level_shown)order->save.level);
	if (order->type == PEER_WRITE || order->type == PEER_CLEAR || order->type == PEER_SPILL)
		emit_for_directory(host, node, order);
	else if (order->type == PEER_JOINED && host->spread && node != host->control->peers->self)
		emit_joined(host, node, order);
	else
		host_order(host->control, host->spread, node, order);
}

/* ---- copies ----------------------------------------------------------------------------------------------------- */

static void surveyed(void *arg, const struct replica_surveyed *s)
{
	struct coordinator_host *host = host_find(arg, s->job);
	struct coord_survey survey = {.epoch = s->epoch, .known = s->known, .n = s->n};
	AUTO_FREE struct coord_held *found = calloc(s->n ? s->n : 1, sizeof(*found));
	if (!host)
		return;
	survey.unheard = host_unheard(host, s);
	survey.parted = membership_parted(host->control, host->job);
	survey.planned = membership_plan(host->control, host->job);
	snprintf(survey.names, sizeof(survey.names), "%s", s->names);
	if (!found) /* as if nobody had answered */
		survey = (struct coord_survey){.epoch = s->epoch, .unheard = 1, .names = "no memory"};
	for (size_t i = 0; i < survey.n; i++)
		found[i] = (struct coord_held){.node = s->found[i].node,
					       .rank = s->found[i].rank,
					       .world = s->found[i].world,
					       .owner = s->found[i].owner,
					       .id = s->found[i].id};
	survey.found = found;
	coord_surveyed(host->coord, &survey);
}

static void survey(void *arg)
{
	struct coordinator_host *host = arg;
	struct replica *replica = host->control->peers->replica;
	struct coord_survey nothing = {.epoch = coord_view(host->coord).epoch};
	if (replica && !replica_survey(replica, host->job, nothing.epoch, surveyed, host->control))
		return;
	if (replica) {
		nothing.unheard = 1;
		nothing.known = replica_known_epoch(replica, host->job);
		snprintf(nothing.names, sizeof(nothing.names), "all of them");
	}
	coord_surveyed(host->coord, &nothing);
}

/* ---- directories ------------------------------------------------------------------------------------------------ */

static void make(void *arg, struct step_id id)
{
	struct coordinator_host *host = arg;
	directories_make(&host->directories, id);
}

static void seal(void *arg, struct step_id id, const struct wbuf *manifest)
{
	struct coordinator_host *host = arg;
	directories_seal(&host->directories, id, manifest);
}

static void drop(void *arg, struct step_id id, int rc, const char *why)
{
	struct coordinator_host *host = arg;
	directories_drop(&host->directories, id, rc, why);
}

static void remove_dir(void *arg, struct step_id id)
{
	struct coordinator_host *host = arg;
	directories_remove(&host->directories, id);
}

static bool may_enter(void *arg, bool goes_on)
{
	return halt_lets_enter(arg, goes_on);
}

/* ---- the record -------------------------------------------------------------------------------------------------- */

/* The plan that holds is not on record yet. */
static bool has_new_plan(const struct coordinator_host *host)
{
	uint32_t number = host->spread ? membership_plan(host->control, host->job) : 0;
	return number && number != host->plan_recorded;
}

/* Nor what was asked last. */
static bool has_new_asks(const struct coordinator_host *host)
{
	return host->spread &&
	       (halt_is_new(&host->halt) || membership_asks(host->control, host->job) != host->asks_recorded);
}

static const char *what_else(const struct coordinator_host *host)
{
	if (end_waits(host))
		return ", or the end of the job,";
	return has_new_asks(host) ? ", or what was asked of the job," : "";
}

static void recorded(void *arg, uint32_t epoch, int rc, const char *text)
{
	struct coordinator_host *host = arg;
	struct coord_view now = coord_view(host->coord);
	host->record = NULL;
	if (rc) {
		bool ends = rc == -ECANCELED; /* the daemon does */
		if (!ends && repeat_due(&host->unrecorded, text, clock_now()))
			log_error("job %s: epoch %u%s cannot be recorded, nobody is told of it: %s", host->job, epoch,
				  what_else(host), text);
		host->retry_ns = clock_deadline(RECORD_RETRY_MS * CLOCK_NS_PER_MS);
		return;
	}
	host->recorded = epoch;
	host->back_recorded = host->back_written;
	host->plan_recorded = host->plan.number;
	host->asks_recorded = host->asks_written;
	host->unrecorded = (struct repeat){0};
	membership_recorded(host->control, host->job, host->plan_recorded);
	membership_asked_recorded(host->control, host->job, host->asks_recorded);
	halt_recorded(host);
	coord_persisted(host->coord, epoch);
	if (end_waits(host))
		end_recorded(host);
	else if (now.epoch > epoch || has_new_plan(host) || has_new_asks(host)) /* raised or planned again meanwhile */
		host_persist(host, now.epoch, coord_reason(host->coord));
}

/* What stands there stays, until there is another plan. */
static int take_plan(struct coordinator_host *host, struct plan_record *plan)
{
	struct plan_record now = {0};
	if (host->spread && membership_plan(host->control, host->job) != host->plan.number) {
		int rc = membership_plan_record(host->control, host->job, &now);
		if (rc)
			return rc;
	}
	if (now.number) {
		plan_record_free(&host->plan);
		host->plan = now;
	}
	return plan_record_copy(&host->plan, plan);
}

static int take_asked(struct coordinator_host *host, struct asked_record *asked)
{
	struct asked_record now;
	int rc = host->spread ? membership_asked(host->control, host->job, &now) : -ENOENT;
	if (rc && rc != -ENOENT)
		return rc;
	if (!rc) {
		asked_record_free(&host->asked);
		host->asked = now;
	}
	halt_to_record(&host->halt, &host->asked);
	host->halt.written = host->asked.halt_number;
	host->asks_written = membership_asks(host->control, host->job);
	return asked_record_copy(&host->asked, asked);
}

static int record(struct coordinator_host *host, uint32_t epoch, const struct rollbacks *back, const char *reason)
{
	struct begun begun = {.id.epoch = epoch,
			      .back = *back,
			      .ended = host->end.plan,
			      .finished = end_waits(host) && host->end.finished ? host->end.plan : 0};
	snprintf(begun.job, sizeof(begun.job), "%s", host->job);
	snprintf(begun.reason, sizeof(begun.reason), "%s", reason);
	host->back_written = rollbacks_last(back);
	int rc = take_plan(host, &begun.plan);
	if (!rc)
		rc = take_asked(host, &begun.asked);
	if (rc)
		begun_free(&begun);
	return rc ? rc : epochs_record(host->control, &begun, recorded, host, &host->record);
}

void host_persist(void *arg, uint32_t epoch, const char *reason)
{
	struct coordinator_host *host = arg;
	struct rollbacks back = coord_view(host->coord).back;
	catalog_epoch(host->control->storage->catalog, host->job, epoch);
	/* Of a job on one node the catalog alone has the epoch; but a rollback must stand where nobody forgets it. */
	if (rollbacks_last(&back) <= host->back_recorded && !has_new_plan(host) && !has_new_asks(host) &&
	    !end_waits(host) && (!host->spread || epoch <= host->recorded)) {
		coord_persisted(host->coord, epoch);
		return;
	}
	host->retry_ns = 0;
	if (host->record)
		return; /* when it has ended, this one follows */
	/* No message between nodes has room for a later one, and no record could be read. */
	bool beyond = host->spread && epoch > EPOCH_MAX;
	int rc = beyond ? -EOVERFLOW : record(host, epoch, &back, end_waits(host) ? "it has ended" : reason);
	if (rc)
		recorded(host, epoch, rc, beyond ? "the job has used up its epochs: use another name" : err_name(rc));
}

void host_record(struct control *control, const char *job)
{
	struct coordinator_host *host = host_find(control, job);
	if (host)
		host_persist(host, coord_view(host->coord).epoch, coord_reason(host->coord));
}

const struct coord_orders host_orders = {.emit = emit,
					 .persist = host_persist,
					 .survey = survey,
					 .make = make,
					 .seal = seal,
					 .drop = drop,
					 .remove = remove_dir,
					 .may_enter = may_enter};

/* ---- of a host that was deposed  */

static void tell_nobody(void *arg, uint32_t node, const struct peer_order *order)
{
	(void)arg, (void)node, (void)order;
}

static void persist_nothing(void *arg, uint32_t epoch, const char *reason)
{
	(void)arg, (void)epoch, (void)reason;
}

static void survey_nothing(void *arg)
{
	(void)arg;
}

static void make_nothing(void *arg, struct step_id id)
{
	(void)arg, (void)id;
}

static void seal_nothing(void *arg, struct step_id id, const struct wbuf *manifest)
{
	(void)arg, (void)id, (void)manifest;
}

static void drop_nothing(void *arg, struct step_id id, int rc, const char *why)
{
	(void)arg, (void)id, (void)rc, (void)why;
}

static bool admit_nobody(void *arg, bool goes_on)
{
	(void)arg, (void)goes_on;
	return false;
}

const struct coord_orders host_no_orders = {.emit = tell_nobody,
					    .persist = persist_nothing,
					    .survey = survey_nothing,
					    .make = make_nothing,
					    .seal = seal_nothing,
					    .drop = drop_nothing,
					    .remove = make_nothing,
					    .may_enter = admit_nobody};
