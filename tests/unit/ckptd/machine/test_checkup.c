#include "machine/checkup.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MINUTE 60000000000ull

static struct checkup c;
static struct gpus_reading gpus;
static struct memory_errors memory;
static struct ailment found[CHECKUP_MAX];
static unsigned n;
static uint64_t now;

static void setup(void)
{
	c = (struct checkup){0};
	memory = (struct memory_errors){.controllers = 2};
	gpus = (struct gpus_reading){.n = 2};
	for (unsigned i = 0; i < 2; i++) {
		gpus.gpu[i] =
			(struct gpu){.full = true, .width = 16, .width_max = 16, .generation = 5, .generation_max = 5};
		snprintf(gpus.gpu[i].bus_id, GPU_BUS_MAX, "0000:%02u:00.0", i);
	}
	now = 1000 * MINUTE;
}

TestSuite(checkup, .init = setup);

/* A minute later the devices are looked at. */
static void look(void)
{
	now += MINUTE;
	checkup_asks_devices(&c, now);
	checkup_take_devices(&c, now, 0, &memory, &gpus);
}

static void probe(int rc, uint64_t ns)
{
	now += MINUTE;
	checkup_asks_disk(&c, now);
	checkup_take_disk(&c, &(struct disk_reading){.rc = rc, .ns = ns});
}

static const char *find(enum ailment_kind kind)
{
	n = checkup_find(&c, now, found);
	for (unsigned i = 0; i < n; i++)
		if (found[i].kind == kind)
			return found[i].text;
	return NULL;
}

Test(checkup, before_anything_is_read_nothing_is_wrong)
{
	cr_assert_eq(checkup_find(&c, now, found), 0u);
	look();
	probe(0, 5000000);
	cr_assert_eq(checkup_find(&c, now, found), 0u);
}

Test(checkup, one_uncorrected_memory_error_is_hard_and_stays)
{
	memory.uncorrected = 1;
	look();
	cr_assert_str_eq(find(AILMENT_MEMORY_UNCORRECTED),
			 "memory: 1 uncorrected error since the kernel began to count");
	cr_assert(ailment_is_hard(AILMENT_MEMORY_UNCORRECTED));
	for (int i = 0; i < 100; i++)
		look();
	cr_assert_not_null(find(AILMENT_MEMORY_UNCORRECTED));
}

Test(checkup, corrected_memory_errors_count_by_the_hour)
{
	memory.corrected = 5000; /* of a year */
	look();
	cr_assert_null(find(AILMENT_MEMORY_CORRECTED));
	memory.corrected += CHECKUP_CORRECTED - 1;
	look();
	cr_assert_null(find(AILMENT_MEMORY_CORRECTED));
	memory.corrected++;
	look();
	cr_assert_str_eq(find(AILMENT_MEMORY_CORRECTED), "memory: 100 errors were corrected within an hour");
	cr_assert(!ailment_is_hard(AILMENT_MEMORY_CORRECTED));
	for (int i = 0; i < 61; i++)
		look();
	cr_assert_null(find(AILMENT_MEMORY_CORRECTED));
}

Test(checkup, a_steady_drip_of_corrected_errors_is_ordinary)
{
	for (int i = 0; i < 600; i++) {
		memory.corrected++;
		look();
		cr_assert_null(find(AILMENT_MEMORY_CORRECTED));
	}
}

Test(checkup, counting_anew_is_no_flood_of_errors)
{
	memory.corrected = 5000;
	look();
	memory.corrected = 3;
	look();
	cr_assert_eq(checkup_find(&c, now, found), 0u);
}

Test(checkup, memory_of_which_nothing_is_known_is_not_judged)
{
	memory.uncorrected = 7;
	checkup_take_devices(&c, now, -ENOENT, &memory, &gpus);
	cr_assert_eq(checkup_find(&c, now, found), 0u);
}

Test(checkup, a_store_that_refuses_is_dead_until_it_takes_again)
{
	probe(-EIO, 0);
	cr_assert_str_eq(find(AILMENT_DISK_DEAD), "the store does not take a small file: Input/output error");
	cr_assert(ailment_is_hard(AILMENT_DISK_DEAD));
	probe(0, 1000);
	cr_assert_null(find(AILMENT_DISK_DEAD));
}

