/* Hand-over: the coordinator of a job does not hear a node of it any more, and others do: the way between the two is cut.
 * That is no loss, as long as some node reaches both.
 *
 *	session ends ──► nodes with part in the job are asked: do you reach all others of it? (control/election/reach.h)
 *	                   │ one does      the job is handed over to it: it coordinates from then on, in another term
 *	                   │ none does     the node is lost
 *	                   │ it is back    the node is lost: what was said to it meanwhile is
 *
 * All of it ends within peer-timeout. Answers count only of nodes that were asked, in the sessions in which they were. A
 * node that lies about whom it reaches gets a job that it could have been elected for. No coordinator asks before it has
 * had the job for as long as peer-timeout. So a job is not handed over more often than that.
 *
 * Only where who coordinates is elected (control/election/election.h). Without a registry nobody else can. */
#ifndef CKPTD_CONTROL_HAND_OVER_H
#define CKPTD_CONTROL_HAND_OVER_H

#include "base/err.h"
#include "format/message/wire.h"

#include <stdbool.h>
#include <stdint.h>

struct control;
struct coordinator_host;

enum {
	HAND_OVER_SILENT = 8, /* nodes that are not heard, at once; more are lost */
	HAND_OVER_ASKED = 8,  /* nodes */
};

struct hand_over {
	uint64_t until_ns; /* 0: nobody is asked */
	uint64_t number;   /* of the question */
	unsigned nsilent, nasked;
	struct hand_over_silent {
		uint32_t node;
		int rc; /* as in net_events.down */
		uint64_t heard_ns;
		char why[WIRE_TEXT_MAX];
	} silent[HAND_OVER_SILENT];
	struct hand_over_asked {
		uint32_t node;
		bool no; /* it has said so, or is lost */
	} asked[HAND_OVER_ASKED];
};

/* A node of the job is not heard any more. False: it is lost. */
bool hand_over_asks(struct coordinator_host *host, uint32_t node, int rc, const char *why);
/* It is not known yet whether the node is lost to the job; whether any is: then the job stays as it is. */
bool hand_over_doubts(const struct control *control, const char *job, uint32_t node);
bool hand_over_waits(const struct control *control, const char *job);
/* What a node has answered. */
void hand_over_answer(struct control *control, uint32_t node, uint64_t number, bool all);
/* Sessions have begun, or ended. */
void hand_overs_node_up(struct control *control, uint32_t node);
void hand_overs_node_down(struct control *control, uint32_t node);
/* The node was asked for long enough. */
void hand_overs_tick(struct control *control, uint64_t now);

#endif
