#include "monitor.h"

#include <math.h>
#include <string.h>

void monitor_safe(struct monitor *m, uint64_t step)
{
	int at = m->count;

	while (at && m->safe[at - 1] > step)
		at--;
	if (!step || (at && m->safe[at - 1] == step))
		return;
	if (m->count == MONITOR_KEPT) { /* the oldest one goes */
		if (!at)
			return;
		memmove(m->safe, m->safe + 1, (size_t)(--at) * sizeof(m->safe[0]));
		m->safe[at] = step;
		return;
	}
	memmove(m->safe + at + 1, m->safe + at, (size_t)(m->count - at) * sizeof(m->safe[0]));
	m->safe[at] = step;
	m->count++;
}

/* What was saved since the last good steps may hold the damage. */
static void distrust(struct monitor *m, uint64_t step)
{
	while (m->count && m->safe[m->count - 1] + m->need >= step)
		m->count--;
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

uint64_t monitor_healthy(const struct monitor *m, uint64_t below)
{
	for (int i = m->count; i > 0; i--)
		if (m->safe[i - 1] < below && m->safe[i - 1] + m->need <= m->good)
			return m->safe[i - 1];
	return 0;
}

uint64_t monitor_scheduled(const struct monitor *m, uint64_t below)
{
	uint64_t limit = m->bad > m->need ? m->bad - m->need : 0, from = below < limit ? below : limit;

	if (!m->every || from <= 1)
		return 0;
	return (from - 1) / m->every * m->every;
}
