/* Private to muster*.c. */
#ifndef CKPTD_MUSTER_PRIVATE_H
#define CKPTD_MUSTER_PRIVATE_H

#include "crew.h"
#include "muster.h"

struct muster {
	struct muster *next;
	struct daemon *daemon;
	char job[NAME_JOB_MAX];
	bool spread;
	struct crew crew;
	uint64_t wait_ns; /* a node that is missing may come until then */
	bool gone;        /* a node was lost since the last plan, with what it had in memory */
	bool occasion;    /* a save is safe: what can wait for that may be done */
	bool ending;      /* the job was asked to end: too few would be left */
	bool starving;    /* too few are there, and that was said */
	bool settling;    /* towards the next plan */
	bool rescuing;    /* before that: what only memory has is written by who has it, also for nodes that are lost */
	bool again;       /* another node was lost meanwhile */
	uint64_t rescue_ns;       /* not longer than until then it is found out what there is */
	char lost[WIRE_TEXT_MAX]; /* what could not be, and why */
	uint32_t epoch;           /* that was seen last */
	int rc;                   /* of settling: what cannot be written, and why */
	char text[WIRE_TEXT_MAX];
	bool *left;    /* by node: its ranks have finished */
	bool *unquiet; /* by node: it has yet to say SETTLED */
	bool *drained; /* by node: somebody wants it to have no ranks */
};

/* NULL: the world of that job does not change. */
struct muster *muster_find(const struct daemon *daemon, const char *job);
/* Goes on where it can. False: the muster is no more. */
bool muster_advance(struct muster *m);

#endif
