/* Culprit: for which rank the others wait, by their flight records. A rank that hangs makes all others wait in their next
 * collective, so that soon none has a heartbeat. To blame is, in this order: a rank that is stopped; a rank in no
 * collective; a rank in an earlier one (in no collective: the earliest last one); a rank in another operation, type or
 * size than most; a rank at an earlier step; the rank that fell silent first. */
#ifndef CKPT_FORMAT_CULPRIT_H
#define CKPT_FORMAT_CULPRIT_H

#include "format/arena/flight.h"

struct suspect {
	uint32_t rank;
	bool stopped;   /* its process is (SIGSTOP) */
	uint32_t alike; /* ranks that are in the same collective, itself included: by culprit_count() */
	struct flight_view is;
};

enum { CULPRIT_TEXT_MAX = 320 };

/* First of all, and again when anything has changed. Leaves them in the order of their ranks. In n log n: a job may have
 * many thousands. */
void culprit_count(struct suspect *all, uint32_t n);
/* Among those whose last heartbeat was at silent_ns or before: who beat later is not to blame, though the first to be
 * overdue may be one that waits for another. NULL: there is none. */
const struct suspect *culprit_find(const struct suspect *all, uint32_t n, uint64_t silent_ns);
/* It can be told from the others: they are not all at the same. */
bool culprit_stands_out(const struct suspect *all, uint32_t n, const struct suspect *culprit);
/* "last at step 5, in all_gather #7 of 512 bytes; rank 0 and others are in reduce_scatter #7 of 4096 bytes of BF16". Returns
 * dst. */
const char *culprit_text(const struct suspect *all, uint32_t n, const struct suspect *culprit,
			 char dst[CULPRIT_TEXT_MAX]);

#endif
