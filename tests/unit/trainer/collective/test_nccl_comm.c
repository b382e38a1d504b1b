#include "collective/nccl_comm.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/deadline.h"
#include "common/shard.h"
#include "trainer/fake_nccl.h"

enum { COUNT = 37, ROOM = 4 * 48 };         /* three shards of 16, the last one of them not full */
enum { BRIEF_MS = 50, PATIENT_MS = 20000 }; /* for what does not end by itself, and for what does */

static struct fake_nccl fake;
static float data[FAKE_NCCL_RANKS][ROOM];

static struct nccl_comm *make(int rank)
{
	const struct nccl_table *table = rank ? NULL : fake_nccl_start(&fake);
	static const struct nccl_table *first;
	struct nccl_stream stream = fake_nccl_stream(&fake, rank);
	struct nccl_comm *comm;

	first = table ? table : first;
	cr_assert_eq(nccl_comm_create(first, &stream, &comm), 0);
	return comm;
}

/* A communicator of one rank whose NCCL misbehaves like this from now on. */
static struct nccl_comm *alone(enum fake_nccl_fault fault, int cancel_fd, int *rc)
{
	struct nccl_comm *comm = make(0);
	struct nccl_group group = {.rank = 0, .world = 1, .cancel_fd = cancel_fd};

	memset(&fake.id, 0, sizeof(fake.id));
	fake.fault = fault;
	*rc = nccl_comm_connect(comm, &group, deadline_in_ms(fault == FAKE_NCCL_INIT_NEVER ? BRIEF_MS : PATIENT_MS));
	return comm;
}

static void assert_says(const struct nccl_comm *comm, const char *text)
{
	cr_assert(strstr(nccl_comm_error(comm), text), "\"%s\" does not say \"%s\"", nccl_comm_error(comm), text);
}

struct member {
	pthread_t thread;
	struct nccl_comm *comm;
	int rank, world, rc;
};

static void *take_part(void *argument)
{
	struct member *m = argument;
	struct nccl_group group = {.rank = m->rank, .world = m->world, .cancel_fd = -1, .id = fake.id};
	struct shard_range mine = shard_range(COUNT, m->rank, m->world);

	for (size_t i = 0; i < COUNT; i++)
		data[m->rank][i] = (float)(i + 100 * (size_t)m->rank);
	m->rc = nccl_comm_connect(m->comm, &group, deadline_in_ms(PATIENT_MS));
	if (m->rc == 0)
		m->rc = nccl_comm_reduce_scatter(m->comm, data[m->rank], COUNT, deadline_in_ms(PATIENT_MS));
	for (size_t i = mine.begin; i < mine.end; i++)
		data[m->rank][i] *= 2;
	if (m->rc == 0)
		m->rc = nccl_comm_all_gather(m->comm, data[m->rank], COUNT, deadline_in_ms(PATIENT_MS));
	return NULL;
}

static void run_members(struct member *all, int world)
{
	for (int r = 0; r < world; r++)
		all[r] = (struct member){.comm = make(r), .rank = r, .world = world};
	for (int r = 0; r < world; r++)
		cr_assert_eq(pthread_create(&all[r].thread, NULL, take_part, &all[r]), 0);
	for (int r = 0; r < world; r++)
		pthread_join(all[r].thread, NULL);
}

Test(nccl_comm, sums_shards_and_gathers_them)
{
	struct member all[3];

	run_members(all, 3);
	for (int r = 0; r < 3; r++) {
		cr_assert_eq(all[r].rc, 0, "rank %d: %s", r, nccl_comm_error(all[r].comm));
		for (size_t i = 0; i < COUNT; i++)
			cr_assert_float_eq(data[r][i], (float)(2 * (3 * i + 300)), 1e-6, "rank %d, element %zu", r, i);
		cr_assert_eq(nccl_comm_free(all[r].comm, deadline_in_ms(PATIENT_MS)), 0);
		cr_assert(fake.rank[r].aborted);
		cr_assert_not(fake.rank[r].busy_at_abort);
	}
	cr_assert_eq(fake.largest, 16, "shards are those of shard.h");
	fake_nccl_end(&fake);
}

