/* Frames over a unix SOCK_SEQPACKET socket, with descriptors. A frame is {u16 type, u32 seq, body}; a body larger than
 * FRAME_INLINE travels in a sealed memfd, so that a message arrives whole or not at all, whatever its size. Knows nothing of the
 * types. A socket is used by one reader and one writer at a time. */
#ifndef CKPT_BASE_CHANNEL_H
#define CKPT_BASE_CHANNEL_H

#include "base/bytes.h"
#include "base/err.h"

#include <stdint.h>
#include <sys/types.h>

enum {
	FRAME_INLINE = 32768,
	FRAME_BODY_MAX = 256 << 20,
	FRAME_FDS_MAX = 128,
};

struct frame {
	uint16_t type;
	uint32_t seq;        /* a reply carries the seq of its request; 0: unasked */
	const uint8_t *body; /* len bytes, inside the frame's own storage */
	size_t len;
	int nfds;
	int fds[FRAME_FDS_MAX]; /* owned; taken one by one with frame_take_fd, the rest closed by frame_free */
	void *map;              /* private: a large body, read out of its memfd */
	uint8_t inline_body[FRAME_INLINE];
};

/* Listens at path (a socket file of mode 0600 replaced if nobody answers on it: -EADDRINUSE if somebody does). */
int channel_listen(const char *path, struct err *err);
/* Connects within the deadline. -ENOENT/-ECONNREFUSED when nobody listens. */
int channel_connect(const char *path, uint64_t deadline, struct err *err);

/* Sends one frame; waits for room until the deadline (0: not at all, -EAGAIN). fds are duplicated by the kernel, the caller keeps its
 * own. -EPIPE when the peer is gone (never SIGPIPE). */
int channel_send(int sock, uint16_t type, uint32_t seq, const void *body, size_t len, const int *fds, int nfds,
		 uint64_t deadline);
/* Receives one frame within the deadline (0: poll). 0; -EAGAIN/-ETIMEDOUT nothing came; -EPIPE closed; -EBADMSG malformed
 * (truncated, unsealed or oversized body, too many descriptors): close the socket. *f must be freed on 0. */
int channel_recv(int sock, struct frame *f, uint64_t deadline);
int frame_take_fd(struct frame *f, int index); /* -EBADMSG when there is none */
void frame_free(struct frame *f);

/* Who is at the other end (SO_PEERCRED). pid is negative for a process of another PID namespace, which has no number
 * here: by it alone it is told from others, since Linux 6.9; 0 before that. -EPERM, and a line of the log: its user
 * cannot be told from others (user_namespace.h). */
struct peer {
	pid_t pid;
	uid_t uid;
	gid_t gid;
};
int channel_peer(int sock, struct peer *peer);
/* A pidfd of it, whatever its PID namespace (Linux 6.5), or -errno. */
int channel_peer_pidfd(int sock);

#endif
