/* Engine: what the files of net/ share.
 *
 *	net.c      the loop's side: opening, sending, submitting, events       region.c   memory: exposing, withdrawing, registering
 *	thread.c   the net's own thread: turns, clock, what is read            peer.c     a session: opening, end; call.c: our calls
 *	door.c, greeting.c   who connects, until it is known who it is (first_flight.c)  copy.c     copies out
 *	post.c     frames out                                                  link.c, credentials.c   TLS
 *	sealed.c, sealer.c   what seals copies in the place of TLS
 *	way.h      how copies go: rail_copies.c over rail_call.c and rail.c (libfabric), or lane_ask.c and lane_answer.c over links
 *	vault.c    where keys are
 *	clocks.c   what time the others have                                   clock_offset.h   what that means
 *	attend.c   whether the other side is still there                       liveness.c, neighbours.c   how that is known
 *	rumour.c   what others say of it                                       rumours.c   what is new of that
 *	park.c     sessions without a link                                     parking.c   when they are
 *	inbox.c, hello.c, key.c, lane.c, rail_words.c   pure: see there
 *
 * One thread drives the links and the rail and owns all that is marked (thread). It never waits for the loop, nor the
 * loop for it but in net_withdraw(). What they give each other lies in the peer under `lock`. A peer with something for
 * the thread is in net->work, and the thread is woken. One with something for the loop is in net->ready, and the loop's
 * descriptor is made readable. Nothing of libfabric is called with the lock held but closing a region.
 *
 * Flow: the sender of messages has at most WINDOW frames that the other's loop has not consumed; BEAT says how many were.
 * So what waits at the receiver is bounded, too. */
#ifndef CKPTD_NET_ENGINE_H
#define CKPTD_NET_ENGINE_H

#include "cluster/link/inbox.h"
#include "cluster/link/lane.h"
#include "cluster/link/link.h"
#include "cluster/link/liveness.h"
#include "cluster/link/neighbours.h"
#include "cluster/link/parking.h"
#include "cluster/link/rumours.h"
#include "cluster/net.h"
#include "cluster/net/rail.h"
#include "cluster/net/way.h"
#include "cluster/net_body.h"
#include "cluster/roster.h"

#include <errno.h>
#include <pthread.h>

enum {
	WINDOW = 512, /* DATA frames; more than the longest message has */
	MESSAGE_MORE =
		0x8000, /* in its type: the next one goes on with it, so that the window bounds what waits of a long body, too */
	FRAMES_A_TURN = 64, /* are read of one link */
	SMALL_MAX = 512,    /* control frames that wait for a node */
	REVOKED_MAX = 64,   /* keys that are remembered as withdrawn */
	TICK_MS = 20,       /* between two looks at what is under way */
	EARLY_MS = 60,      /* a look may be so much before it is due: no more than a question may (link/liveness.h) */
	REST_MS = 1000,     /* and at what is not */
	RETRY_MS = 2,
	AWAKE_MS = 1,        /* since something of a copy last came or went */
	AWAY_NS = 20000,     /* a turn given away for so long: the processor is wanted */
	CALL_MS = 500,       /* a call may take at least so long until it is answered */
	STRANGER_MS = 5000,  /* and a caller so long until it is known */
	CALL_LATER_MS = 100, /* the one that is called first waits for so long */
	BACKOFF_MIN_MS = 20,
	BACKOFF_MAX_MS = 2000,
	GOODBYE_MS = 100,
	CUT_MS =
		10000, /* the thread does what it is told within this, or the process ends: memory would be given away that others reach */
};

/* What the roster has of a node. */
struct change {
	struct roster_node node; /* port 0: it is gone */
	union address where;
};

