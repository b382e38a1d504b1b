/* Placement: on which nodes the copies of a node's memory stand. A pure function of the roster and of the nodes that are
 * alive, so that all nodes agree without asking each other.
 *
 * Every node that is alive, spares too, holds as many copies as it gives, and at most one more. Copies go into other
 * domains: another switch, else another rack, else at least another node. Nodes without a label share a domain, for
 * nobody knows better. When a node is lost or comes back few copies move: those that it held and gave, and now and then
 * one that makes room.
 *
 * Each copy is a deferred acceptance (Gale, Shapley 1962). A node proposes to the others in an order of its own, wider
 * domains first. That is a permutation of all places of the roster by a stride over a prime (as in Maglev: Eisenbud et
 * al. 2016). It does not depend on which nodes are alive. A full holder keeps the nodes that it ranks highest by hash.
 * The room of one more than is needed keeps chains of displacement short (consistent hashing with bounded loads: Mirrokni
 * et al. 2018). A node whose domain is so large that it fills all room elsewhere comes first.
 *
 * Places are lines of the roster: a node that joins the cluster is added at its end. */
#ifndef CKPTD_REPLICATION_PLACEMENT_H
#define CKPTD_REPLICATION_PLACEMENT_H

#include <stdbool.h>

struct roster;

enum { PLACEMENT_COPIES_MAX = 4 };

/* How far a holder is away. */
enum placement_distance { PLACEMENT_NODE = 0, PLACEMENT_RACK, PLACEMENT_SWITCH };

struct placement {
	unsigned n, copies;
	/* n × copies: the holders of node i stand from i × copies on, the rest is PLACEMENT_NOBODY. */
	unsigned *holders;
};

#define PLACEMENT_NOBODY (~0u)

/* alive: one per node of the roster. copies: 1 to PLACEMENT_COPIES_MAX; fewer are placed where there are not so many
 * other nodes. 0 or -ENOMEM. */
int placement_make(const struct roster *roster, const bool *alive, unsigned copies, struct placement *out);
void placement_free(struct placement *p);
/* PLACEMENT_NODE when they share a rack, or there are no labels. */
enum placement_distance placement_distance(const struct roster *roster, unsigned a, unsigned b);

#endif
