/* The launcher's connection to the daemon. It is made again whenever it breaks, for as long as the launcher lives: then the daemon
 * gets back the arenas and is told of all processes. Whether it stands never decides what happens to the ranks.
 *
 *	DOWN → (connected, HELLO sent) GREETING → (WELCOME) UP → DOWN */
#ifndef CKPT_CLI_LAUNCH_LINK_H
#define CKPT_CLI_LAUNCH_LINK_H

#include "base/channel.h"
#include "frame/contact.h"
#include "launcher/launch_held.h"
#include "process/launch_proc.h"

enum uplink_state { UPLINK_DOWN = 0, UPLINK_GREETING, UPLINK_UP };

struct uplink {
	enum uplink_state state;
	const char *path;
	struct wire_hello hello; /* its epoch is the launcher's to set */
	int sock;
	uint32_t seq;
	uint64_t retry_ns;           /* DOWN: the next try */
	uint64_t pause_ns;           /* before the one after it */
	uint64_t deadline_ns;        /* GREETING */
	struct wire_welcome welcome; /* of the last greeting that worked */
	bool welcomed;               /* there was one */
	uint64_t lost_ns;            /* when it was UP last, and broke */
	uint64_t heard_ns;           /* when the daemon said something last */
	struct err why;              /* why it is down; "" at first */
	int rc;                      /* of `why` */
	uint32_t offer_seq;          /* of the last OFFER; 0: none */
	struct frame frame;
};

void uplink_init(struct uplink *link, const char *path, const char *job, uint32_t world, uint32_t local_world);
void uplink_free(struct uplink *link);
/* Tries now, not after the pause: a daemon was started. */
void uplink_hurry(struct uplink *link);
/* Connects when it is time; gives up a greeting that is not answered. */
void uplink_tick(struct uplink *link, uint64_t now);
/* When to call it next. */
uint64_t uplink_next(const struct uplink *link);

/* The next frame that is of interest, in link->frame (the caller frees it): 0. A WELCOME has made it UP. -EAGAIN: nothing is
 * there, or the link is down. */
int uplink_recv(struct uplink *link);

/* These send when it is UP and drop it when the daemon does not take a frame. */
void uplink_return(struct uplink *link, const struct held *held);
void uplink_spawned(struct uplink *link, uint32_t rank, const struct proc *proc);
void uplink_exited(struct uplink *link, uint32_t rank, pid_t pid, int status);
void uplink_offer(struct uplink *link, const struct wire_offer *offer);
void uplink_stop(struct uplink *link);
void uplink_ask(struct uplink *link);

#endif
