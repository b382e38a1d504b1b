#include "job/rank/barriers.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "job/participation.h"
#include "job/rank/job_former.h"
#include "job/rank/prefault.h"
#include "participant/room.h"
#include "runtime/room.h"
#include "save/room.h"

#include <stdio.h>
#include <string.h>

/* How long a restarted daemon waits for arenas before it makes new ones. */
#define ARENA_GRACE_NS (3 * CLOCK_NS_PER_S)

/* No process takes part for it: it has finished, or was given up. One that the launcher has named and that has not said HELLO
 * yet is on its way. */
static bool wanted_anew(const struct rank *rank)
{
	if (rank->state == RANK_LEFT)
		return true;
	return !rank->client && (!rank->pid || (rank->state == RANK_ABSENT && rank->hello_received));
}

void member_forget_table(struct rank *rank)
{
	rank->registered = rank->arena_sent = false;
	table_put(rank->table);
	rank->table = NULL;
}

void member_tell_epoch(struct job *job, const char *reason, bool elsewhere)
{
	AUTO_WBUF struct wbuf body = {0};
	struct wire_epoch m = {.epoch = job->epoch, .elsewhere = elsewhere};
	snprintf(m.reason, sizeof(m.reason), "%s", reason);
	for (uint32_t r = 0; r < job->nlocal; r++) {
		struct rank *rank = &job->ranks[r];
		if (rank->id == RANK_MAX || !wanted_anew(rank))
			continue;
		rank->state = RANK_ABSENT; /* also one that had finished: all are needed again */
		member_forget_table(rank);
		m.lost[m.nlost++] = rank->id;
	}
	if (wire_epoch_encode(&m, &body))
		return;
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (job->ranks[r].client)
			client_send(job->ranks[r].client, WIRE_EPOCH, 0, &body, NULL, 0);
	if (job->launcher)
		client_send(job->launcher, WIRE_EPOCH, 0, &body, NULL, 0);
}

void member_refuse(struct rank *rank, struct waiting *waiting, int rc, const char *fmt, ...)
{
	char text[WIRE_TEXT_MAX];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (waiting->seq && rank->client)
		client_error(rank->client, waiting->seq, rc, "%s", text);
	*waiting = (struct waiting){0};
}

static struct waiting wait_until(const struct rank *rank, uint32_t seq, uint32_t timeout_ms)
{
	uint64_t ms = timeout_ms ? timeout_ms : rank->job->policy.join_timeout_ms;
	return (struct waiting){.seq = seq, .deadline = clock_deadline(ms * CLOCK_NS_PER_MS)};
}

/* ---- register -------------------------------------------------------------------------------------------------- */

static void send_arenas(struct rank *rank)
{
	AUTO_WBUF struct wbuf body = {0};
	struct job *job = rank->job;
	struct wire_arena m = {.nlocal = job->nlocal};
	int fds[1 + WIRE_LOCAL_MAX] = {rank->doorbell};
	for (uint32_t r = 0; r < job->nlocal; r++) {
		m.ranks[r] = job->ranks[r].id;
		m.size[r] = job->ranks[r].mem->size;
		fds[1 + r] = r == rank->index ? job->ranks[r].mem->fd : job->ranks[r].mem->fd_read;
	}
	body.failed = wire_arena_encode(&m, &body) != 0;
	client_send(rank->client, WIRE_ARENA, rank->registering.seq, &body, fds, 1 + (int)job->nlocal);
	rank->registering = (struct waiting){0};
	rank->arena_sent = true;
	if (rank->state == RANK_CONNECTED)
		rank->state = rank->resumed ? RANK_JOINED : RANK_REGISTERED;
}

static bool every_rank_registered(const struct job *job)
{
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (!job->ranks[r].registered)
			return false;
	return true;
}

/* After a restart the arenas are handed back by several hands: forming the job without one of them would lose it. */
static bool arenas_on_their_way(const struct job *job)
{
	if (job->has_arenas || !job->returning_ns || clock_now() - job->returning_ns > ARENA_GRACE_NS)
		return false;
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (!job->ranks[r].mem)
			return true;
	return false;
}

/* The ticks of the loop ask again. */
static bool arenas_being_filled(const struct job *job)
{
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (job->ranks[r].mem && !job->ranks[r].mem->ready && !job->ranks[r].mem->failed)
			return true;
	return false;
}

