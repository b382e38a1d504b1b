/* The parts of the simulated net: sessions and what travels in them (net_session.c), copies (net_copy.c), messages that
 * come once more (net_stale.c), and what nodes and tests call (net_sim.c). For these alone. */
#ifndef CKPT_SIM_NET_PRIVATE_H
#define CKPT_SIM_NET_PRIVATE_H

#include "net_sim.h"

#include "cluster/link/liveness.h"

enum frame_kind { FRAME_MESSAGE = 0, FRAME_BEAT, FRAME_ASK, FRAME_DOUBT };

struct frame {
	struct list link;
	uint64_t due;
	enum frame_kind kind;
	unsigned doubted; /* the node of a doubt, and when that was heard last */
	uint64_t heard_ns;
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
	int end;            /* it ends with this at the next poll */
	struct list frames; /* on their way to it, in order */
	unsigned nframes;
	size_t nbytes;
	struct list ops;
	bool target_cut; /* its copies fail at the next poll, the session goes on */
};

struct session {
	struct side side[2]; /* the lower node first */
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
	uint64_t timeout_ns;
	uint64_t polled_ns, stalled_ns;     /* last, and when it was last polled after a pause that others notice */
	uint64_t heard_last[NET_SIM_NODES]; /* in the session that ended last */
	const struct roster *roster;        /* NULL: all are known */
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
	struct net_sim_counts counts;
};

/* net_session.c */
extern struct net_world net_world;
struct session **pair(unsigned a, unsigned b);
struct side *side_of(struct session *s, unsigned node); /* NULL without a session */
struct side *other_of(struct session *s, unsigned node);
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
/* A session is there now; a frame has come; a message is on its way. */
void attend_begin(struct net *net, struct side *me);
void attend_heard(struct net *net, struct session *s, const struct frame *f);
void attend_use(struct side *me);
void attend_polled(struct net *net);
/* Looks; true: the session is over, for the other node is silent. */
bool attend_look(struct net *net, struct session *s);

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
