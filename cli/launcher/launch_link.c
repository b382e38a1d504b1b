#include "launcher/launch_link.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CONNECT_NS (200 * CLOCK_NS_PER_MS)
#define GREETING_NS (5 * CLOCK_NS_PER_S)
#define SEND_NS CLOCK_NS_PER_S
/* Tries come in growing distances: soon for a daemon that is just starting, seldom for one that is gone. */
#define PAUSE_STEP_NS (2 * CLOCK_NS_PER_MS)
#define PAUSE_MOST_NS (200 * CLOCK_NS_PER_MS)

void uplink_init(struct uplink *link, const char *path, const char *job, uint32_t world, uint32_t local_world)
{
	memset(link, 0, sizeof(*link));
	link->path = path;
	link->sock = -1;
	link->pause_ns = PAUSE_STEP_NS;
	link->hello.role = ROLE_LAUNCHER;
	link->hello.world = world;
	link->hello.local_world = local_world;
	snprintf(link->hello.job, sizeof(link->hello.job), "%s", job);
}

void uplink_free(struct uplink *link)
{
	if (link->sock >= 0)
		close(link->sock);
	link->sock = -1;
	link->state = UPLINK_DOWN;
}

static void down(struct uplink *link, int rc)
{
	if (link->state == UPLINK_UP)
		link->lost_ns = clock_now();
	uplink_free(link);
	link->rc = rc;
	link->retry_ns = clock_deadline(link->pause_ns);
	link->pause_ns = min_u64(link->pause_ns + PAUSE_STEP_NS, PAUSE_MOST_NS);
}

void uplink_hurry(struct uplink *link)
{
	link->retry_ns = 0;
	link->pause_ns = PAUSE_STEP_NS;
}

/* ---- greeting -------------------------------------------------------------------------------------------------- */

static void greet(struct uplink *link)
{
	int sock = contact_hello(link->path, &link->hello, clock_deadline(CONNECT_NS), &link->why);
	if (sock < 0) {
		down(link, sock);
		return;
	}
	link->sock = sock;
	link->seq = 1;
	link->state = UPLINK_GREETING;
	link->deadline_ns = clock_deadline(GREETING_NS);
}

void uplink_tick(struct uplink *link, uint64_t now)
{
	if (link->state == UPLINK_DOWN && now >= link->retry_ns)
		greet(link);
	if (link->state == UPLINK_GREETING && now >= link->deadline_ns)
		down(link,
		     err_set(&link->why, -ETIMEDOUT, "the daemon at %s does not answer the greeting", link->path));
}

uint64_t uplink_next(const struct uplink *link)
{
	switch (link->state) {
	case UPLINK_DOWN:
		return link->retry_ns;
	case UPLINK_GREETING:
		return link->deadline_ns;
	default:
		return UINT64_MAX;
	}
}

static int welcomed(struct uplink *link)
{
	int rc = contact_welcome(&link->frame, &link->welcome, &link->why);
	if (rc) {
		frame_free(&link->frame);
		down(link, rc);
		return -EAGAIN;
	}
	link->state = UPLINK_UP;
	link->welcomed = true;
	link->pause_ns = PAUSE_STEP_NS;
	return 0;
}

int uplink_recv(struct uplink *link)
{
	if (link->state == UPLINK_DOWN)
		return -EAGAIN;
	int rc = channel_recv(link->sock, &link->frame, 0);
	if (rc == -EAGAIN)
		return rc;
	if (rc) {
		down(link, err_set(&link->why, rc, "the connection to the daemon has ended: %s", err_name(rc)));
		return -EAGAIN;
	}
	link->heard_ns = clock_now();
	return link->state == UPLINK_GREETING ? welcomed(link) : 0;
}

/* ---- sending --------------------------------------------------------------------------------------------------- */

static void transmit(struct uplink *link, uint16_t type, const struct wbuf *body, int fd)
{
	if (link->state != UPLINK_UP)
		return;
	int rc = wbuf_finish(body);
	if (!rc)
		rc = channel_send(link->sock, type, ++link->seq, body->data, body->len, &fd, fd >= 0,
				  clock_deadline(SEND_NS));
	if (rc)
		down(link, err_set(&link->why, rc, "the daemon does not take %s: %s", wire_name(type), err_name(rc)));
}

void uplink_return(struct uplink *link, const struct held *held)
{
	AUTO_WBUF struct wbuf body = {0};
	struct wire_arena_of m = {.rank = held->rank, .size = held->size};
	wire_arena_of_encode(&m, &body);
	transmit(link, WIRE_RETURN, &body, held->fd);
}

void uplink_spawned(struct uplink *link, uint32_t rank, const struct proc *proc)
{
	AUTO_WBUF struct wbuf body = {0};
	struct wire_spawned m = {.rank = rank, .pid = proc->pid};
	if (proc->pidfd < 0)
		return; /* the daemon finds the process by itself when it says HELLO */
	wire_spawned_encode(&m, &body);
	transmit(link, WIRE_SPAWNED, &body, proc->pidfd);
}

void uplink_exited(struct uplink *link, uint32_t rank, pid_t pid, int status)
{
	AUTO_WBUF struct wbuf body = {0};
	struct wire_exited m = {.rank = rank, .pid = pid, .status = status};
	wire_exited_encode(&m, &body);
	transmit(link, WIRE_EXITED, &body, -1);
}

void uplink_offer(struct uplink *link, const struct wire_offer *offer)
{
	AUTO_WBUF struct wbuf body = {0};
	wire_offer_encode(offer, &body);
	transmit(link, WIRE_OFFER, &body, -1);
	link->offer_seq = link->seq;
}

void uplink_stop(struct uplink *link)
{
	transmit(link, WIRE_STOP, &(struct wbuf){0}, -1);
}

void uplink_ask(struct uplink *link)
{
	transmit(link, WIRE_STATUS, &(struct wbuf){0}, -1);
}
