#include "control/host/outbox.h"

#include "base/bytes.h"
#include "base/log.h"
#include "control/control.h"
#include "control/election/election.h"
#include "control/host/coordinator_host.h"
#include "format/message/peer_coord.h"
#include "participant/room.h"
#include "replication/room.h"
#include "runtime/room.h"

#include <stdlib.h>

/* Orders that stay ready for use, and the bytes of each: most are a text and some numbers. */
enum { SPARE_MAX = 32, SPARE_BYTES = 4096 };

struct posted {
	struct list link;
	uint16_t type;
	bool spread;
	uint64_t term; /* in which that was told, of a job on several nodes */
	struct wbuf body;
};

/* ---- room -------------------------------------------------------------------------------------------------------- */

static struct posted *posted_of(struct list *node)
{
	return list_entry(node, struct posted, link);
}

static void drop(struct posted *p)
{
	wbuf_free(&p->body);
	free(p);
}

/* A large one takes its memory along. */
static void put_back(struct outbox *outbox, struct posted *p)
{
	if (outbox->nspare >= SPARE_MAX || p->body.cap > 4 * SPARE_BYTES) {
		drop(p);
		return;
	}
	p->body.len = 0;
	p->body.failed = false;
	list_push(&outbox->spare, &p->link);
	outbox->nspare++;
}

static struct posted *take(struct outbox *outbox)
{
	struct list *node = list_pop(&outbox->spare);
	if (!node)
		return calloc(1, sizeof(struct posted));
	outbox->nspare--;
	return posted_of(node);
}

int outbox_reserve(struct outbox *outbox)
{
	while (outbox->nspare < SPARE_MAX) {
		struct posted *p = calloc(1, sizeof(*p));
		void *data = p ? malloc(SPARE_BYTES) : NULL;
		if (!data) {
			free(p);
			return -ENOMEM;
		}
		p->body = (struct wbuf){.data = data, .cap = SPARE_BYTES};
		put_back(outbox, p);
	}
	return 0;
}

void outbox_free(struct outbox *outbox)
{
	for (struct list *node; (node = list_pop(&outbox->waiting));)
		drop(posted_of(node));
	for (struct list *node; (node = list_pop(&outbox->spare));)
		drop(posted_of(node));
	outbox->nspare = 0;
}

/* ---- orders ------------------------------------------------------------------------------------------------------ */

/* A node that does not hear itself is as one that cannot be reached: it ends, and its next life asks. */
static void give_up(struct control *control, const struct peer_order *order, int rc)
{
	log_error("job %s: cannot tell this node itself %s: %s", order->job, peer_coord_name(order->type),
		  err_name(rc));
	if (control->runtime->loop)
		loop_stop(control->runtime->loop);
}

void outbox_put(struct control *control, bool spread, const struct peer_order *order)
{
	struct posted *p = take(&control->outbox);
	int rc = p ? peer_order_encode(order, &p->body) : -ENOMEM;
	if (rc) {
		if (p)
			put_back(&control->outbox, p);
		give_up(control, order, rc);
		return;
	}
	p->type = (uint16_t)order->type;
	p->spread = spread;
	p->term = coordinator_term(control, order->job);
	list_push(&control->outbox.waiting, &p->link);
}

/* Another node may have been elected since. */
static bool holds(const struct control *control, const struct posted *p, const struct peer_order *order)
{
	return !p->spread || election_believes(control, order->job, control->peers->self, p->term);
}

/* -ENOMEM: not yet. */
static int obey(struct control *control, const struct posted *p)
{
	struct peer_order order = {0};
	struct err err = {{0}};
	int rc = peer_order_decode_own(p->type, p->body.data, p->body.len, &order, &err);
	if (rc && rc != -ENOMEM)
		log_error("this node cannot read what it has told itself: %s", err.text);
	else if (!rc && holds(control, p, &order))
		orders_obey(control->dispatch, &order);
	peer_order_free(&order);
	return rc;
}

void outbox_deliver(struct control *control)
{
	struct outbox *outbox = &control->outbox;
	for (struct list *node; (node = list_pop(&outbox->waiting));) {
		if (obey(control, posted_of(node)) == -ENOMEM) {
			list_push(outbox->waiting.next, node); /* before all others */
			return;
		}
		put_back(outbox, posted_of(node));
	}
}
