/* Peers: the other nodes, and what reaches them. */
#ifndef CKPTD_REPLICATION_PEERS_H
#define CKPTD_REPLICATION_PEERS_H

struct net;
struct replica;
struct roster;

struct peers {
	struct roster *roster;   /* NULL: this node is alone */
	unsigned self;           /* in it */
	struct net *net;         /* NULL: as before */
	struct replica *replica; /* NULL: as before */
};

#endif
