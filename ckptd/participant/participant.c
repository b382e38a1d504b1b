#include "participant/participant.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "cluster/room.h"
#include "participant/coordinator_access.h"
#include "replication/room.h"

#include <stdio.h>
#include <string.h>

/* ---- reports --------------------------------------------------------------------------------------------------- */

int participant_send(const struct peers *peers, const struct control *control, uint32_t node,
		     const struct peer_report *r)
{
	AUTO_WBUF struct wbuf body = {0};
	struct net *net = peers->net;
	if (!net || node == NO_NODE)
		return -ENOTCONN; /* the daemon ends, or nobody coordinates */
	peer_term_put(&body, coordinator_term(control, r->job));
	int rc = peer_report_encode(r, &body);
	if (!rc)
		rc = net_send(net, node, r->type, &body);
	if (!rc || rc == -ENOTCONN)
		return rc;
	log_warn("job %s: cannot send %s to node %s: %s", r->job, peer_coord_name(r->type),
		 peers->roster->nodes[node].name, err_name(rc));
	net_drop(net, node, rc); /* it comes back, and is told all that still holds */
	return rc;
}

/* By call or message. */
static void report(const struct peers *peers, struct control *control, bool spread, const struct peer_report *r)
{
	if (!spread || host_here(control, r->job))
		host_report(control, peers->self, spread, r);
	else
		participant_send(peers, control, coordinator_of(control, r->job), r);
}

void participant_say(const struct job *job, struct peer_report *r)
{
	struct reporter from = job_reporter(job);
	snprintf(r->job, sizeof(r->job), "%s", from.name);
	r->epoch = from.epoch;
	report(from.peers, from.control, from.spread, r);
}

static void say_rank(const struct job *job, enum peer_type type, uint32_t rank, bool was_in, const char *why)
{
	struct peer_report r = {.type = type, .rank = {.rank = rank, .was_in = was_in}};
	snprintf(r.rank.why, sizeof(r.rank.why), "%s", why);
	participant_say(job, &r);
}

static void say_failure(const struct job *job, enum peer_type type, struct step_id id, bool storage, int rc,
			const char *text)
{
	struct peer_report r = {.type = type, .save = {.id = id, .rc = rc, .flag = storage}};
	snprintf(r.save.text, sizeof(r.save.text), "%s", text);
	participant_say(job, &r);
}

static void say_save(const struct job *job, enum peer_type type, struct step_id id, const char *text)
{
	say_failure(job, type, id, false, 0, text);
}

void participant_want(const struct job *job, uint32_t rank)
{
	say_rank(job, PEER_RANK_JOIN, rank, false, "");
}

void participant_not_joining(const struct job *job)
{
	participant_say(job, &(struct peer_report){.type = PEER_NOT_JOINING});
}

void participant_lost(const struct job *job, uint32_t rank, bool was_in, const char *why)
{
	say_rank(job, PEER_LOST, rank, was_in, why);
}

void participant_missing(const struct job *job, uint32_t rank)
{
	say_rank(job, PEER_RANK_NOT_BACK, rank, false, "");
}

void participant_restoring(const struct job *job, uint64_t step)
{
	participant_say(job, &(struct peer_report){.type = PEER_RESTORING, .step = step});
}

void participant_not_restoring(const struct job *job)
{
	participant_say(job, &(struct peer_report){.type = PEER_NOT_RESTORING});
}

void participant_found(const struct job *job, const struct peer_restore_candidates *found)
{
	participant_say(job, &(struct peer_report){.type = PEER_RESTORE_CANDIDATES, .found = *found});
}

void participant_fetched(const struct job *job, struct step_id id, int rc, enum wire_source source, const char *text)
{
	struct peer_report r = {.type = PEER_FETCHED, .save = {.id = id, .rc = rc, .level = source}};
	snprintf(r.save.text, sizeof(r.save.text), "%s", text);
	participant_say(job, &r);
}

void participant_copied(const struct job *job, struct step_id id)
{
	say_save(job, PEER_COPIED, id, "");
}

void participant_reached(const struct job *job, struct step_id id, enum level_shown level)
{
	participant_say(job, &(struct peer_report){.type = PEER_REACHED, .save = {.id = id, .level = level}});
}

void participant_uncopied(const struct job *job, struct step_id id, const char *why)
{
	say_save(job, PEER_UNCOPIED, id, why);
}

void participant_prepared(const struct job *job, struct step_id id, uint64_t maker, const struct peer_part *part)
{
	participant_say(job, &(struct peer_report){.type = PEER_PREPARED,
						   .prepared = {.id = id, .maker = maker, .part = *part}});
}

void participant_ready(const struct job *job, struct step_id id)
{
	say_save(job, PEER_READY, id, "");
}

void participant_passed(const struct job *job, struct step_id id, int rc, const char *text)
{
	say_failure(job, PEER_SKIPPED, id, true, rc, text);
}

void participant_cleared(const struct job *job, struct step_id id)
{
	say_save(job, PEER_CLEARED, id, "");
}

void participant_failed(const struct job *job, struct step_id id, bool storage, int rc, const char *text)
{
	say_failure(job, PEER_FAILED, id, storage, rc, text);
}

void participant_forgot(const struct job *job, struct step_id id)
{
	say_save(job, PEER_FORGOT, id, "");
}

void participant_capacity(const struct job *job, const struct peer_capacity *assignment)
{
	participant_say(job, &(struct peer_report){.type = PEER_CAPACITY, .assignment = *assignment});
}

void participant_quiesced(const struct job *job, uint32_t plan, int rc, const char *text)
{
	struct peer_report r = {.type = PEER_QUIESCED, .quiesced = {.plan = plan, .rc = rc}};
	snprintf(r.quiesced.text, sizeof(r.quiesced.text), "%s", text);
	participant_say(job, &r);
}

int participant_can_forward(const struct job *job, struct err *err)
{
	char who[WIRE_TEXT_MAX];
	struct reporter from = job_reporter(job);
	if (!from.spread || coordinator_in_reach(from.control, from.name))
		return 0;
	return err_set(err, -ENOTCONN, "job %s: the other nodes cannot be told, since %s: ask again later", from.name,
		       coordinator_text(from.control, from.name, who, sizeof(who)));
}

void participant_forward(const struct job *job, const struct wire_command *command)
{
	if (job_reporter(job).spread)
		participant_say(job, &(struct peer_report){.type = PEER_REQUEST, .request.command = *command});
}

void participant_roll_back(const struct job *job, const struct wire_rollback *to)
{
	participant_say(job, &(struct peer_report){.type = PEER_REQUEST,
						   .request.command = {.kind = COMMAND_ROLLBACK, .back = *to}});
}

void participant_spilled(const struct peers *peers, struct control *control, const char *job,
			 const struct peer_spilled *spilled)
{
	struct peer_report r = {.type = PEER_SPILLED, .spilled = *spilled};
	snprintf(r.job, sizeof(r.job), "%s", job);
	report(peers, control, true, &r);
}
