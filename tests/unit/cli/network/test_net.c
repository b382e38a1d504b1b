#include "base/address.h"
#include "base/clock.h"
#include "network/net.h"
#include "process/launch_proc.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NODES = 4 };

static struct campaign_net net;
static struct err err;
static ino_t home;

static ino_t here(void)
{
	struct stat s;
	cr_assert_eq(stat("/proc/self/ns/net", &s), 0);
	return s.st_ino;
}

static void setup(void)
{
	home = here();
	if (campaign_net_make(&net, NODES, &err))
		cr_skip_test("%s", err.text);
}

static void teardown(void)
{
	cr_expect_eq(here(), home, "it stays where it was");
	campaign_net_close(&net);
}

TestSuite(campaign_net, .init = setup, .fini = teardown);

/* It is broken as it is to be, and whole again. */
static void try(struct campaign_fault *fault, const char *kind)
{
	fault->entry = fault_find(kind, strlen(kind));
	cr_assert_eq(campaign_net_break(&net, fault, &err), 0, "%s", err.text);
	cr_assert_eq(campaign_net_probe(&net, &err), 0, "%s: %s", kind, err.text);
	struct campaign_ways broken = net.broken;
	net.broken = (struct campaign_ways){.nodes = NODES};
	net.broken.lost[3] = 1;
	cr_expect_eq(campaign_net_probe(&net, &err), -EAGAIN, "another way than that is broken");
	net.broken = broken;
	cr_assert_eq(campaign_net_mend(&net, fault, &err), 0, "%s", err.text);
	cr_assert_eq(campaign_net_probe(&net, &err), 0, "%s: %s", kind, err.text);
}

Test(campaign_net, a_cable_is_pulled_and_put_back)
{
	struct campaign_fault fault = {.node = 2};
	try(&fault, "link-down");
}

Test(campaign_net, what_a_node_sends_is_lost_and_what_is_sent_to_it_arrives)
{
	struct campaign_fault fault = {.node = 1, .to = 5};
	try(&fault, "one-way");
}

Test(campaign_net, sides_are_apart)
{
	struct campaign_fault fault = {.side = {1, 2, 1, 0}};
	try(&fault, "partition");
}

static struct campaign_fault of_kind(const char *kind, struct campaign_fault fault)
{
	fault.entry = fault_find(kind, strlen(kind));
	return fault;
}

static void expect_lost(uint32_t from, uint32_t bits)
{
	cr_expect_eq(net.broken.lost[from], bits, "node %u: %x", from, net.broken.lost[from]);
	cr_expect_eq(campaign_net_probe(&net, &err), 0, "%s", err.text);
}

Test(campaign_net, of_faults_that_break_it_together_each_is_mended_alone)
{
	const struct campaign_fault way = of_kind("one-way", (struct campaign_fault){.node = 1, .to = 1}),
				    apart = of_kind("partition", (struct campaign_fault){.side = {1, 2, 0, 0}}),
				    pulled = of_kind("link-down", (struct campaign_fault){.node = 3});
	cr_assert_eq(campaign_net_break(&net, &way, &err), 0, "%s", err.text);
	cr_assert_eq(campaign_net_break(&net, &apart, &err), 0, "%s", err.text);
	cr_assert_eq(campaign_net_break(&net, &pulled, &err), 0, "%s", err.text);
	expect_lost(0, 10);
	expect_lost(1, 9);
	cr_assert_eq(campaign_net_mend(&net, &apart, &err), 0, "%s", err.text);
	expect_lost(0, 8);
	expect_lost(1, 9);
	cr_assert_eq(campaign_net_mend(&net, &way, &err), 0, "%s", err.text);
	expect_lost(1, 8);
	cr_assert_eq(campaign_net_mend(&net, &pulled, &err), 0, "%s", err.text);
	expect_lost(1, 0);
}

Test(campaign_net, a_cable_has_one_fault_at_a_time_and_cables_of_two_nodes_have_one_each)
{
	const struct campaign_fault first = of_kind("link-delay", (struct campaign_fault){.node = 1, .delay_ms = 1}),
				    second = of_kind("link-delay", (struct campaign_fault){.node = 2, .delay_ms = 1}),
				    same = of_kind("link-down", (struct campaign_fault){.node = 1});
	cr_assert_eq(campaign_net_break(&net, &first, &err), 0, "%s", err.text);
	cr_expect_eq(campaign_net_break(&net, &same, &err), -EBUSY);
	cr_assert_eq(campaign_net_break(&net, &second, &err), 0, "%s", err.text);
	expect_lost(1, 0);
	cr_expect_eq(campaign_net_held_back(&net, &first, &err), 0, "%s", err.text);
	cr_expect_eq(campaign_net_held_back(&net, &second, &err), 0, "%s", err.text);
	campaign_net_mend_all(&net);
	expect_lost(1, 0);
	cr_assert_eq(campaign_net_break(&net, &same, &err), 0, "%s", err.text);
	expect_lost(1, 13);
	campaign_net_mend_all(&net);
}

/* A datagram of a node to another one. */
static void send_to(int fd, uint32_t node, size_t size)
{
	static const char bytes[60000];
	char host[32], text[ADDRESS_MAX];
	union address to;
	snprintf(text, sizeof(text), "%s:9", campaign_net_address(node, host, sizeof(host)));
	cr_assert_eq(address_parse(text, &to), 0);
	sendto(fd, bytes, size, 0, &to.any, address_size(&to));
}

