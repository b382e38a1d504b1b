#include "cluster/link/liveness.h"

#include "base/bytes.h"
#include "base/clock.h"

static uint64_t quarter(const struct liveness *l)
{
	return l->limit / LIVENESS_ASKS;
}

/* By so much does who was asked leave the next question to the other one. */
static uint64_t lead(const struct liveness *l)
{
	return min_u64(l->tick, quarter(l) / 4);
}

static bool wants_to_know(const struct liveness *l, uint64_t now)
{
	return l->watched || now < l->used_until;
}

/* Up to a quarter of the limit has gone by since something was heard, and perhaps the lead: the rest is for the answer. */
static void begin_asking(struct liveness *l, uint64_t gone, uint64_t now)
{
	if (l->asked)
		return;
	silence_begin(&l->silence, l->limit - gone, l->tick, now);
	l->asked = l->say = true;
}

void liveness_begin(struct liveness *l, uint64_t limit, uint64_t tick, uint64_t now)
{
	*l = (struct liveness){.limit = limit, .tick = tick, .used_until = now + limit};
	l->ask_at = now + quarter(l);
}

void liveness_watch(struct liveness *l, bool watched)
{
	l->watched = watched;
}

void liveness_use(struct liveness *l, uint64_t now)
{
	if (!wants_to_know(l, now)) /* nothing was asked for long: there is time for an answer */
		l->ask_at = max_u64(l->ask_at, now + quarter(l));
	l->used_until = max_u64(l->used_until, now + LIVENESS_USE_S * CLOCK_NS_PER_S);
}

void liveness_heard(struct liveness *l, bool question, uint64_t now)
{
	l->asked = l->say = l->doubted = false;
	l->ndoubts = 0;
	l->ask_at = now + quarter(l) + (question ? lead(l) : 0);
}

void liveness_ask(struct liveness *l, uint64_t now)
{
	begin_asking(l, quarter(l), now);
	l->say = false;
}

static bool is_new_doubt(const struct liveness *l, unsigned node)
{
	for (unsigned i = 0; i < l->ndoubts; i++)
		if (l->doubters[i] == node)
			return false;
	return l->ndoubts < LIVENESS_DOUBTERS;
}

/* They have waited for a quarter of the limit, each by itself. */
void liveness_doubt(struct liveness *l, unsigned node, uint64_t now)
{
	begin_asking(l, quarter(l), now);
	if (!is_new_doubt(l, node))
		return;
	l->doubters[l->ndoubts++] = node;
	if (l->ndoubts == LIVENESS_DOUBTERS)
		l->silence.silent = max_u64(l->silence.silent, quarter(l));
}

enum liveness_does liveness_look(struct liveness *l, uint64_t now)
{
	if (!l->asked && wants_to_know(l, now) && now + quarter(l) / 4 >= l->ask_at)
		begin_asking(l, quarter(l) + lead(l), now);
	if (!l->asked)
		return LIVENESS_NOTHING;
	if (l->say) {
		l->say = false;
		return LIVENESS_ASK;
	}
	if (silence_look(&l->silence, now))
		return LIVENESS_LOST;
	if (!l->watched || l->doubted || l->silence.silent < quarter(l))
		return LIVENESS_NOTHING;
	l->doubted = true;
	return LIVENESS_DOUBT;
}

bool liveness_silent(const struct liveness *l)
{
	return l->asked && l->silence.silent >= quarter(l);
}

uint64_t liveness_due(const struct liveness *l, uint64_t now)
{
	if (l->asked)
		return l->say ? now : silence_due(&l->silence, quarter(l));
	return wants_to_know(l, now) ? l->ask_at : LIVENESS_NEVER;
}
