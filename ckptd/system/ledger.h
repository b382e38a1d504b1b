/* Ledger: what each user may have of what the node has once. */
#ifndef CKPTD_SYSTEM_LEDGER_H
#define CKPTD_SYSTEM_LEDGER_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct ledger {
	uint64_t node;   /* ceiling for all users together */
	uint64_t user;   /* of this user; 0: none of their own */
	uint64_t others; /* what the others hold */
};

/* Whether the user may hold that much in all. -ENOMEM, with the arithmetic. */
int ledger_memory(const struct ledger *ledger, const char *user, uint64_t bytes, struct err *err);
/* Bytes/s of one of `users` who are served: an equal part of the node's, at most the user's own limit. 0: no limit. */
uint64_t ledger_bandwidth(uint64_t node, uint64_t user, unsigned users);
/* Pause before the next try after so many failures in a row. */
uint64_t ledger_pause_ns(unsigned failures);
/* Whether one more may pass, of `per_s` a second and `burst` at once. *paid_ns, 0 at first, is when all that passed is paid for. */
bool ledger_pace(uint64_t *paid_ns, uint64_t now, unsigned per_s, unsigned burst);

#endif
