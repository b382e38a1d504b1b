/* Saves of a training loop with its state on a GPU, to a daemon with a store: what a step costs while a capture and its persist run, and how long
 * it takes until a save is durable. Run under `ckpt run --store DIR -n 1`; for scripts/gpu-check, which compares it with
 * gpu_torch.py on the same disk. Prints its times for that, too.
 *
 *   bench_gpu_save [GIB [SAVES]] */
#include "shared/gpu_state.h"
#include "shared/gpu_training.h"

#include <stdio.h>
#include <stdlib.h>

enum { STEPS_ALONE = 5, STEPS_MAX = 1000, SAVES_MAX = 20 };

struct loop {
	struct gpu g;
	struct gpu_state state;
	struct gpu_training training;
	double with[STEPS_MAX];  /* what steps took while a save was under way */
	double alone[STEPS_MAX]; /* and as many without one */
	size_t nwith;
};

static void must(const struct loop *l, int rc, const char *what)
{
	gpu_state_must(&l->state, rc, what);
}

static double step_alone(struct loop *l)
{
	double steps[STEPS_ALONE];
	gpu_training_spread(&l->training, 2, 0.6);
	for (int i = 0; i < STEPS_ALONE; i++)
		steps[i] = gpu_training_step(&l->training);
	return gpu_quantile(steps, STEPS_ALONE, 0.5);
}

/* Begin, steps until the save is durable, the fence after the first. The sum of what the steps took beyond their own time is what
 * the save blocked the training. */
static void save(struct loop *l, uint64_t number, double alone, double *blocked, double *durable)
{
	ckpt_snapshot *snap;
	struct rt_stream *stream = l->training.streams[0];
	double began = gpu_seconds();
	must(l, ckpt_begin(l->state.s, number, CKPT_STORAGE, stream, &snap), "begin");
	*blocked = 0;
	for (bool fenced = false;; fenced = true) {
		double before = fenced ? gpu_seconds() : began;
		gpu_training_start(&l->training);
		if (!fenced)
			must(l, ckpt_fence(snap, stream), "fence");
		gpu_training_drain(&l->training);
		double t = gpu_seconds() - before;
		*blocked += t > alone ? t - alone : 0;
		if (number > 1 && l->nwith < STEPS_MAX)
			l->with[l->nwith++] = t;
		int level = ckpt_poll(snap);
		must(l, level, "save");
		if (level >= CKPT_DURABLE)
			break;
		if (gpu_seconds() - began > 120)
			must(l, -1, "not durable after 120 s");
	}
	must(l, ckpt_wait(snap, CKPT_DURABLE, -1), "save");
	*durable = gpu_seconds() - began;
	ckpt_snapshot_free(snap);
}

static void compare_steps(struct loop *l)
{
	static const struct {
		double q, most;
		const char *name;
	} quantiles[] = {{0.5, 1.01, "p50"}, {0.95, 1.02, "p95"}};
	char name[80];
	for (size_t i = 0; i < l->nwith; i++)
		l->alone[i] = gpu_training_step(&l->training);
	for (size_t i = 0; i < sizeof(quantiles) / sizeof(*quantiles); i++) {
		double q = quantiles[i].q, alone = gpu_quantile(l->alone, l->nwith, q);
		snprintf(name, sizeof(name), "step while a capture or its persist runs: %s", quantiles[i].name);
		gpu_figure(name, gpu_quantile(l->with, l->nwith, q) / alone, "of steps alone", quantiles[i].most, false,
			   "%zu steps alone: %s %.1f ms", l->nwith, quantiles[i].name, alone * 1e3);
	}
}

int main(int argc, char **argv)
{
	struct loop l = {.g = gpu_open()};
	size_t bytes = (size_t)((argc > 1 ? strtod(argv[1], NULL) : 20) * 1024) << 20;
	int saves = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 3;
	double blocked_sum = 0, durable_sum = 0;
	saves = saves < 1 || saves > SAVES_MAX ? 3 : saves;
	l.state = gpu_state_open(&l.g, bytes);
	l.training = gpu_training_make(&l.g);
	double alone = step_alone(&l);
	for (int i = 0; i <= saves; i++) { /* the first is not counted: graphs are recorded, files are new */
		double blocked, durable;
		save(&l, (uint64_t)i + 1, alone, &blocked, &durable);
		blocked_sum += i ? blocked : 0;
		durable_sum += i ? durable : 0;
	}
	compare_steps(&l);
	printf("times\tblocked\t%.6f\n", blocked_sum / saves);
	printf("times\tdurable\t%.6f\n", durable_sum / saves);
	return ckpt_close(l.state.s) ? 1 : 0;
}