/* A message of the loop's on its way out. */
struct letter {
	struct list link;
	uint64_t session;
	uint16_t type;
	size_t sent, own; /* own: bytes of a body that nobody else is sent */
	struct net_body *body;
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

/* A part of a copy on its way. */
struct part {
	struct list link; /* in peer->parts */
	struct peer *peer;
	struct net_op *op;
	uint64_t begin, len; /* in op->buf */
	uint64_t number;     /* of rails: by which libfabric tells of it; none comes twice */
	struct fid_mr *mr;   /* of rails: registered for this part alone */
	uint64_t sent, got;  /* of lanes: with its request; bytes of a read */
};

/* Our own lane to a node. */
struct asking {
	struct link *link; /* NULL: none */
	bool ready;        /* the node has taken it */
	unsigned failures; /* of calls, since ever: see credentials_call() */
	uint64_t call_at;
	unsigned backoff_ms;
	uint8_t in[LANE_ANSWER_BYTES];
	size_t have;
	uint32_t left; /* bytes of the present answer */
};

/* Our endpoint of the rail that is connected to a node, and the one that the node has connected to us. */
struct rails {
	struct fid_ep *mine, *theirs; /* NULL: none */
	bool ready;                   /* ours: the node has taken it, and proved that it is the node */
	uint64_t since, call_at;
	unsigned backoff_ms;
	uint64_t attempts, heard; /* of this session: calls of ours; the number of the last of theirs that was taken */
};

struct small {
	struct list link;
	enum frame_kind kind;
	uint8_t len;
	uint8_t body[RUMOUR_BYTES];
};

struct net_region {
	struct list link;  /* in net->regions */
	struct list asked; /* in peer->revokes or peer->asked */
	struct net *net;   /* NULL: is gone */
	unsigned node;
	uint64_t session;
	bool open;
	struct fid_mr *mr; /* of rails */
	uint8_t *base;     /* of lanes */
	enum net_access access;
	bool pinned; /* bytes are moved just now */
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
	uint64_t seen;     /* (loop) session that it was told of; 0: none */
	struct wbuf whole; /* (loop) what has come of a body that goes on */

	/* lock */
	struct list work, ready;
	struct list letters;
	unsigned nletters;
	size_t letter_bytes;
	struct list fresh, ended; /* net_op: submitted; done */
	struct list messages;
	uint64_t session_now; /* what the loop is to see */
	bool open;            /* and whether it has a link */
	bool silent;          /* it has not answered for a while (link/liveness.h) */
	int rc;               /* why it ended */
	uint64_t heard_last;  /* in it */
	uint64_t drop;        /* session that the loop wants ended */
	int drop_rc;
	struct list revokes, asked;
	bool cut;
	struct change *change; /* what it is from now on; NULL: nothing has changed */
	bool deaf;             /* it was cut off, and nothing was heard from it since: it will not answer */
	uint64_t consumed;     /* DATA frames of this session */
	struct net_clock clock;
	uint64_t clock_session; /* in which it came, and the loop has yet to be told; 0: none */
	/* As of which parking.uses the thread asks whether somebody minds a loss, and the loop says that nobody does, or
	 * that somebody does; 0: not. */
	uint64_t asks, parks, stays;

