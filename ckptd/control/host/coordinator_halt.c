#include "control/host/coordinator_halt.h"

#include "base/log.h"
#include "cluster/room.h"
#include "control/control.h"
#include "control/host/coordinator_host_private.h"
#include "control/record/epoch_record.h"
#include "replication/room.h"
#include "runtime/room.h"

/* The last one that a record can hold is kept for the end of what was asked: see forget(). */
static const uint64_t number_of_end = UINT32_MAX;

/* ---- the record ------------------------------------------------------------------------------------------------- */

static const enum wire_command_kind kinds[ASKED_HALT_END] = {[ASKED_HALT_NOW] = COMMAND_HALT,
							     [ASKED_HALT_AFTER_NEXT] = COMMAND_HALT_AFTER,
							     [ASKED_HALT_BEFORE] = COMMAND_HALT_BEFORE};

static bool waits(const struct coordinator_halt *h)
{
	return h->asked.number > h->is.number;
}

static const struct peer_halt *last_of(const struct coordinator_halt *h)
{
	return waits(h) ? &h->asked : &h->is;
}

/* It never begins at 0 again: nodes pay no heed to a number below the one that they know. */
static uint64_t number_after(uint64_t number)
{
	return number < number_of_end ? number + 1 : number_of_end;
}

void halt_to_record(const struct coordinator_halt *h, struct asked_record *asked)
{
	const struct peer_halt *last = last_of(h);
	asked->halt_number = (uint32_t)last->number;
	asked->halt_before = last->before_ns;
	asked->halt = ASKED_NO_HALT;
	for (int i = ASKED_HALT_NOW; i < ASKED_HALT_END; i++)
		if (kinds[i] == last->kind)
			asked->halt = (enum asked_halt)i;
}

bool halt_is_new(const struct coordinator_halt *h)
{
	return last_of(h)->number != h->recorded;
}

static bool is_kept(const struct coordinator_host *host)
{
	return host->spread && epochs_are_kept(host->control);
}

/* What was asked of an earlier run that was spread is nothing to a job on one node. */
void halt_recall(struct coordinator_host *host, const struct asked_record *asked)
{
	bool kept = is_kept(host);
	host->halt = (struct coordinator_halt){.is = {.number = asked->halt_number,
						      .kind = kept ? kinds[asked->halt] : 0,
						      .before_ns = kept ? asked->halt_before : 0},
					       .recorded = asked->halt_number,
					       .unsure = kept && asked->halt != ASKED_NO_HALT};
}

static void put_on_record(struct coordinator_host *host)
{
	host_persist(host, coord_view(host->coord).epoch, coord_reason(host->coord));
}

/* ---- telling ----------------------------------------------------------------------------------------------------- */

static void tell(struct coordinator_host *host, uint32_t node)
{
	host_give(host, node, &(struct peer_order){.type = PEER_HALT, .halt = host->halt.is});
}

/* All nodes: those that have no rank of it pay no heed. */
static void tell_all(struct coordinator_host *host)
{
	const struct control *control = host->control;
	for (uint32_t n = 0; host->spread && n < control->peers->roster->n; n++)
		if (n == control->peers->self || (control->peers->net && net_is_up(control->peers->net, n)))
			tell(host, n);
	if (!host->spread && host->halt.is.kind == COMMAND_HALT)
		tell(host, 0);
}

/* Nobody enters an epoch before that stands there. */
static void hold(struct coordinator_host *host)
{
	host->halt.holds = halt_is_new(&host->halt);
	put_on_record(host);
}

static void let_enter(struct coordinator_host *host)
{
	struct coordinator_halt *h = &host->halt;
	if (!h->holds || halt_is_new(h))
		return;
	h->holds = false;
	coord_admit(host->coord);
}

void halt_recorded(struct coordinator_host *host)
{
	struct coordinator_halt *h = &host->halt;
	h->recorded = h->written;
	if (waits(h) && h->asked.number == h->written) {
		h->is = h->asked;
		if (!h->unsure)
			tell_all(host);
	}
	let_enter(host);
}

/* ---- asking ------------------------------------------------------------------------------------------------------- */

