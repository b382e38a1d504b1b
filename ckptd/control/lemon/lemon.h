/* Lemon: a node that fails again and again, which nobody has found anything wrong with. A failure is what ends an epoch
 * that all ranks of a job had entered: the node was lost without a goodbye, or the first of its ranks was. It counts if
 * the job then went on.
 *
 *	ordinary ── so many failures within the window, and more than twice as many as the other nodes have on average ──► set aside
 *	         ◄── an operator says so (then nothing counts that was before), and nothing else ─────────────────────────
 *
 * The comparison keeps off what is not the node's fault: a program that crashes does so everywhere, and a network that
 * breaks loses all nodes alike. Pure: the clock is the caller's, and is that of the wall, since records outlive a daemon. */
#ifndef CKPTD_CONTROL_LEMON_H
#define CKPTD_CONTROL_LEMON_H

#include "base/bytes.h"
#include "base/err.h"
#include "format/tensor/names.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	LEMON_FAILURES = 16, /* that are remembered, the last ones */
	LEMON_WHY_MAX = 160,
	LEMON_REASON_MAX = 320,
	LEMON_BYTES_MAX = 32 << 10, /* of one that is encoded */
};

struct lemon {
	char name[NAME_NODE_MAX];
	uint32_t n;
	struct lemon_failure {
		uint64_t at_ns;
		char job[NAME_JOB_MAX];
		char why[LEMON_WHY_MAX];
	} failures[LEMON_FAILURES]; /* oldest first */
	uint64_t since_ns;          /* it is set aside; 0: it is not */
	char reason[LEMON_REASON_MAX];
};

void lemon_add(struct lemon *lemon, uint64_t at_ns, const char *job, const char *why);
/* Failures that are not older than the window. */
uint32_t lemon_count(const struct lemon *lemon, uint64_t now_ns, uint64_t window_ns);
/* A node with so many is one where `others` nodes have `sum` together. limit 0: none is. */
bool lemon_is(uint32_t count, uint32_t limit, uint64_t sum, uint32_t others);
/* From now on; its last failure is part of the reason. */
void lemon_set_aside(struct lemon *lemon, uint64_t now_ns, uint32_t count, uint64_t window_ns);
/* What two who coordinate have noted, perhaps at the same time. */
void lemon_merge(struct lemon *into, const struct lemon *from);

/* {"name":…,"failures":[…],…} */
void lemon_put(const struct lemon *lemon, struct wbuf *out);
struct jin;
/* The value that stands there. -EBADMSG: with a sentence in in->err. */
int lemon_read(struct jin *in, struct lemon *lemon);

#endif
