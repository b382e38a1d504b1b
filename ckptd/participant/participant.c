#include "participant/participant.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "catalog/room.h"
#include "cluster/room.h"
#include "job/job.h"
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
	memcpy(r->job, job->name, sizeof(r->job));
	r->epoch = job->epoch;
	report(job->peers, job->control, job->spread, r);
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

/* All ranks here train in the epoch that they have entered, or could. */
static bool is_in_epoch(const struct job *job)
{
	bool in = job->spread && job->epoch && job->entered == job->epoch && job->known == job->epoch &&
		  !job->resize.plan && restore_idle(&job->restore);
	for (uint32_t r = 0; in && r < job->nlocal; r++)
		in = job->ranks[r].state == RANK_JOINED && !job->ranks[r].restoring.seq;
	return in;
}

void participant_join(const struct job *job)
{
	struct peer_report r = {.type = PEER_NODE_JOIN,
				.node_join = {.world = job->world,
					      .nranks = job->nlocal,
					      .plan = job->resize.plan,
					      .known = job->known,
					      .replicated = job->copies.replicated,
					      .finished = finish_stands(job),
					      .in = is_in_epoch(job) ? job->epoch : 0}};
	for (uint32_t i = 0; i < job->nlocal; i++)
		r.node_join.ranks[i] = job->ranks[i].id;
	participant_say(job, &r);
	participant_shares(job);
}

void participant_shares(const struct job *job)
{
	const struct layout *layouts[WIRE_LOCAL_MAX];
	const struct registration *regs[WIRE_LOCAL_MAX];
	if (!job->spread)
		return; /* all of it is here */
	for (uint32_t r = 0; r < job->nlocal; r++) {
		if (!job->ranks[r].mem)
			return;
		layouts[r] = &job->ranks[r].mem->layout;
		regs[r] = &job->ranks[r].mem->table->reg;
	}
	struct peer_report r = {.type = PEER_SHARED_PIECES};
	int rc = shares_make(layouts, regs, job->nlocal, &r.shares);
	if (rc)
		log_warn("job %s: what this node holds as others do is not known: %s", job->name, err_name(rc));
	else
		participant_say(job, &r);
}

void participant_tick(struct job *job)
{
	if (!job->join_ns || clock_now() < job->join_ns)
		return;
	job->join_ns = 0;
	participant_join(job);
}

int participant_take(struct job *job, uint32_t plan, struct err *err)
{
	int rc = !job->spread || host_here(job->control, job->name)
			 ? host_open(job->control, job->name, job->world, job->spread, plan, err)
			 : 0;
	if (!rc)
		participant_join(job);
	return rc;
}

void participant_leave(struct job *job)
{
	participant_say(job, &(struct peer_report){.type = PEER_LEAVE, .finished = job_finished(job)});
}

/* Somebody comes from the epoch that the coordinator has told of, and nobody here has entered that: an earlier life of it has given it, too. */
static bool was_given_before(const struct job *job, uint32_t epoch)
{
	return epoch && epoch == job->epoch && epoch != job->entered;
}

/* Where a job is spread nobody goes on in an epoch whose coordinator, or the way to it, was lost: what is known must not be given again. */
void participant_knows(struct job *job, enum coord_witness witness, uint32_t epoch)
{
	if (!job->spread) {
		host_knows(job->control, job->name, witness, epoch);
	} else if (epoch <= EPOCH_MAX && (epoch > job->known || was_given_before(job, epoch))) {
		job->known = epoch;
		if (job->epoch == epoch)
			job->epoch = 0; /* what the coordinator has told is not that one: as if it had told of none */
		job->returning_ns = clock_now();
		participant_join(job);
	}
}

void participant_want(const struct job *job, uint32_t rank)
{
	say_rank(job, PEER_RANK_JOIN, rank, false, "");
}

void participant_joining(const struct job *job, const struct peer_node_ready *joining)
{
	struct peer_report r = {.type = PEER_NODE_READY, .joining = *joining};
	job_blobs_of(&job->ranks[0].mem->table->reg, &r.joining.blobs); /* those of the others are the same */
	participant_say(job, &r);
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

void participant_prepared(const struct job *job, struct step_id id, const struct peer_part *part)
{
	participant_say(job, &(struct peer_report){.type = PEER_PREPARED, .prepared = {.id = id, .part = *part}});
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
	if (!job->spread || coordinator_in_reach(job->control, job->name))
		return 0;
	return err_set(err, -ENOTCONN, "job %s: the other nodes cannot be told, since %s: ask again later", job->name,
		       coordinator_text(job->control, job->name, who, sizeof(who)));
}

void participant_forward(const struct job *job, const struct wire_command *command)
{
	if (job->spread)
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
