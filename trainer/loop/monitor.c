#include "loop/monitor.h"

#include <math.h>
#include <string.h>

static int place_of(const struct monitor *m, uint64_t step)
{
	int at = m->count;

	while (at && m->open[at - 1].step >= step)
		at--;
	return at;
}

void monitor_safe(struct monitor *m, struct monitor_save save)
{
	int at = place_of(m, save.step);

	if (!save.step)
		return;
	if (at < m->count &&
	    m->open[at].step == save.step) { /* saved again, after a way back: what counts is the newer */
		m->open[at] = save;
		return;
	}
	if (m->count == MONITOR_KEPT)
		return;
	memmove(m->open + at + 1, m->open + at, (size_t)(m->count - at) * sizeof(m->open[0]));
	m->open[at] = save;
	m->count++;
}

/* What was saved since the last good steps may hold the damage. */
static void distrust(struct monitor *m, uint64_t step)
{
	int from = m->count;

	while (from && m->open[from - 1].step + m->need >= step)
		from--;
	m->suspects = m->count - from;
	memcpy(m->suspect, m->open + from, (size_t)m->suspects * sizeof(m->open[0]));
	m->count = from;
}

bool monitor_step(struct monitor *m, uint64_t step, double loss)
{
	if (isfinite(loss)) {
		m->good = step;
		return true;
	}
	m->attempts = m->bad == step ? m->attempts + 1 : 1;
	m->bad = step;
	distrust(m, step);
	return false;
}

bool monitor_may_go_back(const struct monitor *m)
{
	return m->attempts < MONITOR_ATTEMPTS;
}

bool monitor_healthy(const struct monitor *m, struct monitor_save *save)
{
	if (!m->count || m->open[0].step + m->need > m->good)
		return false;
	*save = m->open[0];
	return true;
}

void monitor_told(struct monitor *m, uint64_t step)
{
	int gone = place_of(m, step + 1);

	m->count -= gone;
	memmove(m->open, m->open + gone, (size_t)m->count * sizeof(m->open[0]));
}

bool monitor_suspect(struct monitor *m, struct monitor_save *save)
{
	if (!m->suspects)
		return false;
	*save = m->suspect[--m->suspects];
	return true;
}

uint64_t monitor_scheduled(const struct monitor *m, uint64_t below)
{
	uint64_t limit = m->bad > m->need ? m->bad - m->need : 0, from = below < limit ? below : limit;

	if (!m->every || from <= 1)
		return 0;
	return (from - 1) / m->every * m->every;
}
