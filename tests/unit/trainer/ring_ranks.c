#include "ring_ranks.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/deadline.h"

void ranks_listen(struct ranks *ranks, int world)
{
	ranks->world = world;
	ranks->connect_ms = 20000;
	ranks->cancel_fd = eventfd(0, EFD_CLOEXEC);
	cr_assert_geq(ranks->cancel_fd, 0);
	for (int i = 0; i < world; i++) {
		struct rank *r = &ranks->rank[i];

		*r = (struct rank){.all = ranks, .rank = i};
		ranks->epoch[i] = 1;
		cr_assert_eq(ring_listen(NULL, &r->ring), 0);
		ranks->addresses[i] = ring_address(r->ring);
	}
}

static void *run_rank(void *argument)
{
	struct rank *r = argument;
	struct ring_group group = {.rank = r->rank,
				   .world = r->all->world,
				   .addresses = r->all->addresses,
				   .epoch = r->all->epoch[r->rank],
				   .cancel_fd = r->all->cancel_fd};

	r->connected = ring_connect(r->ring, &group, deadline_in_ms(r->all->connect_ms));
	r->took_ns = monotonic_ns();
	atomic_fetch_add(&r->all->inside, r->connected == 0);
	r->result = r->connected < 0 ? r->connected : r->all->body(r);
	r->took_ns = monotonic_ns() - r->took_ns;
	return NULL;
}

void ranks_start(struct ranks *ranks, int count, int (*body)(struct rank *rank))
{
	ranks->body = body;
	for (int i = 0; i < count; i++)
		cr_assert_eq(pthread_create(&ranks->rank[i].thread, NULL, run_rank, &ranks->rank[i]), 0);
}

void ranks_inside(struct ranks *ranks, int count)
{
	while (atomic_load(&ranks->inside) < count) /* the test's own limit ends it */
		poll(NULL, 0, 1);
}

void ranks_join(struct ranks *ranks, int count)
{
	for (int i = 0; i < count; i++)
		pthread_join(ranks->rank[i].thread, NULL);
}

void ranks_free(struct ranks *ranks)
{
	for (int i = 0; i < ranks->world; i++)
		ring_free(ranks->rank[i].ring);
	close(ranks->cancel_fd);
}

void ranks_run(struct ranks *ranks, int world, int (*body)(struct rank *rank))
{
	ranks_listen(ranks, world);
	ranks_start(ranks, world, body);
	ranks_join(ranks, world);
	ranks_free(ranks);
}