Test(checkup, a_full_store_is_not_dead)
{
	probe(-ENOSPC, 0);
	probe(-EDQUOT, 0);
	cr_assert_eq(checkup_find(&c, now, found), 0u);
}

Test(checkup, a_store_that_does_not_answer_is_dead)
{
	checkup_asks_disk(&c, now);
	now += CHECKUP_STUCK_NS - 1;
	cr_assert_null(find(AILMENT_DISK_DEAD));
	now++;
	cr_assert_str_eq(find(AILMENT_DISK_DEAD), "the store has not taken a small file for 60 s");
	checkup_take_disk(&c, &(struct disk_reading){.ns = CHECKUP_STUCK_NS});
	cr_assert_null(find(AILMENT_DISK_DEAD));
}

Test(checkup, the_disk_is_slow_when_it_is_again_and_again)
{
	probe(0, 30 * CHECKUP_SLOW_NS);
	probe(0, 2 * CHECKUP_SLOW_NS);
	cr_assert_null(find(AILMENT_DISK_SLOW));
	probe(0, 2 * CHECKUP_SLOW_NS);
	cr_assert_str_eq(find(AILMENT_DISK_SLOW), "the store takes 2.0 s for a small file, 3 times in a row");
	probe(0, 1000);
	cr_assert_null(find(AILMENT_DISK_SLOW));
	probe(0, 2 * CHECKUP_SLOW_NS);
	probe(0, 2 * CHECKUP_SLOW_NS);
	cr_assert_null(find(AILMENT_DISK_SLOW));
}

Test(checkup, a_gpu_that_is_lost_or_has_errors_is_hard)
{
	gpus.gpu[0].lost = true;
	gpus.gpu[1].uncorrected = 2;
	look();
	cr_assert_str_eq(find(AILMENT_GPU_LOST), "GPU 0 (0000:00:00.0) is lost: the driver does not find it");
	cr_assert_str_eq(find(AILMENT_GPU_ECC),
			 "GPU 1 (0000:01:00.0): 2 uncorrected ECC errors since the driver was loaded");
	cr_assert(ailment_is_hard(AILMENT_GPU_LOST) && ailment_is_hard(AILMENT_GPU_ECC));
	gpus.gpu[0].lost = false;
	gpus.gpu[0].reset = true;
	look();
	cr_assert_str_eq(find(AILMENT_GPU_LOST), "GPU 0 (0000:00:00.0) must be reset before it can be used again");
}

Test(checkup, a_driver_that_does_not_answer_is_hard)
{
	look();
	checkup_asks_devices(&c, now);
	now += CHECKUP_STUCK_NS;
	cr_assert_str_eq(find(AILMENT_GPU_LOST), "the driver of the GPUs has not answered for 60 s");
}

Test(checkup, an_xid_counts_for_an_hour)
{
	gpus.gpu[1].xid = 79;
	look();
	gpus.gpu[1].xid = 0;
	for (int i = 0; i < 60; i++)
		look();
	cr_assert_str_eq(find(AILMENT_GPU_XID), "GPU 1 (0000:01:00.0): the driver has reported XID 79");
	look();
	cr_assert_null(find(AILMENT_GPU_XID));
}

Test(checkup, a_hot_minute_is_not_told)
{
	gpus.gpu[0].slowed = true;
	look();
	look();
	gpus.gpu[0].slowed = false;
	look();
	gpus.gpu[0].slowed = true;
	look();
	look();
	cr_assert_null(find(AILMENT_GPU_SLOWED));
	look();
	cr_assert_not_null(find(AILMENT_GPU_SLOWED));
	cr_assert(!ailment_is_hard(AILMENT_GPU_SLOWED));
}

Test(checkup, a_link_may_rest_when_the_gpu_does)
{
	gpus.gpu[0].full = false;
	gpus.gpu[0].generation = 1;
	for (int i = 0; i < 5; i++)
		look();
	cr_assert_null(find(AILMENT_GPU_LINK));
	gpus.gpu[0].full = true;
	for (int i = 0; i < 3; i++)
		look();
	cr_assert_str_eq(find(AILMENT_GPU_LINK),
			 "GPU 0 (0000:00:00.0): its PCIe link has 16 lanes of generation 1, and "
			 "could have 16 of 5");
	gpus.gpu[0].full = false;
	gpus.gpu[0].width = 8;
	for (int i = 0; i < 3; i++)
		look();
	cr_assert_not_null(find(AILMENT_GPU_LINK), "fewer lanes do not come with rest");
}

