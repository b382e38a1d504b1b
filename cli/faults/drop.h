/* Packets that are dropped at an interface, for a time: by a BPF program at its entry and its exit (TCX; Linux 6.6). Nothing else of
 * the interface changes, neither addresses nor routes nor queues. However this process ends, the kernel takes the program away.
 * Should it not end, the program itself drops nothing past its time. */
#ifndef CKPT_CLI_FAULTS_DROP_H
#define CKPT_CLI_FAULTS_DROP_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct drop {
	int counter, program, entry, exit;
};

/* In the network namespace of this thread. percent: of all that enters (in) and leaves it, 1 to 100. -EOPNOTSUPP: the kernel has no TCX. */
int drop_begin(struct drop *drop, const char *interface, bool in, uint32_t percent, uint64_t for_ns, struct err *err);
/* Packets that were dropped so far. */
uint64_t drop_count(const struct drop *drop);
void drop_end(struct drop *drop);

#endif