	/* thread */
	struct list busy, looks;
	bool known;        /* it is a node: else it is not called, and not let in */
	uint64_t expected; /* its incarnation; 0: any */
	union address where;
	char name[NAME_NODE_MAX];
	struct link *link, *call;     /* of the session, NULL: it is parked; of a call that is on its way */
	struct hello_address address; /* in a session: where its memory is reached */
	bool reachable;               /* there is a way for copies */
	struct rails rails;
	struct asking asking;
	struct answering *answering;             /* its lane to us; NULL: none */
	uint64_t id;                             /* of the session; 0: none */
	uint64_t incarnation, attempt, attempts; /* of the last hello that was taken, and how many we have said */
	uint64_t mine, theirs;                   /* the hellos that began the session */
	struct parking parking;
	uint64_t park_asked, park_agreed; /* the last parking.uses that the loop was asked of, and agreed to */
	bool unsure; /* it goes on over a link by which nothing has come yet: the other side may have given up its call */
	struct rumours rumours;
	bool told_rumours; /* it is a neighbour, and was told those of others */
	struct inbox inbox;
	uint64_t heard;
	uint64_t heard_by_others; /* those that doubt it, of this session */
	struct liveness liveness;
	bool told_silent;     /* as the loop knows it */
	uint64_t clock_asked; /* the time of day, in this session; 0: it has answered */
	uint64_t call_at;
	unsigned failures;   /* of calls, since ever: see credentials_call() */
	struct list waiting; /* calls of its at the door that wait for ours to end */
	unsigned answered;   /* and those that know the key, and are being answered */
	bool gave_way;       /* our call to one of these, since it last had a link */
	bool told_roster, told_protocol, told_way, told_registry;
	uint64_t told_changed; /* session in which it was said that copies are changed on their way */
	unsigned backoff_ms;
	struct list smalls;
	unsigned nsmalls;
	uint64_t sent, confirmed, taken, told; /* DATA frames */
	struct list ops, flying, parts;        /* with parts to be issued; with none; all that are in flight */
	unsigned nparts;
	uint64_t revoked[REVOKED_MAX], owed[REVOKED_MAX];
	unsigned nrevoked, nowed;
};

struct net {
	struct net_events events;
	const struct roster *roster; /* (loop) */
	unsigned self_index;
	uint64_t timeout, idle;
	const struct way *way;
	struct rail copies; /* open where the way is one of rails */
	uint64_t parts;     /* that were posted to it */
	bool look;          /* it may have news */
	struct hello self;  /* what we say to all: all but `to` and `attempt` */
	struct peer *peers; /* as many as the roster can have */
	unsigned begun;     /* (loop) peers that were begun, the first of them */
	int event, wake;    /* eventfds: for the loop, for the thread */
	pthread_t thread;
	bool running;

	pthread_mutex_t lock;
	pthread_cond_t released;
	struct list work, ready, regions;
	struct credentials *renewed; /* to be used from the next turn on; NULL: none */
	bool ask_clocks;             /* in the next turn */
	bool stopping;
	struct net_counts counts;
	unsigned nsilent; /* peers */
	struct local *locals;
	unsigned nlocals;

