/* End of a job, at its coordinator: all ranks have finished, or nobody is left. Its launchers are let go then, and what
 * its nodes keep of it is forgotten, so that it stands on record before anybody is told:
 *
 *	over ──► on record ──► all nodes are told; until then whoever comes for the next job of that name is to ask again
 *
 * The record says which plan was the last. A coordinator that begins reads it, and tells those who follow that plan that
 * all is over (control/membership/membership_ended.c), in place of waiting for ranks that have finished. What was asked of the job
 * goes from the record with it. A job whose world does not change has no plan, and needs no record of its end. Each of
 * its launchers ends by itself, and what is said again is answered again. */
#ifndef CKPTD_CONTROL_COORDINATOR_END_H
#define CKPTD_CONTROL_COORDINATOR_END_H

#include <stdbool.h>
#include <stdint.h>

struct control;
struct coordinator_host;
struct peer_report;

struct coordinator_end {
	uint32_t plan; /* the last that has ended; 0: none */
	bool untold;   /* that is not on record yet */
	bool finished; /* of this incarnation of the host: its ranks have finished, and nothing that is only in memory is of use any more */
};

/* All ranks have finished, or nobody is left: that is recorded, and then all nodes are told. The host may be freed. */
void host_over(struct coordinator_host *host, bool finished);
/* It is on its way to the record. */
bool end_waits(const struct coordinator_host *host);
/* It stands there. The host may be freed. */
void end_recorded(struct coordinator_host *host);
/* Another node coordinates the job, or may: it reads whether that was recorded. */
void end_deposed(struct coordinator_host *host);
/* True: somebody has come too early for the next job of that name, and was told to ask again. */
bool end_refuses(struct control *control, uint32_t node, bool spread, const struct peer_report *report);

#endif