/* Rank 0 is in another collective than rank 1: NCCL says nothing. */
static void *take_another(void *argument)
{
	struct member *m = argument;
	struct nccl_group group = {.rank = m->rank, .world = m->world, .cancel_fd = -1};
	size_t count = m->rank == 0 ? COUNT : 2 * COUNT;

	m->rc = nccl_comm_connect(m->comm, &group, deadline_in_ms(PATIENT_MS));
	if (m->rc == 0)
		m->rc = nccl_comm_reduce_scatter(m->comm, data[m->rank], count, deadline_in_ms(100));
	return NULL;
}

Test(nccl_comm, another_size_ends_with_the_deadline)
{
	struct member all[2];

	for (int r = 0; r < 2; r++)
		all[r] = (struct member){.comm = make(r), .rank = r, .world = 2};
	for (int r = 0; r < 2; r++)
		cr_assert_eq(pthread_create(&all[r].thread, NULL, take_another, &all[r]), 0);
	for (int r = 0; r < 2; r++)
		pthread_join(all[r].thread, NULL);
	for (int r = 0; r < 2; r++) {
		cr_assert_eq(all[r].rc, -ETIMEDOUT);
		assert_says(all[r].comm, r ? "reduce_scatter of 296 bytes" : "reduce_scatter of 148 bytes");
		cr_assert_eq(nccl_comm_free(all[r].comm, deadline_in_ms(PATIENT_MS)), 0);
		cr_assert(fake.rank[r].busy_at_abort, "the abort is what ends it");
	}
	fake_nccl_end(&fake);
}

static const struct {
	enum fake_nccl_fault fault;
	int connected, done;
	const char *text;
} hostile[] = {
	{FAKE_NCCL_INIT_REFUSED, -EIO, 0, "connecting: NCCL: some error"},
	{FAKE_NCCL_INIT_NEVER, -ETIMEDOUT, 0, "timed out in connecting"},
	{FAKE_NCCL_INIT_FAILS, -EIO, 0, "connecting: NCCL: remote process exited"},
	{FAKE_NCCL_OP_REFUSED, 0, -EIO, "all_gather of 148 bytes: NCCL: some error"},
	{FAKE_NCCL_NEVER_TAKEN, 0, -ETIMEDOUT, "timed out in all_gather"},
	{FAKE_NCCL_NEVER_DONE, 0, -ETIMEDOUT, "timed out in all_gather"},
	{FAKE_NCCL_ASYNC_ERROR, 0, -EIO, "remote process exited"},
	{FAKE_NCCL_CONTEXT_LOST, 0, -ENOTRECOVERABLE, "the device's context is lost"},
};

Test(nccl_comm, ends_every_misbehaviour_by_its_deadline_and_says_which)
{
	for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
		int rc, want = hostile[i].connected ? hostile[i].connected : hostile[i].done;
		int ms = want == -ETIMEDOUT ? BRIEF_MS : PATIENT_MS;
		int64_t from = monotonic_ns();
		struct nccl_comm *comm = alone(hostile[i].fault, -1, &rc);

		cr_assert_eq(rc, hostile[i].connected, "fault %d: %d", hostile[i].fault, rc);
		rc = nccl_comm_all_gather(comm, data[0], COUNT, deadline_in_ms(ms));
		cr_assert_eq(rc, want, "fault %d: %d", hostile[i].fault, rc);
		assert_says(comm, hostile[i].text);
		cr_assert_eq(nccl_comm_reduce_scatter(comm, data[0], COUNT, deadline_in_ms(ms)), want,
			     "the first error is final");
		cr_assert_eq(nccl_comm_free(comm, deadline_in_ms(PATIENT_MS)), 0);
		cr_assert_lt(monotonic_ns() - from, PATIENT_MS / 2 * INT64_C(1000000), "none of the patient ones");
		fake_nccl_end(&fake);
	}
}

static void count(void *self)
{
	++*(int *)self;
}

