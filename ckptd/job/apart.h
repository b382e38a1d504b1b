/* Apart: a node does not answer, or no coordinator can be reached. Then ranks of a job that is spread over nodes may wait
 * for those on the other side, and none of them hangs. Each arena says until when that is so, and the launcher counts no
 * silence before (cli/launcher/launch_hang.c).
 *
 * Which nodes a job has only its coordinator knows: so any node that this one misses counts. It is missed for as long as
 * peer-timeout at most: then it is lost, and if the job had ranks there, its next epoch begins. Connections of ranks may
 * stand still for as long again as the way between them was cut. More than half of peer-timeout is over when a node is
 * known to be missed. */
#ifndef CKPTD_JOB_APART_H
#define CKPTD_JOB_APART_H

#include <stdbool.h>
#include <stdint.h>

struct job;

/* Until when no heartbeat is to be expected: it is so since then. */
uint64_t apart_until(uint64_t since_ns, uint64_t peer_timeout_ns, uint64_t now);
/* Every tick. */
void apart_tick(struct job *job, uint64_t now);

#endif
