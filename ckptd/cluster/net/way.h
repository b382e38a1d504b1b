/* Way: how copies reach the memory of a node. There are two, and a net has one of them:
 *
 *	rail_way   one-sided, by libfabric (rail.h): not sealed; nothing but a proven node reaches memory
 *	lane_way   over connections of our own (lane.h), sealed or not: nothing but a proven node reaches it
 *
 * What a way does not do is in copy.c: which part of which copy is next, how many are in flight, deadlines, ends. All of the thread's but
 * expose() and close(). */
#ifndef CKPTD_NET_WAY_H
#define CKPTD_NET_WAY_H

#include "cluster/net.h"

struct peer;
struct part;

struct way {
	int (*open)(struct net *net, const char *provider, struct err *err);
	void (*end)(struct net *net);
	/* A session has begun, or the way was cut. Whether there is a way, or will be one when it is needed. */
	bool (*reach)(struct peer *p);
	/* Whether parts can be posted now; where not, sees to it that they can: what waits is pushed again then. */
	bool (*ready)(struct peer *p);
	/* Takes a part, which is copy_done() later. -EAGAIN: later. -errno: the copy fails. */
	int (*post)(struct peer *p, struct part *part);
	/* Moves what was posted, as far as the network goes. NULL: goes by itself. */
	void (*push)(struct peer *p);
	void (*tick)(struct peer *p, uint64_t now); /* NULL: nothing */
	/* Nothing that was posted touches memory any more, nor is it told of. */
	void (*cut)(struct peer *p);
	/* The session is over. NULL: nothing but to be cut. */
	void (*leave)(struct peer *p);
	/* Lets the node of the region reach memory: fills in what the way needs of it, and the ticket. Nothing new
	 * reaches it when it is closed. */
	int (*expose)(struct net_region *region, void *base, uint64_t size, enum net_access access);
	void (*close)(struct net_region *region);
};

extern const struct way rail_way, lane_way;

#endif
