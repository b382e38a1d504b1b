/* Both ends call: a whole net at one end, the other one played, whose door is a socket that answers nothing. */
#include "pair.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "scratch.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { QUIET_MS = 300, SOON_MS = 10000, PATIENT_S = 60 };

static char dir[SCRATCH_MAX];
static struct {
	struct roster *roster;
	struct net *net;
	struct credentials *other; /* those of the node that is played */
	union address at;          /* of the net */
	int door;                  /* of the node that is played */
} all;

static void up(void *arg, unsigned node)
{
	(void)arg, (void)node;
}

static void down(void *arg, unsigned node, int rc)
{
	(void)arg, (void)node, (void)rc;
}

static void message(void *arg, unsigned node, uint16_t type, const void *body, size_t len)
{
	(void)arg, (void)node, (void)type, (void)body, (void)len;
}

static void make_roster(unsigned self)
{
	union address other;
	struct err err = {{0}};
	char text[64];
	close(listening(&all.at)); /* a port that is free */
	all.door = listening(&other);
	unsigned own = ntohs(all.at.v4.sin_port), its = ntohs(other.v4.sin_port);
	snprintf(text, sizeof(text), "a 127.0.0.1:%u\nb 127.0.0.1:%u\n", self == A ? own : its, self == A ? its : own);
	cr_assert_eq(roster_parse("roster", text, strlen(text), &all.roster, &err), 0, "%s", err.text);
}

/* A net, which knows of the other node, and can call it. */
static void begin(unsigned self)
{
	char key[SCRATCH_MAX + 8];
	struct err err = {{0}};
	struct net_events events = {.up = up, .down = down, .message = message};
	struct net_config config = {.self = self,
				    .copies = NET_COPIES_SEALED,
				    .credentials.key = key,
				    .peer_timeout_ns = PATIENT_S * CLOCK_NS_PER_S};
	make_roster(self);
	config.roster = all.roster;
	scratch_new(dir);
	snprintf(key, sizeof(key), "%s/key", dir);
	scratch_write(dir, "key", KEY_A, strlen(KEY_A));
	cr_assert_eq(chmod(key, 0600), 0);
	cr_assert_eq(net_new(&config, &events, &all.net, &err), 0, "%s", err.text);
	all.other = with_key(!self, KEY_A);
}

static void end(void)
{
	net_free(all.net);
	roster_free(all.roster);
	credentials_free(all.other);
	close(all.door);
	scratch_remove(dir);
	pair_teardown();
}

TestSuite(both_call, .init = pair_setup, .fini = end);

static bool readable(int fd, int ms)
{
	return poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, ms) == 1;
}

/* The net's call, which is under way: its first message has come, and gets no answer. */
static int called(void)
{
	cr_assert(readable(all.door, SOON_MS), "nobody calls");
	int fd = accepted(all.door);
	cr_assert(readable(fd, SOON_MS), "whoever calls says nothing");
	return fd;
}

/* The first message is out, and perhaps answered. */
static struct link *call_with(struct credentials *c, unsigned self)
{
	struct link *l = link_call(c, self, 0, &all.at);
	cr_assert(l && poll(&(struct pollfd){.fd = l->fd, .events = POLLOUT}, 1, SOON_MS) == 1);
	link_shake(l, c);
	return l;
}

static struct link *call(unsigned self)
{
	struct link *l = call_with(all.other, self);
	cr_assert(l->state == LINK_SHAKING || l->state == LINK_OPEN);
	return l;
}

static int shake_until_open(struct link *l)
{
	int rc = l->state == LINK_OPEN;
	while (!rc && readable(l->fd, SOON_MS))
		rc = link_shake(l, all.other);
	return rc;
}

Test(both_call, a_call_waits_while_the_one_that_counts_is_under_way)
{
	begin(A);
	int theirs = called();
	struct link *ours = call(A);
	cr_expect(ours->state == LINK_SHAKING && !readable(ours->fd, QUIET_MS),
		  "it is answered, although the other end calls");
	close(theirs);
	cr_expect_eq(shake_until_open(ours), 1, "it is not answered, although the other call has failed");
	link_free(ours);
}

Test(both_call, the_call_that_does_not_count_keeps_none_waiting)
{
	begin(B);
	int theirs = called();
	struct link *ours = call(B);
	cr_expect_eq(shake_until_open(ours), 1);
	link_free(ours);
	close(theirs);
}

/* The caller does not go on: it is called only once it has hung up. */
Test(both_call, a_node_whose_call_is_being_answered_is_not_called)
{
	begin(B);
	struct link *ours = call(B);
	cr_assert(ours->state == LINK_OPEN || readable(ours->fd, SOON_MS));
	while (readable(all.door, 0))
		close(accepted(all.door)); /* before it was answered */
	cr_expect(!readable(all.door, QUIET_MS), "it is called, although its call is answered");
	link_free(ours);
	cr_expect(readable(all.door, SOON_MS), "it is not called, although its call is over");
}

/* Whoever has no key keeps no node from calling another one. */
Test(both_call, a_node_is_called_although_a_stranger_says_to_be_that_node)
{
	begin(B);
	struct credentials *wrong = with_key(A, KEY_B);
	struct link *l = call_with(wrong, B);
	cr_expect(readable(all.door, SOON_MS));
	link_free(l);
	credentials_free(wrong);
}
