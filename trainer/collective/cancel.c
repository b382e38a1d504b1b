#include "collective/cancel.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/deadline.h"

int cancel_open(struct cancel *c)
{
	*c = (struct cancel){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
	if (c->fd < 0)
		return -errno;
	pthread_mutex_init(&c->lock, NULL);
	return 0;
}

void cancel_close(struct cancel *c)
{
	close(c->fd);
	pthread_mutex_destroy(&c->lock);
}

void cancel_raise(void *arg, uint32_t epoch, const char *reason)
{
	struct cancel *c = arg;

	pthread_mutex_lock(&c->lock);
	if (epoch > c->epoch) {
		c->epoch = epoch;
		c->told_ns = monotonic_ns();
		snprintf(c->reason, sizeof(c->reason), "%s", reason);
	}
	pthread_mutex_unlock(&c->lock);
	eventfd_write(c->fd, 1); /* after the epoch: who is woken must find it */
}

static uint32_t newest(struct cancel *c)
{
	uint32_t epoch;

	pthread_mutex_lock(&c->lock);
	epoch = c->epoch;
	pthread_mutex_unlock(&c->lock);
	return epoch;
}

int cancel_arm(struct cancel *c, uint32_t epoch)
{
	eventfd_t ignored;

	eventfd_read(c->fd, &ignored); /* before the epoch is looked at: news that come later make it readable again */
	return newest(c) > epoch ? -ESTALE : 0;
}

int cancel_wait(struct cancel *c, uint32_t epoch, int64_t deadline)
{
	struct pollfd p = {c->fd, POLLIN, 0};

	while (cancel_arm(c, epoch) == 0) {
		if (monotonic_ns() >= deadline)
			return -ETIMEDOUT;
		if (poll(&p, 1, deadline_left_ms(deadline)) < 0 && errno != EINTR)
			return -errno;
	}
	return 0;
}

int64_t cancel_told(struct cancel *c, uint32_t epoch, char reason[CANCEL_REASON_SIZE])
{
	int64_t told;

	pthread_mutex_lock(&c->lock);
	told = c->epoch > epoch ? c->told_ns : 0;
	snprintf(reason, CANCEL_REASON_SIZE, "%s", told ? c->reason : "");
	pthread_mutex_unlock(&c->lock);
	return told;
}
