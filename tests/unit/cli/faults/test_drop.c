#include "base/clock.h"
#include "faults/drop.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONG (600 * CLOCK_NS_PER_S)

static struct drop drop = {-1, -1, -1, -1};
static struct err err;
static int from, to;

static void raise_lo(int fd)
{
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};

	cr_assert_eq(ioctl(fd, SIOCSIFFLAGS, &lo), 0);
}

/* A network of its own, whose loopback is the interface. */
static void setup(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(address);

	if (unshare(CLONE_NEWNET))
		cr_skip_test("a network namespace needs root");
	from = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	to = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	raise_lo(from);
	cr_assert_eq(bind(to, (struct sockaddr *)&address, len), 0);
	cr_assert_eq(getsockname(to, (struct sockaddr *)&address, &len), 0);
	cr_assert_eq(connect(from, (struct sockaddr *)&address, len), 0);
}

static void teardown(void)
{
	drop_end(&drop);
}

TestSuite(drop, .init = setup, .fini = teardown);

static void begin(bool in, uint32_t percent, uint64_t for_ns)
{
	int rc = drop_begin(&drop, "lo", in, percent, for_ns, &err);

	if (rc == -EOPNOTSUPP || rc == -ENOSYS)
		cr_skip_test("%s", err.text);
	cr_assert_eq(rc, 0, "%s", err.text);
}

/* How many of n datagrams arrive: on loopback one has arrived when it was sent. */
static int arrive(int n)
{
	int arrived = 0;
	char byte;

	for (int i = 0; i < n; i++) {
		cr_assert_eq(send(from, "x", 1, 0), 1);
		arrived += recv(to, &byte, 1, MSG_DONTWAIT) == 1;
	}
	return arrived;
}

Test(drop, nothing_passes_until_it_ends_and_what_was_dropped_is_counted)
{
	cr_assert_eq(arrive(10), 10);
	begin(true, 100, LONG);
	cr_expect_eq(arrive(10), 0);
	cr_expect_eq(drop_count(&drop), 10);
	drop_end(&drop);
	cr_expect_eq(arrive(10), 10);
}

Test(drop, some_of_a_hundred_are_lost)
{
	begin(false, 30, LONG);
	int arrived = arrive(1000);
	cr_expect(arrived > 550 && arrived < 850, "%d", arrived);
	cr_expect_eq(drop_count(&drop), 1000 - arrived);
}

Test(drop, past_its_time_the_program_drops_nothing_although_nobody_has_ended_it)
{
	begin(true, 100, 200 * CLOCK_NS_PER_MS);
	uint64_t deadline = clock_deadline(200 * CLOCK_NS_PER_MS);
	cr_expect_eq(arrive(1), 0);
	for (int left; (left = clock_ms_until(deadline));)
		poll(NULL, 0, left);
	cr_expect_eq(arrive(10), 10);
}

/* Of a child that holds it, by whatever signal. */
Test(drop, it_ends_with_its_process)
{
	int told[2];
	char byte;

	cr_assert_eq(pipe(told), 0);
	pid_t child = fork();
	if (!child) {
		char rc = drop_begin(&drop, "lo", true, 100, LONG, &err) ? 'n' : 'y';
		(void)!write(told[1], &rc, 1);
		pause();
		_exit(0);
	}
	cr_assert_eq(read(told[0], &byte, 1), 1);
	int during = byte == 'y' ? arrive(10) : 0;
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	if (byte != 'y')
		cr_skip_test("no BPF here");
	cr_expect_eq(during, 0);
	cr_expect_eq(arrive(10), 10);
}

Test(drop, an_interface_that_is_not_there_is_named)
{
	cr_expect_eq(drop_begin(&drop, "nowhere0", true, 100, LONG, &err), -ENODEV);
	cr_expect_str_eq(err.text, "there is no interface nowhere0");
}
