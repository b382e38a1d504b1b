/* What job/resize.c asks of its neighbours in the daemon. */
#include "fakes.h"

#include "job/participation.h"
#include "job/rank/rank.h"
#include "job/saving.h"
#include "participant/participant.h"
#include "restore/recovery_log.h"
#include "runtime/client.h"
#include "save/save_policy.h"
#include "save/save_stats.h"
#include "save/saves_private.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct fake_client fake_client;

/* ---- clients ---------------------------------------------------------------------------------------------------- */

void client_send(struct client *client, uint16_t type, uint32_t seq, const struct wbuf *body, const int *fds, int nfds)
{
	(void)client;
	(void)fds;
	(void)nfds;
	cr_assert(!body->failed);
	fake_client.sent++;
	fake_client.type = type;
	fake_client.seq = seq;
	if (type == WIRE_PLAN)
		cr_assert_eq(wire_plan_decode(body->data, body->len, &fake_client.plan, NULL), 0);
	if (type == WIRE_COMMAND)
		cr_assert_eq(wire_command_decode(body->data, body->len, &fake_client.command, NULL), 0);
	if (type == WIRE_MOVED)
		cr_assert_eq(wire_moved_decode(body->data, body->len, &fake_client.moved, NULL), 0);
}

void client_error(struct client *client, uint32_t seq, int rc, const char *fmt, ...)
{
	va_list ap;
	(void)client;
	fake_client.seq = seq;
	fake_client.rc = rc;
	va_start(ap, fmt);
	vsnprintf(fake_client.text, sizeof(fake_client.text), fmt, ap);
	va_end(ap);
}

void client_detach(struct client *client)
{
	(void)client;
	fake_client.detached++;
}

/* ---- ranks ------------------------------------------------------------------------------------------------------ */

struct rank *job_claim(struct job *job, uint32_t id)
{
	struct rank *rank = job_rank(job, id);
	rank = rank ? rank : job_rank(job, RANK_MAX);
	if (rank)
		rank->id = id;
	return rank;
}

uint64_t job_memory(const struct job *job)
{
	(void)job;
	return 0;
}

void rank_carry(struct rank *to, struct rank *from)
{
	to->client = from->client;
	to->pid = from->pid;
	to->state = RANK_CONNECTED;
	from->client = NULL;
	from->pid = 0;
}

void rank_end(struct rank *rank)
{
	(void)rank;
}

void save_stats_end(struct save_stats *stats, const struct snapshot *s)
{
	(void)stats;
	(void)s;
}

void recoveries_end(struct recovery_log *all)
{
	(void)all;
}

bool recoveries_return(const struct recovery_log *all, uint64_t now)
{
	(void)all;
	(void)now;
	return fake_saves.returns;
}

/* ---- saves ------------------------------------------------------------------------------------------------------ */

void job_init_saves(struct job *job)
{
	job->saves = (struct saves){0};
}

void saves_free(struct saves *saves)
{
	(void)saves;
}

void saves_follow(struct saves *saves)
{
	(void)saves;
}

struct snapshot *saves_in_memory(struct saves *saves, uint64_t step)
{
	(void)saves;
	(void)step;
	return fake_saves.snapshot;
}

bool saves_decide(const struct saves *saves)
{
	(void)saves;
	return true;
}

bool saves_busy(const struct saves *saves)
{
	(void)saves;
	return false;
}

bool saves_idle_here(const struct saves *saves)
{
	return saves_idle(saves);
}

bool saves_idle(const struct saves *saves)
{
	(void)saves;
	return !fake_saves.running;
}

void saves_abandon(struct saves *saves, const char *why)
{
	(void)why;
	(void)saves;
	fake_saves.running = false;
}

void restore_cancel(struct restore *restore)
{
	restore->state = RESTORE_IDLE;
}

int queue_flush(struct saves *saves, struct step_id *id, struct err *err)
{
	(void)saves;
	(void)id;
	(void)err;
	fake_saves.flushes++;
	return 0;
}

/* ---- participant ------------------------------------------------------------------------------------------------------- */

void participation_join(const struct job *job)
{
	(void)job;
	fake_participant.attended++;
}

int participation_take(struct job *job, uint32_t plan, struct err *err)
{
	(void)job;
	(void)plan;
	fake_participant.taken++;
	return fake_participant.take_rc ? err_set(err, fake_participant.take_rc, "not yet") : 0;
}

void participation_leave(struct job *job, bool comes_again)
{
	(void)job;
	fake_participant.left++;
	fake_participant.comes_again = comes_again;
}

void participant_capacity(const struct job *job, const struct peer_capacity *assignment)
{
	(void)job;
	fake_participant.assignments++;
	fake_participant.assignment = *assignment;
}

void participant_quiesced(const struct job *job, uint32_t plan, int rc, const char *text)
{
	(void)job;
	fake_participant.quiesced++;
	fake_participant.said = (struct peer_quiesced){.plan = plan, .rc = rc};
	snprintf(fake_participant.said.text, sizeof(fake_participant.said.text), "%s", text);
}
