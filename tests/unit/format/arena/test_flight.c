#include "format/arena/flight.h"
#include "format/tensor/dtype.h"

#include <criterion/criterion.h>
#include <string.h>

static struct arena_head head;

Test(flight, a_rank_that_has_said_nothing_has_no_heartbeat_and_no_collective)
{
	struct flight_view is;
	flight_look(&head, &is);
	cr_expect_eq(is.beat_ns, 0u);
	cr_expect_eq(is.since_ns, 0u);
	cr_expect_not(is.in_collective);
	cr_expect_str_eq(is.op, "");
}

Test(flight, what_the_rank_has_written_is_read)
{
	struct flight_view is;
	head.flight.beat_ns = 1000;
	head.flight.step = 41;
	head.flight.phase = 99;
	head.flight.in_collective = 1;
	head.flight.coll_seq = 7;
	head.flight.coll_bytes = 4096;
	head.flight.coll_since_ns = 900;
	flight_look(&head, &is);
	cr_expect_eq(is.beat_ns, 1000u);
	cr_expect_eq(is.step, 41u);
	cr_expect_eq(is.phase, 99u);
	cr_expect(is.in_collective);
	cr_expect_eq(is.collective, 7u);
	cr_expect_eq(is.bytes, 4096u);
	cr_expect_eq(is.since_ns, 900u);
}

Test(flight, a_type_is_of_the_collective_that_it_came_with_or_not_known)
{
	struct flight_view is;
	head.flight.coll_seq = 7;
	flight_look(&head, &is);
	cr_expect_eq(is.dtype, 0, "a library that knows of none");
	head.typed = arena_typed(7, DTYPE_BF16);
	flight_look(&head, &is);
	cr_expect_eq(is.dtype, DTYPE_BF16);
	head.flight.coll_seq = 8;
	flight_look(&head, &is);
	cr_expect_eq(is.dtype, 0, "it was of another one");
	head.typed = arena_typed(8, DTYPE_END);
	flight_look(&head, &is);
	cr_expect_eq(is.dtype, 0, "there is no such type");
}

Test(flight, a_name_is_printable_and_ends)
{
	struct flight_view is;
	memcpy(head.flight.coll_op, "all\nreduce_beyond", sizeof(head.flight.coll_op)); /* no NUL, and no text */
	flight_look(&head, &is);
	cr_expect_str_eq(is.op, "all?reduce_beyo");
	memset(head.flight.coll_op, 0xff, sizeof(head.flight.coll_op));
	flight_look(&head, &is);
	cr_expect_str_eq(is.op, "???????????????");
}

Test(flight, the_time_in_collectives_grows_while_it_is_in_one)
{
	head.waited.ns = 500;
	head.waited.seq = 6;
	head.flight.coll_since_ns = 900;
	struct flight_waited all = flight_waited(&head, 1000);
	cr_expect(all.ns == 500 && all.left == 3);
	head.flight.in_collective = 1;
	all = flight_waited(&head, 1000);
	cr_expect(all.ns == 600 && all.left == 3);
	cr_expect_eq(flight_waited(&head, 800).ns, 500u, "a clock that is behind");
	head.waited.seq = 7; /* it has died while it left */
	cr_expect_eq(flight_waited(&head, 1000).left, 3u);
}