Test(checkup, what_is_hard_comes_first_and_all_have_room)
{
	memory = (struct memory_errors){.uncorrected = 1, .controllers = 1};
	look();
	memory.corrected = 1000;
	gpus.n = GPU_MAX;
	for (unsigned i = 0; i < GPU_MAX; i++)
		gpus.gpu[i] = (struct gpu){
			.lost = true, .reset = true, .slowed = true, .uncorrected = 1, .xid = 79, .width_max = 16};
	for (int i = 0; i < 3; i++)
		look();
	probe(-EIO, 0);
	checkup_asks_devices(&c, now - CHECKUP_STUCK_NS);
	for (unsigned i = 0; i < PEER_CHECK_MAX * PEER_CHECK_ROW; i++) {
		char name[] = {(char)('a' + i % PEER_CHECK_MAX), 0};
		peer_check_take(&c.peers, now, name, i % PEER_CHECK_MAX ? 1 : MINUTE, (int64_t)MINUTE);
	}
	c.clock_limit_ns = 1;
	n = checkup_find(&c, now, found);
	cr_assert_eq(n, 6u * GPU_MAX + 6, "one node is far from all others");
	for (unsigned i = 1; i < n; i++)
		cr_assert_leq(found[i - 1].kind, found[i].kind);
}

Test(checkup, a_clock_is_off_when_that_is_sure)
{
	const uint64_t second = MINUTE / 60;
	c.clock_limit_ns = second;
	peer_check_take(&c.peers, now, "a", second, 1400000000);
	cr_assert_null(find(AILMENT_CLOCK), "it may be 0.9 s");
	peer_check_take(&c.peers, now, "a", second, 1600000000);
	cr_assert_str_eq(find(AILMENT_CLOCK), "the clock of this node is 1.600 s behind that of 1 other node");
	peer_check_take(&c.peers, now, "b", 0, 1600000000);
	cr_assert_str_eq(find(AILMENT_CLOCK),
			 "the clock of this node is 1.600 s behind that of 2 other nodes (median)");
	cr_assert(!ailment_is_hard(AILMENT_CLOCK));
	c.clock_limit_ns = 0;
	cr_assert_null(find(AILMENT_CLOCK), "it is not judged");
}

Test(checkup, a_clock_that_anybody_can_say_is_ahead_or_behind_at_most)
{
	c.clock_limit_ns = 1;
	peer_check_take(&c.peers, now, "a", UINT64_MAX, -INT64_MAX);
	cr_assert_null(find(AILMENT_CLOCK));
	peer_check_take(&c.peers, now, "a", 0, -INT64_MAX);
	cr_assert(strstr(find(AILMENT_CLOCK), " s ahead of that"), "%s", find(AILMENT_CLOCK));
}

Test(checkup, a_node_that_is_far_is_named)
{
	for (unsigned i = 0; i < PEER_CHECK_ROW; i++) {
		cr_assert_null(find(AILMENT_PEER_FAR));
		peer_check_take(&c.peers, now, "a", 200000, 0);
		peer_check_take(&c.peers, now, "b", 41000000, 0);
		peer_check_take(&c.peers, now, "c", 300000, 0);
	}
	cr_assert_str_eq(find(AILMENT_PEER_FAR), "a round trip to node b takes 41.0 ms, to the other nodes 0.3 ms");
	cr_assert(!ailment_is_hard(AILMENT_PEER_FAR));
}

Test(checkup, a_node_that_is_far_from_all_others_tells_of_itself)
{
	for (unsigned i = 0; i < PEER_CHECK_ROW; i++) {
		cr_assert_null(find(AILMENT_FAR));
		peer_check_take(&c.peers, now, "a", 40000000, 0);
		peer_check_take(&c.peers, now, "b", 41000000, 0);
	}
	cr_assert_str_eq(find(AILMENT_FAR),
			 "this node is far from all 2 others it asks: a round trip takes 40.0 ms at least");
	cr_assert(!ailment_is_hard(AILMENT_FAR));
	cr_assert_null(find(AILMENT_PEER_FAR));
}
