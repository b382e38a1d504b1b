#include "control/coordinator_host_private.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "checkpoint/directory_lock.h"
#include "clients/operator.h"
#include "cluster/net.h"
#include "cluster/roster.h"
#include "control/epoch_record.h"
#include "control/membership.h"
#include "job/job.h"
#include "participant/participant.h"
#include "replication/replication.h"
#include "upkeep/catalog.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHAIRS_MAX = 256, RECORD_RETRY_MS = 1000 };

bool chair_here(const struct daemon *daemon)
{
	return !daemon->roster || daemon->self == FIRST_NODE;
}

struct chair *chair_find(const struct daemon *daemon, const char *job)
{
	list_for(node, &daemon->chairs) {
		struct chair *chair = list_entry(node, struct chair, link);
		if (!strcmp(chair->job, job))
			return chair;
	}
	return NULL;
}

/* ---- orders ---------------------------------------------------------------------------------------------------- */

static void send(struct daemon *daemon, uint32_t node, const struct peer_order *order)
{
	AUTO_WBUF struct wbuf body = {0};
	struct net *net = daemon->net;
	if (!net)
		return; /* the daemon ends */
	int rc = peer_order_encode(order, &body);
	if (!rc)
		rc = net_send(net, node, order->type, &body);
	if (!rc || rc == -ENOTCONN)
		return; /* the end of the session tells the rest */
	log_warn("job %s: cannot send %s to node %s: %s", order->job, peer_coord_name(order->type),
		 daemon->roster->nodes[node].name, err_name(rc));
	net_drop(net, node, rc);
}

void chair_order(struct daemon *daemon, bool spread, uint32_t node, const struct peer_order *order)
{
	if (!spread || node == daemon->self)
		seat_obey(daemon, order);
	else
		send(daemon, node, order);
}

/* order: all but the name of the job. */
static void give(struct chair *chair, uint32_t node, struct peer_order *order)
{
	memcpy(order->job, chair->job, sizeof(order->job));
	chair_order(chair->daemon, chair->spread, node, order);
}

static void give_word(void *arg, uint32_t node, enum peer_type type, const struct peer_word *word, const char *text)
{
	struct peer_order order = {.type = type, .word = *word};
	snprintf(order.word.text, sizeof(order.word.text), "%s", text);
	give(arg, node, &order);
}

static void adopt(void *arg, uint32_t node, uint32_t epoch, bool resumed)
{
	give_word(arg, node, PEER_ADOPT, &(struct peer_word){.epoch = epoch, .flag = resumed}, "");
}

static void raise_epoch(void *arg, uint32_t node, uint32_t epoch, const char *reason)
{
	give_word(arg, node, PEER_RAISE, &(struct peer_word){.epoch = epoch}, reason);
}

static void tell(void *arg, uint32_t node, uint32_t rank, const char *reason)
{
	struct chair *chair = arg;
	struct peer_word word = {.epoch = coord_view(chair->coord).epoch, .rank = rank};
	give_word(arg, node, PEER_TELL, &word, reason);
}

static void turn_away(void *arg, uint32_t node, int rc, const char *text)
{
	give_word(arg, node, PEER_TURN_AWAY, &(struct peer_word){.rc = rc}, text);
}

static void joined(void *arg, uint32_t node, const struct wire_joined *m)
{
	give(arg, node, &(struct peer_order){.type = PEER_JOINED, .joined = *m});
}

static void look(void *arg, uint32_t node, uint64_t step)
{
	give(arg, node, &(struct peer_order){.type = PEER_LOOK, .step = step});
}

static void surveyed(void *arg, const struct replica_surveyed *s)
{
	struct chair *chair = chair_find(arg, s->job);
	struct coord_survey survey = {.epoch = s->epoch, .known = s->known, .n = s->n};
	AUTO_FREE struct coord_held *found = calloc(s->n ? s->n : 1, sizeof(*found));
	if (!chair)
		return;
	survey.unheard = chair_unheard(chair, s);
	survey.parted = muster_parted(chair->daemon, chair->job);
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
	coord_surveyed(chair->coord, &survey);
}

static void survey(void *arg)
{
	struct chair *chair = arg;
	struct replica *replica = chair->daemon->replica;
	struct coord_survey nothing = {.epoch = coord_view(chair->coord).epoch};
	if (replica && !replica_survey(replica, chair->job, nothing.epoch, surveyed, chair->daemon))
		return;
	if (replica) {
		nothing.unheard = 1;
		nothing.known = replica_known_epoch(replica, chair->job);
		snprintf(nothing.names, sizeof(nothing.names), "all of them");
	}
	coord_surveyed(chair->coord, &nothing);
}

