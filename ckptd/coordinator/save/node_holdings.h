/* Node holdings: what the ranks of a node hold of what is replicated, and what of it the node writes. */
#ifndef CKPTD_COORDINATOR_NODE_HOLDINGS_H
#define CKPTD_COORDINATOR_NODE_HOLDINGS_H

#include "base/err.h"
#include "format/files/shares.h"

struct node_holdings {
	struct shares shares;
	struct share_parts parts;
	struct wbuf units, runs; /* that these refer to */
};

/* As a node says it. What it has listed before stays, if it is the same. 1, or 0: that was known; -ENOMEM: it is as it was. */
int node_holdings_hear(struct node_holdings *h, const struct shares *said);
void node_holdings_forget_parts(struct node_holdings *h);
void node_holdings_free(struct node_holdings *h);

/* Between all nodes that take part. */
struct division {
	uint32_t n;
	struct node_holdings **of; /* in the order of the nodes */
	uint32_t *mixed, *first;   /* of shares_mixed() */
};

/* Room for so many. -ENOMEM, as below: then it is empty. */
int division_make(struct division *d, uint32_t n, struct err *err);
void division_free(struct division *d);
/* Which shares are mixed: once all holdings stand there. */
int division_look(struct division *d, struct err *err);
/* Shares of the i-th of which the pieces are needed, if those of any are not listed: it lists them all at once. */
uint32_t division_lacks(const struct division *d, uint32_t i);
/* Nobody lacks any: the parts of all are known then. On error, of none; -E2BIG, -EBADMSG: see share_plan.h. */
int division_settle(struct division *d, struct err *err);

#endif
