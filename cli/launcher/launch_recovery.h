/* What went wrong during a run and how long it took to go on. An entry is opened when the daemon says that the epoch has moved on,
 * or when the daemon itself dies, and is closed when the replaced ranks are at work again. What the launcher cannot see (which step
 * was restored, from where, how fast) it asks the daemon. */
#ifndef CKPT_CLI_LAUNCH_RECOVERY_H
#define CKPT_CLI_LAUNCH_RECOVERY_H

#include "frame/output.h"

#include <stdbool.h>
#include <stdint.h>

enum { RECOVERIES_MAX = 64, RECOVERY_TEXT_MAX = 128 };

/* Times are of clock_now(); 0: not known. */
struct recovery {
	bool daemon; /* the daemon died, not a rank */
	uint32_t epoch;
	char reason[RECOVERY_TEXT_MAX];
	uint64_t fault_ns;    /* injected */
	uint64_t seen_ns;     /* the new epoch, or the daemon's death, is known here */
	uint64_t replaced_ns; /* the last process was started again; the daemon answers again */
	uint64_t back_ns;     /* the replaced ranks are at work */
	bool step_known, restored;
	uint64_t step_before, step_restored;
	char source[16];
	double restore_ms;
};

struct recoveries {
	struct recovery list[RECOVERIES_MAX]; /* the first ones */
	unsigned count;                       /* all */
	bool open;                            /* the last one: not yet back, or its restore not yet known */
	uint64_t ask_at, pause_ns;
	unsigned unanswered; /* that were asked */
};

/* A new entry, or the last one again while its ranks are not back. NULL: the list is full. */
struct recovery *recovery_open(struct recoveries *all, bool daemon, uint64_t now);
/* The one that is open; NULL: none. */
struct recovery *recovery_current(struct recoveries *all);
/* It is complete, or nothing more will be known of it. */
void recovery_settle(struct recoveries *all, uint64_t now);
/* Whether to ask the daemon now, and when next. */
bool recovery_should_ask(struct recoveries *all, uint64_t now);
/* It was asked, for this or for something else. */
void recovery_asked(struct recoveries *all);
uint64_t recovery_next(const struct recoveries *all);
/* The ranks have ended: asks once more, whatever the time. Then whether something is still to be heard of the last restore. */
void recovery_hurry(struct recoveries *all);
bool recovery_awaits(const struct recoveries *all);
/* The daemon's answer (JSON text). */
void recovery_answer(struct recoveries *all, const char *json, size_t len, const char *job);

/* The table on stdout; and as JSON (owned by the caller). */
void recovery_table(const struct recoveries *all);
json_t *recovery_json(const struct recoveries *all);

#endif
