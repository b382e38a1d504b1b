/* Post: what the warden and a user's worker write to each other: packets of one size over a socket pair, with at most one descriptor.
 *
 *   warden                                  worker
 *    | ARENA (name, fd) … ───────────────►  |  what an earlier worker had left
 *    | BEGIN (bandwidths) ───────────────►  |
 *    | ◄────────────────────────────READY   |  or it ends
 *    | CONNECTION (fd) ──────────────────►  | of its user, or of root
 *    | LIMITS (bandwidths) ──────────────►  |
 *    | ◄────────────── KEEP (name, fd), DROP|  arenas, to be held in case it dies
 *    | ◄──────────────── TURN (connections) |  its loop turns; it has had so many connections; whether it may go
 *    | end of the stream ────────────────►  |  finish, and end
 *   over a second pair, so that the answer is the next packet:
 *    | ◄───────────────────── WANT (bytes)  |  all that it would hold then
 *    | ANSWER (rc, text) ────────────────►  |
 *    | ◄───────────────────── USED (bytes)  |  it holds less now; not answered
 *
 * The worker trusts the warden. The warden treats whatever a worker sends as the word of its user. */
#ifndef CKPTD_SERVICE_POST_H
#define CKPTD_SERVICE_POST_H

#include <stdint.h>

enum post_kind {
	POST_ARENA = 1,
	POST_BEGIN,
	POST_READY,
	POST_CONNECTION,
	POST_LIMITS,
	POST_KEEP,
	POST_DROP,
	POST_TURN,
	POST_WANT,
	POST_ANSWER,
	POST_USED,
	/* Of a worker that is being made, over a pipe: */
	POST_WHO,
	POST_REFUSED,
	POST_KIND_END
};

/* Where a worker finds its ends. */
enum { POST_CHANNEL_FD = 3, POST_LEDGER_FD = 4 };
/* Set in the environment of a worker. */
#define POST_VARIABLE "CKPT_WORKER"

enum { POST_TEXT_MAX = 256 };

struct post {
	uint32_t kind;
	int32_t rc;
	uint64_t a, b, c;
	char text[POST_TEXT_MAX];
};

/* Two connected sockets, close-on-exec and non-blocking. 0 or -errno. */
int post_pair(int ends[2]);
/* Never waits: -EAGAIN when the other does not read. fd -1: none; it stays the caller's. -EPIPE: nobody reads. */
int post_send(int sock, const struct post *post, int fd);
/* Never waits. *fd: what came with it, the caller's, or -1. -EAGAIN; -EPIPE: the end; -EBADMSG: not a packet of these: what came with it
 * is given to bury(arg, fd), one by one, as is what is too much. A text always ends. */
typedef void post_bury_fn(void *arg, int fd);
int post_recv(int sock, struct post *post, int *fd, post_bury_fn *bury, void *arg);

#endif
