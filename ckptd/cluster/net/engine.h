/* Engine: what the files of net/ share.
 *
 *	net.c      the loop's side: opening, sending, submitting, events       region.c   memory: exposing, withdrawing, registering
 *	thread.c   the net's own thread: turns, clock, what is read            peer.c     a session's life: calls, opening, end
 *	post.c     frames out                                                  copy.c     copies out
 *	rail.c     libfabric        session.c, inbox.c, key.c, silence.c   pure: see there
 *
 * One thread drives both rails and owns all that is marked (thread). It never waits for the loop, nor the loop for it but in
 * net_withdraw(). What they give each other lies in the peer under `lock`: a peer with something for the thread is in net->work and the thread
 * is woken; one with something for the loop is in net->ready and the loop's descriptor is made readable. Nothing of libfabric is called
 * with the lock held but closing a region.
 *
 * Flow: the sender of messages has at most WINDOW frames that the other's loop has not consumed; BEAT says how many were. So what waits at
 * the receiver is bounded, too. */
#ifndef CKPTD_NET_ENGINE_H
#define CKPTD_NET_ENGINE_H

#include "cluster/net.h"
#include "cluster/net/inbox.h"
#include "cluster/net/rail.h"
#include "cluster/net/session.h"
#include "cluster/net/silence.h"
#include "cluster/roster.h"

#include <netinet/in.h>
#include <pthread.h>

enum {
	SEND_DEPTH = 16,    /* frames in flight to a node */
	RECEIVE_DEPTH = 64, /* buffers that wait for frames of all nodes */
	WINDOW = 512,       /* DATA frames; more than the longest message has */
	SMALL_MAX = 512,    /* control frames that wait for a node */
	REVOKED_MAX = 64,   /* keys that are remembered as withdrawn */
	TICK_MS = 20,
	RETRY_MS = 2,
	AWAKE_MS = 1,    /* since something of a copy last came or went */
	AWAY_NS = 20000, /* a turn given away for so long: the processor is wanted */
	STALL_MS = 100,  /* a session whose connection is gone for so long is over */
	CALL_MS = 500,   /* an answer to a call is waited for at least so long */
	BACKOFF_MIN_MS = 100,
	BACKOFF_MAX_MS = 2000,
	GOODBYE_MS = 100,
	CUT_MS =
		10000, /* the thread does what it is told within this, or the process ends: memory would be given away that others reach */
};

/* A message of the loop's on its way out. */
struct letter {
	struct list link;
	uint64_t session;
	uint16_t type;
	bool begun;
	size_t len, sent;
	uint8_t body[];
};

/* And one that has come in. */
struct message {
	struct list link;
	uint64_t session;
	uint16_t type;
	unsigned frames;
	size_t len;
	uint8_t *body;
};

/* A frame in the hands of libfabric. */
struct buffer {
	struct list link;
	struct peer *peer; /* of one that is sent; NULL: one to receive into */
	uint64_t session;
	struct session_frame frame;
};

/* A part of a copy in the hands of libfabric. */
struct part {
	struct list link; /* in peer->parts */
	struct peer *peer;
	struct net_op *op; /* NULL: its way was cut, the copy is over */
	uint64_t len;
	struct fid_mr *mr; /* registered for this part alone */
};

struct small {
	struct list link;
	enum session_kind kind;
	uint64_t value;
};

struct net_region {
	struct list link;  /* in net->regions */
	struct list asked; /* in peer->revokes or peer->asked */
	struct net *net;   /* NULL: is gone */
	unsigned node;
	uint64_t session;
	struct fid_mr *mr; /* NULL: closed */
	struct net_ticket ticket;
	bool released; /* nothing of the node's is on its way to it */
};

/* Memory of our own that was registered: see net_register(). */
struct local {
	uint8_t *base;
	uint64_t size;
	struct fid_mr *mr;
};

struct peer {
	struct net *net;
	unsigned node;
	uint64_t seen; /* (loop) session that it was told of; 0: none */

	/* lock */
	struct list work, ready;
	struct list letters;
	unsigned nletters;
	size_t letter_bytes;
	struct list fresh, ended; /* net_op: submitted; done */
	struct list messages;
	uint64_t session_now; /* what the loop is to see */
	int rc;               /* why it ended */
	uint64_t heard_last;  /* in it */
	uint64_t drop;        /* session that the loop wants ended */
	int drop_rc;
	struct list revokes, asked;
	bool cut;
	bool deaf;         /* it was cut off, and nothing was heard from it since: it will not answer */
	uint64_t consumed; /* DATA frames of this session */

