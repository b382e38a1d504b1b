/* The registry of the simulator: one for all nodes, in this process, behind the interface of ckptd/registry/registry.h. Its url is etcd://node:NODE/sim. What a node
 * polls it hears; changes reach nodes late and in the order of their revisions, answers are delayed or lost, whether or not what was asked is done. A lease
 * ends where it stands when it was not renewed, or earlier, if the faults say so: then its owner hears of it when it next polls, as from a registry whose clock
 * has jumped. */
#ifndef CKPT_SIM_REGISTRY_SIM_H
#define CKPT_SIM_REGISTRY_SIM_H

#include <stdbool.h>
#include <stdint.h>

struct registry_faults {
	uint64_t delay_ns; /* every change and every answer takes up to this long */
	unsigned lose;     /* per thousand transactions: they are never done, and not answered */
	unsigned mute;     /* and so many are done, and not answered */
};

struct registry_sim_counts {
	uint64_t applied, refused, lost, muted, expired, lapsed;
	uint64_t elections; /* records of coordinators that were created */
	uint64_t heirs;     /* and so many said who comes next */
};

/* Nothing stands in it, no node is there. */
void registry_sim_reset(void);
void registry_sim_faults(const struct registry_faults *faults);
/* A record that stands from the beginning. */
void registry_sim_put(const char *key, const char *value);
/* The node does not reach it. */
void registry_sim_cut(unsigned node, bool cut);
/* The process of a node dies: its lease ends in time. Its registry is good for registry_free only. */
void registry_sim_kill(unsigned node);
const struct registry_sim_counts *registry_sim_counts(void);
/* Under whose lease the record of the coordinator stands now; -1: under nobody's. */
int registry_sim_coordinator(const char *job);

#endif
