/* Machine: looks at this machine every check-interval, and keeps what it has found (machine/checkup.h). The store and the
 * devices are asked by a thread each: one that hangs in the store keeps nobody from hearing of the memory. */
#ifndef CKPTD_MACHINE_MACHINE_H
#define CKPTD_MACHINE_MACHINE_H

#include "base/err.h"
#include "machine/checkup.h"

struct config;
struct machine;

/* config lives as long as the machine. Begins to look. */
int machine_new(const struct config *config, struct machine **out, struct err *err);
/* Waits until all has been looked at once, but not longer. */
void machine_first(struct machine *machine, uint64_t deadline);
void machine_tick(struct machine *machine, uint64_t now);
/* Another node has answered: that far its clock is ahead of ours, give or take half the round trip. */
void machine_hear_peer(struct machine *machine, const char *name, uint64_t trip_ns, int64_t ahead_ns);
/* What was read; NULL: nothing is looked at. NULL is allowed, here and below. */
const struct checkup *machine_checkup(const struct machine *machine);
/* What is wrong; what is hard first. */
const struct ailment *machine_ailments(const struct machine *machine, unsigned *n);
/* What is hard: others are to be preferred to this node. "": nothing. */
const char *machine_unfit(const struct machine *machine);
/* A thread that hangs is left behind, with what it uses: it ends with the process. */
void machine_free(struct machine *machine);

#endif