static void answer_registered(struct job *job, int rc, const struct err *err)
{
	for (uint32_t r = 0; r < job->nlocal; r++) {
		struct rank *rank = &job->ranks[r];
		if (!rank->registering.seq)
			continue;
		if (rc) {
			rank->registered = false;
			member_refuse(rank, &rank->registering, rc, "%s", err->text);
			member_refuse(rank, &rank->joining, rc, "%s", err->text);
		} else {
			send_arenas(rank);
		}
	}
}

static bool somebody_waits(const struct job *job)
{
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (job->ranks[r].registering.seq)
			return true;
	return false;
}

static void admit_waiting(struct job *job);

static void try_arenas(struct job *job)
{
	struct err err = {{0}};
	if (!every_rank_registered(job) || !somebody_waits(job) || arenas_on_their_way(job) ||
	    arenas_being_filled(job) || former_checks(job))
		return;
	int rc = job_make_arenas(job, &err);
	if (rc)
		log_warn("job %s: %s", job->name, err.text);
	else if (arenas_being_filled(job))
		return;
	answer_registered(job, rc, &err);
	if (rc)
		return;
	saves_follow(&job->saves);
	admit_waiting(job);
}

void job_register(struct rank *rank, uint32_t seq, const void *body, size_t len)
{
	struct err err = {{0}};
	struct job *job = rank->job;
	table_put(rank->table);
	rank->table = NULL;
	rank->registered = false;
	struct rbuf in = rbuf_of(body, len);
	uint32_t timeout_ms = rbuf_u32(&in);
	const void *table = rbuf_take(&in, in.failed ? 0 : len - sizeof(timeout_ms));
	rank->registering = wait_until(rank, seq, timeout_ms);
	int rc = failpoint("job.register", NULL);
	if (!rc)
		rc = table ? job_take_table(rank, table, len - sizeof(timeout_ms), &err)
			   : err_set(&err, -EBADMSG, "REGISTER is cut");
	if (rank->table && resize_tell(rank, seq, &rank->table->reg)) {
		member_forget_table(rank);
		rank->registering = (struct waiting){0};
		return;
	}
	if (rc) {
		member_refuse(rank, &rank->registering, rc, "%s", err.text);
		return;
	}
	rank->registered = true;
	try_arenas(job);
}

/* Processes may be at work in it, and wait for what nobody will show there. */
static void let_go(const struct job *job, struct memory *mem)
{
	levels_close(job->runtime->config.store, job->name, mem);
	memory_retire(mem);
	memory_put(mem);
}

/* rank: whose it is said to be; NULL: of nobody here. */
static int check_return(const struct job *job, const struct rank *rank, uint32_t id, const struct memory *mem,
			struct err *err)
{
	const struct registration *reg = &mem->table->reg;
	if (!rank)
		return err_set(err, -EINVAL, "rank %u is none of the %u here, of a world of %u", id, job->nlocal,
			       job->world);
	if (reg->rank != id || reg->world != job->world)
		return err_set(err, -EBADMSG, "the arena is that of rank %u of %u, not of rank %u of %u", reg->rank,
			       reg->world, id, job->world);
	return job_check_arena(job, mem->size, err);
}

int job_return(struct job *job, uint32_t id, int fd, struct err *err)
{
	struct memory *mem;
	struct rank *rank = job_claim(job, id);
	if (rank && rank->mem) { /* somebody else has handed it back already */
		close(fd);
		return 0;
	}
	int rc = memory_adopt(fd, job->name, &mem, err);
	if (rc)
		return rc;
	rc = check_return(job, rank, id, mem, err);
	if (rc) {
		let_go(job, mem);
		return rc;
	}
	levels_close(job->runtime->config.store, job->name, mem);
	prefault_start(job->jobs, mem);
	rank->mem = mem;
	job->runtime->memory.arenas += mem->size;
	job_keep_arena(rank);
	log_info("job %s: the arena of rank %u is back", job->name, id);
	health_marks_return(&job->health_marks, mem);
	participation_shares(job);
	participation_knows(job, WITNESS_ARENA, atomic_load(&mem->head->epoch));
	try_arenas(job);
	return 0;
}

/* ---- join ------------------------------------------------------------------------------------------------------ */

static bool everybody_joins(const struct job *job)
{
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (!job->ranks[r].joining.seq || job->ranks[r].registering.seq)
			return false;
	return true;
}

