#include "model/device.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>

#include "common/deadline.h"

enum { LOOK_NS = 50000 };
/* Of work that nobody needs any more: what is sound ends within it. */
enum { GRACE_MS = 1000, GRACE_FIRST_MS = 10000, GRACE_TIMES = 3 };

static int64_t grace_ns(const struct device *d)
{
	int64_t least = (d->longest_ns ? GRACE_MS : GRACE_FIRST_MS) * INT64_C(1000000);
	int64_t usual = GRACE_TIMES * d->longest_ns;

	return usual > least ? usual : least;
}

static void learn(struct device *d, int64_t took)
{
	if (took > d->longest_ns)
		d->longest_ns = took;
}

const char *device_failure_text(enum device_failure failure)
{
	static const char *const texts[] = {
		[DEVICE_SOUND] = "it is sound",
		[DEVICE_TRAP] = "the program on the device has trapped",
		[DEVICE_ILLEGAL_ADDRESS] = "an illegal address was accessed",
		[DEVICE_NEVER_ENDS] = "what runs on it does not end",
		[DEVICE_LOST] = "the device is lost",
		[DEVICE_ECC] = "its memory has an uncorrectable ECC error",
	};

	return texts[failure];
}

static int host_query(struct device *d)
{
	if (d->failure == DEVICE_SOUND)
		return 1;
	if (d->failure == DEVICE_NEVER_ENDS)
		return 0;
	snprintf(d->why, sizeof(d->why), "%s", device_failure_text(d->failure));
	return -EIO;
}

static int host_break_down(struct device *d, enum device_failure failure)
{
	d->failure = failure;
	return 0;
}

struct device device_host(void)
{
	return (struct device){.name = "host", .query = host_query, .break_down = host_break_down};
}

/* True when the descriptor, which is not looked at again then, became readable. */
static bool sleep_until_look(int *cancel_fd)
{
	struct pollfd cancel = {*cancel_fd, POLLIN, 0};
	struct timespec look = {0, LOOK_NS};

	if (ppoll(&cancel, 1, &look, NULL) <= 0)
		return false;
	*cancel_fd = -1;
	return true;
}

int device_wait(struct device *d, int cancel_fd, int64_t deadline)
{
	int64_t from = monotonic_ns(), now;
	int done;

	while ((done = d->query(d)) == 0) {
		now = monotonic_ns();
		if (now >= deadline) {
			snprintf(d->why, sizeof(d->why), "what runs on it has not ended for %.1f s",
				 (double)(now - from) / 1e9);
			return -ENOTRECOVERABLE;
		}
		if (sleep_until_look(&cancel_fd) && deadline > now + grace_ns(d))
			deadline = now + grace_ns(d);
	}
	if (done > 0)
		learn(d, monotonic_ns() - from);
	return done < 0 ? -ENOTRECOVERABLE : 0;
}
