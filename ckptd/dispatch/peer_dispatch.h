/* Peer dispatch: the daemons of the other nodes of a cluster. What the net tells is given to whom it concerns here, by
 * the type of the message. */
#ifndef CKPTD_DISPATCH_PEER_DISPATCH_H
#define CKPTD_DISPATCH_PEER_DISPATCH_H

#include "base/err.h"
#include "config/sources.h"

#include <stdint.h>

struct dispatch;
struct roster_node;

/* Reads dispatch->peers->roster, and who we are in it; without the settings `cluster` and `node-address` there is none.
 * With `node-address`, peers_join() is to follow. */
int peers_find(struct dispatch *dispatch, struct err *err);
/* What peers_find() does with `node-address` when it knows what this node is: opens the registry, which says the rest. */
int peers_enter(struct dispatch *dispatch, const struct roster_node *self, struct err *err);
/* Joins a cluster whose nodes stand in the registry. 1: that is done, or there is nothing to join; 0: it goes on when the
 * descriptor is readable, or soon; err says what is waited for; else -errno. */
int peers_join(struct dispatch *dispatch, struct err *err);
int peers_join_fd(const struct dispatch *dispatch);
/* This node is no member of the cluster any more, and why: its daemon is to end. 0: it is. */
int peers_out(const struct dispatch *dispatch, struct err *err);
/* Opens dispatch->peers->net and dispatch->peers->replica and has the loop watch them; without a roster there are none. */
int peers_open(struct dispatch *dispatch, struct err *err);
/* Reads the credentials of the cluster anew: sessions that stand stay, others begin with them. */
void peers_renew(struct dispatch *dispatch);
/* At each tick: what the net only counts is said, copies go on. */
void peers_tick(struct dispatch *dispatch, uint64_t now);
/* What the loop does when there is something; the descriptor is -1 without a net. */
int peers_event_fd(struct dispatch *dispatch);
void peers_poll(struct dispatch *dispatch);
/* Says goodbye to all. Workers have ended. NULL nets are allowed. */
void peers_close(struct dispatch *dispatch);

#endif
