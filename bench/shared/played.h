/* What both processes of bench_takeover_net have: nodes of a cluster on one machine, their nets, and what they say. And the nodes that
 * one of the two plays: for each a net of ckptd, with a thread and an address of its own. */
#ifndef CKPT_BENCH_PLAYED_H
#define CKPT_BENCH_PLAYED_H

#include "cluster/net.h"
#include "cluster/roster.h"
#include "format/message/peer_coord.h"

#include <stdbool.h>
#include <sys/types.h>

enum { PLAYED_RANKS = 8, PLAYED_EPOCH = 3, PLAYED_TERM = 7 };

/* What the playing process hears, in one byte: it is told of the coordinator, or that this has gone. Then one byte of its own says that no
 * session is left; the first, that all nodes are there. */
enum { PLAYED_ELECTED = 'e', PLAYED_OVER = 'o' };

extern const struct step_id played_newest;
extern unsigned played_nodes; /* with the coordinator, which is node 0 */
extern const char *played_key;

_Noreturn void played_die(const char *what, const char *why);
/* The coordinator and those nodes. */
struct roster *played_roster(unsigned first, unsigned n);
struct net *played_net(const struct roster *roster, unsigned self, const struct net_events *events);
/* The net is told that the node is there, or that it has gone. */
void played_set_there(struct net *net, struct roster *roster, unsigned node, bool there);
/* One half of the processors is for the nodes, the other one for the coordinator. */
void played_keep_apart(bool nodes);
/* What a node says as it joins. */
void played_join(struct peer_report *r, unsigned node);
/* The process that plays them; descriptors by which it hears and answers. */
pid_t played_start(int *in, int *out);

#endif
