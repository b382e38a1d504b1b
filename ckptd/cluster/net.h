/* The net, one of the three interfaces through which the state machines see the world (disk, net, clock). It has the
 * nodes of a cluster, messages between their daemons, and one-sided copies between their memories. Implementations: net/
 * (TLS, libfabric) and tests/sim/net_sim.c, chosen at link time.
 *
 * Nodes are entries of the roster (cluster/roster.h) and are named by their index in it. A session with a node is there
 * while both daemons have proved to each other that they hold the cluster key and have heard of each other within the
 * limit. It begins with `up` and ends with `down`. Within it messages arrive once, whole and in order, or it ends.
 * Nothing of an earlier session arrives in a later one. What was exposed to the node is withdrawn when the session ends.
 * With ourselves there is none.
 *
 * A session that nobody uses is parked: it goes on without a connection, until one side wants something of the other one.
 * Until then nobody but the node's neighbours knows at once that it is lost.
 *
 * Threads: a struct net belongs to the loop's thread, and calls back from net_poll() alone. */
#ifndef CKPTD_CLUSTER_NET_H
#define CKPTD_CLUSTER_NET_H

#include "base/bytes.h"
#include "base/err.h"
#include "base/list.h"

#include <stdbool.h>
#include <stdint.h>

struct net;
struct net_body;
struct net_region;
struct roster;

enum {
	NET_MESSAGE_MAX = 1 << 20, /* bytes of one message's body */
	NET_BODY_MAX = 72 << 20,   /* of one that several nodes are sent */
	NET_QUEUE_MAX = 256,       /* messages that wait for one node */
	NET_QUEUE_BYTES = 8 << 20, /* and the bytes of those that it alone is sent */
	NET_CHUNK = 1 << 20,       /* of copies: bytes of a part */
	NET_DEPTH = 4,             /* and parts in flight to one node */
	NET_WITHDRAW_MS = 20,      /* see net_withdraw() */
	NET_CLOCKS = 8,            /* the next ones in the roster that there is a session with */
};

/* Files with which a node proves that it belongs to the cluster. Either the cluster key (docs/explanation/security.md),
 * and the one before it while it is changed (NULL: none). Or, if there is no key (NULL), the node's own certificate, its
 * key, and the certificates of the authorities that are believed, in PEM. */
struct net_credentials {
	const char *key, *key_old, *cert, *cert_key, *ca;
};

/* How copies go. Alike on all nodes of a cluster. Messages go over TLS in any case. */
enum net_copies {
	NET_COPIES_SEALED =
		1,         /* over TCP, sealed with keys that TLS exports, once both ends have proved who they are */
	NET_COPIES_BARE,   /* the same, not sealed */
	NET_COPIES_FABRIC, /* by RDMA, with the provider of libfabric: not sealed */
};

struct net_config {
	const struct roster *roster; /* must live as long as the net; where it changes, net_member() says so */
	unsigned self;               /* our index in it */
	enum net_copies copies;
	const char *provider; /* of NET_COPIES_FABRIC: "verbs", for one */
	struct net_credentials credentials;
	uint64_t incarnation; /* of this daemon: another one is another process; 0: one is drawn */
	const char *
		registry; /* under which prefix the nodes agree on what they decide; NULL: without a registry. Alike on all nodes */
	uint64_t idle_ns;         /* without use: then a session is parked; 0: 20 s */
	uint64_t peer_timeout_ns; /* silence after which a session ends; heartbeats are sent four times as often */
};

/* What a node answered when it was asked for the time of day. It may lie, but for the round trip, which nobody can make
 * shorter. */
struct net_clock {
	uint64_t round_trip_ns;
	int64_t ahead_ns; /* of our clock, give or take half the round trip; never INT64_MIN */
};

struct net_events {
	void (*up)(void *arg, unsigned node);
	/* rc: -errno, why (-ETIMEDOUT: silent for too long, -ECONNRESET: it is gone or has begun anew, -ESHUTDOWN: it
	 * said goodbye, else that of net_drop). All copies with it have been completed with an error, messages that were
	 * not sent are gone. */
	void (*down)(void *arg, unsigned node, int rc);
	void (*message)(void *arg, unsigned node, uint16_t type, const void *body, size_t len);
	void (*clock)(void *arg, unsigned node, const struct net_clock *clock); /* see net_ask_clocks() */
	void *arg;
	/* Whether a loss of the node must be known here at once, although nothing was said for a while. Then the session
	 * keeps its connection. What makes it matter is said in a message. NULL: it never does. */
	bool (*minds)(void *arg, unsigned node);
};

/* Opens the endpoints and begins to look for all other nodes, for ever. -EINVAL, -EACCES (others may read the key file),
 * -ENODATA (the provider is not here), -EADDRINUSE, … with a sentence. */
int net_new(const struct net_config *config, const struct net_events *events, struct net **out, struct err *err);
/* Reads the credentials anew, from the same files or others: for sessions that begin from now on; those that stand stay.
 * After an error all is as it was. */
