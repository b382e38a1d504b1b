#include "collective.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct collective {
	struct ring *ring;
	struct nccl_comm *nccl; /* NULL: the ring does all */
	struct nccl_id id;      /* of rank 0 */
	int rank;
	uint64_t sequence;
	const char *error; /* of the part that failed first; NULL: none */
};

_Static_assert(RING_ADDRESS_SIZE + sizeof(struct nccl_id) <= CKPT_ADDRESS_MAX, "both fit into an address");

/* Of the part that it comes from; the first one stays. */
static int note(struct collective *c, int rc, const char *error)
{
	if (rc < 0 && !c->error)
		c->error = error;
	return rc;
}

static int prepare_nccl(struct collective *c, const struct collective_way *way, char why[NCCL_WHY_SIZE])
{
	int code = c->rank == 0 ? way->nccl->unique_id(&c->id) : NCCL_SUCCESS;

	if (code != NCCL_SUCCESS) {
		snprintf(why, NCCL_WHY_SIZE, "no identifier for a communicator: NCCL: %s", way->nccl->text_of(code));
		return -EIO;
	}
	return nccl_comm_create(way->nccl, &way->stream, &c->nccl);
}

int collective_listen(const struct collective_way *way, const char *host, int rank, struct collective **collective,
		      char why[NCCL_WHY_SIZE])
{
	struct collective *c = calloc(1, sizeof(*c));
	int rc;

	*collective = NULL;
	why[0] = '\0';
	if (!c)
		return -ENOMEM;
	c->rank = rank;
	rc = ring_listen(host, &c->ring);
	if (rc == 0 && way->nccl)
		rc = prepare_nccl(c, way, why);
	if (rc < 0) {
		collective_free(c, 0);
		return rc;
	}
	*collective = c;
	return 0;
}

/* The ring's text with its NUL, then what rank 0 has to say. */
size_t collective_address(const struct collective *c, uint8_t address[CKPT_ADDRESS_MAX])
{
	size_t length = strlen(ring_address(c->ring)) + 1;

	memcpy(address, ring_address(c->ring), length);
	if (!c->nccl || c->rank != 0)
		return length;
	memcpy(address + length, &c->id, sizeof(c->id));
	return length + sizeof(c->id);
}

/* The length of the ring's address in what a rank gave, with its NUL; 0: it is not one of ours. */
static size_t text_length(const struct collective_group *g, int rank)
{
	const uint8_t *address = g->addresses + (size_t)rank * CKPT_ADDRESS_MAX;
	size_t length = g->address_len[rank] <= CKPT_ADDRESS_MAX ? g->address_len[rank] : 0;
	const uint8_t *end = length ? memchr(address, '\0', length) : NULL;

	return end ? (size_t)(end - address) + 1 : 0;
}

static int connect_ring(struct collective *c, const struct collective_group *g, int64_t deadline)
{
	struct ring_group group = {.rank = g->rank, .world = g->world, .epoch = g->epoch, .cancel_fd = g->cancel_fd};
	const char **addresses = calloc((size_t)g->world, sizeof(*addresses));
	int rc;

	if (!addresses)
		return note(c, -ENOMEM, "out of memory");
	for (int r = 0; r < g->world; r++) /* an empty one is refused by the ring, by name */
		addresses[r] = text_length(g, r) ? (const char *)g->addresses + (size_t)r * CKPT_ADDRESS_MAX : "";
	group.addresses = addresses;
	rc = ring_connect(c->ring, &group, deadline);
	free(addresses);
	return note(c, rc, ring_error(c->ring));
}

static int connect_nccl(struct collective *c, const struct collective_group *g, int64_t deadline)
{
	struct nccl_group group = {.rank = g->rank, .world = g->world, .cancel_fd = g->cancel_fd};
	size_t length = text_length(g, 0);

	if (g->address_len[0] != length + sizeof(group.id))
		return note(c, -EPROTO, "rank 0 has no communicator of NCCL to offer: all ranks need GPUs, or none");
	memcpy(&group.id, g->addresses + length, sizeof(group.id));
	return note(c, nccl_comm_connect(c->nccl, &group, deadline), nccl_comm_error(c->nccl));
}

int collective_connect(struct collective *c, const struct collective_group *g, int64_t deadline)
{
	int rc;

	if (g->rank != c->rank)
		return note(c, -EINVAL, "the rank has changed since it listened");
	rc = connect_ring(c, g, deadline);
	return rc == 0 && c->nccl ? connect_nccl(c, g, deadline) : rc;
}

const char *collective_error(const struct collective *c)
{
	return c->error ? c->error : "";
}

uint64_t collective_sequence(const struct collective *c)
{
	return c->sequence;
}

int collective_reduce_scatter(struct collective *c, float *data, size_t count, int64_t deadline)
{
	c->sequence++;
	if (c->nccl)
		return note(c, nccl_comm_reduce_scatter(c->nccl, data, count, deadline), nccl_comm_error(c->nccl));
	return note(c, ring_reduce_scatter_sum(c->ring, data, count, deadline), ring_error(c->ring));
}

int collective_all_gather(struct collective *c, float *data, size_t count, int64_t deadline)
{
	if (!c->nccl)
		return collective_gather_shards(c, data, count, deadline);
	c->sequence++;
	return note(c, nccl_comm_all_gather(c->nccl, data, count, deadline), nccl_comm_error(c->nccl));
}

int collective_sum(struct collective *c, double *values, size_t count, int64_t deadline)
{
	c->sequence++;
	return note(c, ring_all_reduce_double(c->ring, values, count, deadline), ring_error(c->ring));
}

int collective_gather(struct collective *c, void *all, size_t bytes, int64_t deadline)
{
	c->sequence++;
	return note(c, ring_gather(c->ring, all, bytes, deadline), ring_error(c->ring));
}

int collective_gather_shards(struct collective *c, float *data, size_t count, int64_t deadline)
{
	c->sequence++;
	return note(c, ring_all_gather(c->ring, data, count, deadline), ring_error(c->ring));
}

int collective_barrier(struct collective *c, int64_t deadline)
{
	c->sequence++;
	return note(c, ring_barrier(c->ring, deadline), ring_error(c->ring));
}

int collective_free(struct collective *c, int64_t deadline)
{
	int rc;

	if (!c)
		return 0;
	ring_free(c->ring); /* first: neighbours must not wait while we abort */
	rc = nccl_comm_free(c->nccl, deadline);
	free(c);
	return rc;
}
