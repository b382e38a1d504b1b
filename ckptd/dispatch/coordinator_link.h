/* The way of a job that is spread over nodes to its coordinator comes and goes: with the session, and with who
 * coordinates it (control/election/election.h). */
#ifndef CKPTD_DISPATCH_COORDINATOR_LINK_H
#define CKPTD_DISPATCH_COORDINATOR_LINK_H

#include <stdbool.h>
#include <stdint.h>

struct dispatch;
struct job;

/* The coordinator is told all that holds. */
void coordinator_link_up(struct job *job);
void coordinator_link_down(struct job *job);

/* The session with a node has begun or ended. */
void coordinator_link_node(struct dispatch *dispatch, uint32_t node);
/* Another node coordinates the job, or nobody does. */
void coordinator_link_moved(struct dispatch *dispatch, const char *job);
/* Whether the node coordinates a job of this one. */
bool coordinator_link_minds(const struct dispatch *dispatch, uint32_t node);

#endif
