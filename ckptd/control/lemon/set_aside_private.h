/* Private to set_aside*.c. */
#ifndef CKPTD_CONTROL_SET_ASIDE_PRIVATE_H
#define CKPTD_CONTROL_SET_ASIDE_PRIVATE_H

#include "control/lemon/lemon.h"
#include "control/lemon/set_aside.h"
#include "format/message/peer_coord.h"

/* A node of which there is something to know; by name: failures are of a name, not of a number in a roster. */
struct set_aside {
	struct set_aside *next;
	char unfit[PEER_UNFIT_MAX];
	struct lemon lemon;           /* its name is the node's */
	struct lemon_failure suspect; /* what counts when its job goes on; at_ns 0: nothing */
	uint64_t suspected_ns;        /* since when, by the clock that does not jump */
	/* of its record */
	bool dirty, asked; /* it is not on record; that is on its way to the registry */
	bool cleared;      /* meanwhile: what is on its way is over */
	uint64_t retry_ns;
};

/* NULL: there is nothing to know. */
struct set_aside *set_aside_find(const struct control *control, const char *name);
/* NULL: no memory. */
struct set_aside *set_aside_get(struct control *control, const char *name);
/* Failures have come, or gone, or it says something else of itself: those who assign ranks hear of it. */
void set_aside_changed(struct control *control, const struct set_aside *node);
/* No failure of it counts any more. */
void set_aside_forget(struct control *control, struct set_aside *node);

/* What is dirty is put on record, and what was forgotten is taken off: in the registry, or in the store. */
void set_aside_tick_records(struct control *control, uint64_t now);
void set_aside_tick_file(struct control *control, uint64_t now);
int set_aside_clear_record(struct control *control, struct set_aside *node,
			   void (*done)(void *arg, int rc, const char *why), void *arg, struct err *err);
int set_aside_clear_file(struct control *control, struct set_aside *node,
			 void (*done)(void *arg, int rc, const char *why), void *arg, struct err *err);

#endif