Test(campaign_net, a_slow_cable_holds_back_what_is_more_than_it_takes_and_passes_the_rest)
{
	struct campaign_fault fault = {.node = 1, .mbit = 1, .entry = fault_find("link-slow", 9)};
	if (campaign_net_try_slow(&net, &err))
		cr_skip_test("%s", err.text);
	cr_assert_eq(campaign_net_break(&net, &fault, &err), 0, "%s", err.text);
	cr_expect_eq(campaign_net_held_back(&net, &fault, &err), -EAGAIN, "nothing was sent");
	cr_expect_eq(campaign_net_probe(&net, &err), 0, "%s", err.text);
	cr_assert_eq(campaign_net_enter(&net, 1, &err), 0);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	campaign_net_leave(&net);
	for (int i = 0; i < 4; i++)
		send_to(fd, 0, 60000);
	close(fd);
	cr_expect_eq(campaign_net_held_back(&net, &fault, &err), 0, "%s", err.text);
	cr_assert_eq(campaign_net_mend(&net, &fault, &err), 0, "%s", err.text);
	cr_expect_eq(campaign_net_probe(&net, &err), 0, "%s", err.text);
}

/* A socket of the node, at port 9. */
static int open_at(uint32_t node)
{
	char host[32], text[ADDRESS_MAX];
	union address at;
	snprintf(text, sizeof(text), "%s:9", campaign_net_address(node, host, sizeof(host)));
	cr_assert_eq(address_parse(text, &at), 0);
	cr_assert_eq(campaign_net_enter(&net, node, &err), 0);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	campaign_net_leave(&net);
	cr_assert_eq(bind(fd, &at.any, address_size(&at)), 0);
	return fd;
}

/* Until a datagram of that size has come, which is sent again and again; how many others came before it. */
static int count_until(int from, int to, uint32_t node, size_t last)
{
	static char bytes[60000];
	uint64_t deadline = clock_deadline(60 * CLOCK_NS_PER_S);
	struct pollfd wait = {.fd = to, .events = POLLIN};
	for (int n = 0;;) {
		send_to(from, node, last);
		poll(&wait, 1, 20);
		for (ssize_t size; (size = recv(to, bytes, sizeof(bytes), 0)) >= 0; n++)
			if ((size_t)size == last)
				return n;
		cr_assert_lt(clock_now(), deadline);
	}
}

Test(campaign_net, a_cable_that_loses_packets_passes_the_others_either_way)
{
	enum { SENT = 100 };
	struct campaign_fault fault = {.node = 1, .percent = 50, .entry = fault_find("link-loss", 9)};
	cr_assert_eq(campaign_net_break(&net, &fault, &err), 0, "%s", err.text);
	cr_expect_eq(campaign_net_probe(&net, &err), 0, "%s", err.text);
	int worn = open_at(1), good = open_at(0);
	for (int i = 0; i < SENT; i++)
		send_to(worn, 0, 1);
	int there = count_until(worn, good, 0, 2);
	cr_expect(there > 0 && there < SENT, "%d", there);
	cr_expect_geq(count_until(good, worn, 1, 2), 0);
	cr_expect_eq(campaign_net_held_back(&net, &fault, &err), 0, "%s", err.text);
	cr_assert_eq(campaign_net_mend(&net, &fault, &err), 0, "%s", err.text);
	cr_expect_eq(campaign_net_probe(&net, &err), 0, "%s", err.text);
	for (int i = 0; i < SENT; i++)
		send_to(worn, 0, 3);
	cr_expect_geq(count_until(worn, good, 0, 4), SENT, "nothing is lost any more");
	close(worn);
	close(good);
}

Test(campaign_net, a_cable_that_delays_packets_loses_none)
{
	struct campaign_fault fault = {.node = 1, .delay_ms = 200, .entry = fault_find("link-delay", 10)};
	cr_assert_eq(campaign_net_break(&net, &fault, &err), 0, "%s", err.text);
	int worn = open_at(1), good = open_at(0);
	count_until(worn, good, 0, 2); /* who has which address is known now */
	uint64_t from = clock_now();
	send_to(worn, 0, 50000); /* in many packets */
	cr_expect_geq(count_until(worn, good, 0, 3), 1);
	cr_expect_geq(clock_now(), from + 200 * CLOCK_NS_PER_MS);
	cr_expect_eq(campaign_net_held_back(&net, &fault, &err), 0, "%s", err.text);
	cr_assert_eq(campaign_net_mend(&net, &fault, &err), 0, "%s", err.text);
	cr_expect_eq(campaign_net_probe(&net, &err), 0, "%s", err.text);
	close(worn);
	close(good);
}

Test(campaign_net, who_is_in_it_is_found)
{
	char text[CAMPAIGN_NET_TEXT_MAX] = "", pid[32];
	char *argv[] = {(char *)"sleep", (char *)"600", NULL}, *env[] = {NULL};
	struct proc proc;
	struct proc_spec spec = {.argv = argv, .env = env, .out = -1, .err = -1, .death_signal = SIGKILL};
	cr_expect_not(campaign_net_in_use(&net, text), "%s", text);
	cr_assert_eq(campaign_net_enter(&net, 3, &err), 0);
	cr_assert_eq(proc_start(&proc, &spec, &err), 0, "%s", err.text);
	campaign_net_leave(&net);
	cr_expect(campaign_net_in_use(&net, text));
	snprintf(pid, sizeof(pid), "process %d is", (int)proc.pid);
	cr_expect(strstr(text, pid), "%s", text);
	proc_signal(&proc, SIGKILL);
	proc_reap(&proc, proc.pid);
	cr_expect_not(campaign_net_in_use(&net, text), "%s", text);
}
