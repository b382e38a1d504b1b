/* Standstill: no rank of this node has given a heartbeat for far longer than a step takes, and who the others wait for, by the flight records
 * (format/arena/culprit.h). It is known long before hang-timeout, which a step of any job must fit in: the measure is the job's own steps. It
 * tells, and ends nobody: ckpt run --hang-timeout does. Belongs to the loop's thread. */
#ifndef CKPTD_JOB_STANDSTILL_H
#define CKPTD_JOB_STANDSTILL_H

#include "format/arena/culprit.h"
#include "format/message/wire.h"

struct job;

/* Steps of the longest of the recent ones, and so much more; once so many steps are known. */
enum { STANDSTILL_STEPS = 2, STANDSTILL_KNOWN = 8 };
#define STANDSTILL_MORE_NS 2000000000ull

struct standstill {
	bool is;
	uint64_t since_ns; /* the last heartbeat of any rank; while `is` */
	bool named;        /* `rank` stands out; else it is not known, or is on another node */
	uint32_t rank;
	char text[CULPRIT_TEXT_MAX + 64]; /* a sentence without its beginning: "rank 1 is waited for: …"; while `is` */
	/* private */
	uint32_t epoch; /* in which it is looked; 0: in none */
	bool armed;     /* all ranks have made a step since: what they loaded is behind them */
	uint64_t steps[WIRE_LOCAL_MAX];
};

/* longest_ns: of the recent steps; 0: too few are known. True: it has begun, or is over, or another rank is named. */
bool standstill_look(struct standstill *s, const struct suspect *all, uint32_t n, uint64_t longest_ns, uint64_t now);
/* The ranks of the job here; every tick. */
void standstill_tick(struct job *job, uint64_t now);

#endif
