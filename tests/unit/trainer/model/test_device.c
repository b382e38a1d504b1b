#include "model/device.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/deadline.h"

Test(device, a_sound_one_has_nothing_to_wait_for)
{
	struct device host = device_host();

	cr_assert_eq(device_wait(&host, -1, 0), 0);
}

Test(device, an_error_that_stays_loses_the_context)
{
	static const struct {
		enum device_failure failure;
		const char *text;
	} cases[] = {{DEVICE_TRAP, "trapped"},
		     {DEVICE_ILLEGAL_ADDRESS, "illegal address"},
		     {DEVICE_LOST, "lost"},
		     {DEVICE_ECC, "uncorrectable ECC error"}};

	for (size_t i = 0; i < 3; i++) {
		struct device host = device_host();

		cr_assert_eq(host.break_down(&host, cases[i].failure), 0);
		cr_assert_eq(device_wait(&host, -1, deadline_in_ms(20000)), -ENOTRECOVERABLE);
		cr_assert(strstr(host.why, cases[i].text), "%s", host.why);
		cr_assert_eq(device_wait(&host, -1, deadline_in_ms(20000)), -ENOTRECOVERABLE, "it stays");
	}
}

Test(device, work_that_does_not_end_is_given_up_at_the_deadline)
{
	struct device host = device_host();
	int64_t from = monotonic_ns();

	cr_assert_eq(host.break_down(&host, DEVICE_NEVER_ENDS), 0);
	cr_assert_eq(device_wait(&host, -1, deadline_in_ms(60)), -ENOTRECOVERABLE);
	cr_assert_geq(monotonic_ns() - from, 60 * 1000000);
	cr_assert(strstr(host.why, "has not ended for 0.1 s"), "%s", host.why);
}

Test(device, work_that_does_not_end_is_given_up_soon_after_the_epoch)
{
	struct device host = device_host();
	int fd = eventfd(1, EFD_CLOEXEC);
	int64_t from, took;

	cr_assert_eq(device_wait(&host, -1, deadline_in_ms(1000)), 0); /* how long work takes */
	cr_assert_eq(host.break_down(&host, DEVICE_NEVER_ENDS), 0);
	from = monotonic_ns();
	cr_assert_eq(device_wait(&host, fd, deadline_in_ms(3600000)), -ENOTRECOVERABLE);
	took = monotonic_ns() - from;
	cr_assert(took >= INT64_C(1000000000) && took < INT64_C(9000000000), "%" PRId64 " ns", took);
	host.longest_ns = INT64_C(700000000);
	from = monotonic_ns();
	cr_assert_eq(device_wait(&host, fd, deadline_in_ms(3600000)), -ENOTRECOVERABLE);
	cr_assert_geq(monotonic_ns() - from, 3 * host.longest_ns, "sound work of that length would not end");
	close(fd);
}
