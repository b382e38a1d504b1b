/* The ways between the nodes of a campaign, one each way of a pair, and which of them a fault of the network breaks. */
#ifndef CKPT_CLI_JOURNAL_WAYS_H
#define CKPT_CLI_JOURNAL_WAYS_H

#include "journal/campaign_file.h"

/* The cable is there, and bad: all ways are open. */
static inline bool campaign_ways_open(enum fault_kind kind)
{
	return kind == FAULT_LINK_SLOW || kind == FAULT_LINK_LOSS || kind == FAULT_LINK_DELAY;
}

struct campaign_ways {
	uint32_t nodes;
	uint32_t lost[CAMPAIGN_NODES_MAX]; /* of each node, in bits: to which others what it sends does not arrive */
};

void campaign_ways_of(const struct campaign_fault *fault, uint32_t nodes, struct campaign_ways *out);
bool campaign_ways_is_lost(const struct campaign_ways *ways, uint32_t from, uint32_t to);
/* "the cable of node-1 was pulled". Returns dst. */
char *campaign_ways_text(const struct campaign_fault *fault, const struct campaign_ways *ways, char *dst, size_t size);

/* "0,2" as bits, each below nodes; false: it is no such list. */
bool campaign_ways_parse_nodes(const char *text, uint32_t nodes, uint32_t *bits);
/* "0,1/2": two sides or more, none of which has a node of another. */
bool campaign_ways_parse_sides(const char *text, uint32_t nodes, uint8_t side[CAMPAIGN_NODES_MAX]);

#endif
