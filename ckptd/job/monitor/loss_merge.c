#include "job/monitor/loss_merge.h"

#include "base/doubles.h"

#include <math.h>

enum { PATIENCE = ARENA_LOSSES / 2 };

static int order(const struct loss_place *a, const struct loss_place *b)
{
	if (a->epoch != b->epoch)
		return a->epoch < b->epoch ? -1 : 1;
	if (a->turn != b->turn)
		return a->turn < b->turn ? -1 : 1;
	return a->step < b->step ? -1 : a->step > b->step;
}

static struct loss_place place_of(const struct loss_rank *rank, const struct loss_said *said)
{
	struct loss_place at = {.epoch = said->epoch, .step = said->step};
	if (rank->known && rank->at.epoch == said->epoch)
		at.turn = rank->at.turn + (said->step <= rank->at.step);
	return at;
}

/* ---- taking ---------------------------------------------------------------------------------------------------- */

static bool has_no_number(const struct loss_said *said)
{
	return !isfinite(said->loss) || !isfinite(said->gradient_norm);
}

/* Its step has been given out without it, since nobody waits for a rank that has not told of any. */
static bool comes_late(const struct loss_merge *m, const struct loss_rank *rank)
{
	return order(&rank->at, &m->last) <= 0;
}

static bool counts(const struct loss_merge *m, const struct loss_rank *rank)
{
	bool now = rank->at.epoch == m->last.epoch && rank->at.turn == m->last.turn;
	return !comes_late(m, rank) || (now && has_no_number(&rank->said));
}

/* The next of the rank that counts. */
static void take(struct loss_merge *m, struct loss_rank *rank, const struct arena_losses *losses)
{
	struct loss_said said;
	for (int i = 0; !rank->waits && i < ARENA_LOSSES && losses_next(losses, &rank->next, &said); i++) {
		if (said.epoch < m->since)
			continue;
		rank->at = place_of(rank, &said);
		rank->said = said;
		rank->known = true;
		rank->waits = counts(m, rank);
	}
}

static bool give_what_is_no_number(struct loss_merge *m, uint32_t n, struct loss_merged *out)
{
	for (uint32_t r = 0; r < n; r++) {
		struct loss_rank *rank = &m->ranks[r];
		if (!rank->waits || (isfinite(rank->said.loss) && !comes_late(m, rank)))
			continue;
		rank->waits = false;
		*out = (struct loss_merged){.epoch = rank->said.epoch,
					    .step = rank->said.step,
					    .value = rank->said.loss,
					    .norm = rank->said.gradient_norm,
					    .rank = r};
		return true;
	}
	return false;
}

/* ---- choosing -------------------------------------------------------------------------------------------------- */

/* The first place that waits. False: none does. */
static bool first_place(const struct loss_merge *m, uint32_t n, struct loss_place *first)
{
	bool any = false;
	for (uint32_t r = 0; r < n; r++) {
		const struct loss_rank *rank = &m->ranks[r];
		if (!rank->waits || (any && order(&rank->at, first) >= 0))
			continue;
		*first = rank->at;
		any = true;
	}
	return any;
}

/* Some rank is still to tell of it. */
static bool is_open(const struct loss_merge *m, const struct arena_losses *const *losses, uint32_t n,
		    const struct loss_place *place)
{
	bool open = false;
	for (uint32_t r = 0; r < n; r++) {
		const struct loss_rank *rank = &m->ranks[r];
		if (rank->waits && losses[r] && atomic_load(&losses[r]->count) - rank->next >= PATIENCE)
			return false;
		open |= rank->known && !rank->waits && rank->at.epoch == place->epoch && order(&rank->at, place) < 0;
	}
	return open;
}

/* ---- putting together ------------------------------------------------------------------------------------------ */

static double median(double *values, uint32_t n)
{
	struct doubles_middle m = doubles_middle(values, n);
	return m.low / 2 + m.high / 2;
}

static double norm_of(double *norms, uint32_t n, bool all_finite)
{
	if (!all_finite)
		return INFINITY;
	return n ? median(norms, n) : -1;
}

static struct loss_merged merge(struct loss_merge *m, uint32_t n, const struct loss_place *place)
{
	double losses[WIRE_LOCAL_MAX], norms[WIRE_LOCAL_MAX];
	uint32_t told = 0, normed = 0;
	bool finite = true;
	for (uint32_t r = 0; r < n; r++) {
		struct loss_rank *rank = &m->ranks[r];
		double norm = (double)rank->said.gradient_norm;
		if (!rank->waits || order(&rank->at, place))
			continue;
		rank->waits = false;
		losses[told++] = rank->said.loss;
		finite &= isfinite(norm) != 0;
		if (norm >= 0)
			norms[normed++] = norm;
	}
	m->last = *place;
	return (struct loss_merged){.epoch = place->epoch,
				    .step = place->step,
				    .value = median(losses, told),
				    .norm = norm_of(norms, normed, finite),
				    .rank = UINT32_MAX};
}

bool loss_merge_next(struct loss_merge *m, uint32_t epoch, const struct arena_losses *const *losses, uint32_t n,
		     struct loss_merged *out)
{
	struct loss_place place;
	if (!m->since)
		m->since = epoch;
	for (uint32_t r = 0; r < n; r++)
		if (losses[r])
			take(m, &m->ranks[r], losses[r]);
	if (give_what_is_no_number(m, n, out))
		return true;
	if (!first_place(m, n, &place) || is_open(m, losses, n, &place))
		return false;
	*out = merge(m, n, &place);
	return true;
}