static void fetch(void *arg, uint32_t node, const struct peer_bring *bring)
{
	give(arg, node, &(struct peer_order){.type = PEER_BRING, .bring = *bring});
}

static void restored(void *arg, uint32_t node, const struct peer_choice *choice)
{
	give(arg, node, &(struct peer_order){.type = PEER_RESTORED, .choice = *choice});
}

static void refuse(void *arg, uint32_t node, int rc, const char *text, const char *why)
{
	struct peer_order order = {.type = PEER_REFUSE, .refuse.rc = rc};
	snprintf(order.refuse.text, sizeof(order.refuse.text), "%s", text);
	snprintf(order.refuse.why, sizeof(order.refuse.why), "%s", why);
	give(arg, node, &order);
}

static void level(void *arg, uint32_t node, struct step_id id, enum level_shown is)
{
	const struct chair *chair = arg;
	muster_shown(chair->daemon, chair->job, id, is);
	give(arg, node, &(struct peer_order){.type = PEER_LEVEL, .save = {.id = id, .level = is}});
}

static void fail(void *arg, uint32_t node, struct step_id id, int rc, const char *text)
{
	struct peer_order order = {.type = PEER_FAIL, .save = {.id = id, .rc = rc}};
	snprintf(order.save.text, sizeof(order.save.text), "%s", text);
	give(arg, node, &order);
}

static void compare(void *arg, uint32_t node, const struct peer_compare *ask)
{
	give(arg, node, &(struct peer_order){.type = PEER_COMPARE, .compare = *ask});
}

static void copy(void *arg, uint32_t node, struct step_id id)
{
	give(arg, node, &(struct peer_order){.type = PEER_COPY, .save = {.id = id}});
}

static void keep(void *arg, uint32_t node, struct step_id id)
{
	give(arg, node, &(struct peer_order){.type = PEER_KEEP, .save = {.id = id}});
}

static void pass(void *arg, uint32_t node, struct step_id id, int rc, const char *text)
{
	struct peer_order order = {.type = PEER_PASS, .save = {.id = id, .rc = rc}};
	snprintf(order.save.text, sizeof(order.save.text), "%s", text);
	give(arg, node, &order);
}

static void write_part(void *arg, uint32_t node, struct step_id id, bool found, const struct share_parts *parts)
{
	give(arg, node, &(struct peer_order){.type = PEER_WRITE, .save = {.id = id, .flag = found, .parts = *parts}});
}

static void clear(void *arg, uint32_t node, struct step_id id, bool kept)
{
	give(arg, node, &(struct peer_order){.type = PEER_CLEAR, .save = {.id = id, .flag = kept}});
}

static void farewell(void *arg, uint32_t node, enum peer_farewell is)
{
	give(arg, node, &(struct peer_order){.type = PEER_FAREWELL, .number = is});
}

static void rescue(void *arg, uint32_t node, const struct peer_rescue *m)
{
	give(arg, node, &(struct peer_order){.type = PEER_RESCUE, .rescue = *m});
}

/* ---- directories ------------------------------------------------------------------------------------------------ */

static void make(void *arg, struct step_id id)
{
	struct chair *chair = arg;
	sites_make(&chair->sites, id);
}

static void seal(void *arg, struct step_id id, const struct wbuf *manifest)
{
	struct chair *chair = arg;
	sites_seal(&chair->sites, id, manifest);
}

static void drop(void *arg, struct step_id id, int rc, const char *why)
{
	struct chair *chair = arg;
	sites_drop(&chair->sites, id, rc, why);
}

static void remove_dir(void *arg, struct step_id id)
{
	struct chair *chair = arg;
	sites_remove(&chair->sites, id);
}

/* ---- the record of epochs -------------------------------------------------------------------------------------- */

static void persist(void *arg, uint32_t epoch, const char *reason);

static void recorded(void *arg, uint32_t epoch, int rc, const char *text)
{
	struct chair *chair = arg;
	struct coord_view now = coord_view(chair->coord);
	chair->record = NULL;
	if (rc) {
		if (repeat_due(&chair->unrecorded, text, clock_now()))
			log_error("job %s: epoch %u cannot be recorded, nobody is told of it: %s", chair->job, epoch,
				  text);
		chair->retry_ns = clock_deadline(RECORD_RETRY_MS * CLOCK_NS_PER_MS);
	} else {
		chair->recorded = epoch;
		chair->unrecorded = (struct repeat){0};
		coord_persisted(chair->coord, epoch);
	}
	if (!rc && now.epoch > epoch) /* raised again meanwhile */
		persist(chair, now.epoch, coord_reason(chair->coord));
}

