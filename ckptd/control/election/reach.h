/* Reach: whether this node hears others. The coordinator of a job that does not hear a node of it any more asks, before
 * it takes that node for lost (control/election/hand_over.h). This node then says something to each of the nodes that it is asked
 * of, and waits for what they say.
 *
 * Yes is said when all have answered since; no, as soon as one session has ended, or none was there. If a node neither
 * answers nor ends, nothing is said: who asks does not wait for ever. What is asked here changes nothing here. */
#ifndef CKPTD_CONTROL_REACH_H
#define CKPTD_CONTROL_REACH_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

struct control;
struct peer_reach;

enum {
	REACH_OPEN = 64,     /* questions that are not answered; more are answered by no */
	REACH_OPEN_EACH = 4, /* of them, of one node: the oldest gives way */
};

/* A message of the net. Answers go to control/election/hand_over.c. -EBADMSG, with a sentence: the session ends. */
int reach_message(struct control *control, uint32_t node, uint16_t type, const void *body, size_t len, struct err *err);
/* A session has ended. */
void reach_node_down(struct control *control, uint32_t node);
void reach_free(struct control *control);

/* 0 or -errno: it was not taken. */
int reach_send(const struct control *control, uint32_t node, const struct peer_reach *m);

#endif