static void try_join(struct job *job)
{
	struct peer_node_ready m = {.n = job->nlocal, .goes_on = halt_may_be_known(job)};
	if (!job->epoch || !everybody_joins(job))
		return;
	for (uint32_t r = 0; r < job->nlocal; r++) {
		const struct rank *rank = &job->ranks[r];
		m.ranks[r] = rank->id;
		m.lens[r] = rank->address_len;
		memcpy(m.addresses + (size_t)r * WIRE_ADDRESS_MAX, rank->address, rank->address_len);
	}
	participation_joining(job, &m);
}

/* The processes that wait here are those that have entered. Of one that was lost meanwhile the coordinator hears, and raises the epoch. */
static bool have_entered(const struct job *job, const struct wire_joined *joined)
{
	for (uint32_t r = 0; r < job->nlocal; r++) {
		const struct rank *rank = &job->ranks[r];
		if (!rank->joining.seq || rank->registering.seq || joined->address_len[rank->id] != rank->address_len ||
		    memcmp(joined->addresses + (size_t)rank->id * WIRE_ADDRESS_MAX, rank->address, rank->address_len))
			return false;
	}
	return joined->epoch == job->epoch;
}

void member_joined(struct job *job, const struct wire_joined *joined)
{
	AUTO_WBUF struct wbuf body = {0};
	if (joined->world != job->world || !have_entered(job, joined)) {
		log_info("job %s: epoch %u was entered with a process that is not there any more", job->name,
			 joined->epoch);
		return;
	}
	body.failed = wire_joined_encode(joined, &body) != 0;
	saves_follow(&job->saves);
	/* What an earlier incarnation of the daemon left incomplete stays so: nobody who began it is in this epoch. */
	saves_poison(&job->saves, job->epoch);
	job->fresh = false;
	job->entered = job->epoch;
	halt_entered(job);
	resize_entered(&job->resize);
	job->entered_ns = clock_now();
	for (uint32_t r = 0; r < job->nlocal; r++) {
		struct rank *rank = &job->ranks[r];
		rank->state = RANK_JOINED;
		memory_set_epoch(rank->mem, job->epoch);
		client_send(rank->client, WIRE_JOINED, rank->joining.seq, &body, NULL, 0);
		rank->joining = (struct waiting){0};
	}
}

static void admit(struct rank *rank)
{
	participant_want(rank->job, rank->id);
	try_join(rank->job);
}

/* All want to enter before the node says that it waits: after that it may have entered. */
static void admit_waiting(struct job *job)
{
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (job->ranks[r].joining.seq && job->epoch)
			participant_want(job, job->ranks[r].id);
	try_join(job);
}

void member_epoch_known(struct job *job)
{
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (job->ranks[r].mem)
			memory_set_epoch(job->ranks[r].mem, job->epoch);
	saves_follow(&job->saves);
	try_join(job); /* not that they want to: by now they may have entered */
}

void member_turn_away(struct job *job, int rc, const char *text)
{
	if (repeat_due(&job->refusal, text, clock_now()))
		log_warn("job %s: %s", job->name, text);
	snprintf(job->refused, sizeof(job->refused), "%s", text);
	for (uint32_t r = 0; rc != -EAGAIN && r < job->nlocal; r++)
		if (job->ranks[r].joining.seq)
			member_refuse(&job->ranks[r], &job->ranks[r].joining, rc, "%s", text);
}

void job_join(struct rank *rank, uint32_t seq, const struct wire_join *m)
{
	if (resize_tell(rank, seq, NULL))
		return;
	rank->joining = wait_until(rank, seq, m->timeout_ms);
	if (!rank->registering.seq && rank->state != RANK_REGISTERED && rank->state != RANK_JOINED) {
		member_refuse(rank, &rank->joining, -EINVAL, "join before register");
		return;
	}
	rank->address_len = m->address_len;
	memcpy(rank->address, m->address, m->address_len);
	/* After a restart of the daemon a rank may ask to join while its table still waits for the others. */
	if (rank->registering.seq)
		return;
	if (rank->job->epoch)
		admit(rank);
	else
		participation_join(rank->job); /* it may have been turned away, by what is over by now */
}

/* ---- restore --------------------------------------------------------------------------------------------------- */

static void refuse_all_restores(struct job *job, int rc, const char *text)
{
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (job->ranks[r].restoring.seq)
			member_refuse(&job->ranks[r], &job->ranks[r].restoring, rc, "%s", text);
}

