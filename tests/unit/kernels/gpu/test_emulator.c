/* The emulator of kernels: what a GPU does it does, and what would be wrong on a GPU shows. */
#include "probe.h"

#include "../../../cuda/emulator.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>

#include <signal.h>
#include <stdbool.h>
#include <string.h>

Test(emulator, each_thread_of_each_block_runs_once)
{
	uint32_t out[700] = {0};
	cr_assert_eq(probe_count(3, 256, out, 700), 0);
	cr_assert_eq(probe_count(700, 1, out, 700), 0);
	for (int i = 0; i < 700; i++)
		cr_assert_eq(out[i], 2u, "thread %d", i);
}

Test(emulator, barriers_shuffles_and_atomics_add_up)
{
	uint32_t words[10000];
	uint64_t want = 0;
	for (uint32_t i = 0; i < 10000; i++)
		want += words[i] = i * 2654435761u;
	for (uint64_t seed = 0; seed < 20; seed++) {
		unsigned long long sum = 0;
		emulator_seed(seed);
		cr_assert_eq(probe_sum(5, 256, words, 10000, &sum), 0);
		cr_assert_eq(sum, want, "seed %lu", seed);
	}
}

Test(emulator, a_missing_barrier_shows)
{
	uint32_t words[64];
	int wrong = 0;
	for (uint64_t seed = 0; seed < 40; seed++) {
		bool barrier = seed % 2;
		emulator_seed(seed);
		for (uint32_t i = 0; i < 64; i++)
			words[i] = i;
		cr_assert_eq(probe_reverse(64, words, barrier), 0);
		for (uint32_t i = 0; i < 64; i++) {
			cr_assert(!barrier || words[i] == 63 - i);
			wrong += words[i] != 63 - i;
		}
	}
	cr_assert_gt(wrong, 0);
}

Test(emulator, shuffles_are_those_of_cuda)
{
	uint32_t words[32], out[32][5], odd = 0;
	for (uint32_t i = 0; i < 32; i++) {
		words[i] = i * i + 1000;
		odd |= (words[i] & 1) << i;
	}
	for (int width = 8; width <= 32; width *= 2) {
		cr_assert_eq(probe_lanes(words, out[0], width), 0);
		for (int i = 0; i < 32; i++) {
			int first = i - i % width;
			cr_assert_eq(out[i][0], words[first + i * 7 % width]);
			cr_assert_eq(out[i][1], words[i ^ 5]);
			cr_assert_eq(out[i][2], words[i - 3 < first ? i : i - 3]);
			cr_assert_eq(out[i][3], words[i + 3 >= first + width ? i : i + 3]);
			cr_assert_eq(out[i][4], odd);
		}
	}
}

Test(emulator, parts_of_a_warp_meet_by_themselves)
{
	uint32_t out[32];
	cr_assert_eq(probe_halves(out), 0);
	for (uint32_t i = 1; i < 32; i++)
		cr_assert_eq(out[i], i < 16 ? 100 + (i ^ 1) : 200);
	cr_assert_eq(out[0], 301u);
}

Test(emulator, blocks_come_in_the_order_of_the_seed)
{
	uint32_t order[2][101] = {{0}}, seen[100] = {0};
	int differ = 0;
	for (uint64_t seed = 0; seed < 10; seed++) {
		memset(order[seed % 2], 0, sizeof(order[0]));
		emulator_seed(seed);
		cr_assert_eq(probe_order(100, order[seed % 2]), 0);
		differ += memcmp(order[0], order[1], sizeof(order[0])) != 0;
	}
	cr_assert_gt(differ, 5);
	for (int i = 1; i <= 100; i++)
		seen[order[0][i]]++;
	for (int i = 0; i < 100; i++)
		cr_assert_eq(seen[i], 1u);
	cr_assert_eq(emulator_launches(), 1u);
}

Test(emulator, a_launch_that_no_gpu_takes_is_refused)
{
	uint32_t none;
	cr_assert_eq(probe_too_many_threads(), 9);
	cr_assert_eq(probe_count(0, 32, &none, 0), 9);
}

Test(emulator, a_barrier_that_a_thread_does_not_come_to_ends_the_program, .signal = SIGABRT)
{
	cr_redirect_stderr();
	probe_hang();
}

Test(emulator, a_shuffle_from_a_lane_that_is_not_there_ends_the_program, .signal = SIGABRT)
{
	cr_redirect_stderr();
	probe_lost_lane();
}
