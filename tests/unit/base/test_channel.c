#include "base/channel.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

/* The head of a packet as it stands on the socket, for tests that lie. */
struct raw_head {
	uint16_t type, flags;
	uint32_t seq;
	uint64_t len;
};

static int ends[2];

static void make_pair(void)
{
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
}

static void close_pair(void)
{
	cleanup_close(&ends[0]);
	cleanup_close(&ends[1]);
}

static int open_fds(void)
{
	int n = 0;
	for (int fd = 0; fd < 512; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static uint64_t soon(void)
{
	return clock_deadline(60 * CLOCK_NS_PER_S);
}

static void round_trip(size_t len)
{
	uint8_t *body = malloc(len + 1);
	for (size_t i = 0; i < len; i++)
		body[i] = (uint8_t)(i * 31 + i / 256);
	struct frame f;
	cr_assert_eq(channel_send(ends[0], 7, 42, body, len, NULL, 0, soon()), 0);
	cr_assert_eq(channel_recv(ends[1], &f, soon()), 0);
	cr_assert_eq(f.type, 7);
	cr_assert_eq(f.seq, 42);
	cr_assert_eq(f.len, len);
	cr_assert_eq(f.nfds, 0);
	cr_assert(!len || !memcmp(f.body, body, len));
	frame_free(&f);
	free(body);
}

Test(channel, bodies_of_every_kind_arrive_whole, .init = make_pair, .fini = close_pair)
{
	int before = open_fds();
	round_trip(0);
	round_trip(1);
	round_trip(FRAME_INLINE);
	round_trip(FRAME_INLINE + 1);
	round_trip(5 << 20);
	cr_assert_eq(open_fds(), before);
}

Test(channel, descriptors_arrive_close_on_exec_and_are_owned_once, .init = make_pair, .fini = close_pair)
{
	int before = open_fds(), p[2];
	cr_assert_eq(pipe(p), 0);
	struct frame f;
	uint8_t big[FRAME_INLINE + 9] = {1};
	cr_assert_eq(channel_send(ends[0], 1, 2, big, sizeof(big), p, 2, soon()), 0);
	close(p[0]);
	close(p[1]);
	cr_assert_eq(channel_recv(ends[1], &f, soon()), 0);
	cr_assert_eq(f.nfds, 2);
	cr_assert_eq(f.len, sizeof(big));
	int w = frame_take_fd(&f, 1);
	cr_assert_geq(w, 0);
	cr_assert(fcntl(w, F_GETFD) & FD_CLOEXEC);
	cr_assert_eq(frame_take_fd(&f, 1), -EBADMSG);
	cr_assert_eq(frame_take_fd(&f, 2), -EBADMSG);
	cr_assert_eq(frame_take_fd(&f, -1), -EBADMSG);
	int r = frame_take_fd(&f, 0);
	char c = 'x', d = 0;
	cr_assert_eq(write(w, &c, 1), 1);
	cr_assert_eq(read(r, &d, 1), 1);
	cr_assert_eq(d, 'x');
	close(w);
	close(r);
	frame_free(&f);
	cr_assert_eq(open_fds(), before);
}

Test(channel, descriptors_that_nobody_takes_are_closed, .init = make_pair, .fini = close_pair)
{
	int before = open_fds(), fds[FRAME_FDS_MAX];
	for (int i = 0; i < FRAME_FDS_MAX; i++)
		fds[i] = ends[0];
	struct frame f;
	cr_assert_eq(channel_send(ends[0], 1, 0, "x", 1, fds, FRAME_FDS_MAX, soon()), 0);
	cr_assert_eq(channel_recv(ends[1], &f, soon()), 0);
	cr_assert_eq(f.nfds, FRAME_FDS_MAX);
	frame_free(&f);
	cr_assert_eq(open_fds(), before);
	cr_assert_eq(channel_send(ends[0], 1, 0, "x", 1, fds, FRAME_FDS_MAX + 1, soon()), -E2BIG);
}

Test(channel, a_poll_of_a_silent_peer_returns_at_once, .init = make_pair, .fini = close_pair)
{
	struct frame f;
	cr_assert_eq(channel_recv(ends[1], &f, 0), -EAGAIN);
	cr_assert_eq(channel_recv(ends[1], &f, clock_deadline(20 * CLOCK_NS_PER_MS)), -ETIMEDOUT);
}

Test(channel, a_peer_that_does_not_read_costs_the_deadline, .init = make_pair, .fini = close_pair)
{
	static uint8_t body[FRAME_INLINE];
	int rc = 0;
	for (int i = 0; i < 1000 && !rc; i++)
		rc = channel_send(ends[0], 1, 0, body, sizeof(body), NULL, 0, 0);
	cr_assert_eq(rc, -EAGAIN);
	uint64_t t = clock_now();
	cr_assert_eq(channel_send(ends[0], 1, 0, body, sizeof(body), NULL, 0, clock_deadline(50 * CLOCK_NS_PER_MS)),
		     -ETIMEDOUT);
	cr_assert_geq(clock_now() - t, 50 * CLOCK_NS_PER_MS);
}

Test(channel, a_peer_that_is_gone_is_epipe_and_no_signal, .init = make_pair, .fini = close_pair)
{
	struct frame f;
	cr_assert_eq(channel_send(ends[0], 3, 1, "last", 4, NULL, 0, soon()), 0);
	cleanup_close(&ends[0]);
	ends[0] = -1;
	cr_assert_eq(channel_recv(ends[1], &f, soon()), 0);
	frame_free(&f);
	cr_assert_eq(channel_recv(ends[1], &f, soon()), -EPIPE);
	cr_assert_eq(channel_send(ends[1], 1, 0, "x", 1, NULL, 0, soon()), -EPIPE);
}

Test(channel, a_body_above_the_bound_is_not_sent, .init = make_pair, .fini = close_pair)
{
	cr_assert_eq(channel_send(ends[0], 1, 0, "x", (size_t)FRAME_BODY_MAX + 1, NULL, 0, soon()), -EMSGSIZE);
}

/* Sends the bytes as they are, with a descriptor `nfds` times. */
static void send_raw(const void *bytes, size_t len, int fd, int nfds)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE((FRAME_FDS_MAX + 2) * sizeof(int))];
	} control = {0};
	struct iovec iov = {(void *)bytes, len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	if (nfds) {
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE((size_t)nfds * sizeof(int));
		struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN((size_t)nfds * sizeof(int));
		for (int i = 0; i < nfds; i++)
			memcpy(CMSG_DATA(c) + (size_t)i * sizeof(int), &fd, sizeof(int));
	}
	cr_assert_eq(sendmsg(ends[0], &msg, MSG_NOSIGNAL), (ssize_t)len);
}

