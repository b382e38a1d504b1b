/* Recover: this node's part in a restore. The coordinator chooses which step, and from where (coord_restore.c): memory of this node →
 * storage → older checkpoints; each rung is verified by digest before it is used, and the reason for every rung that is passed over is
 * kept.
 *
 *   IDLE → (every rank of the epoch has asked) CHECK → FOUND → [CLAIM → FETCH →] FETCHED → IDLE
 * CHECK (worker): what storage has; the memory candidate's digests. FOUND: the coordinator chooses. CLAIM: one free slot on every rank.
 * FETCH (worker): the slots are filled from storage, each leaf read once. FETCHED: until the other nodes have theirs. A rank lost
 * meanwhile: the result is thrown away. */
#ifndef CKPTD_RECOVER_H
#define CKPTD_RECOVER_H

#include "base/err.h"
#include "format/names.h"
#include "format/wire.h"

#include <stdbool.h>
#include <stdint.h>

struct peer_choice;
struct job;
struct memory;
struct recover_work;

enum recover_state { RECOVER_IDLE = 0, RECOVER_CHECK, RECOVER_FOUND, RECOVER_CLAIM, RECOVER_FETCH, RECOVER_FETCHED };

struct recover {
	struct job *job;
	enum recover_state state;
	uint64_t step; /* wanted; UINT64_MAX: the newest */
	uint64_t start_ns;
	bool asked;                /* to look: as soon as no work of an earlier epoch is under way */
	struct recover_work *work; /* on a worker */
	uint32_t slots[WIRE_LOCAL_MAX];
	struct memory *claimed[WIRE_LOCAL_MAX]; /* references, while slots[] are claimed */
	struct step_id memory_id;               /* what was found in memory */
	struct step_id fetch_id;                /* what is to be fetched */
	uint32_t saved_world;                   /* of what was fetched; 0: memory */
	uint32_t memory_slots[WIRE_LOCAL_MAX];
	uint32_t count; /* recoveries done */
	struct step_id last;
	uint32_t last_source;
	char why[WIRE_TEXT_MAX]; /* of what was passed over then */
	uint64_t last_ns;
};

void recover_init(struct recover *recover, struct job *job);
/* The coordinator's orders. Look what there is. */
void recover_look(struct recover *recover, uint64_t step);
/* Bring it into slots. */
void recover_fetch(struct recover *recover, const struct peer_choice *choice);
/* All nodes have it: answers the ranks. */
void recover_finish(struct recover *recover, const struct peer_choice *choice);
/* There is nothing; why: what was passed over. */
void recover_refuse(struct recover *recover, int rc, const char *text, const char *why);
/* Goes on when it waits for slots; every tick and after slots were given back. */
void recover_pump(struct recover *recover);
/* The epoch has moved on: answers nobody any more. */
void recover_cancel(struct recover *recover);
bool recover_idle(const struct recover *recover);

#endif
