#include "device.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>

#include "deadline.h"

enum { LOOK_NS = 50000 };
/* Work that is sound ends long before. */
enum { GRACE_MS = 1000 };

static int host_query(struct device *d)
{
	static const char *const texts[] = {
		[DEVICE_TRAP] = "the program on the device has trapped",
		[DEVICE_ILLEGAL_ADDRESS] = "an illegal address was accessed",
		[DEVICE_LOST] = "the device is lost",
	};

	if (d->failure == DEVICE_SOUND)
		return 1;
	if (d->failure == DEVICE_NEVER_ENDS)
		return 0;
	snprintf(d->why, sizeof(d->why), "%s", texts[d->failure]);
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
		if (sleep_until_look(&cancel_fd) && deadline > now + GRACE_MS * INT64_C(1000000))
			deadline = now + GRACE_MS * INT64_C(1000000);
	}
	return done < 0 ? -ENOTRECOVERABLE : 0;
}