int net_renew(struct net *net, const struct net_credentials *files, struct err *err);
/* Says goodbye; copies that are not done are completed with -ESHUTDOWN. No other event comes any more. NULL is allowed. */
void net_free(struct net *net);

/* What the roster has of a node has changed: it has come, has another address, is another process, or has gone. A session
 * with what it was ends. -EINVAL: its host is no address, or one of another family than ours: it cannot be reached.
 * -ENOMEM. */
int net_member(struct net *net, unsigned node, struct err *err);

int net_event_fd(struct net *net);
/* Runs what has happened; never waits. Number of events. */
int net_poll(struct net *net);

bool net_is_up(const struct net *net, unsigned node);
/* The same, and no hearsay: it has a connection. */
bool net_is_open(const struct net *net, unsigned node);
/* So many nodes that this one has asked for an answer have not given one for a quarter of the limit, and are not lost
 * yet. */
unsigned net_silent(const struct net *net);
/* If the session is parked, the node is called. */
void net_touch(struct net *net, unsigned node);
/* The session's number, which never comes twice on this node; 0: none is there. */
uint64_t net_session(const struct net *net, unsigned node);
/* clock_now() of the last that was heard in the session that ended; in `down`, for that node. */
uint64_t net_heard(const struct net *net, unsigned node);

/* Copies the body. -ENOTCONN: no session; -ENOBUFS: the queue is full, the caller decides; -EMSGSIZE; -ENOMEM. A message
 * that was taken arrives, or the session ends. */
int net_send(struct net *net, unsigned node, uint16_t type, const struct wbuf *body);
/* The same, and takes a hold in place of a copy. */
int net_send_body(struct net *net, unsigned node, uint16_t type, struct net_body *body);

/* Ends the session with a node that breaks the protocol above us, is to be forgotten, or was to be sent what was not
 * taken; `down` comes with rc. Until then nothing more is taken, so that no later message arrives without the one before
 * it. A new session may follow. */
void net_drop(struct net *net, unsigned node, int rc);

/* ---- memory */

enum net_access { NET_READABLE = 1, NET_WRITABLE = 2 };

/* What the other side needs to reach a region: travels in messages. */
struct net_ticket {
	uint64_t key, address, size;
};

/* Lets a node, for as long as the session lasts, read or write memory. -ENOTCONN, -ENOMEM, … */
int net_expose(struct net *net, unsigned node, void *base, uint64_t size, enum net_access access,
	       struct net_region **out, struct err *err);
struct net_ticket net_region_ticket(const struct net_region *region);
/* When it returns no node reaches the memory any more, whatever was in flight. Where copies go by RDMA, a node that is
 * copying is asked to stop. If that takes longer than NET_WITHDRAW_MS, the connection of its copies is cut. Copies in
 * flight between us, in both directions, fail with -ECONNRESET, and the session goes on. NULL is allowed; so is a region
 * whose session is gone. */
void net_withdraw(struct net_region *region);

/* Announces local memory that copies start from or end in, where the provider wants that: a token, 0 where it does not;
 * -errno is not fatal. */
int net_register(struct net *net, void *base, uint64_t size);
void net_unregister(struct net *net, int token);

enum net_kind { NET_WRITE = 1, NET_READ };

/* A copy between our memory and a region of the node. WRITE is done when the bytes stand in the other's memory (delivery
 * complete). */
struct net_op {
	enum net_kind kind;
	unsigned node;
	void *buf; /* must live until done */
	uint64_t len;
	struct net_ticket ticket;
	uint64_t offset; /* in the region */
	/* clock_now(): when it has passed, the way of copies to the node is cut, for a copy cannot be called back
	 * otherwise */
	uint64_t deadline;
	void (*done)(struct net_op *op); /* op may be submitted again or freed inside */
	void *arg;                       /* the caller's */
	/* len, or -errno: -ETIMEDOUT, -ECONNRESET, -EACCES (there is no such region any more), -ERANGE (beyond its end),
	 * -ESHUTDOWN, -ENOTCONN. A copy that failed may be tried again while the session lasts. */
	int64_t result;
	struct list link; /* private, as what follows */
	uint64_t session, issued, moved;
	unsigned in_flight;
};
/* Never fails: what cannot be started is completed with an error at the next poll. Large copies go in parts of NET_CHUNK,
 * at most NET_DEPTH in flight to a node, shared fairly among its copies. */
void net_submit(struct net *net, struct net_op *op);

/* Asks NET_CLOCKS nodes at most, of those with a connection, for the time of day. Only nodes that have answered the last
 * question are asked. Their answers come by `clock`. */
void net_ask_clocks(struct net *net);

struct net_counts {
	uint64_t sessions, messages_in, messages_out, bytes_read, bytes_written;
	/* connections of strangers, of nodes with other credentials, another roster or another protocol */
	uint64_t refused;
};
struct net_counts net_counts(const struct net *net);

#endif
