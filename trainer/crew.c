#include "crew.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "deadline.h"

int crew_library_error(struct crew *c, const char *doing, int rc)
{
	snprintf(c->why, sizeof(c->why), "%s: %s: %s", doing, strerror(-rc), ckpt_error(c->session));
	return rc == -ETIMEDOUT || rc == -ENOTCONN ? -ESTALE : rc;
}

/* A failed ring is never mended, a new one may do: in the worst case joining finds out who is missing. */
static int ring_result(struct crew *c, int rc)
{
	if (rc == 0) {
		c->complete_ns = monotonic_ns();
		return 0;
	}
	snprintf(c->why, sizeof(c->why), "%s", ring_error(c->ring));
	return rc == -ENOMEM || rc == -EINVAL ? rc : -ESTALE;
}

static int listen_anew(struct crew *c)
{
	int rc;

	crew_leave(c);
	rc = ring_listen(c->address, &c->ring);
	if (rc < 0)
		snprintf(c->why, sizeof(c->why), "cannot listen on %s: %s", c->address, strerror(-rc));
	return rc;
}

/* The addresses of all ranks as strings, copied: [world], one allocation. NULL without memory or for an unusable one. */
static char **copy_addresses(const ckpt_view *view)
{
	size_t world = (size_t)view->world;
	char **all = malloc(world * (sizeof(*all) + RING_ADDRESS_SIZE));
	char *text = (char *)(all + world);

	for (size_t r = 0; all && r < world; r++, text += RING_ADDRESS_SIZE) {
		size_t length = view->address_len[r];

		if (length >= RING_ADDRESS_SIZE)
			length = 0; /* not one of ours: ring_connect() refuses an empty one */
		all[r] = memcpy(text, view->addresses + r * CKPT_ADDRESS_MAX, length);
		text[length] = '\0';
	}
	return all;
}

int crew_join(struct crew *c, int wait_ms)
{
	const ckpt_view *view;
	int rc = listen_anew(c);

	c->missing = false;
	if (rc < 0)
		return rc;
	rc = ckpt_join(c->session, ring_address(c->ring), strlen(ring_address(c->ring)), &view, wait_ms);
	c->missing = rc == -ETIMEDOUT || rc == -ENOTCONN;
	if (rc < 0)
		return crew_library_error(c, "join", rc);
	c->epoch = view->epoch;
	c->rank = view->rank;
	c->world = view->world;
	free(c->addresses);
	c->addresses = copy_addresses(view);
	if (!c->addresses) {
		snprintf(c->why, sizeof(c->why), "out of memory");
		return -ENOMEM;
	}
	return 0;
}

int crew_connect(struct crew *c)
{
	struct ring_group group = {
		.rank = c->rank,
		.world = c->world,
		.addresses = (const char *const *)c->addresses,
		.epoch = c->epoch,
		.cancel_fd = c->cancel->fd,
	};

	c->complete_ns = 0;
	if (cancel_arm(c->cancel, c->epoch) < 0) {
		snprintf(c->why, sizeof(c->why), "epoch %u was over when it was joined", c->epoch);
		return -ESTALE;
	}
	return ring_result(c, ring_connect(c->ring, &group, deadline_in_ms(c->timeout_ms)));
}

void crew_leave(struct crew *c)
{
	ring_free(c->ring);
	c->ring = NULL;
	free(c->addresses);
	c->addresses = NULL;
}

static int64_t enter(struct crew *c, const char *name, size_t bytes)
{
	ckpt_collective_enter(c->session, name, ring_sequence(c->ring) + 1, bytes);
	return deadline_in_ms(c->timeout_ms);
}

static int leave(struct crew *c, int rc)
{
	ckpt_collective_leave(c->session);
	return ring_result(c, rc);
}

int crew_reduce_scatter(struct crew *c, float *data, size_t count)
{
	int64_t deadline = enter(c, "reduce_scatter", count * sizeof(*data));

	return leave(c, ring_reduce_scatter_sum(c->ring, data, count, deadline));
}

int crew_all_gather(struct crew *c, float *data, size_t count)
{
	int64_t deadline = enter(c, "all_gather", count * sizeof(*data));

	return leave(c, ring_all_gather(c->ring, data, count, deadline));
}

int crew_sum(struct crew *c, double *values, size_t count)
{
	int64_t deadline = enter(c, "reduce_double", count * sizeof(*values));

	return leave(c, ring_all_reduce_double(c->ring, values, count, deadline));
}

int crew_gather(struct crew *c, void *all, size_t bytes)
{
	int64_t deadline = enter(c, "gather", bytes);

	return leave(c, ring_gather(c->ring, all, bytes, deadline));
}

int crew_barrier(struct crew *c)
{
	int64_t deadline = enter(c, "barrier", 0);

	return leave(c, ring_barrier(c->ring, deadline));
}
