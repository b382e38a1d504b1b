#include "collective/communicator.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/deadline.h"

int communicator_library_error(struct communicator *c, const char *doing, int rc)
{
	snprintf(c->why, sizeof(c->why), "%s: %s: %s", doing, strerror(-rc), ckpt_error(c->session));
	return rc == -ETIMEDOUT || rc == -ENOTCONN ? -ESTALE : rc;
}

/* Failed collectives are never mended, new ones may do: in the worst case joining finds out who is missing. */
static int result(struct communicator *c, int rc)
{
	if (rc == 0) {
		c->complete_ns = monotonic_ns();
		return 0;
	}
	c->mismatch = rc == -EPROTO;
	snprintf(c->why, sizeof(c->why), "%s", collective_error(c->collective));
	return rc == -ENOMEM || rc == -EINVAL || rc == -ENOTRECOVERABLE ? rc : -ESTALE;
}

static int listen_anew(struct communicator *c)
{
	int rc = communicator_leave(c);

	if (rc < 0)
		return rc;
	rc = collective_listen(c->way, c->address, ckpt_rank(c->session), &c->collective);
	if (rc < 0)
		snprintf(c->why, sizeof(c->why), "cannot listen on %s: %s", c->address, strerror(-rc));
	return rc;
}

int communicator_join(struct communicator *c, int wait_ms)
{
	uint8_t address[CKPT_ADDRESS_MAX];
	int rc = listen_anew(c);

	c->missing = c->mismatch = false;
	if (rc < 0)
		return rc;
	rc = ckpt_join(c->session, address, collective_address(c->collective, address), &c->view, wait_ms);
	c->missing = rc == -ETIMEDOUT || rc == -ENOTCONN;
	if (rc < 0)
		return communicator_library_error(c, "join", rc);
	c->epoch = c->view->epoch;
	c->rank = c->view->rank;
	c->world = c->view->world;
	return 0;
}

int communicator_connect(struct communicator *c)
{
	struct collective_group group = {
		.rank = c->rank,
		.world = c->world,
		.addresses = c->view->addresses,
		.address_len = c->view->address_len,
		.epoch = c->epoch,
		.cancel_fd = c->cancel->fd,
		.waiting = c->waiting,
	};
	int rc;

	c->complete_ns = 0;
	if (cancel_arm(c->cancel, c->epoch) < 0) {
		snprintf(c->why, sizeof(c->why), "epoch %u was over when it was joined", c->epoch);
		return -ESTALE;
	}
	ckpt_collective_enter(c->session, "connect", 0,
			      0); /* who waits there for another hangs as little as in any other */
	rc = collective_connect(c->collective, &group, deadline_in_ms(c->timeout_ms));
	ckpt_collective_leave(c->session);
	return result(c, rc);
}

int communicator_leave(struct communicator *c)
{
	int rc = collective_free(c->collective, deadline_in_ms(c->timeout_ms));

	c->collective = NULL;
	if (rc < 0)
		snprintf(c->why, sizeof(c->why), "what NCCL has on the device could not be ended within %.0f s",
			 (double)c->timeout_ms / 1000);
	return rc;
}

static void note_place(struct communicator *c, const char *name, ckpt_dtype dtype, size_t bytes)
{
	c->place = (struct communicator_place){.epoch = c->epoch,
					       .rank = c->rank,
					       .sequence = collective_sequence(c->collective) + 1,
					       .bytes = bytes,
					       .dtype = (uint8_t)dtype};
	memcpy(c->place.op, name, strnlen(name, sizeof(c->place.op)));
}

static int64_t enter(struct communicator *c, const char *name, ckpt_dtype dtype, size_t bytes)
{
	note_place(c, name, dtype, bytes);
	ckpt_collective_enter_typed(c->session, name, dtype, collective_sequence(c->collective) + 1, bytes);
	return deadline_in_ms(c->timeout_ms);
}

static int leave(struct communicator *c, int rc)
{
	ckpt_collective_leave(c->session);
	c->place.mismatch = rc == -EPROTO;
	return result(c, rc);
}

int communicator_reduce_scatter(struct communicator *c, float *data, size_t count)
{
	int64_t deadline = enter(c, "reduce_scatter", CKPT_F32, count * sizeof(*data));

	return leave(c, collective_reduce_scatter(c->collective, data, count, deadline));
}

int communicator_all_gather(struct communicator *c, float *data, size_t count)
{
	int64_t deadline = enter(c, "all_gather", CKPT_F32, count * sizeof(*data));

	return leave(c, collective_all_gather(c->collective, data, count, deadline));
}

int communicator_sum(struct communicator *c, double *values, size_t count)
{
	int64_t deadline = enter(c, "all_reduce", CKPT_F64, count * sizeof(*values));

	return leave(c, collective_sum(c->collective, values, count, deadline));
}

int communicator_gather(struct communicator *c, void *all, size_t bytes)
{
	int64_t deadline = enter(c, "gather", CKPT_U8, bytes);

	return leave(c, collective_gather(c->collective, all, bytes, deadline));
}

int communicator_gather_shards(struct communicator *c, float *data, size_t count)
{
	int64_t deadline = enter(c, "gather_shards", CKPT_F32, count * sizeof(*data));

	return leave(c, collective_gather_shards(c->collective, data, count, deadline));
}

int communicator_barrier(struct communicator *c)
{
	int64_t deadline = enter(c, "barrier", (ckpt_dtype)0, 0);

	return leave(c, collective_barrier(c->collective, deadline));
}
