/* Members: the nodes of an open roster (cluster/roster.h), as the registry has them, and how this node becomes one of them.
 *
 *	cluster/NAME    what the node is (cluster/member.h): its number, its address, its daemon. Stays when that ends
 *	cluster-next    the number that the next new name is given
 *	nodes/NAME      its daemon is there (control/election/node_record.h); goes with the daemon's lease
 *
 *   JOINING ── all three in one transaction ──► JOINED ── cluster/NAME is another daemon's, or removed ──► OUT
 *      └─────── another daemon keeps nodes/NAME, at another address, for longer than its lease ────────────►
 *
 * The transaction compares what the mirror had: of two daemons that claim one name one succeeds, and the other waits, for
 * the first may have ended just now. A machine that takes the place of another one is let in when the lease of the first
 * has ended. A daemon that begins anew at its address need not wait: who listens there is the only one.
 *
 * A number is given once: what has been told of a node by its number is never true of another one. */
#ifndef CKPTD_CONTROL_MEMBERS_H
#define CKPTD_CONTROL_MEMBERS_H

#include "cluster/room.h"

struct control;
struct members;
struct registry_record;

/* Makes control->peers->roster, without nodes, and control->members, before the registry is opened. self: what this node
 * is, with an incarnation. */
int members_open(struct control *control, const struct roster_node *self, uint64_t since_ms, struct err *err);
void members_close(struct control *control);
/* Something of the registry was told: true: it was of a member. */
bool members_record(struct control *control, const struct registry_record *record, bool gone);
/* Goes on with joining, and keeps the record of what is there; at each tick. NULL members are allowed. */
void members_tick(struct control *control);
/* 1: this node is a member, control->peers->self says which; 0: not yet; -errno: it is none, or none any more, and why.
 * *err also says what is waited for. */
int members_state(const struct control *control, struct err *err);
/* Takes a node that is not there out of the cluster. done: rc 0: it is out; else why not. -ENOENT, -EBUSY (its daemon is
 * there), -ENOTCONN (the registry is away), -EOPNOTSUPP (the roster is a file), … with a sentence. */
int members_remove(struct control *control, const char *name, void (*done)(void *arg, int rc, const char *why),
		   void *arg, struct err *err);

struct member_view {
	struct member member;
	bool there; /* its daemon holds its lease */
};
/* False: without an open roster, or it has no such node. */
bool members_look(const struct control *control, unsigned node, struct member_view *view);

#endif
