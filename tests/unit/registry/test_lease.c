#include "registry/lease_private.h"

#include "base/clock.h"

#include <criterion/criterion.h>

#define MS CLOCK_NS_PER_MS
#define S CLOCK_NS_PER_S

static struct lease l;

static void grant(uint64_t sent, uint64_t now)
{
	l = lease_begin(5 * S);
	cr_assert_eq(lease_wants(&l, sent), LEASE_GRANT);
	lease_ask(&l, 7);
	cr_assert(lease_answered(&l, 7, 5 * S, sent, now));
}

Test(lease, whole_seconds)
{
	cr_assert_eq(lease_begin(2 * S).ttl_s, 2u);
	cr_assert_eq(lease_begin(2 * S + 1).ttl_s, 3u);
	cr_assert_eq(lease_margin(2 * S), 200 * MS);
	cr_assert_eq(lease_margin(5 * S), 500 * MS);
}

Test(lease, it_counts_from_when_it_was_sent)
{
	grant(10 * S, 11 * S);
	cr_assert_eq(l.state, LEASE_HELD);
	cr_assert_eq(l.until, 14 * S + 500 * MS);
	cr_assert_eq(lease_next(&l), 10 * S + 5 * S / 3);
	cr_assert_eq(lease_wants(&l, 11 * S), LEASE_REST);
	cr_assert_eq(lease_wants(&l, 12 * S), LEASE_RENEW);
	lease_ask(&l, 7);
	cr_assert_eq(lease_wants(&l, 13 * S), LEASE_REST);
	cr_assert(!lease_answered(&l, 7, 5 * S, 12 * S, 14 * S));
	cr_assert_eq(l.until, 16 * S + 500 * MS);
}

Test(lease, it_lapses_once_and_is_revoked_before_another_is_taken)
{
	grant(10 * S, 10 * S);
	cr_assert_eq(lease_left(&l, 14 * S), 500 * MS);
	cr_assert(!lease_look(&l, 14 * S + 500 * MS - 1));
	cr_assert_eq(lease_left(&l, 14 * S + 500 * MS), 0, "before anybody has looked");
	cr_assert(lease_look(&l, 14 * S + 500 * MS));
	cr_assert(!lease_look(&l, 20 * S));
	cr_assert_eq(l.state, LEASE_ENDED);
	cr_assert_eq(lease_wants(&l, 15 * S), LEASE_REVOKE);
	lease_ask(&l, l.id);
	lease_failed(&l, 7, 15 * S);
	cr_assert_eq(lease_wants(&l, 15 * S), LEASE_REST);
	cr_assert_eq(lease_wants(&l, 16 * S), LEASE_REVOKE);
	lease_ask(&l, l.id);
	lease_revoked(&l, 7, 16 * S);
	cr_assert_eq(lease_wants(&l, 16 * S), LEASE_GRANT);
}

Test(lease, a_renewal_that_comes_after_it_lapsed_brings_nothing_back)
{
	grant(10 * S, 10 * S);
	lease_ask(&l, 7);
	cr_assert(lease_look(&l, 15 * S));
	cr_assert(!lease_answered(&l, 7, 5 * S, 14 * S, 15 * S));
	cr_assert_eq(l.state, LEASE_ENDED);
	cr_assert_eq(lease_wants(&l, 15 * S), LEASE_REVOKE);
	lease_ask(&l, 7);
	cr_assert(!lease_answered(&l, 7, 5 * S, 14 * S,
				  15 * S)); /* the answer to the renewal, while the revocation is asked for */
	cr_assert_eq(l.state, LEASE_ENDED);
}

Test(lease, an_answer_that_took_longer_than_the_lease_is_none)
{
	l = lease_begin(2 * S);
	lease_ask(&l, 9);
	cr_assert(!lease_answered(&l, 9, 2 * S, 10 * S, 12 * S));
	cr_assert_eq(l.state, LEASE_ENDED);
	cr_assert_eq(l.id, 9u);
}

Test(lease, a_grant_without_an_answer_is_revoked_first)
{
	l = lease_begin(2 * S);
	lease_ask(&l, 9);
	lease_failed(&l, 9, 10 * S);
	cr_assert_eq(lease_wants(&l, 10 * S), LEASE_REST);
	cr_assert_eq(lease_wants(&l, 11 * S), LEASE_REVOKE);
	cr_assert_eq(l.id, 9u);
}

Test(lease, tries_that_fail_come_ever_more_rarely_and_the_lease_stays)
{
	grant(10 * S, 10 * S);
	uint64_t now = lease_next(&l), last = 0;
	for (unsigned i = 0; i < 6; i++) {
		cr_assert_eq(lease_wants(&l, now), LEASE_RENEW);
		lease_ask(&l, 7);
		lease_failed(&l, 7, now);
		cr_assert_geq(l.due - now, last);
		cr_assert_leq(l.due - now, S);
		last = l.due - now;
		now = l.due;
	}
	cr_assert_eq(last, S);
	cr_assert_eq(l.state, LEASE_HELD);
	cr_assert_eq(l.until, 14 * S + 500 * MS);
}

Test(lease, what_etcd_knows_no_more_has_lapsed)
{
	grant(10 * S, 10 * S);
	lease_ask(&l, 7);
	cr_assert(lease_lost(&l, 11 * S));
	cr_assert(!lease_lost(&l, 11 * S));
	cr_assert_eq(lease_wants(&l, 11 * S), LEASE_REVOKE);
}

Test(lease, what_etcd_says_of_its_time_counts)
{
	grant(10 * S, 10 * S);
	lease_ask(&l, 7);
	lease_answered(&l, 7, 2 * S, 11 * S, 11 * S);
	cr_assert_eq(l.until, 12 * S + 800 * MS);
}

Test(lease, answers_about_another_lease_do_not_count)
{
	grant(10 * S, 10 * S);
	lease_ask(&l, 7);
	cr_assert(!lease_answered(&l, 8, 5 * S, 12 * S, 12 * S));
	lease_failed(&l, 8, 12 * S);
	lease_revoked(&l, 8, 12 * S);
	cr_assert(l.asked);
	cr_assert_eq(l.until, 14 * S + 500 * MS);
}
