/* The registry of the simulator: one for all nodes, in this process, behind the interface of ckptd/registry/registry.h. Its url is etcd://node:NODE/sim. What a node
 * polls it hears; changes reach nodes late and in the order of their revisions. What nodes ask, renewals of their leases too, takes time on its way, is lost, or its
 * answer is, whether or not it is done; what nobody waits for any more may yet be done. A lease ends when it was not renewed, never before its owner stops counting on
 * it, or earlier, with the fault `early`: as in a registry whose clock has jumped. */
#ifndef CKPT_SIM_REGISTRY_SIM_H
#define CKPT_SIM_REGISTRY_SIM_H

#include <stdbool.h>
#include <stdint.h>

/* Per thousand requests, but for the clock. A request is a transaction, or something about a lease. */
struct registry_faults {
	uint64_t delay_ns; /* every change, every request and every answer takes up to this long */
	unsigned lose;     /* they are never done, and not answered */
	unsigned mute;     /* they are done, and not answered */
	unsigned slow;     /* they take up to slow_ns, and so do their answers, and what a node hears of changes */
	uint64_t slow_ns;
	unsigned
		fast; /* the registry's clock is so many parts in a thousand faster than those of nodes: less than the margin of a lease */
	uint64_t linger_ns; /* a lease stands up to this much longer than it has to */
	unsigned early;     /* grants and renewals after which the lease ends sooner than promised */
};

struct registry_sim_counts {
	uint64_t applied, refused, lost, muted, expired, lapsed;
	uint64_t elections; /* records of coordinators that were created */
	uint64_t heirs;     /* and so many said who comes next */
	uint64_t unrenewed; /* renewals that were not answered in time */
	uint64_t late;      /* transactions done that nobody waited for any more */
	uint64_t early;     /* leases that ended while their owner counted on them */
	uint64_t outages;   /* that a node has noticed */
};

/* Nothing stands in it, no node is there. seed: of all that is drawn here. */
void registry_sim_reset(uint64_t seed);
void registry_sim_faults(const struct registry_faults *faults);
/* A record that stands from the beginning. */
void registry_sim_put(const char *key, const char *value);
/* The node does not reach it. */
void registry_sim_cut(unsigned node, bool cut);
/* Another of its members leads: each lease that stands gets its whole time again. */
void registry_sim_lead(void);
/* The process of a node dies: its lease ends in time. Its registry is good for registry_free only. */
void registry_sim_kill(unsigned node);
const struct registry_sim_counts *registry_sim_counts(void);

#endif
