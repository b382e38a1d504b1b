#include "base/channel.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/user_namespace.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/vfs.h>

/* What goes over the socket in front of an inline body. Both ends are on one machine: native byte order. */
struct head {
	uint16_t type;
	uint16_t flags;
	uint32_t seq;
	uint64_t len; /* of the body, inline or not */
};

enum { HEAD_BODY_IN_MEMFD = 1 };
enum {
	PEER_PIDFD = 77,
	PIDFD_FILES = 0x50494446
}; /* SO_PEERPIDFD and PID_FS_MAGIC, newer than this system's headers */
enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE };

/* One descriptor more than a caller may send: the memfd of a large body. */
union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE((FRAME_FDS_MAX + 1) * sizeof(int))];
};

/* ---- sockets ----------------------------------------------------------------------------------------------------- */

static int address_of(const char *path, struct sockaddr_un *addr, struct err *err)
{
	*addr = (struct sockaddr_un){.sun_family = AF_UNIX};
	size_t n = strlen(path);
	if (!n || n >= sizeof(addr->sun_path))
		return err_set(err, -ENAMETOOLONG,
			       "socket path \"%s\" has %zu bytes; 1 to %zu are possible: choose a shorter one", path, n,
			       sizeof(addr->sun_path) - 1);
	memcpy(addr->sun_path, path, n + 1);
	return 0;
}

static int new_socket(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	return fd < 0 ? -errno : fd;
}

/* A connect on a unix socket has no non-blocking form that can be polled (a full backlog is EAGAIN at once); the send
 * timeout bounds the blocking one. */
static int connect_until(int sock, const struct sockaddr_un *addr, uint64_t deadline)
{
	int ms = clock_ms_until(deadline);
	if (ms < 1)
		ms = 1;
	struct timeval tv = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
	setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
	if (!connect(sock, (const struct sockaddr *)addr, sizeof(*addr)))
		return 0;
	return errno == EAGAIN || errno == EINTR ? -ETIMEDOUT : -errno;
}

int channel_connect(const char *path, uint64_t deadline, struct err *err)
{
	struct sockaddr_un addr;
	int rc = address_of(path, &addr, err);
	if (rc)
		return rc;
	AUTO_CLOSE int sock = new_socket();
	if (sock < 0)
		return err_set(err, sock, "socket: %s", err_name(sock));
	rc = connect_until(sock, &addr, deadline);
	if (rc)
		return err_set(err, rc, "nobody answers at %s: %s", path, err_name(rc));
	return steal_fd(&sock);
}

/* Two daemons that start at once must not unlink each other's socket: the check and the bind happen under a lock. Whoever can open a thing
 * for reading can lock it: it is a file that only this user can open, and who has no right to make names there has none to stand in its
 * way. It is gone afterwards: the lock counts where the name is still that of what was locked. */
#define LOCK_SUFFIX ".lock"

struct listen_lock {
	char path[sizeof(((struct sockaddr_un *)0)->sun_path) + sizeof(LOCK_SUFFIX)];
	int fd; /* -1: not held */
};

static bool is_still_named(const struct listen_lock *lock)
{
	struct stat is, named;
	return !fstat(lock->fd, &is) && !lstat(lock->path, &named) && is.st_dev == named.st_dev &&
	       is.st_ino == named.st_ino;
}

static void unlock(struct listen_lock *lock)
{
	if (lock->fd < 0)
		return;
	unlink(lock->path);
	close(lock->fd);
}