	/* thread */
	struct list busy;
	struct sockaddr_in6 where;
	struct rail_way frames, copies;
	bool reachable; /* copies is valid */
	struct session session;
	uint64_t id; /* of the session; 0: none */
	struct inbox inbox;
	uint64_t heard, said, stalled_at;
	struct silence silence;                /* since then */
	uint64_t call_at, called_at, retry_at; /* called_at 0: no call is on the way */
	bool call_sent, told_roster, told_protocol;
	unsigned backoff_ms;
	struct list smalls;
	unsigned nsmalls;
	struct buffer *stalled; /* sealed, to be sent before all else */
	unsigned sending;
	uint64_t sent, confirmed, taken, told; /* DATA frames */
	struct list ops, flying, parts;        /* with parts to be issued; with none; all that are in flight */
	unsigned nparts;
	uint64_t revoked[REVOKED_MAX], owed[REVOKED_MAX];
	unsigned nrevoked, nowed;
};

struct net {
	struct net_events events;
	const struct roster *roster;
	unsigned self;
	uint64_t timeout;
	struct rail messages, copies;
	struct session_self identity;
	struct peer *peers;
	int event, wake; /* eventfds: for the loop, for the thread */
	pthread_t thread;
	bool running;

	pthread_mutex_t lock;
	pthread_cond_t released;
	struct list work, ready, regions;
	bool stopping;
	struct net_counts counts;
	struct local *locals;
	unsigned nlocals;

	/* thread */
	struct list busy, spare; /* peers to be looked at; buffers */
	uint64_t next_session, next_tick;
	uint64_t awake_until; /* 0: it sleeps when it has nothing to do */
	struct buffer *receives;
};

static inline bool peer_is_self(const struct peer *p)
{
	return p->node == p->net->self;
}

/* ---- thread.c */
void *net_thread(void *arg);
/* With the lock: to be called by the loop when it has left something in the peer, by the thread when it has. */
void net_wake(struct peer *p);
void net_tell(struct peer *p);
int net_post_receives(struct net *net);

/* ---- peer.c (thread) */
void peer_init(struct peer *p, struct net *net, unsigned node);
void peer_free(struct peer *p);
void peer_tick(struct peer *p, uint64_t now);
/* What the loop has left: drops, withdrawals, cuts, letters, copies. */
void peer_take_work(struct peer *p);
void peer_frame(struct net *net, const void *frame, size_t len);
void peer_end(struct peer *p, int rc, bool cut);

/* ---- post.c (thread) */
/* Sends what waits, as far as it goes. Whether something is left that only waits for libfabric. */
bool post_push(struct peer *p);
void post_small(struct peer *p, enum session_kind kind, uint64_t value);
/* A frame of a handshake: is sent before all else, or lost where another one waits already. */
void post_reply(struct peer *p, const struct session_frame *frame);
int post_call(struct peer *p);
void post_done(struct net *net, struct buffer *buffer, int rc);
void post_clear(struct peer *p);

/* ---- copy.c (thread) */
bool copy_push(struct peer *p);
void copy_done(struct part *part, int rc);
void copy_tick(struct peer *p, uint64_t now);
/* The other side withdraws a region. */
void copy_revoke(struct peer *p, uint64_t key);
/* Ends all copies with the node. */
void copy_clear(struct peer *p, int rc);
/* Cuts the way of copies: those in flight fail. */
void copy_cut(struct peer *p, int rc);
void copy_end_op(struct peer *p, struct net_op *op, int64_t result);

/* ---- region.c */
/* All regions of the session, or those that were asked for: nothing is on the way to them any more. */
void region_close_all(struct peer *p, uint64_t session);
void region_released(struct peer *p, uint64_t key);
void region_released_all(struct peer *p);
/* Descriptor of our own memory, where the provider wants one; *mr is set when it was made for this alone. */
int region_local(struct net *net, void *buf, uint64_t len, void **descriptor, struct fid_mr **mr);

static inline void net_busy(struct peer *p)
{
	if (list_empty(&p->busy))
		list_push(&p->net->busy, &p->busy);
}

#endif
