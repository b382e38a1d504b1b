#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/deadline.h"
#include "common/rng.h"
#include "common/shard.h"
#include "trainer/ring_ranks.h"

enum { SECONDS = 20000 };

static const size_t counts[] = {0, 1, 15, 17, 1024, 1025, 5000, 300001};

enum { COUNTS = sizeof(counts) / sizeof(counts[0]), LARGEST = 300001 };

/* Small integers: their sum is exact in any order. */
static float integer(int rank, size_t i)
{
	return (float)((int64_t)(i % 1000) - 300 + rank * 7);
}

static float integer_sum(int world, size_t i)
{
	float sum = 0;

	for (int rank = 0; rank < world; rank++)
		sum += integer(rank, i);
	return sum;
}

static float *new_integers(int rank, size_t count)
{
	float *data = malloc((count + 1) * sizeof(float));

	for (size_t i = 0; i < count; i++)
		data[i] = integer(rank, i);
	return data;
}

static int reduce_exactly(struct rank *r)
{
	int wrong = 0;

	for (size_t c = 0; c < COUNTS && !wrong; c++) {
		float *data = new_integers(r->rank, counts[c]);

		if (ring_all_reduce_sum(r->ring, data, counts[c], deadline_in_ms(SECONDS)) < 0)
			wrong = 1;
		for (size_t i = 0; i < counts[c] && !wrong; i++)
			wrong = data[i] != integer_sum(r->all->world, i);
		free(data);
	}
	return wrong;
}

static void check_worlds(int (*body)(struct rank *))
{
	for (int world = 1; world <= MAX_RANKS; world++) {
		struct ranks ranks = {0};

		ranks_run(&ranks, world, body);
		for (int i = 0; i < world; i++)
			cr_assert_eq(ranks.rank[i].result, 0, "world %d, rank %d: %d", world, i, ranks.rank[i].result);
	}
}

Test(ring_collective, all_reduce_is_exact)
{
	check_worlds(reduce_exactly);
}

/* Sums that depend on their order; the result goes to the rank's part of the context. */
static int reduce_random(struct rank *r)
{
	float *data = (float *)r->all->context + (size_t)r->rank * (LARGEST + 100);

	for (size_t i = 0; i < LARGEST + 100; i++)
		data[i] = rng_normal(6, (uint64_t)r->rank, i);
	int rc = ring_all_reduce_sum(r->ring, data, LARGEST, deadline_in_ms(SECONDS));
	return rc ? rc : ring_all_reduce_sum(r->ring, data + LARGEST, 100, deadline_in_ms(SECONDS));
}

Test(ring_collective, all_reduce_has_the_same_bits_on_all_ranks_and_in_all_runs)
{
	size_t bytes = (LARGEST + 100) * sizeof(float);

	for (int world = 2; world <= MAX_RANKS; world++) {
		struct ranks ranks = {0};
		char *first = malloc((size_t)world * bytes), *second = malloc((size_t)world * bytes);

		ranks.context = first;
		ranks_run(&ranks, world, reduce_random);
		ranks.context = second;
		ranks_run(&ranks, world, reduce_random);
		for (int i = 0; i < world; i++) {
			cr_assert_eq(ranks.rank[i].result, 0);
			cr_assert_arr_eq(first + (size_t)i * bytes, first, bytes);
			cr_assert_arr_eq(second + (size_t)i * bytes, first, bytes);
		}
		free(second);
		free(first);
	}
}

/* The two halves of an all-reduce, as ZeRO-1 uses them. */
static int scatter_then_gather(struct rank *r)
{
	int wrong = 0;

	for (size_t c = 0; c < COUNTS && !wrong; c++) {
		size_t count = counts[c];
		struct shard_range mine = shard_range(count, r->rank, r->all->world);
		float *data = new_integers(r->rank, count);

		wrong = ring_reduce_scatter_sum(r->ring, data, count, deadline_in_ms(SECONDS)) != 0;
		for (size_t i = mine.begin; i < mine.end && !wrong; i++)
			wrong = data[i] != integer_sum(r->all->world, i);
		if (!wrong)
			wrong = ring_all_gather(r->ring, data, count, deadline_in_ms(SECONDS)) != 0;
		for (size_t i = 0; i < count && !wrong; i++)
			wrong = data[i] != integer_sum(r->all->world, i);
		free(data);
	}
	return wrong;
}

