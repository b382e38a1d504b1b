/* A save as the coordinator knows it: for coordinator/save*.c, and coordinator/save/compare.c. */
#ifndef CKPTD_COORDINATOR_SAVE_H
#define CKPTD_COORDINATOR_SAVE_H

#include "coordinator/coordinator_private.h"
#include "coordinator/save/divergence.h"

#define SAVE_MOVES_TEXT "ranks are moving to other nodes"

enum {
	LEVEL_END = LEVEL_VERIFIED + 1,
	SAID_PREPARED = LEVEL_END,
	SAID_COPIED,
	SAID_CLEARED,
	SAID_FORGOT,
	SAID_READY,
	SAID_END
};

/* Its directory, as the coordinator's daemon was ordered and has answered. */
enum place {
	PLACE_NONE = 0,
	PLACE_MAKING,
	PLACE_MADE,
	PLACE_SEALING,
	PLACE_DROPPED, /* it has failed, and what is in it stays until it is out of the way */
	PLACE_LEFT,    /* it is: the nodes delete what they wrote */
};

struct coord_save {
	struct list link;
	struct step_id id;
	bool failed;
	bool unwritten; /* it does not come to storage; whether its copies in memory are good is said when all are compared */
	bool in_turn; /* all have captured it, and an older one is not decided */
	bool copied;  /* every rank had copied it while the epoch lasted: it stays so when a node is lost */
	enum place place;
	bool found;   /* a checkpoint is in it */
	bool ordered; /* to be written */
	bool waits;   /* to be written, for the end of a spill */
	enum level_shown shown;
	uint32_t ranks[SAID_END]; /* of the nodes that have said so: by level, SAID_… */
	struct coord_divergence
		*vote;           /* what ranks hold alike, until it is captured or has failed; NULL: nobody has told */
	struct peer_part *parts; /* by node, once one is prepared, until it is durable or has failed */
	uint16_t said[];         /* by node: bits of the same */
};

static inline struct coord_save *save_of(struct list *node)
{
	return list_entry(node, struct coord_save, link);
}

struct coord_save *coord_save_find(struct coord *c, struct step_id id); /* NULL: nothing is known of it */
/* What a node says of a save, when it may say anything. NULL: nothing is to be done. */
struct coord_save *coord_save_hear(struct coord *c, struct coord_from from, struct step_id id);
void coord_save_free(struct coord *c, struct coord_save *s);
/* All ranks have copied it, and an earlier coordinator may have shown it as captured. */
void coord_save_recall(struct coord *c, struct step_id id, bool captured);
/* True when with it all ranks are there. */
bool coord_save_take(const struct coord *c, struct coord_save *s, uint32_t node, unsigned what);
/* A level is true for all ranks. What is told may forget saves. */
void coord_save_show(struct coord *c, struct coord_save *s, enum level_shown level);
/* It is on storage, and a node that was restarted meanwhile is ready to write its part: it compares that with what is there. */
void coord_save_compare(struct coord *c, struct step_id id);
/* When all parts are prepared. */
void coord_save_seal(struct coord *c, struct coord_save *s);
/* coordinator/save/compare.c. All have captured it, and said what they hold: it is shown, has failed, is asked about, or waits
 * for an older one. */
void coord_save_decide(struct coord *c, struct coord_save *s);
/* What has waited for an older one, that is decided now, or gone. */
void coord_saves_in_turn(struct coord *c);
/* On all nodes. What is told may forget saves, this one too. */
void coord_save_fail(struct coord *c, struct coord_save *s, int rc, const char *text);
/* The same, towards storage alone: what is captured, or will be, stays in memory, and its replicas are compared. */
void coord_save_fail_storage(struct coord *c, struct coord_save *s, int rc, const char *text);

#endif
