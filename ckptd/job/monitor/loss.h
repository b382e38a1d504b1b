/* Loss: judges a training by the losses of its steps. It sees numbers, and nothing else.
 *
 * Not finite: NaN or infinity, at once.
 *
 * Spike: the loss, or the norm of the gradients, lies far above the steps before it, several steps in a row. How far is
 * measured by median and median absolute deviation (MAD) of the last LOSS_WINDOW steps, which single wild steps do not
 * move:
 *
 *	noise = 1.4826 × median(|x − median(x)|)        deviation = (x − median(x)) / noise
 *
 * 1.4826 makes it the standard deviation where the noise is normal (P. J. Rousseeuw, C. Croux: Alternatives to the median
 * absolute deviation, JASA 88, 1993; the score is that of B. Iglewicz, D. Hoaglin: How to detect and handle outliers,
 * 1993). A loss that falls lies below the median: only what lies above counts. Of the norm the logarithms are judged: it
 * varies by factors.
 *
 * Divergence: the smoothed loss lies above its best so far for LOSS_LASTING steps in a row, by LOSS_RISE times the noise
 * at that time and by LOSS_SHARE of the best. It is the exponentially weighted mean (S. W. Roberts: Control chart tests
 * based on geometric moving averages, Technometrics 1, 1959). A single step counts in it as at most LOSS_FAR deviations.
 *
 *	good ── spike ──► spike ── divergence ──► diverged ── not finite ──► not finite        never to a lesser one, but
 *	     ◄── LOSS_CALM steps of which nothing is said, another epoch, or so far back that the losses were others ──────── */
#ifndef CKPTD_JOB_LOSS_H
#define CKPTD_JOB_LOSS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	LOSS_WINDOW = 128, /* steps that a step is compared with, at most */
	LOSS_KNOWN = 32,   /* and at least */
	LOSS_ROW = 3,      /* steps in a row that make a spike */
	LOSS_LASTING = 128,
	LOSS_CALM = 16,
};
#define LOSS_FAR 8.0 /* deviations that make a step of a spike */
#define LOSS_SMOOTHING (2.0 / (64 + 1))
#define LOSS_RISE 6.0   /* times the noise */
#define LOSS_SHARE 0.05 /* of the best */

/* From bad to worse. */
enum loss_trouble { LOSS_GOOD, LOSS_SPIKE, LOSS_DIVERGED, LOSS_NOT_FINITE, LOSS_TROUBLE_END };

/* The last steps of one number. */
struct loss_series {
	uint32_t n;
	double median, noise; /* of them; once LOSS_KNOWN are there */
	/* private */
	double usual;               /* the median that the last step was compared with */
	double window[LOSS_WINDOW]; /* a ring */
	uint32_t at;
	uint32_t row; /* steps that were far above, in a row */
};

/* What was found. */
struct loss_found {
	enum loss_trouble kind;
	uint64_t step;
	bool by_norm; /* a spike of the gradients' norm */
	double value; /* the loss, norm or smoothed loss of the step */
	double usual; /* the median of the steps before it, or the best */
	uint64_t best_step;
};

struct loss {
	enum loss_trouble is;
	struct loss_found found; /* how `is` began; while it is not good */
	uint64_t steps;          /* judged */
	uint64_t step;           /* the last one */
	double value, norm;      /* of it; norm: negative: not given */
	struct loss_series losses, norms /* logarithms */;
	double smoothed, best, best_noise; /* once LOSS_KNOWN are there */
	uint64_t best_step;
	/* private */
	uint32_t above, calm;
};

/* The loss of a step, and the norm of its gradients (negative: not given). True: `is` has changed. */
bool loss_step(struct loss *l, uint64_t step, double value, double norm);
/* All that was seen, but how many steps. */
void loss_forget(struct loss *l);
/* Training goes on from a checkpoint: what was found is over, and is found anew if it goes on. */
void loss_excuse(struct loss *l);
const char *loss_trouble_name(enum loss_trouble trouble);
/* What was found, as a sentence. Returns dst. */
const char *loss_text(const struct loss_found *found, char *dst, size_t size);

#endif
