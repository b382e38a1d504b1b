#include "chair.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "catalog.h"
#include "epochs.h"
#include "job.h"
#include "net.h"
#include "replica.h"
#include "roster.h"
#include "seat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHAIRS_MAX = 256, RECORD_RETRY_MS = 1000 };

struct chair {
	struct list link;
	struct daemon *daemon;
	char job[NAME_JOB_MAX];
	bool spread;
	struct coord_orders orders;
	struct coord *coord;
	struct epochs_record *record; /* on its way */
	uint32_t recorded;
	uint64_t retry_ns; /* 0: nothing has failed */
};

bool chair_here(const struct daemon *daemon)
{
	return !daemon->roster || daemon->self == 0;
}

static struct chair *find(const struct daemon *daemon, const char *job)
{
	list_for(node, &daemon->chairs) {
		struct chair *chair = list_entry(node, struct chair, link);
		if (!strcmp(chair->job, job))
			return chair;
	}
	return NULL;
}

/* ---- orders ---------------------------------------------------------------------------------------------------- */

static void send(struct chair *chair, uint32_t node, const struct peer_order *order)
{
	AUTO_WBUF struct wbuf body = {0};
	struct net *net = chair->daemon->net;
	if (!net)
		return; /* the daemon ends */
	int rc = peer_order_encode(order, &body);
	if (!rc)
		rc = net_send(net, node, order->type, &body);
	if (!rc || rc == -ENOTCONN)
		return; /* the end of the session tells the rest */
	log_warn("job %s: cannot send %s to node %s: %s", chair->job, peer_coord_name(order->type),
		 chair->daemon->roster->nodes[node].name, err_name(rc));
	net_drop(net, node, rc);
}

/* order: all but the name of the job. */
static void give(struct chair *chair, uint32_t node, struct peer_order *order)
{
	memcpy(order->job, chair->job, sizeof(order->job));
	if (!chair->spread || node == chair->daemon->self)
		seat_obey(chair->daemon, order);
	else
		send(chair, node, order);
}

static void give_word(void *arg, uint32_t node, enum peer_type type, const struct peer_word *word, const char *text)
{
	struct peer_order order = {.type = type, .word = *word};
	snprintf(order.word.text, sizeof(order.word.text), "%s", text);
	give(arg, node, &order);
}

