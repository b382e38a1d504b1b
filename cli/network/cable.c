#include "network/cable.h"

#include "base/clock.h"
#include "base/list.h"
#include "base/random.h"

#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* A frame is as long as the kernel makes it (64 KiB and its heads), behind what it says of checksum and segments. */
enum { FRAME_BYTES_MAX = (64 << 10) + 4096, QUEUE_BYTES_MAX = 64 << 20, SOCKET_BYTES = 8 << 20, BURST = 64 };

struct frame {
	struct list link;
	uint64_t due;
	int to;
	size_t len;
	uint8_t bytes[];
};

struct campaign_cable {
	int end[2], stop;
	pthread_t thread;
	uint32_t percent;
	uint64_t delay_ns, random, queued;
	struct list queue; /* in the order in which they are due */
	_Atomic uint64_t lost, delayed;
	uint8_t buffer[FRAME_BYTES_MAX];
};

/* ---- its two ends -------------------------------------------------------------------------------------------------- */

/* It hears what comes in alone, with what the kernel has left for the card to do. */
static int open_end(const char *device, int *fd, struct err *err)
{
	const struct {
		int level, name, value;
	} options[] = {{SOL_PACKET, PACKET_VNET_HDR, 1},
		       {SOL_PACKET, PACKET_IGNORE_OUTGOING, 1},
		       {SOL_SOCKET, SO_RCVBUFFORCE, SOCKET_BYTES},
		       {SOL_SOCKET, SO_SNDBUFFORCE, SOCKET_BYTES}};
	struct sockaddr_ll at = {
		.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = (int)if_nametoindex(device)};
	*fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int rc = *fd < 0 ? -errno : !at.sll_ifindex ? -ENODEV : 0;
	for (size_t i = 0; !rc && i < sizeof(options) / sizeof(options[0]); i++)
		if (setsockopt(*fd, options[i].level, options[i].name, &options[i].value, sizeof(options[i].value)))
			rc = -errno;
	if (!rc && bind(*fd, (struct sockaddr *)&at, sizeof(at)))
		rc = -errno;
	return rc ? err_set(err, rc, "a packet socket at %s: %s", device, err_name(rc)) : 0;
}

/* ---- the thread ---------------------------------------------------------------------------------------------------- */

static void keep(struct campaign_cable *c, int to, size_t len)
{
	struct frame *f = c->queued + len <= QUEUE_BYTES_MAX ? malloc(sizeof(*f) + len) : NULL;
	if (!f)
		return; /* as in any cable that is full */
	*f = (struct frame){.due = clock_deadline(c->delay_ns), .to = to, .len = len};
	memcpy(f->bytes, c->buffer, len);
	list_push(&c->queue, &f->link);
	c->queued += len;
	c->delayed++;
}

static void take(struct campaign_cable *c, int from)
{
	int to = c->end[from == c->end[0]];
	for (int i = 0; i < BURST; i++) {
		ssize_t n = recv(from, c->buffer, sizeof(c->buffer), 0);
		if (n < 0)
			return;
		if (random_next(&c->random) % 100 < c->percent)
			c->lost++;
		else if (c->delay_ns)
			keep(c, to, (size_t)n);
		else
			(void)!send(to, c->buffer, (size_t)n, 0);
	}
}

static void give(struct campaign_cable *c)
{
	while (!list_empty(&c->queue)) {
		struct frame *f = list_entry(c->queue.next, struct frame, link);
		if (f->due > clock_now())
			return;
		(void)!send(f->to, f->bytes, f->len, 0);
		list_remove(&f->link);
		c->queued -= f->len;
		free(f);
	}
}

static int next_ms(const struct campaign_cable *c)
{
	return list_empty(&c->queue) ? -1 : clock_ms_until(list_entry(c->queue.next, struct frame, link)->due);
}

static void *carry(void *arg)
{
	struct campaign_cable *c = arg;
	struct pollfd fds[] = {{.fd = c->end[0], .events = POLLIN},
			       {.fd = c->end[1], .events = POLLIN},
			       {.fd = c->stop, .events = POLLIN}};
	while (!fds[2].revents) {
		if (poll(fds, 3, next_ms(c)) < 0 && errno != EINTR)
			break;
		for (int i = 0; i < 2; i++)
			if (fds[i].revents)
				take(c, c->end[i]);
		give(c);
	}
	return NULL;
}

/* ---- the whole ----------------------------------------------------------------------------------------------------- */

static void close_ends(struct campaign_cable *c)
{
	for (int i = 0; i < 2; i++)
		if (c->end[i] >= 0)
			close(c->end[i]);
	if (c->stop >= 0)
		close(c->stop);
	for (struct list *link; (link = list_pop(&c->queue));)
		free(list_entry(link, struct frame, link));
	free(c);
}

int campaign_cable_open(const char *one, const char *other, uint32_t percent, uint64_t delay_ns,
			struct campaign_cable **out, struct err *err)
{
	struct campaign_cable *c = calloc(1, sizeof(*c));
	*out = NULL;
	if (!c)
		return err_set(err, -ENOMEM, "no memory for a cable");
	c->end[0] = c->end[1] = -1;
	c->percent = percent;
	c->delay_ns = delay_ns;
	c->random = clock_now();
	list_init(&c->queue);
	c->stop = eventfd(0, EFD_CLOEXEC);
	int rc = c->stop < 0 ? err_set(err, -errno, "an event descriptor: %s", err_name(errno)) : 0;
	if (!rc)
		rc = open_end(one, &c->end[0], err);
	if (!rc)
		rc = open_end(other, &c->end[1], err);
	if (!rc && (rc = -pthread_create(&c->thread, NULL, carry, c)))
		err_set(err, rc, "a thread for a cable: %s", err_name(rc));
	if (rc)
		close_ends(c);
	else
		*out = c;
	return rc;
}

void campaign_cable_count(const struct campaign_cable *c, uint64_t *lost, uint64_t *delayed)
{
	*lost = c->lost;
	*delayed = c->delayed;
}

void campaign_cable_close(struct campaign_cable *c)
{
	uint64_t one = 1;
	if (!c)
		return;
	(void)!write(c->stop, &one, sizeof(one));
	pthread_join(c->thread, NULL);
	close_ends(c);
}
