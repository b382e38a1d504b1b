#include "service/post.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int ends[2];
static int buried[300], nburied;

static void bury(void *arg, int fd)
{
	(void)arg;
	buried[nburied++] = fd;
}

static void setup(void)
{
	cr_assert_eq(post_pair(ends), 0);
	nburied = 0;
}

TestSuite(post, .init = setup);

static int receive(struct post *post, int *fd)
{
	return post_recv(ends[1], post, fd, bury, NULL);
}

Test(post, a_packet_comes_as_it_was_sent)
{
	struct post out = {.kind = POST_KEEP, .rc = -5, .a = 1, .b = 2, .c = 3, .text = "main/0"}, in;
	int fd;
	cr_assert_eq(post_send(ends[0], &out, -1), 0);
	cr_assert_eq(receive(&in, &fd), 0);
	cr_assert_eq(memcmp(&in, &out, sizeof(in)), 0);
	cr_assert_eq(fd, -1);
	cr_assert_eq(receive(&in, &fd), -EAGAIN);
}

Test(post, a_descriptor_comes_with_it)
{
	struct post out = {.kind = POST_KEEP}, in;
	int fd, pipes[2];
	cr_assert_eq(pipe(pipes), 0);
	cr_assert_eq(post_send(ends[0], &out, pipes[1]), 0);
	cr_assert_eq(receive(&in, &fd), 0);
	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, "x", 1), 1);
	cr_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	cr_assert_eq(nburied, 0);
}

/* Whatever somebody who is not a worker of ours writes there. */
Test(post, what_is_not_one_is_refused_and_nothing_of_it_is_lost)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(253 * sizeof(int))];
	} control = {{0}};
	struct post in, post = {.kind = POST_KEEP};
	struct iovec iov = {&post, sizeof(post)};
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(253 * sizeof(int));
	for (int i = 0; i < 253; i++)
		memcpy(CMSG_DATA(c) + (size_t)i * sizeof(int), &ends[0], sizeof(int));
	int fd;
	cr_assert_gt(sendmsg(ends[0], &msg, 0), 0);
	cr_assert_eq(receive(&in, &fd), 0);
	cr_assert_geq(fd, 0);
	cr_assert_eq(nburied, 252);
	iov.iov_len = 7;
	cr_assert_gt(sendmsg(ends[0], &msg, 0), 0);
	nburied = 0;
	cr_assert_eq(receive(&in, &fd), -EBADMSG);
	cr_assert_eq(fd, -1);
	cr_assert_eq(nburied, 253);
}

Test(post, an_unknown_kind_and_a_text_without_end)
{
	struct post out = {.kind = POST_KIND_END}, in;
	int fd;
	cr_assert_eq(post_send(ends[0], &out, -1), 0);
	cr_assert_eq(receive(&in, &fd), -EBADMSG);
	out.kind = POST_DROP;
	memset(out.text, 'x', sizeof(out.text));
	cr_assert_eq(post_send(ends[0], &out, -1), 0);
	cr_assert_eq(receive(&in, &fd), 0);
	cr_assert_eq(strlen(in.text), POST_TEXT_MAX - 1);
}

Test(post, who_does_not_read_is_not_waited_for)
{
	struct post out = {.kind = POST_TURN};
	int rc = 0, sent = 0;
	while (!(rc = post_send(ends[0], &out, -1)))
		sent++;
	cr_assert_eq(rc, -EAGAIN);
	cr_assert_gt(sent, 100);
	close(ends[1]);
	cr_assert_eq(post_send(ends[0], &out, -1), -EPIPE);
}

Test(post, the_end_is_seen)
{
	struct post in;
	int fd;
	close(ends[0]);
	cr_assert_eq(receive(&in, &fd), -EPIPE);
}
