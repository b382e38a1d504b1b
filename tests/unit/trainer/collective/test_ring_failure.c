/* How a ring fails: in time, with a name, and for good. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/deadline.h"
#include "trainer/ring_ranks.h"

static void pause_ms(int ms)
{
	struct timespec pause = {ms / 1000, ms % 1000 * 1000000L};

	nanosleep(&pause, NULL);
}

/* Rank 0 stays away; the others wait for it. */
static int wait_for_rank_0(struct rank *r)
{
	return r->rank ? ring_barrier(r->ring, deadline_in_ms(20000)) : 0;
}

Test(ring_failure, cancel_wakes_blocked_ranks_at_once)
{
	struct ranks ranks = {0};
	int64_t woken;

	ranks_listen(&ranks, 4);
	ranks_start(&ranks, 4, wait_for_rank_0);
	ranks_inside(&ranks, 4);
	pause_ms(50); /* to where they block; one that comes later finds it canceled */
	woken = monotonic_ns();
	cr_assert_eq(eventfd_write(ranks.cancel_fd, 1), 0);
	for (int i = 1; i < 4; i++)
		pthread_join(ranks.rank[i].thread, NULL);
	woken = monotonic_ns() - woken;
	pthread_join(ranks.rank[0].thread, NULL);
	for (int i = 1; i < 4; i++) {
		cr_assert_eq(ranks.rank[i].result, -ECANCELED, "rank %d: %s", i, ring_error(ranks.rank[i].ring));
		cr_assert_str_eq(ring_error(ranks.rank[i].ring), "canceled in barrier #1 of 0 bytes");
	}
	cr_assert_lt(woken, INT64_C(10000000000), "%lld ns", (long long)woken); /* of 20 s: the deadline woke nobody */
	ranks_free(&ranks);
}

static int enter_canceled(struct rank *r)
{
	eventfd_write(r->all->cancel_fd, 1);
	return ring_barrier(r->ring, deadline_in_ms(20000));
}

Test(ring_failure, canceled_ring_does_not_begin_a_collective)
{
	struct ranks ranks = {0};

	ranks_run(&ranks, 1, enter_canceled);
	cr_assert_eq(ranks.rank[0].result, -ECANCELED);
}

static int short_deadline(struct rank *r)
{
	return r->rank ? ring_barrier(r->ring, deadline_in_ms(r->rank == 1 ? 100 : 20000)) : 0;
}

Test(ring_failure, deadline_ends_a_wait_and_names_the_late_rank)
{
	struct ranks ranks = {0};

	ranks_listen(&ranks, 3);
	ranks_start(&ranks, 3, short_deadline);
	ranks_join(&ranks, 3);
	cr_assert_eq(ranks.rank[1].result, -ETIMEDOUT);
	cr_assert_str_eq(ring_error(ranks.rank[1].ring), "timed out waiting for rank 0 in barrier #1 of 0 bytes");
	cr_assert_geq(ranks.rank[1].took_ns, INT64_C(100000000));
	cr_assert_lt(ranks.rank[1].took_ns, INT64_C(10000000000));
	ranks_free(&ranks);
}

Test(ring_failure, failed_rank_takes_its_neighbours_along)
{
	struct ranks ranks = {0};

	ranks_listen(&ranks, 3);
	ranks_start(&ranks, 3, short_deadline);
	ranks_join(&ranks, 3);
	cr_assert_eq(ranks.rank[2].result, -EPIPE); /* had 20 s, but rank 1 gave up after 0.1 s */
	cr_assert_lt(ranks.rank[2].took_ns, INT64_C(10000000000));
	cr_assert_not_null(strstr(ring_error(ranks.rank[2].ring), "rank 1 has closed the connection"));
	ranks_free(&ranks);
}

static int fail_twice(struct rank *r)
{
	int64_t value = 1;
	int first = ring_barrier(r->ring, deadline_in_ms(r->rank == 0 ? 20 : 20000));

	if (r->rank == 1)
		return first;
	return ring_all_reduce_int64(r->ring, &value, 1, RING_SUM, deadline_in_ms(1000)) == first ? first : 0;
}

static int rank_1_is_away(struct rank *r)
{
	return r->rank == 1 ? 0 : fail_twice(r);
}

Test(ring_failure, first_error_is_final)
{
	struct ranks ranks = {0};

	ranks_run(&ranks, 2, rank_1_is_away);
	cr_assert_eq(ranks.rank[0].result, -ETIMEDOUT);
}

static int one_dies(struct rank *r)
{
	if (r->rank == 1) {
		ring_free(r->ring);
		r->ring = NULL;
		return 0;
	}
	return ring_barrier(r->ring, deadline_in_ms(20000));
}

Test(ring_failure, death_of_a_rank_is_seen_at_once)
{
	struct ranks ranks = {0};

	ranks_run(&ranks, 4, one_dies);
	for (int i = 0; i < 4; i++)
		if (i != 1) {
			cr_assert_eq(ranks.rank[i].result, -EPIPE);
			cr_assert_lt(ranks.rank[i].took_ns, INT64_C(10000000000)); /* of 20 s */
		}
}

