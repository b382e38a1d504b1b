/* The network of the nodes of a campaign: a network namespace of each node, with a cable (a veth pair) to a bridge in one
 * more. Node K has the address 10.77.0.(K+1).
 *
 * No namespace has a name, so it lives as long as this process or one that runs in it. However a campaign ends, nothing
 * of it stays: what is in a namespace goes with it, the cables too. Needs root and `ip` of iproute2. One thread. */
#ifndef CKPT_CLI_NETWORK_NET_H
#define CKPT_CLI_NETWORK_NET_H

#include "base/err.h"
#include "journal/ways.h"

enum { CAMPAIGN_NET_TEXT_MAX = 256 };

struct campaign_net {
	uint32_t nodes; /* 0: there is none */
	int home, bridge, node[CAMPAIGN_NODES_MAX];
	struct campaign_ways broken;                                /* now, by all faults together */
	const struct campaign_fault *faults[CAMPAIGN_TOGETHER_MAX]; /* that break it now */
	size_t nfaults;
	struct campaign_cable
		*cable[CAMPAIGN_NODES_MAX]; /* in the place of a node's that loses or delays packets; NULL: its own */
};

/* Makes it, and tries each way. Not 0: it cannot be had here, the error says why, and nothing is left of it. */
int campaign_net_make(struct campaign_net *net, uint32_t nodes, struct err *err);
/* All that was made; may be called again. */
void campaign_net_close(struct campaign_net *net);
char *campaign_net_address(uint32_t node, char *dst, size_t size);

/* What this process starts, and each socket that it makes, is then of that node; until it leaves. */
int campaign_net_enter(const struct campaign_net *net, uint32_t node, struct err *err);
void campaign_net_leave(const struct campaign_net *net);

/* Whether the kernel can make a cable slow. */
int campaign_net_try_slow(const struct campaign_net *net, struct err *err);
/* Of a fault that makes a cable bad: whether the cable has held something back, or lost it. -EAGAIN: it has not. */
int campaign_net_held_back(const struct campaign_net *net, const struct campaign_fault *fault, struct err *err);
/* Beside what is broken already. The fault lives until it is mended. -EBUSY: another fault has the node's cable. */
int campaign_net_break(struct campaign_net *net, const struct campaign_fault *fault, struct err *err);
/* What only this fault breaks. 0: it does not break anything. */
int campaign_net_mend(struct campaign_net *net, const struct campaign_fault *fault, struct err *err);
void campaign_net_mend_all(struct campaign_net *net);
/* network/guests.c: whether somebody else has a namespace of it: a process that is in it, or a mount of it. text says who. */
bool campaign_net_in_use(const struct campaign_net *net, char text[CAMPAIGN_NET_TEXT_MAX]);

/* network/probe.c: datagrams on each way. -EAGAIN: one that is broken lets them through, or another one does not. */
int campaign_net_probe(const struct campaign_net *net, struct err *err);

#endif