	/* thread */
	struct roster *known; /* as far as the thread has been told; its n: peers to be looked at */
	struct credentials *credentials;
	int epoll;
	int door;              /* the socket that is listened at */
	struct list strangers; /* links that nobody has proved to be of */
	unsigned nstrangers;
	struct list eager;  /* links that have been read for long enough, and have more */
	struct list buried; /* and those that are to be freed at the end of the turn */
	struct list busy;   /* peers with something to be sent */
	struct list looks;  /* and those that the clock is watched for */
	uint64_t next_session, last_tick, next_tick;
	unsigned neighbours[NEIGHBOURS]; /* that this node looks after */
	bool changed;                    /* sessions have come or gone since these were found */
	bool answered;                   /* who was asked has said something since the next tick was set */
	bool read;            /* what the links had, while it waited: they are not looked at again in this turn */
	uint64_t awake_until; /* 0: it sleeps when it has nothing to do */
};

static inline bool peer_is_self(const struct peer *p)
{
	return p->node == p->net->self_index;
}

/* ---- thread.c */
void *net_thread(void *arg);
/* With the lock: to be called by the loop when it has left something in the peer, by the thread when it has. */
void net_wake(struct peer *p);
void net_tell(struct peer *p);
void net_refuse(struct net *net);
/* Watches a link for what it waits for. */
void net_watch(struct net *net, struct link *l);
/* More may be in it than what the network tells of. */
void net_read_again(struct net *net, struct link *l);
/* Nothing more is heard of it; it is freed when the turn is over. NULL is allowed. */
void net_bury(struct net *net, struct link *l);

/* The peer is looked at then, or before. */
void net_look_at(struct peer *p, uint64_t when);
void net_look_soon(struct peer *p);

/* ---- door.c (thread, but for opening and closing) */
int door_open(struct net *net, struct err *err);
void door_close(struct net *net);
/* Somebody connects. */
void door_answer(struct net *net);
/* What comes from one who is not known yet. */
void door_ready(struct net *net, struct link *l);
void door_tick(struct net *net, uint64_t now);
/* When it is to be called; LIVENESS_NEVER: nobody stands there. */
uint64_t door_due(const struct net *net);
/* Our call to the peer has come to an end: those of its that have waited are answered, or have been called off. */
void door_call_ended(struct peer *p);

/* ---- peer.c (thread) */
void peer_init(struct peer *p, struct net *net, unsigned node);
void peer_free(struct peer *p);
void peer_tick(struct peer *p, uint64_t now);
/* When it is to be called, which may be over; or LIVENESS_NEVER. */
uint64_t peer_due(const struct peer *p, uint64_t now);
/* What the loop has left: drops, withdrawals, cuts, letters, copies. */
void peer_take_work(struct peer *p);
/* Its link, or its call, can be read or written. */
void peer_ready(struct peer *p, struct link *l);
/* A link of somebody who called, and proved to be this peer, has said hello. Whether it is taken. */
bool peer_hello(struct peer *p, struct link *l, const struct hello *hello);
void peer_end(struct peer *p, int rc);
void peer_set_open(struct peer *p, bool open);
/* With the lock. */
void peer_set_silent(struct peer *p, bool silent);

/* ---- call.c (thread) */
/* The next call is made when it is this end's turn, or at once. */
void call_soon(struct peer *p);
void call_now(struct peer *p);
/* Makes the call that is due, or gives up the one that is on its way; then. */
void call_tick(struct peer *p, uint64_t now);
uint64_t call_due(const struct peer *p);
/* It can be read or written. Whether it has just been set up. */
bool call_go_on(struct peer *p);
/* Nothing came of it: the next one is made later, or the session is over. */
void call_fail(struct peer *p, int rc);
/* It is hung up, where it is not NULL: it has been answered, or is wanted no more. */
void call_end(struct peer *p);
/* Whether it is under way, and is the one that counts where both ends call. */
bool call_counts(const struct peer *p);

/* ---- greeting.c (thread) */
/* Whether a link has proved to be of the node of that name: its peer, else NULL. */
struct peer *peer_proved(struct net *net, struct link *l, const char *name);
/* Whose hello it is: of a peer that its link has proved to be, of our roster and protocol (that it is not is told once),
 * and for us. Else NULL. */
struct peer *peer_of_hello(struct net *net, struct link *l, const struct frame *frame, struct hello *out);

/* ---- attend.c (thread) */
/* A session has begun. */
void attend_begin(struct peer *p, uint64_t now);
/* A frame has come. */
void attend_heard(struct peer *p, const struct frame *frame);
/* The other side asks, or tells of a node that does not answer it. */
void attend_answer(struct peer *p);
/* A message or a copy goes over it. */
void attend_use(struct peer *p, uint64_t now);
/* Which nodes this one looks after, once sessions have come or gone. */
void attend_neighbours(struct net *net, uint64_t now);
/* The session may be over after it. */
void attend_tick(struct peer *p, uint64_t now);

/* ---- clocks.c (thread) */
void clocks_ask(struct net *net);
/* The other side asks, or answers: 0, -EPROTO. */
void clocks_answer(struct peer *p);
int clocks_take(struct peer *p, uint64_t wall);

/* ---- rumour.c (thread) */
/* The node does not answer; all others are asked, too, whether they are there. */
void rumour_doubt(struct peer *of, uint64_t now);
/* A session with it has ended that had a link. */
void rumour_lost(struct peer *of, uint64_t now);
/* Another node says so. 0 or -EPROTO. */
int rumour_heard(struct peer *from, const struct frame *frame);
/* It is a neighbour, perhaps from now on: it is told what is new, once for each link. */
void rumour_tell_all(struct peer *to, uint64_t now);

/* ---- park.c (thread) */
static inline bool park_is(const struct peer *p)
{
	return p->id && !p->link;
}
/* It is parked if it can be, or called if it is to be; the session may be over after it. */
void park_tick(struct peer *p, uint64_t now);
/* When it is to be called; PARKING_NEVER. */
uint64_t park_due(const struct peer *p, uint64_t now);
/* Something is wanted of it. */
void park_want(struct peer *p, uint64_t now);
/* What the loop has answered. Whether it has, and wants nothing else. */
bool park_take_answer(struct peer *p);
/* Of the loop, which has seen the session by now: says whether it may be parked, if it was asked. */
void park_answer(struct peer *p);
/* PARK or STAY: 0 or -EPROTO. */
int park_heard(struct peer *p, enum frame_kind kind);
/* What was written is on its way: the link goes if both have said PARK. */
void park_flushed(struct peer *p);
/* Whether the hello is of the session that is parked here; of one that the other side has parked, and this one not yet. */
bool park_resumes(const struct peer *p, const struct hello *hello);
bool park_resumes_early(const struct peer *p, const struct hello *hello);
/* The link has ended: the session with it, or it is parked again. */
void park_link_ended(struct peer *p, int rc);
/* It goes without its link. */
void park_leave(struct peer *p);

/* ---- messages.c (loop) */
/* Tells what has come in the session that the loop knows of. How many they were. */
int messages_run(struct peer *p);

/* ---- post.c (thread) */
/* Writes what waits into the link, as far as it goes. */
void post_push(struct peer *p);
void letter_free(struct letter *letter);
void post_small(struct peer *p, enum frame_kind kind, uint64_t value);
void post_rumour(struct peer *p, enum frame_kind kind, const struct rumour *rumour);
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

/* ---- lane_ask.c, lane_answer.c (thread) */
/* A lane has ended: says so, once in a session, if what came was not sealed by the node. An attacker in between could
 * have it end without end. */
void lane_ended(struct peer *p, const struct link *l, int rc);
/* Our own lane can be read or written. */
void asking_ready(struct peer *p);
/* A link has said that it is a lane. Whether it is taken. */
bool answering_take(struct net *net, struct link *l, const struct frame *frame);
void answering_ready(struct peer *p);
void answering_end(struct peer *p);

/* ---- rail_call.c (thread): who is at the other end of a rail */
void rail_call_node(struct peer *p);
void rail_fail_call(struct peer *p, int rc);
void rail_part(struct peer *p);
void rail_news_of(struct net *net, const struct rail_event *event);

/* ---- rail_copies.c (thread) */
/* What libfabric has done. Whether it has done anything. */
bool rail_look(struct net *net);

/* ---- region.c */
/* All regions of the session, or those that were asked for: nothing is on the way to them any more. */
void region_close_all(struct peer *p, uint64_t session);
void region_released(struct peer *p, uint64_t key);
void region_released_all(struct peer *p);
/* Where in memory that is shown to the peer so many bytes are, which stay until region_unpin(): NULL, and rc. */
uint8_t *region_pin(struct peer *p, const struct lane_request *where, uint64_t at, uint64_t len,
		    struct net_region **out, int *rc);
void region_unpin(struct net_region *region);
/* Descriptor of our own memory, where the provider wants one; *mr is set when it was made for this alone. */
int region_local(struct net *net, void *buf, uint64_t len, void **descriptor, struct fid_mr **mr);

/* Both ends of a lane have agreed on it: what follows goes without TLS, sealed or not. 1, also where it has begun;
 * -ENOMEM. */
static inline int lane_begin(const struct net *net, struct link *l)
{
	if (l->bare || l->sealed)
		return 1;
	if (net->self.way == NET_COPIES_SEALED)
		return link_seal(l) ? 1 : -ENOMEM;
	link_bare(l);
	return 1;
}

static inline void net_busy(struct peer *p)
{
	if (list_empty(&p->busy))
		list_push(&p->net->busy, &p->busy);
}

#endif
