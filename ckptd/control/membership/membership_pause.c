/* A change of the world that can wait is made at a save in whose fence all ranks wait for the next epoch: then nobody has finished a step
 * that is computed again. First all are asked to wait in every fence, and which save they have begun by then: in the fence of that one some
 * may not have waited, in that of a later one all do. */
#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "checkpoint/room.h"
#include "control/control.h"
#include "control/host/coordinator_host.h"
#include "control/membership/membership_private.h"
#include "runtime/room.h"

#include <stdio.h>
#include <string.h>

static bool is_asked(const struct membership *m)
{
	return m->pause && m->pause_epoch == host_view(m->control, m->job).epoch;
}

/* What is to be heard here is answered before the next one is told, and a node that cannot be told is lost at once: either may be the end of
 * what was to be told, and the others have heard of that by then. */
static void tell_all(const struct membership *m, uint64_t after)
{
	const enum pause is = m->pause;
	const uint32_t epoch = host_view(m->control, m->job).epoch;
	for (uint32_t n = 0; n < m->assignment.nnodes; n++) {
		if (m->pause != is || host_view(m->control, m->job).epoch != epoch)
			return;
		if (m->assignment.nodes[n].has && !m->left[n])
			membership_order(m, n, &(struct peer_order){.type = PEER_PAUSE, .step = after});
	}
}

/* A change that storage refuses costs all ranks an epoch. So whether it still would is tried first with what is newest in memory, of which
 * they do not hear: when that is durable the change may come. */
static void probe(struct membership *m)
{
	if (clock_now() < m->stuck_ns)
		return;
	m->stuck_ns = clock_deadline(MEMBERSHIP_PROBE_NS);
	membership_order(m, m->assignment.node[0],
			 &(struct peer_order){.type = PEER_COMMAND, .command = {.kind = COMMAND_FLUSH}});
}

void membership_pause(struct membership *m)
{
	struct coord_view v = host_view(m->control, m->job);
	if (is_asked(m) || !v.epoch || v.entered != v.epoch)
		return;
	if (*m->stuck) {
		probe(m);
		return;
	}
	m->pause = PAUSE_ASKED;
	m->pause_epoch = v.epoch;
	m->after = 0;
	m->occasion = false;
	for (uint32_t n = 0; n < m->assignment.nnodes; n++)
		m->unquiet[n] = m->assignment.nodes[n].has && !m->left[n];
	log_info("job %s: its world changes at the next save", m->job);
	tell_all(m, 0);
}

void membership_unpause(struct membership *m)
{
	bool asked = is_asked(m);
	m->pause = PAUSE_NONE;
	m->occasion = false;
	if (asked)
		tell_all(m, UINT64_MAX);
}

void membership_paused(struct membership *m, uint32_t node, const struct peer_report *r)
{
	if (m->pause != PAUSE_ASKED || r->epoch != m->pause_epoch || !m->unquiet[node])
		return;
	m->unquiet[node] = false;
	m->after = max_u64(m->after, r->step);
	for (uint32_t n = 0; n < m->assignment.nnodes; n++)
		if (m->unquiet[n] && !m->left[n])
			return;
	m->pause = PAUSE_SET;
	tell_all(m, m->after);
}

void membership_stick(struct membership *m, uint64_t ns, const char *why)
{
	if (strcmp(m->stuck, why) != 0)
		log_warn("job %s: its world does not change: %s", m->job, why);
	snprintf(m->stuck, sizeof(m->stuck), "%s", why);
	m->stuck_ns = clock_deadline(ns);
	membership_unpause(m);
}

void membership_unstick(struct membership *m)
{
	m->stuck[0] = 0;
	m->stuck_ns = 0;
}

/* What of a save has to be safe, since the world changes at it. */
static enum level_shown safe(const struct membership *m)
{
	return m->control->storage->root >= 0 ? LEVEL_CAPTURED : LEVEL_REPLICATED;
}

static bool is_occasion(const struct membership *m, struct step_id id)
{
	return m->pause == PAUSE_SET && id.epoch == m->pause_epoch && id.step > m->after;
}

void membership_shown(struct control *control, const char *job, struct step_id id, enum level_shown level)
{
	struct membership *m = membership_find(control, job);
	if (!m)
		return;
	m->parted = m->parted && level < LEVEL_CAPTURED;
	if (*m->stuck && level >= (control->storage->root >= 0 ? LEVEL_DURABLE : LEVEL_REPLICATED) && !m->unfit) {
		membership_unstick(m);
		loop_soon(control->runtime->loop, 1);
	}
	if (m->occasion || level < safe(m) || !is_occasion(m, id))
		return;
	m->occasion = true;
	loop_soon(control->runtime->loop, 1);
}

/* Without a store the new world has its state from copies alone. While none can be made, nobody waits for that in a fence; a later save that
 * has them ends it. */
void membership_uncopied(struct control *control, const char *job, struct step_id id, const char *why)
{
	struct membership *m = membership_find(control, job);
	char text[2 * WIRE_TEXT_MAX];
	if (!m || m->occasion || safe(m) != LEVEL_REPLICATED || !is_occasion(m, id))
		return;
	snprintf(text, sizeof(text), "there is no store, and step %lu has not all its copies: %s",
		 (unsigned long)id.step, why);
	text[WIRE_TEXT_MAX - 1] = 0;
	membership_stick(m, UINT64_MAX, text);
}
