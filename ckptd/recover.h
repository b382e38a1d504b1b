/* Recover: which step, and from where. The ladder: memory of this node → storage → older checkpoints; each rung is verified by
 * digest before it is used, and the reason for every rung that is passed over is kept.
 *
 *   IDLE → (every rank of the epoch has asked) CHECK → [CLAIM → FETCH] → IDLE
 * CHECK (worker): what storage has; the memory candidate's digests. CLAIM: one free slot on every rank. FETCH (worker): the
 * slots are filled from storage, each leaf read once. A rank lost meanwhile: the result is thrown away. */
#ifndef CKPTD_RECOVER_H
#define CKPTD_RECOVER_H

#include "base/err.h"
#include "format/names.h"
#include "format/wire.h"

#include <stdbool.h>
#include <stdint.h>

struct job;
struct memory;
struct recover_work;

enum recover_state { RECOVER_IDLE = 0, RECOVER_CHECK, RECOVER_CLAIM, RECOVER_FETCH };

struct recover {
	struct job *job;
	enum recover_state state;
	uint32_t epoch; /* in which it was started */
	uint64_t step;  /* wanted; UINT64_MAX: the newest */
	uint64_t start_ns;
	struct recover_work *work; /* on a worker */
	char why[WIRE_TEXT_MAX];
	uint32_t slots[WIRE_LOCAL_MAX];
	struct memory *claimed[WIRE_LOCAL_MAX]; /* references, while slots[] are claimed */
	bool memory_good;                       /* a verified copy in memory, older than what storage promises */
	struct step_id memory_id;
	uint32_t memory_slots[WIRE_LOCAL_MAX];
	uint32_t count; /* recoveries done */
	struct step_id last;
	uint32_t last_source;
	uint64_t last_ns;
};

void recover_init(struct recover *recover, struct job *job);
/* All ranks have asked for the same step. */
void recover_start(struct recover *recover, uint64_t step);
/* Goes on when it waits for slots; every tick and after slots were given back. */
void recover_pump(struct recover *recover);
/* The epoch has moved on: answers nobody any more. */
void recover_cancel(struct recover *recover);
bool recover_idle(const struct recover *recover);

#endif
