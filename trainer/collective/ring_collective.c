/*
 * The collectives, as sequences of hops. A large vector is cut into the ranks' shards. In the reduce phase shard c
 * starts at rank c + 1 and collects every rank's part on its way round to rank c, so the order of its sum is
 * c + 1, c + 2, ..., c. Small vectors are gathered whole (half the hops) and summed by everybody in rank order.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "collective/ring_internal.h"
#include "common/shard.h"

/* Every collective begins here. A canceled ring must not go on, even if it would never have to wait. */
static int begin(struct ring *r)
{
	struct pollfd cancel = {r->cancel_fd, POLLIN, 0};

	if (r->state == RING_FAILED)
		return r->failure;
	if (r->state != RING_CONNECTED)
		return -ENOTCONN;
	r->sequence++;
	if (r->cancel_fd >= 0 && poll(&cancel, 1, 0) > 0)
		return ring_fail(r, -ECANCELED, "canceled before collective #%llu", (unsigned long long)r->sequence);
	return 0;
}

struct shards {
	enum ring_collective collective;
	float *data;
	size_t count;
	unsigned int first_hop;
};

/* One hop that sends shard `out` and receives shard `in`, both as distances from this rank. */
static int pass_shard(struct ring *r, const struct shards *s, int step, int out, int in, bool add, int64_t deadline)
{
	struct shard_range send = shard_range(s->count, ring_rank_at(r, out), r->world);
	struct shard_range receive = shard_range(s->count, ring_rank_at(r, in), r->world);
	struct ring_hop hop = {
		.collective = s->collective,
		.dtype = CKPT_F32,
		.number = s->first_hop + (unsigned int)step,
		.total = s->count * sizeof(float),
		.send = s->data + send.begin,
		.send_bytes = (send.end - send.begin) * sizeof(float),
		.receive = s->data + receive.begin,
		.receive_bytes = (receive.end - receive.begin) * sizeof(float),
		.add = add,
	};

	return ring_exchange(r, &hop, deadline);
}

static int reduce_phase(struct ring *r, const struct shards *s, int64_t deadline)
{
	int rc = 0;

	for (int step = 0; step < r->world - 1 && rc == 0; step++)
		rc = pass_shard(r, s, step, -1 - step, -2 - step, true, deadline);
	return rc;
}

static int gather_phase(struct ring *r, const struct shards *s, int64_t deadline)
{
	int rc = 0;

	for (int step = 0; step < r->world - 1 && rc == 0; step++)
		rc = pass_shard(r, s, step, -step, -1 - step, false, deadline);
	return rc;
}

/* all[world * bytes], of which this rank's part is filled in. */
static int gather_small(struct ring *r, enum ring_collective collective, ckpt_dtype dtype, char *all, size_t bytes,
			int64_t deadline)
{
	int rc = 0;

	for (int step = 0; step < r->world - 1 && rc == 0; step++) {
		struct ring_hop hop = {
			.collective = collective,
			.dtype = dtype,
			.number = (unsigned int)step,
			.total = bytes,
			.send = all + (size_t)ring_rank_at(r, -step) * bytes,
			.send_bytes = bytes,
			.receive = all + (size_t)ring_rank_at(r, -1 - step) * bytes,
			.receive_bytes = bytes,
		};

		rc = ring_exchange(r, &hop, deadline);
	}
	return rc;
}

/* Gathers `values` of every rank into r->small. */
static int gather_values(struct ring *r, enum ring_collective collective, ckpt_dtype dtype, const void *values,
			 size_t bytes, int64_t deadline)
{
	int rc = begin(r);

	if (rc < 0)
		return rc;
	if (bytes)
		memcpy(r->small + (size_t)r->rank * bytes, values, bytes);
	return gather_small(r, collective, dtype, r->small, bytes, deadline);
}

static int all_reduce_small(struct ring *r, float *data, size_t count, int64_t deadline)
{
	const float *all = (const float *)r->small;
	int rc = gather_values(r, RING_ALL_REDUCE, CKPT_F32, data, count * sizeof(float), deadline);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < count; i++) {
		data[i] = all[i];
		for (size_t rank = 1; rank < (size_t)r->world; rank++)
			data[i] += all[rank * count + i];
	}
	return 0;
}

int ring_all_reduce_sum(struct ring *r, float *data, size_t count, int64_t deadline)
{
	struct shards shards = {RING_ALL_REDUCE, data, count, 0};
	int rc;

	if (count <= RING_SMALL_BYTES / sizeof(float))
		return all_reduce_small(r, data, count, deadline);
	rc = begin(r);
	if (rc == 0)
		rc = reduce_phase(r, &shards, deadline);
	shards.first_hop = (unsigned int)r->world - 1;
	return rc < 0 ? rc : gather_phase(r, &shards, deadline);
}

int ring_reduce_scatter_sum(struct ring *r, float *data, size_t count, int64_t deadline)
{
	struct shards shards = {RING_REDUCE_SCATTER, data, count, 0};
	int rc = begin(r);

	return rc < 0 ? rc : reduce_phase(r, &shards, deadline);
}

int ring_all_gather(struct ring *r, float *data, size_t count, int64_t deadline)
{
	struct shards shards = {RING_ALL_GATHER, data, count, 0};
	int rc = begin(r);

	return rc < 0 ? rc : gather_phase(r, &shards, deadline);
}

int ring_gather(struct ring *r, void *all, size_t bytes, int64_t deadline)
{
	int rc;

	if (bytes > RING_SMALL_BYTES)
		return -EINVAL;
	rc = begin(r);
	return rc < 0 ? rc : gather_small(r, RING_GATHER, CKPT_U8, all, bytes, deadline);
}

static int64_t combine(int64_t a, int64_t b, enum ring_op op)
{
	if (op == RING_SUM)
		return (int64_t)((uint64_t)a + (uint64_t)b);
	if (op == RING_MIN)
		return a < b ? a : b;
	return a > b ? a : b;
}

int ring_all_reduce_int64(struct ring *r, int64_t *values, size_t count, enum ring_op op, int64_t deadline)
{
	const int64_t *all = (const int64_t *)r->small;
	int rc;

	if (count > RING_SMALL_BYTES / sizeof(*values))
		return -EINVAL;
	rc = gather_values(r, RING_ALL_REDUCE, CKPT_I64, values, count * sizeof(*values), deadline);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < count; i++) {
		values[i] = all[i];
		for (size_t rank = 1; rank < (size_t)r->world; rank++)
			values[i] = combine(values[i], all[rank * count + i], op);
	}
	return 0;
}

int ring_all_reduce_double(struct ring *r, double *values, size_t count, int64_t deadline)
{
	const double *all = (const double *)r->small;
	int rc;

	if (count > RING_SMALL_BYTES / sizeof(*values))
		return -EINVAL;
	rc = gather_values(r, RING_ALL_REDUCE, CKPT_F64, values, count * sizeof(*values), deadline);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < count; i++) {
		values[i] = all[i];
		for (size_t rank = 1; rank < (size_t)r->world; rank++)
			values[i] += all[rank * count + i];
	}
	return 0;
}

int ring_barrier(struct ring *r, int64_t deadline)
{
	return gather_values(r, RING_BARRIER, (ckpt_dtype)0, NULL, 0, deadline);
}
