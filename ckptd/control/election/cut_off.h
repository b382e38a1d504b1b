/* Cut off: a coordinator that reaches the registry, and not the nodes of its job. Its lease goes on, so nobody else would
 * ever be elected.
 *
 *	jobs/JOB/cut-off/NODE    "TERM RANKS REACHED": the node has so many ranks of the job, and no session with the
 *	                         coordinator of that term. REACHED: how many it reaches, with the ranks of other nodes
 *	                         that say the same and with which it has a session
 *
 * A node writes it under its lease when that has lasted for as long as a lease. It takes the record back when it reaches
 * the coordinator, or another term has begun. A coordinator gives way if it finds a node that reaches more ranks than
 * itself. It coordinates no more, deletes its own record, and does not try to be elected before the others have had time
 * to. Where none reaches more it stays, even if more are cut off: they are parted among themselves, and would follow one
 * another for ever. */
#ifndef CKPTD_CONTROL_CUT_OFF_H
#define CKPTD_CONTROL_CUT_OFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct control;

/* What this node does about its own record for a job. */
struct cut_off {
	uint64_t since_ns, term; /* it does not reach the coordinator of that term; 0: it does */
	uint64_t retry_ns;
	bool asked; /* a transaction is on its way */
};

/* Writes it, or takes it back; at each tick. node, term: who coordinates the job; NO_NODE: nobody. True: there is nothing
 * to do; *c stays until then. */
bool cut_off_tend(const struct control *control, const char *job, uint32_t node, uint64_t term, struct cut_off *c);
/* A node that cannot reach us, who coordinate the job in that term, reaches more ranks than the `reached` that we reach:
 * true, with a sentence. */
bool cut_off_gives_way(const struct control *control, const char *job, uint64_t term, uint32_t reached, char *why,
		       size_t size);

#endif