static void persist(void *arg, uint32_t epoch, const char *reason)
{
	struct chair *chair = arg;
	catalog_epoch(chair->daemon->catalog, chair->job, epoch);
	if (!chair->spread || epoch <= chair->recorded) {
		coord_persisted(chair->coord, epoch);
		return;
	}
	chair->retry_ns = 0;
	if (chair->record)
		return; /* when it has ended, this one follows */
	if (epochs_record(chair->daemon, chair->job, epoch, reason, recorded, chair, &chair->record))
		recorded(chair, epoch, -ENOMEM, "no memory");
}

static void chair_free(struct chair *chair)
{
	epochs_forget(chair->record);
	sites_free(&chair->sites);
	coord_free(chair->coord);
	tenure_give(chair->daemon, &chair->tenure);
	list_remove(&chair->link);
	free(chair);
}

void chair_end(struct chair *chair)
{
	if (chair->ended && !chair->sites.n)
		chair_free(chair);
}

void chairs_tick(struct daemon *daemon, uint64_t now)
{
	list_for_safe(node, &daemon->chairs) {
		struct chair *chair = list_entry(node, struct chair, link);
		if (chair->retry_ns && now >= chair->retry_ns)
			persist(chair, coord_view(chair->coord).epoch, coord_reason(chair->coord));
		chair_expire(chair);
		chair_rescue_tick(chair);
		chair_end(chair);
	}
	musters_tick(daemon);
}

/* ---- life ------------------------------------------------------------------------------------------------------ */

void chairs_free(struct daemon *daemon)
{
	list_for_safe(node, &daemon->chairs)
		chair_free(list_entry(node, struct chair, link));
	musters_free(daemon);
}

static const struct coord_orders all_orders = {.persist = persist,
					       .adopt = adopt,
					       .raise = raise_epoch,
					       .tell = tell,
					       .turn_away = turn_away,
					       .joined = joined,
					       .look = look,
					       .survey = survey,
					       .fetch = fetch,
					       .restored = restored,
					       .refuse = refuse,
					       .level = level,
					       .fail = fail,
					       .compare = compare,
					       .copy = copy,
					       .keep = keep,
					       .pass = pass,
					       .write = write_part,
					       .clear = clear,
					       .rescue = rescue,
					       .farewell = farewell,
					       .make = make,
					       .seal = seal,
					       .drop = drop,
					       .remove = remove_dir};

static int begin(struct chair *chair, uint32_t world, struct err *err)
{
	struct daemon *daemon = chair->daemon;
	uint32_t epoch;
	int rc = tenure_take(daemon, chair->job, &chair->tenure, err);
	if (rc)
		return rc;
	rc = epochs_first(daemon, chair->job, &epoch, err);
	if (rc)
		return err_prefix(err, rc, "job '%s': no epoch can be chosen", chair->job);
	chair->orders = all_orders;
	chair->orders.arg = chair;
	rc = coord_new(chair->job, world, chair->spread ? daemon->roster->n : 1, epoch, &chair->orders, &chair->coord);
	if (rc)
		return err_set(err, rc, "no memory for job '%s'", chair->job);
	sites_init(&chair->sites, daemon->disk, daemon->root, chair->job, chair->coord);
	return 0;
}

static int chair_new(struct daemon *daemon, const char *job, uint32_t world, bool spread, struct err *err)
{
	unsigned n = 0;
	list_for(node, &daemon->chairs)
		n++;
	if (n >= CHAIRS_MAX)
		return err_set(err, -EBUSY, "job '%s': %d jobs are coordinated here already", job, CHAIRS_MAX);
	struct chair *chair = calloc(1, sizeof(*chair));
	if (!chair)
		return err_set(err, -ENOMEM, "no memory for job '%s'", job);
	*chair = (struct chair){.daemon = daemon, .spread = spread};
	snprintf(chair->job, sizeof(chair->job), "%s", job);
	int rc = begin(chair, world, err);
	if (rc) {
		tenure_give(daemon, &chair->tenure);
		free(chair);
		return rc;
	}
	list_push(&daemon->chairs, &chair->link);
	if (spread)
		coord_withhold(chair->coord);
	return 0;
}

/* Nodes of the last world without a process keep what is in their memory: they let it go as soon as it is on storage. -EAGAIN: as far as is
 * known here all of them are such nodes. */
