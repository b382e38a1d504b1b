#include "job/monitor/loss.h"

#include "base/doubles.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define NORMAL 1.4826 /* the standard deviation of normal noise, in MADs */
/* The least noise: where there is none, the least change would be far off. */
#define LEAST_SHARE 1e-3 /* of the median */
#define LEAST 1e-12
#define LEAST_LOGARITHM 0.01
#define MOST 1e100 /* of a loss; beyond it is infinite, lest sums are */

/* ---- one number ------------------------------------------------------------------------------------------------ */

static double median_of(double *values, uint32_t n)
{
	struct doubles_middle m = doubles_middle(values, n);
	return (m.low + m.high) / 2;
}

static void measure(struct loss_series *s, double least)
{
	double values[LOSS_WINDOW];
	memcpy(values, s->window, s->n * sizeof(values[0]));
	s->median = median_of(values, s->n);
	for (uint32_t i = 0; i < s->n; i++)
		values[i] = fabs(s->window[i] - s->median);
	s->noise = fmax(NORMAL * median_of(values, s->n), fmax(least, LEAST_SHARE * fabs(s->median)));
}

static void add(struct loss_series *s, double x, double least)
{
	s->window[s->at] = x;
	s->at = (s->at + 1) % LOSS_WINDOW;
	s->n = s->n < LOSS_WINDOW ? s->n + 1 : LOSS_WINDOW;
	if (s->n >= LOSS_KNOWN)
		measure(s, least);
}

static bool known(const struct loss_series *s)
{
	return s->n >= LOSS_KNOWN;
}

/* x is compared with what was before it; noise below `least` counts as so much. True: it makes a spike. */
static bool spikes(struct loss_series *s, double x, double least)
{
	bool far = known(s) && x > s->median + LOSS_FAR * s->noise;
	s->usual = s->median;
	s->row = far ? s->row + 1 : 0;
	if (isfinite(x))
		add(s, x, least);
	return s->row >= LOSS_ROW;
}

/* ---- divergence ------------------------------------------------------------------------------------------------ */

static void smooth(struct loss *l, double x)
{
	const struct loss_series *s = &l->losses;
	if (!known(s))
		return;
	double first = l->best_noise > 0 ? l->smoothed : s->median, reach = LOSS_FAR * s->noise;
	x = fmin(fmax(x, s->median - reach), s->median + reach);
	l->smoothed = first + LOSS_SMOOTHING * (x - first);
	if (l->best_noise > 0 && l->smoothed >= l->best)
		return;
	l->best = l->smoothed;
	l->best_noise = s->noise;
	l->best_step = l->step;
}

static bool diverges(struct loss *l)
{
	double most = l->best + fmax(LOSS_RISE * l->best_noise, LOSS_SHARE * fabs(l->best));
	l->above = l->best_noise > 0 && l->smoothed > most ? l->above + 1 : 0;
	return l->above >= LOSS_LASTING;
}

/* ---- judging --------------------------------------------------------------------------------------------------- */

/* One that is no number may come from a loss scale that is too large: training leaves out such a step, and makes the scale smaller. */
static bool norm_spikes(struct loss *l)
{
	if (l->norm <= 0)
		return false;
	return spikes(&l->norms, isfinite(l->norm) ? log(l->norm) : INFINITY, LEAST_LOGARITHM);
}

static struct loss_found look(struct loss *l)
{
	if (!isfinite(l->value))
		return (struct loss_found){.kind = LOSS_NOT_FINITE, .step = l->step, .value = l->value};
	bool by_loss = spikes(&l->losses, l->value, LEAST), by_norm = norm_spikes(l);
	smooth(l, l->value);
	if (diverges(l))
		return (struct loss_found){.kind = LOSS_DIVERGED,
					   .step = l->step,
					   .value = l->smoothed,
					   .usual = l->best,
					   .best_step = l->best_step};
	if (by_loss)
		return (struct loss_found){
			.kind = LOSS_SPIKE, .step = l->step, .value = l->value, .usual = l->losses.usual};
	if (by_norm)
		return (struct loss_found){.kind = LOSS_SPIKE,
					   .step = l->step,
					   .by_norm = true,
					   .value = l->norm,
					   .usual = exp(l->norms.usual)};
	return (struct loss_found){.kind = LOSS_GOOD};
}

/* So far back the losses were others. */
static bool went_far_back(const struct loss *l, uint64_t step)
{
	return step < l->step && l->step - step > LOSS_WINDOW;
}

void loss_forget(struct loss *l)
{
	uint64_t steps = l->steps;
	*l = (struct loss){.steps = steps};
}

bool loss_step(struct loss *l, uint64_t step, double value, double norm)
{
	enum loss_trouble was = l->is;
	if (went_far_back(l, step))
		loss_forget(l);
	l->steps++;
	l->step = step;
	l->value = fabs(value) > MOST ? INFINITY : value;
	l->norm = norm;
	struct loss_found found = look(l);
	l->calm = found.kind == LOSS_GOOD ? l->calm + 1 : 0;
	if (found.kind > l->is) {
		l->is = found.kind;
		l->found = found;
	} else if (l->calm >= LOSS_CALM) {
		l->is = LOSS_GOOD;
	}
	return l->is != was;
}

void loss_excuse(struct loss *l)
{
	l->is = LOSS_GOOD;
	l->losses.row = l->norms.row = 0;
}

/* ---- telling --------------------------------------------------------------------------------------------------- */

const char *loss_trouble_name(enum loss_trouble trouble)
{
	static const char *const names[LOSS_TROUBLE_END] = {"good", "spike", "diverged", "not-finite"};
	return names[trouble];
}

const char *loss_text(const struct loss_found *found, char *dst, size_t size)
{
	const char *what = found->by_norm ? "norm of the gradients" : "loss";
	if (found->kind == LOSS_NOT_FINITE)
		snprintf(dst, size, "the loss of step %" PRIu64 " is %s", found->step,
			 isnan(found->value) ? "NaN" : "infinite");
	else if (found->kind == LOSS_SPIKE)
		snprintf(dst, size,
			 "the %s is %.4g at step %" PRIu64 ", the third in a row that is far above the median of the "
			 "steps before, %.4g",
			 what, found->value, found->step, found->usual);
	else if (found->kind == LOSS_DIVERGED)
		snprintf(dst, size,
			 "the loss rises for good: smoothed it is %.4g at step %" PRIu64 ", and was %.4g at step "
			 "%" PRIu64,
			 found->value, found->step, found->usual, found->best_step);
	else
		snprintf(dst, size, "the loss is good");
	return dst;
}