/* The receiver refuses, without a leak. */
static void refused_fds(const void *bytes, size_t len, int fd, int nfds)
{
	int before = open_fds();
	struct frame f;
	send_raw(bytes, len, fd, nfds);
	cr_assert_eq(channel_recv(ends[1], &f, soon()), -EBADMSG);
	cr_assert_eq(open_fds(), before);
}

static void refused(const void *bytes, size_t len, int fd)
{
	refused_fds(bytes, len, fd, fd >= 0);
}

Test(channel, one_descriptor_too_many_is_refused, .init = make_pair, .fini = close_pair)
{
	struct raw_head h = {.type = 1};
	struct frame f;
	send_raw(&h, sizeof(h), ends[0], FRAME_FDS_MAX);
	cr_assert_eq(channel_recv(ends[1], &f, soon()), 0);
	cr_assert_eq(f.nfds, FRAME_FDS_MAX);
	frame_free(&f);
	refused_fds(&h, sizeof(h), ends[0], FRAME_FDS_MAX + 1);
	refused_fds(&h, sizeof(h), ends[0], FRAME_FDS_MAX + 2);
}

Test(channel, malformed_packets_are_refused, .init = make_pair, .fini = close_pair)
{
	static uint8_t big[sizeof(struct raw_head) + FRAME_INLINE + 1];
	struct raw_head h = {.type = 1, .len = 1};
	for (size_t n = 1; n < sizeof(h); n++)
		refused(&h, n, -1);
	refused(&h, sizeof(h), -1); /* says one byte, brings none */
	h.flags = 2;
	h.len = 0;
	refused(&h, sizeof(h), -1);
	h = (struct raw_head){.type = 1, .len = FRAME_INLINE + 1};
	memcpy(big, &h, sizeof(h));
	refused(big, sizeof(big), -1);
	refused(&h, sizeof(h) - 1, ends[0]); /* a descriptor that must not leak */
}

