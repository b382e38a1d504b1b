/* The parts of the simulated net: sessions and what travels in them (net_session.c), whether the other node is there (net_attend.c), sessions
 * without a connection (net_park.c), copies (net_copy.c), messages that come once more (net_stale.c), and what nodes and tests call
 * (net_sim.c). For these alone. */
#ifndef CKPT_SIM_NET_PRIVATE_H
#define CKPT_SIM_NET_PRIVATE_H

#include "net_sim.h"

#include "cluster/link/liveness.h"
#include "cluster/link/neighbours.h"
#include "cluster/link/parking.h"
#include "cluster/link/rumours.h"

enum { LOOKS = 50 /* in the limit of silence */ };

enum frame_kind { FRAME_MESSAGE = 0, FRAME_BEAT, FRAME_ASK, FRAME_DOUBT, FRAME_LOST };

struct frame {
	struct list link;
	uint64_t due;
	enum frame_kind kind;
	struct rumour rumour;
	int end; /* no frame but the news that the other side has ended the session, and why */
	uint16_t type;
	size_t len;
	uint8_t body[];
};

enum side_state { SIDE_COMING = 0, SIDE_UP, SIDE_GONE };

/* A session as one of its nodes sees it. */
struct side {
	bool dropped; /* it takes nothing any more */
	unsigned node;
	enum side_state state;
	uint64_t number, due, heard_ns;
	uint64_t way_ns, cut_ns; /* last when there was a way in both directions, and when there was none */
	struct liveness liveness;
	struct parking parking;
	bool calls;         /* of one that is parked: it has reached the other node */
	uint64_t call_due;  /* not before */
	int end;            /* it ends with this at the next poll */
	struct list frames; /* on their way to it, in order */
	unsigned nframes;
	size_t nbytes;
	struct list ops;
	bool target_cut; /* its copies fail at the next poll, the session goes on */
};

struct session {
	struct side side[2]; /* the lower node first */
	bool parked;
	bool refuses; /* of one that was parked when a side went: who calls that hears at once that it is gone */
	struct list parts;
};

/* A part of a copy. Its bytes are taken when it lands, as hardware does, unless its sender has given up before. */
struct part {
	struct list link;
	struct net_op *op; /* NULL: nobody waits for it */
	unsigned from;     /* index of the side that submitted it */
	enum net_kind kind;
	uint64_t key, offset, at, len; /* in the region, in the buffer */
	uint64_t due;
	bool back; /* it has been there and is on its way home */
	int rc;
	uint8_t *data;
};

struct net_region {
	struct list link;
	struct net *net; /* NULL: unreachable */
	unsigned node;
	uint64_t session, key, size;
	uint8_t *base;
	enum net_access access;
};

struct net {
	unsigned self;
	int fd; /* to be watched; nothing ever happens to it */
	bool dead;
	unsigned
		neighbours[NEIGHBOURS]; /* as long as there are the sessions that there were at that count of changes */
	uint64_t neighbours_at, changes;
	bool up[NET_SIM_NODES]; /* this side has a session, also one that is parked: to look into each takes long, where there are many */
	uint64_t awake[(NET_SIM_NODES + 63) / 64]; /* a bit for each peer: it is looked at (net_park.c) */
	uint64_t timeout_ns;
	uint64_t polled_ns, stalled_ns;     /* last, and when it was last polled after a pause that others notice */
	uint64_t heard_last[NET_SIM_NODES]; /* in the session that ended last */
	struct rumours rumours[NET_SIM_NODES];
	const struct roster *roster; /* NULL: all are known */
	bool known[NET_SIM_NODES];
	uint64_t incarnation, expected[NET_SIM_NODES]; /* 0: any */
	struct net_events events;
	struct {
		uint16_t type; /* 0: it is not about to die */
		unsigned left;
		bool over;
	} last_words;
	struct list regions, ready; /* ready: copies that only have to be called done */
	struct net_counts counts;
};

