/* The net of the simulator: all nodes live in one process and know each other by their index. Time passes with the clock, and things
 * happen when a node polls: one that is not polled is a daemon that was stopped. Messages of a session arrive in order, sessions and
 * the parts of copies overtake each other. */
#ifndef CKPT_SIM_NET_SIM_H
#define CKPT_SIM_NET_SIM_H

#include "cluster/net.h"

#ifndef NET_SIM_NODES_MAX
#define NET_SIM_NODES_MAX 64
#endif
enum { NET_SIM_NODES = NET_SIM_NODES_MAX };

struct net_faults {
	uint64_t delay_ns; /* every message and every part of a copy takes up to this long */
	unsigned drop;     /* per thousand of them: one is lost, and with it the session */
	unsigned refuse;   /* per thousand calls of net_send: -ENOBUFS */
};

struct net_sim_counts {
	uint64_t sessions, ended, messages, lost, parts, parked, resumed;
	uint64_t late;    /* parts that landed although their sender had given the copy up */
	uint64_t refused; /* parts that found no region */
	uint64_t stale;   /* messages that came once more */
	uint64_t frames; /* all that nodes have sent each other in a session, also what says only that they are there */
	uint64_t strange; /* sessions that ended because one side did not understand the other */
};

/* No node is there, all links are open and without faults. */
void net_sim_reset(void);
void net_sim_faults(const struct net_faults *faults);
/* A session is parked that was not used for so long. 0: for as long as a real one. alone: nobody looks after anybody, so that those between
 * neighbours are parked, too, and nobody says who is lost. */
void net_sim_park(uint64_t idle_ns, bool alone);
const struct net_sim_counts *net_sim_counts(void);
/* Per thousand messages that a node hears: with one comes another of the same node, of any time before (net_stale.c). */
void net_sim_stale(unsigned per_thousand);

/* Cut, nothing passes from one node to the other. What was under way waits, and goes on if the link is mended before somebody
 * finds the silence too long. */
void net_sim_cut(unsigned from, unsigned to, bool cut);
void net_sim_slow(unsigned from, unsigned to, uint64_t bytes_per_s); /* 0: as fast as it goes */

/* The process of a node dies without a goodbye. Its net is good for net_free only. */
void net_sim_kill(unsigned node);

/* The process of a node dies as soon as it has sent so many messages of that type, and wants to send one more: nothing of what it sends from then on leaves it,
 * and it is for the test to kill it. */
void net_sim_last_words(unsigned node, uint16_t type, unsigned n);
/* It wanted to. */
bool net_sim_is_silent(unsigned node);

/* Another node may write to some of these bytes, now or with what is under way. */
bool net_sim_writable(const void *base, uint64_t size);
/* Regions of this node that another one can reach. */
unsigned net_sim_regions(unsigned node);

#endif