static int lock_name(const char *path, struct listen_lock *lock, struct err *err)
{
	uint64_t deadline = clock_deadline(2 * CLOCK_NS_PER_S);
	snprintf(lock->path, sizeof(lock->path), "%s" LOCK_SUFFIX, path);
	for (;;) {
		lock->fd = open(lock->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
		if (lock->fd < 0 && errno == ENOENT)
			return err_set(err, -ENOENT,
				       "the folder of the socket %s is not there: make it, or name another one", path);
		if (lock->fd < 0)
			return err_set(err, -errno, "lock %s of the socket: %s", lock->path, err_name(errno));
		if (!flock(lock->fd, LOCK_EX | LOCK_NB) && is_still_named(lock))
			return 0;
		close(lock->fd);
		lock->fd = -1;
		if (clock_now() >= deadline)
			return err_set(err, -EBUSY, "another process that is to listen at %s holds %s", path,
				       lock->path);
		poll(NULL, 0, 5);
	}
}

static int clear_stale(const char *path, const struct sockaddr_un *addr, struct err *err)
{
	struct stat st;
	if (lstat(path, &st))
		return errno == ENOENT ? 0 : err_set(err, -errno, "socket %s: %s", path, err_name(errno));
	if (!S_ISSOCK(st.st_mode))
		return err_set(err, -EEXIST, "%s exists and is not a socket: choose another path or remove it", path);
	AUTO_CLOSE int probe = new_socket();
	if (probe < 0)
		return err_set(err, probe, "socket: %s", err_name(probe));
	int rc = connect_until(probe, addr, clock_deadline(CLOCK_NS_PER_S));
	if (rc != -ECONNREFUSED)
		return err_set(err, -EADDRINUSE, "another process listens at %s: stop it or choose another path", path);
	return unlink(path) ? err_set(err, -errno, "stale socket %s: %s", path, err_name(errno)) : 0;
}

int channel_listen(const char *path, struct err *err)
{
	struct sockaddr_un addr;
	int rc = address_of(path, &addr, err);
	if (rc)
		return rc;
	__attribute__((cleanup(unlock))) struct listen_lock lock = {.fd = -1};
	rc = lock_name(path, &lock, err);
	if (!rc)
		rc = clear_stale(path, &addr, err);
	if (rc)
		return rc;
	AUTO_CLOSE int sock = new_socket();
	if (sock < 0)
		return err_set(err, sock, "socket: %s", err_name(sock));
	/* Before bind, so that the file never exists with a wider mode. */
	if (fchmod(sock, 0600) || bind(sock, (struct sockaddr *)&addr, sizeof(addr)))
		return err_set(err, -errno, "socket %s: %s", path, err_name(errno));
	if (listen(sock, 128))
		return err_set(err, -errno, "listen at %s: %s", path, err_name(errno));
	return steal_fd(&sock);
}

int channel_peer_pidfd(int sock)
{
	int pidfd;
	socklen_t len = sizeof(pidfd);
	return getsockopt(sock, SOL_SOCKET, PEER_PIDFD, &pidfd, &len) ? -errno : pidfd;
}

/* Each process has an inode of its own in the file system of pidfds. Before there was one, all pidfds shared one inode. */
static pid_t foreign_pid(int sock)
{
	AUTO_CLOSE int pidfd = channel_peer_pidfd(sock);
	struct statfs system;
	struct stat file;
	if (pidfd < 0 || fstatfs(pidfd, &system) || system.f_type != PIDFD_FILES || fstat(pidfd, &file))
		return 0;
	return -1 - (pid_t)(file.st_ino % INT_MAX);
}

int channel_peer(int sock, struct peer *peer)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);
	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return -errno;
	if (!user_is_one(cred.uid)) {
		log_warn("a process is refused: it is user %u here, as is everyone whom this user namespace does not "
			 "know; run it, and the "
			 "daemon, as another user",
			 cred.uid);
		return -EPERM;
	}
	*peer = (struct peer){.pid = cred.pid ? cred.pid : foreign_pid(sock), .uid = cred.uid, .gid = cred.gid};
	return 0;
}

/* 0 when ready or worth another try, -EAGAIN (deadline 0) or -ETIMEDOUT. */
static int wait_for(int sock, short events, uint64_t deadline)
{
	if (!deadline)
		return -EAGAIN;
	int ms = clock_ms_until(deadline);
	struct pollfd p = {.fd = sock, .events = events};
	int n = poll(&p, 1, ms);
	if (n < 0 && errno != EINTR)
		return -errno;
	return n == 0 && (!ms || clock_now() >= deadline) ? -ETIMEDOUT : 0;
}

/* ---- sending ----------------------------------------------------------------------------------------------------- */