/* What nodes have heard: a ring. */
enum { NET_SIM_STALE = 400 };
struct net_stale {
	unsigned per_thousand;
	uint64_t n; /* ever */
	struct stale_message {
		unsigned from, to;
		uint16_t type;
		size_t len;
		uint8_t *body;
	} kept[NET_SIM_STALE];
};

struct net_world {
	struct net *nets[NET_SIM_NODES];
	unsigned n;                                          /* nodes above these were never there */
	struct session *pairs[NET_SIM_NODES][NET_SIM_NODES]; /* [lower][higher] */
	bool cut[NET_SIM_NODES][NET_SIM_NODES];
	uint64_t rate[NET_SIM_NODES][NET_SIM_NODES], busy_ns[NET_SIM_NODES][NET_SIM_NODES];
	uint64_t numbers;
	struct net_faults faults;
	struct net_stale stale;
	uint64_t park_ns;
	bool alone;
	struct net_sim_counts counts;
};

/* net_session.c */
extern struct net_world net_world;
struct session **pair(unsigned a, unsigned b);
struct side *side_of(struct session *s, unsigned node); /* NULL without a session */
struct side *other_of(struct session *s, unsigned node);
bool open_between(unsigned a, unsigned b);
bool chance(unsigned per_thousand);
/* When something that is sent now gets there. */
uint64_t arrival(unsigned from, unsigned to, uint64_t bytes);
void push_frame(struct session *s, unsigned from, const struct frame *head, const void *body);
void session_free(struct session *s);
void connect_to(struct net *net, unsigned peer);
/* The session is over for one side, its copies go to `ops`. told: the other side hears of it as soon as something gets through. */
void leave(struct net *net, struct session *s, struct list *ops, bool told, int rc);

/* net_stale.c: a message has come; perhaps another one comes once more. */
void stale_keep(const struct net *net, unsigned peer, const struct frame *f);
void stale_hear(struct net *net, unsigned peer, const struct frame *now);
void stale_forget(void);

/* net_attend.c */
/* Those that the node looks after are looked at from now on. */
void attend_wake_neighbours(struct net *net);
/* A session is there now; a frame has come; a message is on its way. */
void attend_begin(struct net *net, struct side *me);
void attend_heard(struct net *net, struct session *s, const struct frame *f);
void attend_use(struct side *me);
void attend_polled(struct net *net);
/* Looks; true: the session is over, for the other node is silent. */
bool attend_look(struct net *net, struct session *s);
/* Whether there was no way for so long that the kernels tell. */
bool attend_lost_its_way(const struct net *net, struct side *me, unsigned node);
bool attend_is_neighbour(struct net *net, unsigned node);
/* The session that has ended had a connection: others are told. */
void attend_lost(struct net *net, unsigned node);
/* The other side of a session hears which nodes were lost lately. */
void attend_tell_all(struct net *net, struct session *s);
/* The node is lost for it did not answer: within that time it was not there, or could not be heard. */
void attend_check_lost(const struct net *net, struct session *s, uint64_t within);

/* net_park.c */
/* The session is parked if both sides can do without its connection. */
void park_look(struct net *net, struct session *s);
/* Something has happened to the session, or is to: both nodes look at it. */
void park_wake(const struct session *s);
/* The first peer from there on that is looked at; net_world.n: none. */
unsigned park_next_awake(const struct net *net, unsigned from);
/* Of one that is parked: the other node is called. */
void park_want(const struct net *net, struct session *s);
/* A parked one: whether it goes on, for the other side has called; whether it is over, for that does not answer. */
bool park_resumed(struct net *net, struct session *s);
bool park_is_lost(struct net *net, struct session *s);

/* net_copy.c */
void part_free(struct part *part);
/* What is under way when its sender gives up may still arrive, with the bytes of that moment, or not. */
void abandon_parts(struct session *s, unsigned from);
/* Nothing of the copies between the two nodes gets through any more but, perhaps, a few late writes; new ones find a new way. */
void cut_target(struct session *s);
/* A region is withdrawn that copies may be on their way to. */
void disturb_copies(struct session *s, uint64_t key);
/* One part that has arrived at this node; true: and completed a copy. */
bool next_part(struct net *net, struct session *s);

#endif