/* Rank 0 and the others disagree about what comes next. At least one rank must say so, and none may hang. */
static int disagree(struct rank *r)
{
	static float data[MAX_RANKS][4000];

	if (r->rank == 0)
		return ring_all_gather(r->ring, data[0], 2000, deadline_in_ms(20000));
	return ring_all_reduce_sum(r->ring, data[r->rank], 4000, deadline_in_ms(20000));
}

Test(ring_failure, mismatch_is_found_and_named)
{
	struct ranks ranks = {0};
	int named = 0;

	ranks_listen(&ranks, 3);
	ranks_start(&ranks, 3, disagree);
	ranks_join(&ranks, 3);
	for (int i = 0; i < 3; i++) {
		const char *error = ring_error(ranks.rank[i].ring);

		cr_assert(ranks.rank[i].result == -EPROTO || ranks.rank[i].result == -EPIPE, "%s", error);
		named += strstr(error, "all_gather #1 of 8000 bytes of F32") &&
			 strstr(error, "all_reduce #1 of 16000 bytes of F32");
	}
	cr_assert_geq(named, 1);
	ranks_free(&ranks);
}

/* Same operation, number and bytes: rank 1 has numbers of another type. */
static int disagree_in_type(struct rank *r)
{
	static float data[MAX_RANKS][512];
	double values[256] = {0};

	if (r->rank == 1)
		return ring_all_reduce_double(r->ring, values, 256, deadline_in_ms(20000));
	return ring_all_reduce_sum(r->ring, data[r->rank], 512, deadline_in_ms(20000));
}

Test(ring_failure, another_type_alone_is_a_mismatch_and_named)
{
	struct ranks ranks = {0};
	int named = 0;

	ranks_listen(&ranks, 3);
	ranks_start(&ranks, 3, disagree_in_type);
	ranks_join(&ranks, 3);
	for (int i = 0; i < 3; i++) {
		const char *error = ring_error(ranks.rank[i].ring);

		cr_expect(ranks.rank[i].result == -EPROTO || ranks.rank[i].result == -EPIPE, "%s", error);
		named += strstr(error, "rank 1 is in all_reduce #1 of 2048 bytes of F64 (hop 0), rank 0 in all_reduce "
				       "#1 of 2048 bytes of F32 (hop 0)") ||
			 strstr(error, "rank 2 is in all_reduce #1 of 2048 bytes of F32 (hop 0), rank 1 in all_reduce "
				       "#1 of 2048 bytes of F64 (hop 0)");
	}
	cr_expect_geq(named, 1);
	ranks_free(&ranks);
}

static atomic_bool is_there;
static atomic_int early;

/* Rank 2 comes late, to what most are in. The others leave after it has come, so that it says who of them was wrong. */
static int disagree_before_one_comes(struct rank *r)
{
	static float data[MAX_RANKS][4000];
	int rc;

	if (r->rank == 2) {
		pause_ms(200);
		atomic_store(&is_there, true);
	}
	rc = r->rank == 0 ? ring_all_gather(r->ring, data[0], 2000, deadline_in_ms(20000))
			  : ring_all_reduce_sum(r->ring, data[r->rank], 4000, deadline_in_ms(20000));
	early += !atomic_load(&is_there);
	return rc;
}

Test(ring_failure, who_differs_stays_until_the_next_rank_has_come)
{
	struct ranks ranks = {0};

	ranks_listen(&ranks, 3);
	ranks_start(&ranks, 3, disagree_before_one_comes);
	ranks_join(&ranks, 3);
	cr_expect_eq(early, 0);
	for (int i = 0; i < 3; i++)
		cr_expect_lt(ranks.rank[i].took_ns, INT64_C(10000000000)); /* of 20 s */
	ranks_free(&ranks);
}

/* Each waits for the other to leave. */
static int both_differ(struct rank *r)
{
	static float data[MAX_RANKS][4000];

	if (r->rank == 0)
		return ring_all_gather(r->ring, data[0], 2000, deadline_in_ms(20000));
	return ring_all_reduce_sum(r->ring, data[1], 4000, deadline_in_ms(20000));
}

Test(ring_failure, two_that_differ_do_not_wait_for_each_other)
{
	struct ranks ranks = {0};

	ranks_listen(&ranks, 2);
	ranks_start(&ranks, 2, both_differ);
	ranks_join(&ranks, 2);
	for (int i = 0; i < 2; i++)
		cr_expect_lt(ranks.rank[i].took_ns, INT64_C(10000000000)); /* of 20 s */
	ranks_free(&ranks);
}

static int expired(struct rank *r)
{
	return r->rank == 0 ? ring_barrier(r->ring, monotonic_ns() - 1) : 0;
}

Test(ring_failure, expired_deadline_does_not_wait)
{
	struct ranks ranks = {0};

	ranks_run(&ranks, 2, expired);
	cr_assert_eq(ranks.rank[0].result, -ETIMEDOUT);
	cr_assert_lt(ranks.rank[0].took_ns, INT64_C(10000000000)); /* without a deadline it would wait for ever */
}
