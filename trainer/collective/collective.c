#include "collective/collective.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct collective {
	struct ring *ring;
	const struct nccl_table *table;
	struct nccl_comm *nccl; /* NULL: the ring does all */
	int rank;
	uint64_t sequence;
	const char *error; /* of the part that failed first; NULL: none */
	char why[NCCL_WHY_SIZE];
};

/* What a rank that uses NCCL puts behind its ring's address. */
enum { USES_NCCL = 1 };

_Static_assert(RING_ADDRESS_SIZE + 1 <= CKPT_ADDRESS_MAX, "both fit into an address");

/* What rank 0 tells the others over the ring. */
struct offer {
	struct nccl_id id;
	int32_t code; /* of NCCL */
};

/* Of the part that it comes from; the first one stays. */
static int note(struct collective *c, int rc, const char *error)
{
	if (rc < 0 && !c->error)
		c->error = error;
	return rc;
}

int collective_listen(const struct collective_way *way, const char *host, int rank, struct collective **collective)
{
	struct collective *c = calloc(1, sizeof(*c));
	int rc;

	*collective = NULL;
	if (!c)
		return -ENOMEM;
	c->rank = rank;
	c->table = way->nccl;
	rc = ring_listen(host, &c->ring);
	if (rc == 0 && way->nccl)
		rc = nccl_comm_create(way->nccl, &way->stream, &c->nccl);
	if (rc < 0) {
		collective_free(c, 0);
		return rc;
	}
	*collective = c;
	return 0;
}

/* The ring's text with its NUL, then a byte. */
size_t collective_address(const struct collective *c, uint8_t address[CKPT_ADDRESS_MAX])
{
	size_t length = strlen(ring_address(c->ring)) + 1;

	memcpy(address, ring_address(c->ring), length);
	address[length] = c->nccl ? USES_NCCL : 0;
	return length + 1;
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

/* All ranks come to the same, and no other epoch would help. */
static int check_alike(struct collective *c, const struct collective_group *g)
{
	for (int r = 0; r < g->world; r++) {
		const uint8_t *address = g->addresses + (size_t)r * CKPT_ADDRESS_MAX;
		size_t length = text_length(g, r);
		bool uses = length && g->address_len[r] == length + 1 && address[length] == USES_NCCL;

		if (uses == (c->nccl != NULL))
			continue;
		snprintf(c->why, sizeof(c->why), "rank %d uses %s, rank %d %s: all ranks need GPUs, or none", g->rank,
			 c->nccl ? "NCCL" : "the host", r, uses ? "NCCL" : "the host");
		return note(c, -EINVAL, c->why);
	}
	return 0;
}

/* Rank 0 makes it; also that it could not is told to all. */
static int share_id(struct collective *c, const struct collective_group *g, struct nccl_id *id, int64_t deadline)
{
	struct offer *all = calloc((size_t)g->world, sizeof(*all));
	int rc;

	if (!all)
		return note(c, -ENOMEM, "out of memory");
	if (g->rank == 0)
		all[0].code = c->table->unique_id(&all[0].id);
	rc = note(c, ring_gather(c->ring, all, sizeof(*all), deadline), ring_error(c->ring));
	if (rc == 0 && all[0].code != NCCL_SUCCESS) {
		snprintf(c->why, sizeof(c->why), "rank 0 has no identifier for a communicator: NCCL: %s",
			 c->table->text_of(all[0].code));
		rc = note(c, -EIO, c->why);
	}
	*id = all[0].id;
	free(all);
	return rc;
}

static int connect_nccl(struct collective *c, const struct collective_group *g, int64_t deadline)
{
	struct nccl_group group = {
		.rank = g->rank, .world = g->world, .cancel_fd = g->cancel_fd, .waiting = g->waiting};
	int rc = share_id(c, g, &group.id, deadline);

	return rc < 0 ? rc : note(c, nccl_comm_connect(c->nccl, &group, deadline), nccl_comm_error(c->nccl));
}

int collective_connect(struct collective *c, const struct collective_group *g, int64_t deadline)
{
	int rc;

	if (g->rank != c->rank || g->world < 1)
		return note(c, -EINVAL, "the world has changed since it listened");
	rc = check_alike(c, g);
	if (rc == 0)
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
