/* libcurl's sockets and timers behind one descriptor: an epoll of its sockets and of a timer, which is also ours. */
#include "registry/registry_private.h"

#include "base/clock.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { EVENTS_MAX = 64, CONNECTIONS_KEPT = 16 };

/* Whether the descriptor is watched already is epoll's to know: one that was closed is not, whatever libcurl says. To refuse would make
 * libcurl give up all calls for ever; one that is not watched runs into its deadline. */
static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *unused)
{
	struct pump *pump = arg;
	struct epoll_event event = {.data.fd = fd};
	(void)easy, (void)unused;
	event.events = (what & CURL_POLL_IN ? EPOLLIN : 0u) | (what & CURL_POLL_OUT ? EPOLLOUT : 0u);
	if (what == CURL_POLL_REMOVE)
		(void)epoll_ctl(pump->epoll, EPOLL_CTL_DEL, fd, NULL);
	else if (epoll_ctl(pump->epoll, EPOLL_CTL_MOD, fd, &event) && errno == ENOENT)
		(void)epoll_ctl(pump->epoll, EPOLL_CTL_ADD, fd, &event);
	return 0;
}

static int on_timer(CURLM *multi, long ms, void *arg)
{
	struct pump *pump = arg;
	(void)multi;
	pump->due = ms < 0 ? UINT64_MAX : clock_since_boot() + (uint64_t)ms * CLOCK_NS_PER_MS;
	return 0;
}

int pump_open(struct pump *pump, struct err *err)
{
	struct epoll_event event = {.events = EPOLLIN};
	*pump = (struct pump){.due = UINT64_MAX,
			      .epoll = epoll_create1(EPOLL_CLOEXEC),
			      .timer = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC),
			      .multi = curl_multi_init()};
	event.data.fd = pump->timer;
	if (pump->epoll < 0 || pump->timer < 0 || !pump->multi ||
	    epoll_ctl(pump->epoll, EPOLL_CTL_ADD, pump->timer, &event)) {
		int rc = err_set(err, pump->multi ? -errno : -ENOMEM, "no descriptor or memory for the registry");
		pump_close(pump);
		return rc;
	}
	curl_multi_setopt(pump->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
	curl_multi_setopt(pump->multi, CURLMOPT_SOCKETDATA, pump);
	curl_multi_setopt(pump->multi, CURLMOPT_TIMERFUNCTION, on_timer);
	curl_multi_setopt(pump->multi, CURLMOPT_TIMERDATA, pump);
	curl_multi_setopt(pump->multi, CURLMOPT_MAXCONNECTS, (long)CONNECTIONS_KEPT);
	return 0;
}

void pump_close(struct pump *pump)
{
	curl_multi_cleanup(pump->multi);
	if (pump->timer >= 0)
		close(pump->timer);
	if (pump->epoll >= 0)
		close(pump->epoll);
	*pump = (struct pump){.epoll = -1, .timer = -1};
}

static int flags_of(uint32_t events)
{
	return (events & EPOLLIN ? CURL_CSELECT_IN : 0) | (events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
	       (events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0);
}

void pump_run(struct pump *pump, uint64_t now)
{
	struct epoll_event events[EVENTS_MAX];
	uint64_t ticks;
	int running;
	ssize_t ignored = read(pump->timer, &ticks, sizeof(ticks));
	int n = epoll_wait(pump->epoll, events, EVENTS_MAX, 0);
	(void)ignored;
	for (int i = 0; i < n; i++)
		if (events[i].data.fd != pump->timer)
			curl_multi_socket_action(pump->multi, events[i].data.fd, flags_of(events[i].events), &running);
	if (now < pump->due)
		return;
	pump->due = UINT64_MAX;
	curl_multi_socket_action(pump->multi, CURL_SOCKET_TIMEOUT, 0, &running);
}

void pump_wake(struct pump *pump, uint64_t at)
{
	struct itimerspec when = {.it_value = {.tv_nsec = 1}};
	if (at > pump->due)
		at = pump->due;
	if (at >= CLOCK_NS_PER_S && at != UINT64_MAX) {
		when.it_value.tv_sec = (time_t)(at / CLOCK_NS_PER_S);
		when.it_value.tv_nsec = (long)(at % CLOCK_NS_PER_S);
	} else if (at == UINT64_MAX) {
		when.it_value.tv_nsec = 0; /* never */
	}
	timerfd_settime(pump->timer, TFD_TIMER_ABSTIME, &when, NULL);
}