static int body_to_memfd(const void *body, size_t len)
{
	AUTO_CLOSE int fd = memfd_create("ckpt-frame", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	for (size_t at = 0; at < len;) {
		ssize_t n = write(fd, (const char *)body + at, len - at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -ENOSPC;
		at += (size_t)n;
	}
	return fcntl(fd, F_ADD_SEALS, SEALS) ? -errno : steal_fd(&fd);
}

static int send_errno(int code)
{
	return code == EPIPE || code == ECONNRESET || code == ENOTCONN || code == ECONNREFUSED ? -EPIPE : -code;
}

static int send_packet(int sock, const struct msghdr *msg, uint64_t deadline)
{
	for (;;) {
		if (sendmsg(sock, msg, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
			return 0;
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return send_errno(errno);
		int rc = wait_for(sock, POLLOUT, deadline);
		if (rc)
			return rc;
	}
}

static void put_fds(struct msghdr *msg, union control *control, int memfd, const int *fds, int nfds)
{
	int all[FRAME_FDS_MAX + 1], n = 0;
	if (memfd >= 0)
		all[n++] = memfd;
	for (int i = 0; i < nfds; i++)
		all[n++] = fds[i];
	if (!n)
		return;
	memset(control, 0, sizeof(*control));
	msg->msg_control = control;
	msg->msg_controllen = CMSG_SPACE((size_t)n * sizeof(int));
	struct cmsghdr *c = CMSG_FIRSTHDR(msg);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN((size_t)n * sizeof(int));
	memcpy(CMSG_DATA(c), all, (size_t)n * sizeof(int));
}

int channel_send(int sock, uint16_t type, uint32_t seq, const void *body, size_t len, const int *fds, int nfds,
		 uint64_t deadline)
{
	if (len > FRAME_BODY_MAX)
		return -EMSGSIZE;
	if (nfds < 0 || nfds > FRAME_FDS_MAX)
		return -E2BIG;
	struct head head = {.type = type, .seq = seq, .len = len};
	AUTO_CLOSE int memfd = -1;
	if (len > FRAME_INLINE) {
		memfd = body_to_memfd(body, len);
		if (memfd < 0)
			return memfd;
		head.flags = HEAD_BODY_IN_MEMFD;
	}
	struct iovec iov[2] = {{&head, sizeof(head)}, {(void *)body, len}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = memfd < 0 && len ? 2 : 1};
	union control control;
	put_fds(&msg, &control, memfd, fds, nfds);
	return send_packet(sock, &msg, deadline);
}

/* ---- receiving --------------------------------------------------------------------------------------------------- */

/* The control buffer has room for one descriptor more than a frame may bring: the memfd of a large body. False: a frame without
 * one brought that many; what does not fit is closed. */
static bool take_fds(struct msghdr *msg, struct frame *f, int *memfd, bool want_memfd)
{
	bool fit = true;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (want_memfd && *memfd < 0) {
				*memfd = fd;
			} else if (f->nfds < FRAME_FDS_MAX) {
				f->fds[f->nfds++] = fd;
			} else {
				close(fd);
				fit = false;
			}
		}
	}
	return fit;
}

/* Reads instead of mapping: no fault can come out of a page that the sender arranged to be missing. Nothing is allocated
 * before the file has proved its size. */
static int body_from_memfd(int fd, uint64_t len, struct frame *f)
{
	struct stat st;
	int seals = fd < 0 ? -1 : fcntl(fd, F_GET_SEALS);
	if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) || st.st_size < 0 || (uint64_t)st.st_size != len)
		return -EBADMSG;
	uint8_t *body = malloc(len);
	if (!body)
		return -ENOMEM;
	f->body = f->map = body;
	f->len = len;
	for (uint64_t at = 0; at < len;) {
		ssize_t n = pread(fd, body + at, len - at, (off_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -EBADMSG;
		at += (uint64_t)n;
	}
	return 0;
}

static int check_packet(const struct head *head, size_t got, int msg_flags, int memfd, struct frame *f)
{
	if (got < sizeof(*head) || (msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
		return -EBADMSG;
	f->type = head->type;
	f->seq = head->seq;
	if (head->flags & ~HEAD_BODY_IN_MEMFD)
		return -EBADMSG;
	if (head->flags & HEAD_BODY_IN_MEMFD) {
		if (got != sizeof(*head) || head->len <= FRAME_INLINE || head->len > FRAME_BODY_MAX)
			return -EBADMSG;
		return body_from_memfd(memfd, head->len, f);
	}
	f->body = f->inline_body;
	f->len = got - sizeof(*head);
	return head->len == f->len ? 0 : -EBADMSG;
}

static int recv_packet(int sock, struct frame *f)
{
	struct head head = {0};
	union control control;
	struct iovec iov[2] = {{&head, sizeof(head)}, {f->inline_body, FRAME_INLINE}};
	struct msghdr msg = {
		.msg_iov = iov, .msg_iovlen = 2, .msg_control = &control, .msg_controllen = sizeof(control)};
	ssize_t got = recvmsg(sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (got < 0)
		return errno == ECONNRESET ? -EPIPE : -errno;
	AUTO_CLOSE int memfd = -1;
	bool fit = take_fds(&msg, f, &memfd, got >= (ssize_t)sizeof(head) && (head.flags & HEAD_BODY_IN_MEMFD));
	/* Fewer than there is room for, and yet not all: this process has no descriptor left. */
	bool none_left = fit && (msg.msg_flags & MSG_CTRUNC) && f->nfds < FRAME_FDS_MAX;
	int rc = !fit        ? -EBADMSG
		 : none_left ? -EMFILE
		 : got       ? check_packet(&head, (size_t)got, msg.msg_flags, memfd, f)
			     : -EPIPE;
	if (rc)
		frame_free(f);
	return rc;
}

int channel_recv(int sock, struct frame *f, uint64_t deadline)
{
	f->type = 0;
	f->seq = 0;
	f->body = NULL;
	f->map = NULL;
	f->len = 0;
	f->nfds = 0;
	for (;;) {
		int rc = recv_packet(sock, f);
		if (rc != -EAGAIN && rc != -EINTR)
			return rc;
		rc = rc == -EINTR ? 0 : wait_for(sock, POLLIN, deadline);
		if (rc)
			return rc;
	}
}

int frame_take_fd(struct frame *f, int index)
{
	if (index < 0 || index >= f->nfds || f->fds[index] < 0)
		return -EBADMSG;
	return steal_fd(&f->fds[index]);
}

void frame_free(struct frame *f)
{
	for (int i = 0; i < f->nfds; i++)
		cleanup_close(&f->fds[i]);
	f->nfds = 0;
	free(f->map);
	f->map = NULL;
	f->body = NULL;
	f->len = 0;
}
