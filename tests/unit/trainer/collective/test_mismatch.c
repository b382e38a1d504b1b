#include "collective/mismatch.h"

#include <criterion/criterion.h>
#include <string.h>

static char text[MISMATCH_TEXT_SIZE];

static struct communicator_place at(uint32_t epoch, int rank, const char *op, uint64_t sequence)
{
	struct communicator_place place = {.epoch = epoch, .rank = rank, .sequence = sequence, .bytes = 64};

	memcpy(place.op, op, strnlen(op, sizeof(place.op)));
	return place;
}

/* It saw that its neighbour was elsewhere. */
static struct communicator_place saw(struct communicator_place place)
{
	place.mismatch = 1;
	return place;
}

Test(mismatch, the_one_of_many_is_named)
{
	const struct communicator_place all[] = {at(3, 0, "reduce_scatter", 7), saw(at(3, 1, "all_gather", 7)),
						 saw(at(3, 2, "reduce_scatter", 7))};

	cr_assert(mismatch_find(all, 3, text));
	cr_expect_str_eq(text,
			 "mismatch: rank 1 was in all_gather #7 of 64 bytes; 2 ranks in reduce_scatter #7 of 64 bytes");
}

Test(mismatch, one_with_another_type_is_named_with_both)
{
	struct communicator_place all[] = {at(3, 0, "gather", 7), saw(at(3, 1, "gather", 7)), at(3, 2, "gather", 7)};

	all[0].dtype = all[1].dtype = all[2].dtype = CKPT_F32;
	all[2].dtype = CKPT_F64;
	cr_assert(mismatch_find(all, 3, text));
	cr_expect_str_eq(text, "mismatch: rank 2 was in gather #7 of 64 bytes of F64; 2 ranks in gather #7 of 64 bytes "
			       "of F32");
}

Test(mismatch, all_who_are_elsewhere_are_named)
{
	const struct communicator_place all[] = {saw(at(3, 0, "gather", 7)), saw(at(3, 1, "barrier", 7)),
						 at(3, 2, "all_gather", 7), at(3, 3, "all_gather", 7),
						 at(3, 4, "all_gather", 7)};

	cr_assert(mismatch_find(all, 5, text));
	cr_expect_str_eq(text,
			 "mismatch: rank 0 was in gather #7 of 64 bytes, rank 1 in barrier #7 of 64 bytes; 3 ranks in "
			 "all_gather #7 of 64 bytes");
}

Test(mismatch, one_that_has_left_out_a_collective_is_named_by_its_number)
{
	const struct communicator_place all[] = {saw(at(3, 0, "all_gather", 7)), saw(at(3, 1, "all_gather", 8)),
						 at(3, 2, "all_gather", 7)};

	cr_assert(mismatch_find(all, 3, text));
	cr_expect(!strncmp(text, "mismatch: rank 1 was in all_gather #8 ", 38), "%s", text);
}

Test(mismatch, of_two_neither_can_be_told)
{
	const struct communicator_place all[] = {saw(at(3, 0, "all_gather", 7)), saw(at(3, 1, "barrier", 7))};

	cr_assert(mismatch_find(all, 2, text));
	cr_expect_str_eq(
		text,
		"mismatch: rank 0 was in all_gather #7 of 64 bytes, rank 1 in barrier #7 of 64 bytes; which of them "
		"is wrong cannot be told: no more than half agree");
}

Test(mismatch, who_is_late_or_was_elsewhere_in_time_is_not_counted)
{
	const struct communicator_place all[] = {
		saw(at(3, 0, "barrier", 7)), at(3, 1, "all_gather", 6), /* late */
		at(2, 2, "barrier", 7),      at(0, 3, "", 0),           /* of an epoch before; a new process */
		at(3, 4, "all_gather", 7),   saw(at(3, 5, "all_gather", 7)),
	};

	cr_assert(mismatch_find(all, 6, text));
	cr_expect_str_eq(text, "mismatch: rank 0 was in barrier #7 of 64 bytes; 2 ranks in all_gather #7 of 64 bytes");
}

Test(mismatch, the_newest_epoch_counts)
{
	const struct communicator_place all[] = {saw(at(2, 0, "barrier", 9)), saw(at(3, 1, "gather", 7)),
						 at(3, 2, "all_gather", 7), saw(at(3, 3, "all_gather", 7))};

	cr_assert(mismatch_find(all, 4, text));
	cr_expect(!strncmp(text, "mismatch: rank 1 was in gather #7 ", 34), "%s", text);
}

Test(mismatch, nobody_is_named_where_nobody_saw_a_difference)
{
	const struct communicator_place all[] = {at(3, 0, "barrier", 7), at(3, 1, "all_gather", 7),
						 at(3, 2, "all_gather", 7)};

	cr_expect_not(mismatch_find(all, 3, text));
	cr_expect_str_eq(text, "");
}