int host_halt(struct control *control, const char *job, const struct wire_command *command, struct err *err)
{
	struct coordinator_host *host = host_find(control, job);
	if (!host || host->ended)
		return err_set(err, -EAGAIN, "job '%s' has no ranks on any node yet: ask again when it has", job);
	struct coordinator_halt *h = &host->halt;
	const struct peer_halt last = *last_of(h);
	bool ends = last.kind == COMMAND_HALT && !h->unsure;
	if (ends && command->kind == COMMAND_HALT)
		return waits(h) ? -EINPROGRESS : 0;
	if (ends)
		return err_set(err, -EINVAL, "job %s has been asked to end already: that cannot be taken back", job);
	if (number_after(last.number) == number_of_end)
		return err_set(err, -EOVERFLOW,
			       "job %s has been asked to end %llu times: no number is left for once more", job,
			       (unsigned long long)last.number);
	h->unsure = false;
	h->since = coord_view(host->coord).epoch;
	h->asked = (struct peer_halt){.number = number_after(last.number),
				      .kind = command->kind == COMMAND_GO_ON ? 0 : command->kind,
				      .before_ns = command->kind == COMMAND_HALT_BEFORE ? command->at_ns : 0};
	if (is_kept(host)) {
		put_on_record(host);
		return waits(h) ? -EINPROGRESS : 0;
	}
	h->is = h->asked;
	h->recorded = h->is.number;
	tell_all(host);
	return 0;
}

bool host_halt_waits(const struct control *control, const char *job)
{
	const struct coordinator_host *host = host_find(control, job);
	return host && waits(&host->halt);
}

bool host_ends(const struct control *control, const char *job)
{
	const struct coordinator_host *host = host_find(control, job);
	return host && last_of(&host->halt)->kind == COMMAND_HALT;
}

/* ---- who is there ------------------------------------------------------------------------------------------------- */

/* Without a record. One that was lost may have given a number that was given again. */
static void compare(struct coordinator_host *host, uint32_t node, const struct peer_halt *said)
{
	struct coordinator_halt *h = &host->halt;
	bool newer = host->spread && said->number > h->is.number;
	if (newer) {
		h->is = *said;
		h->recorded = said->number;
		tell_all(host);
	} else if (host->spread ? !peer_halt_equal(said, &h->is) : h->is.kind == COMMAND_HALT) {
		tell(host, node);
	}
}

/* Somebody is left of those who were asked. */
static void confirm(struct coordinator_host *host)
{
	log_info("job %s: what was asked of it under another coordinator holds", host->job);
	host->halt.unsure = false;
	tell_all(host);
}

void halt_attends(struct coordinator_host *host, uint32_t node, const struct peer_node_join *m)
{
	struct coordinator_halt *h = &host->halt;
	if (!is_kept(host)) {
		compare(host, node, &m->halt);
	} else if (h->unsure) {
		if (m->goes_on)
			confirm(host);
	} else if (m->halt.number > last_of(h)->number) { /* than is on record: an older record has taken its place */
		h->asked = *last_of(h);
		h->asked.number = number_after(m->halt.number);
		put_on_record(host);
	} else if (!peer_halt_equal(&m->halt, &h->is)) {
		tell(host, node);
	}
}

/* ---- who is left --------------------------------------------------------------------------------------------------- */

/* Some of those who wait may have been told meanwhile. */
static void take_back(struct coordinator_host *host)
{
	struct coordinator_halt *h = &host->halt;
	log_info("job %s: nobody is left of those who were asked to end: it begins anew", host->job);
	h->unsure = false;
	h->asked = (struct peer_halt){.number = number_after(last_of(h)->number)};
	if (is_kept(host)) {
		hold(host);
		return;
	}
	h->is = h->asked;
	h->recorded = h->is.number;
	tell_all(host);
}

/* An epoch was entered since it was asked: who has been in none has come later. */
static bool was_heard(const struct coordinator_host *host)
{
	return host->halt.unsure || coord_view(host->coord).entered >= host->halt.since;
}

/* Nodes keep arenas, and take part, when all of their processes are gone: who is left is known when all wait, and not before. */
bool halt_lets_enter(struct coordinator_host *host, bool goes_on)
{
	struct coordinator_halt *h = &host->halt;
	bool asked = host->spread && !h->holds && last_of(h)->kind;
	if (asked && goes_on && h->unsure)
		confirm(host);
	else if (asked && !goes_on && was_heard(host))
		take_back(host);
	return !h->holds;
}

/* True: that is to be recorded. */
static bool forget(struct coordinator_host *host)
{
	struct coordinator_halt *h = &host->halt;
	bool asked = last_of(h)->kind || waits(h);
	h->unsure = false;
	if (is_kept(host) && asked)
		h->is = (struct peer_halt){.number = number_after(last_of(h)->number)};
	else if (!is_kept(host))
		*h = (struct coordinator_halt){.is = {0}};
	return is_kept(host) && asked && !host->control->runtime->stopping; /* the daemon ends, not the job */
}

void halt_forget(struct coordinator_host *host)
{
	if (forget(host))
		hold(host);
}

void halt_doubt(struct coordinator_host *host)
{
	if (is_kept(host))
		host->halt.unsure = last_of(&host->halt)->kind != 0;
	else
		forget(host);
}

bool halt_end(struct coordinator_host *host)
{
	return forget(host);
}