static void adopt(void *arg, uint32_t node, uint32_t epoch, bool resumed)
{
	give_word(arg, node, PEER_ADOPT, &(struct peer_word){.epoch = epoch, .resumed = resumed}, "");
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
	struct chair *chair = find(arg, s->job);
	struct coord_survey survey = {.epoch = s->epoch, .known = s->known, .n = s->n, .unheard = s->unheard};
	AUTO_FREE struct coord_held *found = calloc(s->n ? s->n : 1, sizeof(*found));
	if (!chair)
		return;
	snprintf(survey.names, sizeof(survey.names), "%s", s->names);
	if (!found) /* as if nobody had answered */
		survey = (struct coord_survey){.epoch = s->epoch, .unheard = 1, .names = "no memory"};
	for (size_t i = 0; i < survey.n; i++)
		found[i] = (struct coord_held){.node = s->found[i].node,
					       .rank = s->found[i].rank,
					       .world = s->found[i].world,
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
	give(arg, node, &(struct peer_order){.type = PEER_LEVEL, .save = {.id = id, .level = is}});
}

static void fail(void *arg, uint32_t node, struct step_id id, int rc, const char *text)
{
	struct peer_order order = {.type = PEER_FAIL, .save = {.id = id, .rc = rc}};
	snprintf(order.save.text, sizeof(order.save.text), "%s", text);
	give(arg, node, &order);
}

static void copy(void *arg, uint32_t node, struct step_id id)
{
	give(arg, node, &(struct peer_order){.type = PEER_COPY, .save = {.id = id}});
}

static void seal(void *arg, uint32_t node, struct step_id id, const struct wbuf *manifest)
{
	struct chair *chair = arg;
	(void)node;
	seat_seal(chair->daemon, chair->job, id, manifest);
}

/* ---- the record of epochs -------------------------------------------------------------------------------------- */

static void persist(void *arg, uint32_t epoch, const char *reason);

static void recorded(void *arg, uint32_t epoch, int rc, const char *text)
{
	struct chair *chair = arg;
	struct coord_view now = coord_view(chair->coord);
	chair->record = NULL;
	if (rc) {
		log_error("job %s: epoch %u cannot be recorded, nobody is told of it: %s", chair->job, epoch, text);
		chair->retry_ns = clock_deadline(RECORD_RETRY_MS * CLOCK_NS_PER_MS);
	} else {
		chair->recorded = epoch;
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

void chairs_tick(struct daemon *daemon, uint64_t now)
{
	list_for(node, &daemon->chairs) {
		struct chair *chair = list_entry(node, struct chair, link);
		if (chair->retry_ns && now >= chair->retry_ns)
			persist(chair, coord_view(chair->coord).epoch, coord_reason(chair->coord));
	}
}

/* ---- life ------------------------------------------------------------------------------------------------------ */

static void chair_free(struct chair *chair)
{
	epochs_forget(chair->record);
	coord_free(chair->coord);
	list_remove(&chair->link);
	free(chair);
}

void chairs_free(struct daemon *daemon)
{
	list_for_safe(node, &daemon->chairs)
		chair_free(list_entry(node, struct chair, link));
}

static int chair_new(struct daemon *daemon, const char *job, uint32_t world, bool spread, struct err *err)
{
	uint32_t epoch;
	unsigned n = 0;
	list_for(node, &daemon->chairs)
		n++;
	if (n >= CHAIRS_MAX)
		return err_set(err, -EBUSY, "job '%s': %d jobs are coordinated here already", job, CHAIRS_MAX);
	int rc = epochs_first(daemon, job, &epoch, err);
	if (rc)
		return err_prefix(err, rc, "job '%s': no epoch can be chosen", job);
	struct chair *chair = calloc(1, sizeof(*chair));
	if (!chair)
		return err_set(err, -ENOMEM, "no memory for job '%s'", job);
	*chair = (struct chair){.daemon = daemon, .spread = spread};
	snprintf(chair->job, sizeof(chair->job), "%s", job);
	chair->orders = (struct coord_orders){.arg = chair,
					      .persist = persist,
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
					      .copy = copy,
					      .seal = seal};
	rc = coord_new(job, world, spread ? daemon->roster->n : 1, epoch, &chair->orders, &chair->coord);
	if (rc) {
		free(chair);
		return err_set(err, rc, "no memory for job '%s'", job);
	}
	list_push(&daemon->chairs, &chair->link);
	if (spread)
		coord_withhold(chair->coord);
	return 0;
}

/* A job whose nodes have all gone may come back with another world size. */
int chair_open(struct daemon *daemon, const char *job, uint32_t world, bool spread, struct err *err)
{
	struct chair *chair = find(daemon, job);
	struct coord_view v = chair ? coord_view(chair->coord) : (struct coord_view){0};
	if (chair && v.world == world && chair->spread == spread)
		return 0;
	if (chair && v.attending)
		return err_set(err, -EBUSY,
			       "job '%s' runs with world size %u%s; world size %u%s must wait until it has ended", job,
			       v.world, chair->spread ? ", on several nodes" : "", world,
			       spread ? ", on several nodes," : "");
	if (chair)
		chair_free(chair);
	return chair_new(daemon, job, world, spread, err);
}

/* ---- reports --------------------------------------------------------------------------------------------------- */

/* All ranks have finished. A node that holds copies need not have had any. */
static void end(struct chair *chair)
{
	struct peer_word word = {.epoch = coord_view(chair->coord).epoch};
	for (uint32_t n = 0; chair->spread && chair->daemon->net && n < chair->daemon->roster->n; n++)
		if (n == chair->daemon->self || net_is_up(chair->daemon->net, n))
			give_word(chair, n, PEER_END, &word, "");
	chair_free(chair);
}

static void leave(struct chair *chair, uint32_t node)
{
	if (coord_leave(chair->coord, node) && !coord_view(chair->coord).attending)
		end(chair);
}

static void dispatch(struct chair *chair, struct coord_from from, const struct peer_report *r)
{
	struct coord *c = chair->coord;
	switch (r->type) {
	case PEER_ATTEND:
		coord_attend(c, from.node, r->attend.nranks, r->attend.known);
		return;
	case PEER_LEAVE:
		leave(chair, from.node);
		return;
	case PEER_WANT:
		coord_want(c, from, r->rank.rank);
		return;
	case PEER_JOINING:
		coord_joining(c, from, &r->joining);
		return;
	case PEER_NOT_JOINING:
		coord_not_joining(c, from);
		return;
	case PEER_LOST:
		coord_lost(c, from, r->rank.rank, r->rank.was_in, r->rank.why);
		return;
	case PEER_MISSING:
		coord_missing(c, from, r->rank.rank);
		return;
	case PEER_RESTORING:
		coord_restoring(c, from, r->step);
		return;
	case PEER_NOT_RESTORING:
		coord_not_restoring(c, from);
		return;
	case PEER_FOUND:
		coord_found(c, from, &r->found);
		return;
	case PEER_FETCHED:
		coord_fetched(c, from, &r->save);
		return;
	case PEER_COPIED:
		coord_copied(c, from, r->save.id);
		return;
	case PEER_REACHED:
		coord_reached(c, from, r->save.id, r->save.level);
		return;
	case PEER_UNCOPIED:
		coord_uncopied(c, from, r->save.id);
		return;
	case PEER_PREPARED:
		coord_prepared(c, from, r->prepared.id, &r->prepared.part);
		return;
	case PEER_SEALED:
		coord_sealed(c, from, r->save.id);
		return;
	case PEER_FAILED:
		coord_failed(c, from, r->save.id, r->save.rc, r->save.text);
		return;
	case PEER_FORGOT:
		coord_forgot(c, from.node, r->save.id);
		return;
	default:
		return;
	}
}

static void refuse_attendance(struct daemon *daemon, uint32_t node, const char *job, int rc, const struct err *err)
{
	struct chair nobody = {.daemon = daemon, .spread = true};
	snprintf(nobody.job, sizeof(nobody.job), "%s", job);
	log_warn("%s", err->text);
	turn_away(&nobody, node, rc, err->text);
}

void chair_report(struct daemon *daemon, uint32_t node, bool spread, const struct peer_report *r)
{
	struct err err = {{0}};
	if (r->type == PEER_ATTEND) {
		int rc = chair_open(daemon, r->job, r->attend.world, spread, &err);
		if (rc) {
			refuse_attendance(daemon, node, r->job, rc, &err);
			return;
		}
	}
	struct chair *chair = find(daemon, r->job);
	if (chair)
		dispatch(chair, (struct coord_from){.node = spread ? node : 0, .epoch = r->epoch}, r);
}

void chair_knows(struct daemon *daemon, const char *job, enum coord_witness witness, uint32_t epoch)
{
	struct chair *chair = find(daemon, job);
	if (chair)
		coord_knows(chair->coord, 0, witness, epoch);
}

void chairs_node_down(struct daemon *daemon, uint32_t node, const char *why)
{
	list_for_safe(at, &daemon->chairs) {
		struct chair *chair = list_entry(at, struct chair, link);
		if (chair->spread)
			coord_gone(chair->coord, node, why);
	}
}

struct coord_view chair_view(const struct daemon *daemon, const char *job)
{
	const struct chair *chair = find(daemon, job);
	return chair ? coord_view(chair->coord) : (struct coord_view){0};
}
