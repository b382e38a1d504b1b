/* Private to the coordinator's host: coordinator_*.c and hand_over.c. */
#ifndef CKPTD_CONTROL_COORDINATOR_HOST_PRIVATE_H
#define CKPTD_CONTROL_COORDINATOR_HOST_PRIVATE_H

#include "base/repeat.h"
#include "control/election/hand_over.h"
#include "control/host/coordinator_end.h"
#include "control/host/coordinator_halt.h"
#include "control/host/coordinator_host.h"
#include "control/record/checkpoint_directories.h"
#include "format/files/plan_record.h"

struct coordinator_host {
	struct list link;
	struct control *control;
	char job[NAME_JOB_MAX];
	unsigned room; /* nodes that coord knows by their index */
	bool spread;
	struct coord_orders orders;
	struct coord *coord;
	struct directories directories;
	int directory_lock;
	struct coordinator_halt halt;
	struct coordinator_end end;
	bool deposed; /* nobody finds it any more: another daemon coordinates the job, or may */
	uint64_t begun_ns;
	struct hand_over hand_over; /* nodes that are not heard, of which others are asked */
	/* since when it waits for those who are in an epoch that was entered under another coordinator; 0: it does not */
	uint64_t resume_ns;
	bool ended;                   /* nobody needs it: it goes when the last of its directories has been closed */
	struct epochs_record *record; /* on its way */
	uint32_t recorded;
	/* of the job, as it was on record at first, and then as it was last given to the record */
	struct plan_record plan;
	uint32_t plan_recorded;               /* its number: it stands */
	struct asked_record asked;            /* the same of what was asked */
	uint32_t asks_written, asks_recorded; /* membership_asks(): up to which it is on its way; stands */
	uint32_t back_recorded,
		back_written; /* epochs that began with a rollback: the last that is recorded; on its way */
	uint64_t retry_ns;    /* 0: nothing has failed */
	struct repeat unrecorded;
	/* what is in memory is brought to storage, without a plan (control/host/coordinator_spill.c): give up then; 0: it is
	 * not */
	uint64_t spill_ns;
	uint32_t spilled_in;     /* the last epoch in which that was begun */
	struct step_id levelled; /* the save whose level was told last, and that level */
	uint32_t level;
	struct net_body *joined; /* what the nodes of this epoch are told as it is entered; NULL: nothing yet */
	uint32_t joined_epoch;
};

/* NULL: that job is not coordinated here. */
struct coordinator_host *host_find(const struct control *control, const char *job);
/* What a coordinator orders (control/host/coordinator_orders.c), and what one does that was deposed: nothing. The host is their `arg`. */
extern const struct coord_orders host_orders, host_no_orders;
/* An order for a node: all but the name of the job. */
void host_give(struct coordinator_host *host, uint32_t node, struct peer_order *order);
/* Records an epoch, and then says so to the coordinator: host_orders.persist. */
void host_persist(void *host, uint32_t epoch, const char *reason);
/* A host is there for a node that joins. */
void host_admit(struct control *control, const char *job);
/* The coordinator hears it (control/host/coordinator_input.c). */
void host_hear(struct coordinator_host *host, struct coord_from from, const struct peer_report *r);
/* All nodes but that one, which has done it itself; RANK_MAX: all. */
void host_tell_others(struct coordinator_host *host, uint32_t node, const struct wire_command *command);
/* Nodes that were asked for copies, have not answered, and are worth waiting for (control/host/coordinator_world.c). */
struct replica_surveyed;
uint32_t host_unheard(const struct coordinator_host *host, const struct replica_surveyed *s);
/* What is newest in memory is wanted on storage. True: nodes are lost, so that this is another matter than a flush
 * (control/host/coordinator_spill.c). */
bool host_asked_to_spill(struct coordinator_host *host);
void host_spill_tick(struct coordinator_host *host);
/* What waits for somebody ends when that takes too long (control/host/coordinator_deadlines.c). */
void host_expire(struct coordinator_host *host);
/* Frees it when it has ended, and nothing of it runs. */
void host_end(struct coordinator_host *host);
/* The node is lost to the job; heard_ns: when something was heard of it last. The host may be over then. */
void host_lose(struct control *control, const char *job, uint32_t node, int rc, uint64_t heard_ns, const char *why);

#endif