static void try_restore(struct job *job)
{
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (!job->ranks[r].restoring.seq)
			return;
	uint64_t step = job->ranks[0].restore_step;
	for (uint32_t r = 1; r < job->nlocal; r++) {
		if (job->ranks[r].restore_step == step)
			continue;
		char text[WIRE_TEXT_MAX];
		snprintf(text, sizeof(text), "rank %u asks for step %ld and rank %u for step %ld (-1: the newest)",
			 job->ranks[0].id, (long)step, job->ranks[r].id, (long)job->ranks[r].restore_step);
		refuse_all_restores(job, -EINVAL, text);
		return;
	}
	participant_restoring(job, step);
}

void job_restore(struct rank *rank, uint32_t seq, const struct wire_restore *m)
{
	rank->restoring = wait_until(rank, seq, m->timeout_ms);
	if (rank->state != RANK_JOINED || m->epoch != rank->job->epoch) {
		member_refuse(rank, &rank->restoring, -ESTALE, "the job is in epoch %u: join first", rank->job->epoch);
		return;
	}
	saves_follow(&rank->job->saves); /* a save that was begun just now */
	if (rank->job->saves.begun.epoch == rank->job->epoch) {
		member_refuse(rank, &rank->restoring, -EINVAL,
			      "saves were begun in epoch %u: join again before restoring, so that no step is saved "
			      "twice in an epoch",
			      rank->job->epoch);
		return;
	}
	rank->restore_step = m->step;
	try_restore(rank->job);
}

/* Whoever waits here waits for all ranks: those that have finished are needed again. Where a process of one is left, it may still come by
 * itself, and the launcher would kill it: the next tick asks again. */
static void recall(struct job *job)
{
	bool waits = false, gone = false, left = false;
	for (uint32_t r = 0; r < job->nlocal; r++) {
		const struct rank *rank = &job->ranks[r];
		bool runs = rank->client || rank->pid || rank->launched;
		waits |= rank->registering.seq || rank->joining.seq;
		gone |= rank->state == RANK_LEFT && !runs;
		left |= rank->state == RANK_LEFT && runs;
	}
	if (waits && gone && !left)
		member_tell_epoch(job, "ranks that have finished are needed again", false);
}

/* ---- deadlines ------------------------------------------------------------------------------------------------- */

static void name_missing(const struct job *job, bool (*missing)(const struct rank *), char *dst, size_t size)
{
	size_t at = 0;
	dst[0] = 0;
	for (uint32_t r = 0; r < job->nlocal && at + 64 < size; r++)
		if (job->ranks[r].id == RANK_MAX)
			at += (size_t)snprintf(dst + at, size - at, "%sone that has not come yet", at ? ", " : "");
		else if (missing(&job->ranks[r]))
			at += (size_t)snprintf(dst + at, size - at, "%s%u (%s)", at ? ", " : "rank ", job->ranks[r].id,
					       rank_state_name(job->ranks[r].state));
	if (!at && job->spread && job->epoch)
		snprintf(dst, size, "ranks on other nodes");
	else if (!at && job->spread)
		snprintf(dst, size, "the node that coordinates the job%s%s", *job->refused ? ": " : "", job->refused);
}

static bool not_registered(const struct rank *rank)
{
	return !rank->registered;
}

static bool not_joining(const struct rank *rank)
{
	return !rank->joining.seq;
}

static bool not_restoring(const struct rank *rank)
{
	return !rank->restoring.seq;
}

/* True when the request was refused. */
static bool expire_one(struct rank *rank, struct waiting *waiting, uint64_t now, const char *barrier,
		       bool (*missing)(const struct rank *))
{
	char who[WIRE_TEXT_MAX / 2];
	if (!waiting->seq || now < waiting->deadline)
		return false;
	name_missing(rank->job, missing, who, sizeof(who));
	member_refuse(rank, waiting, -ETIMEDOUT, "%s: %s%s", barrier,
		      *who ? "waiting for " : "the node is not ready yet", who);
	return true;
}

void member_expire(struct job *job, uint64_t now)
{
	try_arenas(job);
	recall(job);
	for (uint32_t r = 0; r < job->nlocal; r++) {
		struct rank *rank = &job->ranks[r];
		if (expire_one(rank, &rank->registering, now, "register", not_registered))
			member_refuse(rank, &rank->joining, -ETIMEDOUT, "register: the deadline has passed");
		if (expire_one(rank, &rank->joining, now, "join", not_joining))
			participant_not_joining(job);
		/* All or none: ranks that restored must not meet one that was told that they did not. */
		if (expire_one(rank, &rank->restoring, now, "restore", not_restoring)) {
			restore_cancel(&job->restore);
			refuse_all_restores(job, -ETIMEDOUT, "restore: the deadline of another rank has passed");
			participant_not_restoring(job);
		}
	}
}