/* So that a rank beats while it waits for NCCL; in a collective it does not, where another may hang. */
Test(nccl_comm, tells_that_it_connects_and_that_it_aborts)
{
	struct nccl_comm *comm = make(0);
	int told = 0, before;
	struct nccl_group group = {.rank = 0, .world = 1, .cancel_fd = -1, .waiting = {count, &told}};

	memset(&fake.id, 0, sizeof(fake.id));
	fake.fault = FAKE_NCCL_INIT_NEVER;
	cr_assert_eq(nccl_comm_connect(comm, &group, deadline_in_ms(BRIEF_MS)), -ETIMEDOUT);
	cr_assert_gt(told, 1);
	fake.abort_hangs = true;
	before = told;
	cr_assert_eq(nccl_comm_free(comm, deadline_in_ms(450)), -ENOTRECOVERABLE);
	cr_assert_gt(told, before);
	fake_nccl_release(&fake, 1);
	fake_nccl_end(&fake);

	comm = make(0);
	memset(&fake.id, 0, sizeof(fake.id));
	fake.fault = FAKE_NCCL_NEVER_DONE;
	cr_assert_eq(nccl_comm_connect(comm, &group, deadline_in_ms(PATIENT_MS)), 0);
	before = told;
	cr_assert_eq(nccl_comm_all_gather(comm, data[0], COUNT, deadline_in_ms(BRIEF_MS)), -ETIMEDOUT);
	cr_assert_eq(told, before);
	cr_assert_eq(nccl_comm_free(comm, deadline_in_ms(PATIENT_MS)), 0);
	fake_nccl_end(&fake);
}

Test(nccl_comm, an_abort_that_hangs_is_left_to_itself)
{
	int rc;
	struct nccl_comm *comm = alone(FAKE_NCCL_NEVER_DONE, -1, &rc);

	fake.abort_hangs = true;
	cr_assert_eq(nccl_comm_all_gather(comm, data[0], COUNT, deadline_in_ms(20)), -ETIMEDOUT);
	cr_assert_eq(nccl_comm_free(comm, deadline_in_ms(20)), -ENOTRECOVERABLE);
	cr_assert_not(fake.rank[0].aborted);
	fake_nccl_release(&fake, 1);
	fake_nccl_end(&fake);
}

static void *cancel(void *argument)
{
	while (true) { /* not before the operation is under way */
		pthread_mutex_lock(&fake.lock);
		bool looked = fake.rank[0].looks > 3;
		pthread_mutex_unlock(&fake.lock);
		if (looked)
			break;
		sched_yield();
	}
	eventfd_write(*(int *)argument, 1);
	return NULL;
}

Test(nccl_comm, news_of_an_epoch_end_the_wait)
{
	int fd = eventfd(0, EFD_CLOEXEC), rc;
	struct nccl_comm *comm = alone(FAKE_NCCL_NEVER_DONE, fd, &rc);
	pthread_t thread;

	cr_assert_eq(rc, 0);
	cr_assert_eq(pthread_create(&thread, NULL, cancel, &fd), 0);
	cr_assert_eq(nccl_comm_all_gather(comm, data[0], COUNT, deadline_in_ms(20000)), -ECANCELED);
	pthread_join(thread, NULL);
	cr_assert_eq(nccl_comm_free(comm, deadline_in_ms(PATIENT_MS)), 0);
	close(fd);
	fake_nccl_end(&fake);
}

Test(nccl_comm, is_used_only_when_connected)
{
	struct nccl_comm *comm = make(0);
	struct nccl_group group = {.rank = 1, .world = 1, .cancel_fd = -1};

	cr_assert_eq(nccl_comm_all_gather(comm, data[0], COUNT, deadline_in_ms(50)), -ENOTCONN);
	cr_assert_eq(nccl_comm_connect(comm, &group, deadline_in_ms(50)), -EINVAL);
	cr_assert_eq(nccl_comm_free(comm, deadline_in_ms(50)), 0);
	cr_assert_eq(nccl_comm_free(NULL, 0), 0);
	fake_nccl_end(&fake);
}
