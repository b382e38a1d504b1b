/* Outbox: what coordinators here have told this node itself. It is obeyed when the input that it comes of has ended, as what
 * another node is told comes to it later: no coordinator hears an answer while it is still telling others, and nobody is
 * told anything while it reports. In order.
 *
 * An order that cannot be kept would be missed without a trace, since nobody says it twice. So room for as many as one input
 * brings about is taken when the daemon starts, and used again and again. */
#ifndef CKPTD_CONTROL_OUTBOX_H
#define CKPTD_CONTROL_OUTBOX_H

#include "base/list.h"

#include <stdbool.h>

struct control;
struct peer_order;

struct outbox {
	struct list waiting, spare;
	unsigned nspare;
};

static inline void outbox_init(struct outbox *outbox)
{
	list_init(&outbox->waiting);
	list_init(&outbox->spare);
	outbox->nspare = 0;
}

/* Takes the room. -ENOMEM. */
int outbox_reserve(struct outbox *outbox);
/* spread: the job is on several nodes. Where there is no room and no memory either, the daemon ends. */
void outbox_put(struct control *control, bool spread, const struct peer_order *order);
/* Obeys all that is there, and what comes of that: after each callback of the loop, and where nobody has called a coordinator
 * who is yet to return. What was told in a term that is over by then is not obeyed, as it is not on other nodes. What
 * cannot be read for want of memory is obeyed the next time, and all that is behind it. */
void outbox_deliver(struct control *control);
/* Nobody obeys it any more. */
void outbox_free(struct outbox *outbox);

#endif
