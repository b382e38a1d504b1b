#include "collective/collective.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "common/deadline.h"
#include "common/shard.h"
#include "trainer/fake_nccl.h"

enum { WORLD = 3, COUNT = 100, ROOM = WORLD * 48 };

struct member {
	struct collective *collective;
	pthread_t thread;
	int rank, rc;
	float data[ROOM];
	double sum;
	int gathered[WORLD];
	uint64_t sequence;
};

static struct fake_nccl fake;
static struct member members[WORLD];
static uint8_t addresses[WORLD][CKPT_ADDRESS_MAX];
static uint32_t address_len[WORLD];
static uint64_t epoch;

static int use(struct member *m)
{
	int64_t deadline = deadline_in_ms(10000);
	struct shard_range mine = shard_range(COUNT, m->rank, WORLD);
	int rc = collective_reduce_scatter(m->collective, m->data, COUNT, deadline);

	for (size_t i = mine.begin; i < mine.end; i++)
		m->data[i] += 0.5f;
	if (rc == 0)
		rc = collective_all_gather(m->collective, m->data, COUNT, deadline);
	m->sum = m->rank;
	if (rc == 0)
		rc = collective_sum(m->collective, &m->sum, 1, deadline);
	m->gathered[m->rank] = 10 + m->rank;
	if (rc == 0)
		rc = collective_gather(m->collective, m->gathered, sizeof(m->gathered[0]), deadline);
	if (rc == 0)
		rc = collective_barrier(m->collective, deadline);
	m->sequence = collective_sequence(m->collective);
	return rc;
}

static void *take_part(void *argument)
{
	struct member *m = argument;
	struct collective_group group = {.rank = m->rank,
					 .world = WORLD,
					 .addresses = addresses[0],
					 .address_len = address_len,
					 .epoch = epoch,
					 .cancel_fd = -1};

	for (size_t i = 0; i < COUNT; i++)
		m->data[i] = (float)(i + 1000 * (size_t)m->rank);
	m->rc = collective_connect(m->collective, &group, deadline_in_ms(10000));
	if (m->rc == 0)
		m->rc = use(m);
	return NULL;
}

static void listen_all(const struct nccl_table *table)
{
	for (int r = 0; r < WORLD; r++) {
		struct collective_way way = {.nccl = table, .stream = fake_nccl_stream(&fake, r)};

		members[r] = (struct member){.rank = r};
		cr_assert_eq(collective_listen(&way, "127.0.0.1", r, &members[r].collective), 0);
		address_len[r] = (uint32_t)collective_address(members[r].collective, addresses[r]);
	}
}

static void run_all(void)
{
	epoch++;
	for (int r = 0; r < WORLD; r++)
		cr_assert_eq(pthread_create(&members[r].thread, NULL, take_part, &members[r]), 0);
	for (int r = 0; r < WORLD; r++)
		pthread_join(members[r].thread, NULL);
}

static void assert_right(void)
{
	for (int r = 0; r < WORLD; r++) {
		const struct member *m = &members[r];

		cr_assert_eq(m->rc, 0, "rank %d: %s", r, collective_error(m->collective));
		for (size_t i = 0; i < COUNT; i++)
			cr_assert_float_eq(m->data[i], (float)(3 * i + 3000) + 0.5f, 1e-6, "rank %d, %zu", r, i);
		cr_assert_float_eq(m->sum, 3, 1e-12);
		for (int other = 0; other < WORLD; other++)
			cr_assert_eq(m->gathered[other], 10 + other);
		cr_assert_eq(m->sequence, 5, "over whatever it went");
	}
}

static void free_all(void)
{
	for (int r = 0; r < WORLD; r++)
		cr_assert_eq(collective_free(members[r].collective, deadline_in_ms(10000)), 0);
}

Test(collective, does_the_same_over_the_ring_and_over_nccl)
{
	const struct nccl_table *table = fake_nccl_start(&fake);

	listen_all(NULL);
	run_all();
	assert_right();
	cr_assert_eq(fake.largest, 0);
	free_all();
	listen_all(table);
	run_all();
	assert_right();
	cr_assert_eq(fake.largest, 48, "what is big went over NCCL");
	free_all();
	cr_assert_eq(fake.aborts_ended, WORLD);
	fake_nccl_end(&fake);
}

/* What NCCL makes for it (a thread, a socket) stays until all have used it. */
Test(collective, an_identifier_is_made_for_an_epoch_in_which_all_have_met_and_for_no_other)
{
	const struct nccl_table *table = fake_nccl_start(&fake);

	for (int wait = 0; wait < 5; wait++) { /* as a rank does that waits for others */
		listen_all(table);
		free_all();
	}
	cr_assert_eq(fake.ids, 0);
	for (int met = 1; met <= 2; met++) {
		listen_all(table);
		run_all();
		assert_right();
		free_all();
		cr_assert_eq(fake.ids, met, "each epoch has its own");
	}
	fake_nccl_end(&fake);
}

Test(collective, all_ranks_hear_that_there_is_no_identifier)
{
	listen_all(fake_nccl_start(&fake));
	fake.fault = FAKE_NCCL_NO_ID;
	run_all();
	for (int r = 0; r < WORLD; r++) {
		cr_assert_eq(members[r].rc, -EIO);
		cr_assert_str_eq(collective_error(members[r].collective),
				 "rank 0 has no identifier for a communicator: NCCL: some error");
	}
	free_all();
	fake_nccl_end(&fake);
}

Test(collective, ranks_with_and_without_gpus_do_not_mix)
{
	struct collective_way host = {.nccl = NULL};

	listen_all(fake_nccl_start(&fake));
	collective_free(members[0].collective, 0);
	cr_assert_eq(collective_listen(&host, "127.0.0.1", 0, &members[0].collective), 0);
	address_len[0] = (uint32_t)collective_address(members[0].collective, addresses[0]);
	run_all();
	for (int r = 0; r < WORLD; r++) {
		cr_assert_eq(members[r].rc, -EINVAL);
		cr_assert(strstr(collective_error(members[r].collective), "all ranks need GPUs, or none"), "%s",
			  collective_error(members[r].collective));
	}
	free_all();
	fake_nccl_end(&fake);
}

Test(collective, what_nccl_cannot_end_costs_the_process)
{
	listen_all(fake_nccl_start(&fake));
	fake.fault = FAKE_NCCL_NEVER_DONE;
	fake.abort_hangs = true;
	for (int r = 1; r < WORLD; r++) /* only rank 0 has a communicator: it is alone in the world */
		cr_assert_eq(collective_free(members[r].collective, deadline_in_ms(100)), 0);

	struct collective_group group = {.rank = 0,
					 .world = 1,
					 .addresses = addresses[0],
					 .address_len = address_len,
					 .epoch = 1,
					 .cancel_fd = -1};
	cr_assert_eq(collective_connect(members[0].collective, &group, deadline_in_ms(5000)), 0, "%s",
		     collective_error(members[0].collective));
	cr_assert_eq(collective_all_gather(members[0].collective, members[0].data, 16, deadline_in_ms(50)), -ETIMEDOUT);
	cr_assert_eq(collective_free(members[0].collective, deadline_in_ms(50)), -ENOTRECOVERABLE);
	fake_nccl_release(&fake, 1);
	fake_nccl_end(&fake);
}