static int ask_to_yield(struct chair *chair)
{
	struct coord_view v = coord_view(chair->coord);
	struct peer_order order = {.type = PEER_VACATE};
	for (uint32_t n = 0; chair->spread && chair->daemon->net && n < chair->daemon->roster->n; n++)
		if (coord_attends(chair->coord, n))
			give(chair, n, &order);
	return chair->spread && v.entered != v.epoch ? -EAGAIN : -EBUSY;
}

/* A job whose nodes have all gone may come back with another world size. */
int chair_open(struct daemon *daemon, const char *job, uint32_t world, bool spread, struct err *err)
{
	struct chair *chair = chair_find(daemon, job);
	struct coord_view v = chair ? coord_view(chair->coord) : (struct coord_view){0};
	if (chair && v.world == world && chair->spread == spread)
		return 0;
	if (chair && v.attending)
		return err_set(err, ask_to_yield(chair),
			       "job '%s' runs with world size %u%s; world size %u%s must wait until it has ended", job,
			       v.world, chair->spread ? ", on several nodes" : "", world,
			       spread ? ", on several nodes," : "");
	return chair_remake(daemon, job, world, spread, err);
}

/* While the job is not over, who comes with the new world is still to end. */
int chair_remake(struct daemon *daemon, const char *job, uint32_t world, bool spread, struct err *err)
{
	struct chair *chair = chair_find(daemon, job);
	if (chair && chair->sites.n)
		return err_set(err, -EAGAIN, "job '%s': directories of its last world are still in use", job);
	bool stop = (chair && chair->stop && !chair->ended) || muster_stops(daemon, job);
	if (chair)
		chair_free(chair);
	int rc = chair_new(daemon, job, world, spread, err);
	muster_keep_stop(daemon, job, rc && stop);
	if (!rc)
		chair_find(daemon, job)->stop = stop;
	return rc;
}

/* All ranks have finished. A node that holds copies need not have had any. */
void chair_over(struct chair *chair)
{
	struct peer_word word = {.epoch = coord_view(chair->coord).epoch};
	for (uint32_t n = 0; chair->spread && chair->daemon->net && n < chair->daemon->roster->n; n++)
		if (n == chair->daemon->self || net_is_up(chair->daemon->net, n))
			give_word(chair, n, PEER_END, &word, "");
	muster_over(chair->daemon, chair->job);
	chair->ended = true;
	chair_end(chair);
}

/* ---- reports --------------------------------------------------------------------------------------------------- */

void chair_report(struct daemon *daemon, uint32_t node, bool spread, const struct peer_report *r)
{
	struct err err = {{0}};
	if (r->type == PEER_CREW || r->type == PEER_SETTLED || r->type == PEER_PAUSED) {
		muster_report(daemon, node, spread, r);
		return;
	}
	if (r->type == PEER_ASK && r->ask.token) {
		order_asked(daemon, node, r);
		return;
	}
	if (r->type == PEER_ATTEND && r->attend.plan != muster_plan(daemon, r->job))
		return; /* it is told the one that holds, or that all is over, as soon as its launcher offers something */
	if (r->type == PEER_ATTEND && r->attend.finished && chair_view(daemon, r->job).world != r->attend.world)
		return; /* it asks again, for as long as those may come that are still at work */
	if (r->type == PEER_ATTEND) {
		int rc = chair_open(daemon, r->job, r->attend.world, spread, &err);
		if (!rc)
			rc = muster_attends(daemon, r->job, node, r->attend.nranks, &err);
		if (rc) {
			chair_refuse(daemon, node, r->job, rc, err.text);
			return;
		}
		chair_admit(daemon, r->job);
		if (r->attend.plan != muster_plan(daemon, r->job))
			return; /* it had no part in that, and has told so by coming */
	}
	struct chair *chair = chair_find(daemon, r->job);
	if (chair)
		chair_hear(chair, (struct coord_from){.node = spread ? node : 0, .epoch = r->epoch}, r);
}

void chair_knows(struct daemon *daemon, const char *job, enum coord_witness witness, uint32_t epoch)
{
	struct chair *chair = chair_find(daemon, job);
	if (chair)
		coord_knows(chair->coord, 0, witness, epoch);
}

struct coord_view chair_view(const struct daemon *daemon, const char *job)
{
	const struct chair *chair = chair_find(daemon, job);
	return chair ? coord_view(chair->coord) : (struct coord_view){0};
}

bool chair_has(const struct daemon *daemon, const char *job)
{
	return chair_find(daemon, job) != NULL;
}
