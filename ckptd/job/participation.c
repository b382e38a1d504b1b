#include "job/participation.h"

#include "base/clock.h"
#include "base/log.h"
#include "format/arena/job_blobs.h"
#include "format/arena/tensor_heads.h"
#include "job/job.h"
#include "participant/room.h"

#include <stdio.h>

struct reporter job_reporter(const struct job *job)
{
	return (struct reporter){.peers = job->peers,
				 .control = job->control,
				 .name = job->name,
				 .spread = job->spread,
				 .epoch = job->epoch};
}

/* All ranks here have, and nobody has heard of a later one. */
static bool has_entered_epoch(const struct job *job)
{
	return job->spread && job->epoch && job->entered == job->epoch && job->known == job->epoch &&
	       !resize_changes(&job->resize);
}

/* All ranks here train in the epoch that they have entered, or could. */
static bool is_in_epoch(const struct job *job)
{
	bool in = has_entered_epoch(job) && restore_idle(&job->restore);
	for (uint32_t r = 0; in && r < job->nlocal; r++)
		in = job->ranks[r].state == RANK_JOINED && !job->ranks[r].restoring.seq;
	return in;
}

void participation_join(const struct job *job)
{
	struct peer_report r = {.type = PEER_NODE_JOIN,
				.node_join = {.world = job->world,
					      .nranks = job->nlocal,
					      .plan = job->resize.plan,
					      .known = job->known,
					      .replicated = job->copies.replicated,
					      .finished = finish_stands(job),
					      .goes_on = halt_may_be_known(job),
					      .gone = !job_alive(job) && !job->launcher,
					      .halt = job_alive(job) ? job->halt.later : (struct peer_halt){0},
					      .in = is_in_epoch(job) ? job->epoch : 0}};
	if (!job->nlocal)
		return; /* a plan has taken the last one away since this was wanted: no coordinator understands that */
	for (uint32_t i = 0; i < job->nlocal; i++)
		r.node_join.ranks[i] = job->ranks[i].id;
	if (has_entered_epoch(job))
		r.node_join.ncopied = saves_list_copied(&job->saves, r.node_join.copied, PEER_MEMORY);
	participant_say(job, &r);
	participation_shares(job);
}

void participation_shares(const struct job *job)
{
	participation_list(job, 0);
}

void participation_list(const struct job *job, uint32_t shares)
{
	AUTO_WBUF struct wbuf listed = {0};
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
	int rc = shares_make(layouts, regs, job->nlocal, shares, &r.shares, &listed);
	if (rc)
		log_warn("job %s: what this node holds as others do is not known: %s", job->name, err_name(rc));
	else
		participant_say(job, &r);
}

void participation_tick(struct job *job)
{
	if (!job->join_ns || clock_now() < job->join_ns)
		return;
	job->join_ns = 0;
	resize_say(job);
	if (job->nlocal)
		participation_join(job);
}

int participation_take(struct job *job, uint32_t plan, struct err *err)
{
	int rc = !job->spread || host_here(job->control, job->name)
			 ? host_open(job->control, job->name, job->world, job->spread, plan, err)
			 : 0;
	if (!rc)
		participation_join(job);
	return rc;
}

void participation_leave(struct job *job, bool comes_again)
{
	enum peer_leave why = comes_again         ? PEER_RANKS_COME_AGAIN
			      : job_finished(job) ? PEER_RANKS_FINISHED
						  : PEER_RANKS_LOST;
	participant_say(job, &(struct peer_report){.type = PEER_LEAVE, .leave = why});
}

/* Somebody comes from the epoch that the coordinator has told of, and nobody here has entered that: an earlier incarnation of it has given it, too. */
static bool was_given_before(const struct job *job, uint32_t epoch)
{
	return epoch && epoch == job->epoch && epoch != job->entered;
}

/* Where a job is spread nobody goes on in an epoch whose coordinator, or the way to it, was lost: what is known must not be given again. */
void participation_knows(struct job *job, enum coord_witness witness, uint32_t epoch)
{
	if (!job->spread) {
		host_knows(job->control, job->name, witness, epoch);
	} else if (epoch <= EPOCH_MAX && (epoch > job->known || was_given_before(job, epoch))) {
		job->known = epoch;
		if (job->epoch == epoch)
			job->epoch = 0; /* what the coordinator has told is not that one: as if it had told of none */
		job->returning_ns = clock_now();
		participation_join(job);
	}
}

void participation_joining(const struct job *job, const struct peer_node_ready *joining)
{
	struct peer_report r = {.type = PEER_NODE_READY, .joining = *joining};
	for (uint32_t i = 0; i < job->nlocal; i++)
		r.joining.tensors[i] = job->ranks[i].mem->table->tensors;
	job_blobs_of(&job->ranks[0].mem->table->reg, &r.joining.blobs); /* those of the others are the same */
	participant_say(job, &r);
}

static void list_tensors(const struct registration *reg, struct peer_tensors *m, struct wbuf *heads)
{
	m->n = tensor_heads_put(reg, m->ask.first, PEER_TENSORS_LISTED, heads, &m->next);
	m->heads = heads->data;
	if (wbuf_finish(heads))
		m->n = 0, m->digest = 0; /* as if there were no table: that is no answer */
}

static void tell_tensor(const struct registration *reg, struct peer_tensors *m)
{
	const struct entry *tensor = tensor_heads_find(reg, m->ask.name);
	if (!tensor)
		return;
	snprintf(m->name, sizeof(m->name), "%s", tensor->name);
	tensor_head_text(tensor, m->text, sizeof(m->text));
}

void participation_tensors(const struct job *job, const struct peer_tensors_ask *ask)
{
	AUTO_WBUF struct wbuf heads = {0};
	const struct rank *rank = job_rank(job, ask->rank);
	struct peer_report r = {.type = PEER_TENSORS, .tensors = {.ask = *ask}};
	if (!rank || !rank->mem)
		return; /* the coordinator hears of who has it, or has another one */
	r.tensors.digest = rank->mem->table->tensors;
	if (ask->name)
		tell_tensor(&rank->mem->table->reg, &r.tensors);
	else
		list_tensors(&rank->mem->table->reg, &r.tensors, &heads);
	participant_say(job, &r);
}
