/* A change of the world that can wait is made at a save in whose fence all ranks wait for the next epoch: then nobody has finished a step
 * that is computed again. First all are asked to wait in every fence, and which save they have begun by then: in the fence of that one some
 * may not have waited, in that of a later one all do. */
#include "base/bytes.h"
#include "base/log.h"
#include "chair.h"
#include "loop.h"
#include "muster_private.h"

static void tell_all(const struct muster *m, uint64_t after)
{
	for (uint32_t n = 0; n < m->crew.nnodes; n++)
		if (m->crew.nodes[n].has && !m->left[n])
			muster_order(m, n, &(struct peer_order){.type = PEER_PAUSE, .step = after});
}

void muster_pause(struct muster *m)
{
	struct coord_view v = chair_view(m->daemon, m->job);
	bool asked = m->pause && m->pause_epoch == v.epoch;
	if (asked || !v.epoch || v.entered != v.epoch)
		return;
	m->pause = PAUSE_ASKED;
	m->pause_epoch = v.epoch;
	m->after = 0;
	m->occasion = false;
	for (uint32_t n = 0; n < m->crew.nnodes; n++)
		m->unquiet[n] = m->crew.nodes[n].has && !m->left[n];
	log_info("job %s: its world changes at the next save", m->job);
	tell_all(m, 0);
}

void muster_unpause(struct muster *m)
{
	bool asked = m->pause && m->pause_epoch == chair_view(m->daemon, m->job).epoch;
	m->pause = PAUSE_NONE;
	m->occasion = false;
	if (asked)
		tell_all(m, UINT64_MAX);
}

void muster_paused(struct muster *m, uint32_t node, const struct peer_report *r)
{
	if (m->pause != PAUSE_ASKED || r->epoch != m->pause_epoch || !m->unquiet[node])
		return;
	m->unquiet[node] = false;
	m->after = max_u64(m->after, r->step);
	for (uint32_t n = 0; n < m->crew.nnodes; n++)
		if (m->unquiet[n] && !m->left[n])
			return;
	m->pause = PAUSE_SET;
	tell_all(m, m->after);
}

void muster_shown(struct daemon *daemon, const char *job, struct step_id id, enum level_shown level)
{
	struct muster *m = muster_find(daemon, job);
	enum level_shown safe = daemon->root >= 0 ? LEVEL_CAPTURED : LEVEL_REPLICATED;
	if (!m || m->occasion || m->pause != PAUSE_SET || level < safe || id.epoch != m->pause_epoch ||
	    id.step <= m->after)
		return;
	m->occasion = true;
	loop_soon(daemon->loop, 1);
}