static int body_file(uint64_t size, int seals)
{
	int fd = memfd_create("t", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	cr_assert_eq(ftruncate(fd, (off_t)size), 0);
	cr_assert_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

Test(channel, a_large_body_must_be_sealed_and_of_its_size, .init = make_pair, .fini = close_pair)
{
	int all = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
	uint64_t size = FRAME_INLINE + 100;
	struct raw_head h = {.type = 1, .flags = 1, .len = size};
	refused(&h, sizeof(h), -1); /* no descriptor */
	int fd = body_file(size, all & ~F_SEAL_WRITE);
	refused(&h, sizeof(h), fd);
	close(fd);
	fd = body_file(size, all & ~F_SEAL_SHRINK);
	refused(&h, sizeof(h), fd);
	close(fd);
	fd = body_file(size - 1, all);
	refused(&h, sizeof(h), fd);
	close(fd);
	fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	refused(&h, sizeof(h), fd);
	close(fd);
	h.len = (uint64_t)FRAME_BODY_MAX + 1;
	fd = body_file(h.len, all); /* sparse: costs nothing */
	refused(&h, sizeof(h), fd);
	h.len = UINT64_MAX;
	refused(&h, sizeof(h), fd);
	close(fd);
}

Test(channel, a_large_body_brings_as_many_descriptors_as_a_small_one, .init = make_pair, .fini = close_pair)
{
	static uint8_t body[FRAME_INLINE + 1];
	int before = open_fds(), fds[FRAME_FDS_MAX];
	for (int i = 0; i < FRAME_FDS_MAX; i++)
		fds[i] = ends[0];
	struct frame f;
	cr_assert_eq(channel_send(ends[0], 1, 0, body, sizeof(body), fds, FRAME_FDS_MAX, soon()), 0);
	cr_assert_eq(channel_recv(ends[1], &f, soon()), 0);
	cr_assert(f.nfds == FRAME_FDS_MAX && f.len == sizeof(body));
	frame_free(&f);
	cr_assert_eq(open_fds(), before);
}

static char dir[] = "/tmp/ckpt-channel-XXXXXX";
static char path[64];

static void make_dir(void)
{
	cr_assert(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/s.sock", dir);
}

static void remove_dir(void)
{
	unlink(path);
	rmdir(dir);
}

Test(channel, listen_connect_and_peer, .init = make_dir, .fini = remove_dir)
{
	struct err err = {0};
	int l = channel_listen(path, &err);
	cr_assert_geq(l, 0, "%s", err.text);
	struct stat st;
	cr_assert_eq(stat(path, &st), 0);
	cr_assert_eq(st.st_mode & 0777, 0600);
	int c = channel_connect(path, soon(), &err);
	cr_assert_geq(c, 0, "%s", err.text);
	int a = accept4(l, NULL, NULL, SOCK_CLOEXEC);
	cr_assert_geq(a, 0);
	struct peer peer;
	cr_assert_eq(channel_peer(a, &peer), 0);
	cr_assert_eq(peer.pid, getpid());
	cr_assert_eq(peer.uid, getuid());
	int pidfd = channel_peer_pidfd(a);
	if (pidfd != -ENOPROTOOPT) { /* before Linux 6.5 there are none */
		struct pollfd lives = {.fd = pidfd, .events = POLLIN};
		cr_assert_geq(pidfd, 0);
		cr_assert_eq(poll(&lives, 1, 0), 0);
		close(pidfd);
	}
	cr_assert_eq(channel_listen(path, &err), -EADDRINUSE);
	cr_assert(strstr(err.text, path), "%s", err.text);
	close(a);
	close(c);
	close(l);
}

Test(channel, a_socket_that_nobody_answers_is_replaced, .init = make_dir, .fini = remove_dir)
{
	struct err err = {0};
	int l = channel_listen(path, &err);
	close(l);
	cr_assert_eq(channel_connect(path, soon(), &err), -ECONNREFUSED);
	l = channel_listen(path, &err);
	cr_assert_geq(l, 0, "%s", err.text);
	close(l);
}

Test(channel, another_file_is_not_replaced, .init = make_dir, .fini = remove_dir)
{
	struct err err = {0};
	int fd = open(path, O_CREAT | O_WRONLY, 0600);
	close(fd);
	cr_assert_eq(channel_listen(path, &err), -EEXIST);
	cr_assert_eq(access(path, F_OK), 0);
}

Test(channel, nobody_there_is_told_apart, .init = make_dir, .fini = remove_dir)
{
	struct err err = {0};
	cr_assert_eq(channel_connect(path, soon(), &err), -ENOENT);
	cr_assert(strstr(err.text, path), "%s", err.text);
}

Test(channel, a_path_that_does_not_fit_is_refused)
{
	struct err err = {0};
	char longer[200];
	memset(longer, 'x', sizeof(longer));
	longer[sizeof(longer) - 1] = 0;
	cr_assert_eq(channel_connect(longer, soon(), &err), -ENAMETOOLONG);
	cr_assert_eq(channel_listen(longer, &err), -ENAMETOOLONG);
	cr_assert_eq(channel_listen("", &err), -ENAMETOOLONG);
}

Test(channel, a_full_backlog_costs_the_deadline, .init = make_dir, .fini = remove_dir)
{
	struct err err = {0};
	int fds[256], n = 0, l = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), rc = 0;
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
	cr_assert_eq(bind(l, (struct sockaddr *)&addr, sizeof(addr)), 0);
	cr_assert_eq(listen(l, 1), 0);
	while (n < 256 && (rc = channel_connect(path, clock_deadline(50 * CLOCK_NS_PER_MS), &err)) >= 0)
		fds[n++] = rc;
	cr_assert_eq(rc, -ETIMEDOUT);
	while (n)
		close(fds[--n]);
	close(l);
}

Test(channel, a_receiver_without_descriptors_is_told_from_a_wrong_packet)
{
	struct frame f;
	struct rlimit usual;
	int two[] = {0, 1};
	make_pair();
	cr_assert_eq(channel_send(ends[0], 1, 0, "x", 1, two, 2, soon()), 0);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &usual), 0);
	struct rlimit none = {.rlim_cur = 3, .rlim_max = usual.rlim_max};
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	int rc = channel_recv(ends[1], &f, soon());
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &usual), 0);
	cr_assert_eq(rc, -EMFILE);
	close_pair();
}
