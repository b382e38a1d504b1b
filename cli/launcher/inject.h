/* Faults to inject, as `ckpt run --inject` takes them:
 *
 *	SPEC  = FAULT *( "," FAULT )
 *	FAULT = KIND *( ":" PARAMETER ) "@" TRIGGER *( ":" PARAMETER )
 *	KIND  = a name of the catalogue (format/message/fault.h) that is for `ckpt run`
 *	PARAMETER = rank=N | rank=any | for=TIME (stop: SIGCONT after it; slow: added to each of some steps)
 *	TRIGGER   = step=N | t=TIME
 *	TIME  = as in a setting, with its unit: 250ms, 1.5m
 *
 * Those that the rank plays are what no signal can do. They are handed to the rank's process in CKPT_PLAY when it is
 * started, in its own words (NAME [ ":" MILLISECONDS ] "@" STEP, separated by commas). It plays them itself, if it can:
 * ckpt-train does.
 *
 * rank=any is drawn with the seed. Every fault fires at most once. */
#ifndef CKPT_CLI_INJECT_H
#define CKPT_CLI_INJECT_H

#include "base/err.h"
#include "format/message/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FAULTS_MAX = 256, FAULT_TEXT_MAX = 96 };

enum fault_trigger { TRIGGER_STEP = 1, TRIGGER_TIME };

struct fault {
	enum fault_kind kind;
	enum fault_trigger trigger;
	bool any_rank;             /* the rank was drawn */
	uint32_t rank;             /* not for FAULT_KILL_DAEMON */
	uint64_t step;             /* TRIGGER_STEP: the first step from which on it fires */
	uint64_t at_ns;            /* TRIGGER_TIME: after the ranks were started */
	uint64_t for_ns;           /* FAULT_STOP: until SIGCONT; 0: for ever. FAULT_SLOW: of each step */
	char text[FAULT_TEXT_MAX]; /* as it was written, for messages */
	uint64_t fired_ns;         /* 0: not yet */
	uint64_t continue_ns;      /* when to send SIGCONT; 0: not */
};

/* Appends the faults of a specification to out[0..*n), which has room for FAULTS_MAX. world: the number of ranks. -EINVAL
 * names the position (from 1) and what is wrong there. */
int inject_parse(const char *spec, uint32_t world, uint64_t seed, struct fault *out, size_t *n, struct err *err);

bool fault_played(enum fault_kind kind);

/* CKPT_PLAY of a rank: those of its faults that have not fired. "": none. free() it; NULL: no memory. */
char *inject_played(const struct fault *faults, size_t n, uint32_t rank);

#endif
