#include "service/post.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

/* SCM_MAX_FD of the kernel. Room for all of them: what does not fit is closed by the kernel in our name (see undertaker.h). */
enum { FDS_MAX = 253 };

int post_pair(int ends[2])
{
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0 ? -errno : 0;
}

int post_send(int sock, const struct post *post, int fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {{0}};
	struct iovec iov = {(void *)post, sizeof(*post)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	if (fd >= 0) {
		msg.msg_control = &control;
		msg.msg_controllen = sizeof(control);
		struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(int));
	}
	while (sendmsg(sock, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		if (errno != EINTR)
			return errno == ECONNRESET || errno == ENOTCONN || errno == ECONNREFUSED ? -EPIPE : -errno;
	return 0;
}

/* The first one is *fd. */
static void take_fds(struct msghdr *msg, int *fd, post_bury_fn *bury, void *arg)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int one;
			memcpy(&one, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (*fd < 0)
				*fd = one;
			else
				bury(arg, one);
		}
	}
}

int post_recv(int sock, struct post *post, int *fd, post_bury_fn *bury, void *arg)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
	} control;
	struct iovec iov = {post, sizeof(*post)};
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
	*fd = -1;
	ssize_t got = recvmsg(sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (got < 0)
		return errno == ECONNRESET ? -EPIPE : errno == EINTR ? -EAGAIN : -errno;
	take_fds(&msg, fd, bury, arg);
	if (got == sizeof(*post) && !(msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) && post->kind < POST_KIND_END) {
		post->text[sizeof(post->text) - 1] = '\0';
		return 0;
	}
	if (*fd >= 0)
		bury(arg, *fd);
	*fd = -1;
	return got ? -EBADMSG : -EPIPE;
}