Test(ring_collective, reduce_scatter_gives_the_shard_and_all_gather_the_rest)
{
	check_worlds(scatter_then_gather);
}

static int gather_names(struct rank *r)
{
	char all[MAX_RANKS][8] = {0};

	memset(all[r->rank], 'a' + r->rank, 8);
	if (ring_gather(r->ring, all, 8, deadline_in_ms(SECONDS)) < 0)
		return 1;
	for (int i = 0; i < r->all->world; i++)
		if (all[i][0] != 'a' + i || all[i][7] != 'a' + i)
			return 2;
	return 0;
}

Test(ring_collective, gather_puts_bytes_in_rank_order)
{
	check_worlds(gather_names);
}

static int reduce_int64(struct rank *r)
{
	int world = r->all->world;
	int64_t sum[2] = {r->rank, INT64_MAX}, min = 10 - r->rank, max = r->rank;

	if (ring_all_reduce_int64(r->ring, sum, 2, RING_SUM, deadline_in_ms(SECONDS)) < 0 ||
	    ring_all_reduce_int64(r->ring, &min, 1, RING_MIN, deadline_in_ms(SECONDS)) < 0 ||
	    ring_all_reduce_int64(r->ring, &max, 1, RING_MAX, deadline_in_ms(SECONDS)) < 0)
		return 1;
	if (world == 2 && sum[1] != -2)
		return 2; /* wraps around */
	return sum[0] != world * (world - 1) / 2 || min != 10 - (world - 1) || max != world - 1;
}

Test(ring_collective, int64_sum_min_and_max)
{
	check_worlds(reduce_int64);
}

static int reduce_double(struct rank *r)
{
	double x = 0.5 * (r->rank + 1);
	int world = r->all->world, rc = ring_all_reduce_double(r->ring, &x, 1, deadline_in_ms(SECONDS));

	return rc ? rc : x != 0.25 * world * (world + 1);
}

Test(ring_collective, double_sum)
{
	check_worlds(reduce_double);
}

static int too_large(struct rank *r)
{
	static char all[MAX_RANKS][RING_SMALL_BYTES + 1];
	static double values[RING_SMALL_BYTES / 8 + 1];

	if (ring_gather(r->ring, all, RING_SMALL_BYTES + 1, 0) != -EINVAL ||
	    ring_all_reduce_double(r->ring, values, RING_SMALL_BYTES / 8 + 1, 0) != -EINVAL)
		return 1;
	return ring_barrier(r->ring, deadline_in_ms(SECONDS)); /* still usable */
}

Test(ring_collective, too_large_a_gather_is_refused_without_harm)
{
	check_worlds(too_large);
}

/* Rank 0 enters late; nobody may leave before it has entered. */
static int late_barrier(struct rank *r)
{
	volatile int *entered = r->all->context;

	if (r->rank == 0) {
		struct timespec pause = {0, 50000000};

		nanosleep(&pause, NULL);
		__atomic_store_n(entered, 1, __ATOMIC_SEQ_CST);
	}
	int rc = ring_barrier(r->ring, deadline_in_ms(SECONDS));
	return rc ? rc : !__atomic_load_n(entered, __ATOMIC_SEQ_CST);
}

Test(ring_collective, barrier_waits_for_the_last_rank)
{
	for (int world = 1; world <= MAX_RANKS; world++) {
		int entered = 0;
		struct ranks ranks = {.context = &entered};

		ranks_run(&ranks, world, late_barrier);
		for (int i = 0; i < world; i++)
			cr_assert_eq(ranks.rank[i].result, 0);
	}
}

static int count_collectives(struct rank *r)
{
	for (int i = 0; i < 10; i++)
		if (ring_barrier(r->ring, deadline_in_ms(SECONDS)) < 0)
			return -1;
	return (int)ring_sequence(r->ring);
}

Test(ring_collective, sequence_counts_collectives)
{
	struct ranks ranks = {0};

	ranks_run(&ranks, 3, count_collectives);
	cr_assert_eq(ranks.rank[2].result, 10);
}
