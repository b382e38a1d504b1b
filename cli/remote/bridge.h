/* Connections to a daemon's socket, carried over the stdin and stdout of a remote shell: frames with the number of their
 * connection. Descriptors do not pass; neither the status of a daemon nor an order needs any.
 *
 *	record:  {u32 connection, u32 kind, u32 type, u32 seq, u32 len} and len bytes; kind: BRIDGE_FRAME or BRIDGE_CLOSED
 *
 * The end beside the daemon says BRIDGE_GREETING first: a login there may have written something before. */
#ifndef CKPT_CLI_REMOTE_BRIDGE_H
#define CKPT_CLI_REMOTE_BRIDGE_H

#include "base/bytes.h"
#include "base/channel.h"

#include <poll.h>
#include <stdbool.h>

enum { BRIDGE_CONNECTIONS_MAX = 16, BRIDGE_BODY_MAX = 64 << 20, BRIDGE_FDS = BRIDGE_CONNECTIONS_MAX + 1 };
enum { BRIDGE_BEFORE_MAX = 1 << 16 };
#define BRIDGE_GREETING "ckpt: the bridge begins\n"
enum bridge_kind { BRIDGE_FRAME = 1, BRIDGE_CLOSED };

struct bridge {
	int in, out; /* of the other end; -1: it is not there */
	struct {
		uint32_t number; /* 0: none */
		int sock;
	} at[BRIDGE_CONNECTIONS_MAX];
	uint8_t *data; /* what has come and is not a whole record yet */
	size_t used, room;
	const char *path; /* where unknown connections lead; NULL: nowhere */
	bool waits;       /* for the greeting: at most BRIDGE_BEFORE_MAX bytes come before it, and are passed over */
	uint64_t send_ns; /* the other end takes a record within this time, or is not there */
};

/* Writes to `out` do not block from now on, whoever else has it open. */
void bridge_init(struct bridge *b, int in, int out, const char *path);
/* All connections; in and out are the caller's. */
void bridge_close(struct bridge *b);
/* A connection more; one for which there is no room is closed. */
void bridge_add(struct bridge *b, uint32_t number, int sock);
/* To the other end, first of all. */
int bridge_greet(const struct bridge *b);
/* What it waits for; how many. */
nfds_t bridge_poll(const struct bridge *b, struct pollfd fds[BRIDGE_FDS]);
/* Carries what has come. -EPIPE: the other end is gone; -EBADMSG: what it says makes no sense. */
int bridge_turn(struct bridge *b, const struct pollfd fds[BRIDGE_FDS]);

#endif
