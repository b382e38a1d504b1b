/* Limits of writes on the simulated clock, with a disk that takes its time and a loop that comes late: over any two seconds within
 * 5% of the limit, each job its share, changes at once. Usage: sim_throttle [FIRST [COUNT]]. */
#include "base/bytes.h"
#include "base/clock.h"
#include "rng.h"
#include "runtime/rate_limit.h"
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WRITERS = 8, SEEDS = 40, WINDOW_MS = 2000, BLOCK = 4096 };

struct writer_sim {
	struct turn turn;
	struct run *run;
	int job;
	uint64_t busy_until; /* the disk has a piece; 0: it waits for its turn */
};

struct run {
	struct throttle throttle;
	uint64_t node_rate, job_rate[2];
	struct bucket buckets[2];
	struct writer_sim writers[WRITERS];
	uint64_t written[2];
};

static void goes(struct turn *turn)
{
	struct writer_sim *w = list_entry(turn, struct writer_sim, turn);
	SIM_CHECK(turn->bytes && turn->bytes % BLOCK == 0, "a piece of %lu bytes", (unsigned long)turn->bytes);
	w->run->written[w->job] += turn->bytes;
	w->busy_until = clock_now() + 1 + rng_below(world_rng(), 15 * CLOCK_NS_PER_MS);
}

static void ask(struct run *run, struct writer_sim *w)
{
	w->busy_until = 0;
	w->turn = (struct turn){.job = &run->buckets[w->job], .bytes = 1ull << 40, .go = goes};
	throttle_ask(&run->throttle, &w->turn);
}

/* Lets `ms` go by in turns of the loop that are late by up to 15 ms. */
static void go_on(struct run *run, uint64_t ms)
{
	uint64_t end = clock_now() + ms * CLOCK_NS_PER_MS;
	memset(run->written, 0, sizeof(run->written));
	while (clock_now() < end) {
		clock_advance(min_u64(end - clock_now(), rng_below(world_rng(), 15 * CLOCK_NS_PER_MS) + 1));
		throttle_pump(&run->throttle);
		for (int i = 0; i < WRITERS; i++)
			if (run->writers[i].busy_until && run->writers[i].busy_until <= clock_now())
				ask(run, &run->writers[i]);
	}
}

static void expect(const char *what, uint64_t bytes, uint64_t rate)
{
	double share = (double)bytes / ((double)rate * WINDOW_MS / 1000);
	SIM_CHECK(share > 0.95 && share < 1.05, "%s: %.1f%% of the limit", what, 100 * share);
}

static uint64_t random_rate(void)
{
	return (1ull << 20) << rng_below(world_rng(), 11); /* 1 MiB/s to 1 GiB/s */
}

/* Seven writers of one job must not take the share of the one of the other. */
static void begin(struct run *run)
{
	memset(run, 0, sizeof(*run));
	run->node_rate = random_rate();
	throttle_init(&run->throttle, &run->node_rate);
	for (int j = 0; j < 2; j++)
		run->buckets[j].rate = &run->job_rate[j];
	for (int i = 0; i < WRITERS; i++) {
		run->writers[i] = (struct writer_sim){.run = run, .job = i == WRITERS - 1};
		ask(run, &run->writers[i]);
	}
}

static void one(uint64_t seed)
{
	struct run run;
	world_reset(seed);
	begin(&run);
	go_on(&run, WINDOW_MS);
	expect("the node", run.written[0] + run.written[1], run.node_rate);
	/* One of eight writers: an eighth, were all alike; it waits for the disk, too. */
	SIM_CHECK(run.written[1] * 20 > run.written[0], "a job of one writer got %lu of %lu",
		  (unsigned long)run.written[1], (unsigned long)(run.written[0] + run.written[1]));

	run.job_rate[0] = run.node_rate / 4;
	run.job_rate[1] = run.node_rate / 8;
	go_on(&run, 100); /* what was asked for under the old limits */
	go_on(&run, WINDOW_MS);
	expect("the first job", run.written[0], run.job_rate[0]);
	expect("the second job", run.written[1], run.job_rate[1]);

	run.job_rate[0] = run.job_rate[1] = 0;
	run.node_rate = random_rate();
	go_on(&run, 100);
	go_on(&run, WINDOW_MS);
	expect("the node after a change", run.written[0] + run.written[1], run.node_rate);

	run.node_rate = 0;
	go_on(&run, 20);
	SIM_CHECK(!throttle_waiting(&run.throttle), "somebody waits although nothing is limited");
	world_end();
}

int main(int argc, char **argv)
{
	uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : SEEDS;
	for (uint64_t seed = first; seed < first + count; seed++) {
		sim_context(seed, 0);
		one(seed);
	}
	printf("%lu seeds from %lu\n", (unsigned long)count, (unsigned long)first);
	return 0;
}
