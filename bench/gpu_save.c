/* Saves of a training loop with its state on a GPU, to a daemon with a store: what a step costs while a capture and its persist run, and how long
 * it takes until a save is durable. Run under `ckpt run --store DIR -n 1`; for scripts/gpu-check, which compares it with
 * gpu_torch.py on the same disk. Prints its times for that, too.
 *
 * Between saves all of the state changes: what has not is neither copied nor written.
 *
 *   bench_gpu_save [GIB [SAVES [VALUES [SECONDS]]]]     VALUES: that the work goes over; SECONDS: of a step */
#include "shared/gpu_quantile.h"
#include "shared/gpu_state.h"
#include "shared/gpu_training.h"

#include <stdio.h>

enum { STEPS_ALONE = 5, STEPS_MAX = 1000, SAVES_MAX = 20 };

struct loop {
	struct gpu g;
	struct gpu_state state;
	struct gpu_training training;
	double with[STEPS_MAX];  /* what steps took while a save was under way */
	double alone[STEPS_MAX]; /* and as many without one, behind each save */
	size_t nwith, nalone;
	double step_s;
};

static void must(const struct loop *l, int rc, const char *what)
{
	gpu_state_must(&l->state, rc, what);
}

static double step_alone(struct loop *l)
{
	double steps[STEPS_ALONE];
	gpu_training_spread(&l->training, 2, l->step_s);
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
	gpu_state_fill(&l->g, &l->state, number);
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
			gpu_end("the save is not durable after 120 s");
	}
	must(l, ckpt_wait(snap, CKPT_DURABLE, -1), "save");
	*durable = gpu_seconds() - began;
	ckpt_snapshot_free(snap);
	while (l->nalone < l->nwith)
		l->alone[l->nalone++] = gpu_training_step(&l->training);
}

static void compare_steps(struct loop *l)
{
	static const struct {
		double q, most;
		const char *name;
	} quantiles[] = {{0.5, 1.01, "p50"}, {0.95, 1.02, "p95"}};
	char name[80];
	for (size_t i = 0; i < sizeof(quantiles) / sizeof(*quantiles); i++) {
		double q = quantiles[i].q, alone = gpu_quantile(l->alone, l->nalone, q);
		snprintf(name, sizeof(name), "step while a capture or its persist runs: %s", quantiles[i].name);
		gpu_figure(name, gpu_quantile(l->with, l->nwith, q) / alone, "of steps alone", quantiles[i].most, false,
			   "%zu steps alone: %s %.1f ms", l->nalone, quantiles[i].name, alone * 1e3);
	}
}

int main(int argc, char **argv)
{
	size_t bytes = gpu_argument_gib(argc, argv, 1, 20);
	int saves = (int)gpu_argument(argc, argv, 2, "SAVES", 3, 1, SAVES_MAX);
	uint64_t values = (uint64_t)gpu_argument(argc, argv, 3, "VALUES", GPU_VALUES, 256, 1e10);
	struct loop l = {.step_s = gpu_argument(argc, argv, 4, "SECONDS", 0.6, 0, 60), .g = gpu_open()};
	double blocked_sum = 0, durable_sum = 0;
	l.state = gpu_state_open(&l.g, bytes);
	l.training = gpu_training_make(&l.g, values);
	double alone = step_alone(&l);
	for (int i = 0; i <= saves; i++) { /* the first is not counted: graphs are recorded, files are new */
		double blocked, durable;
		save(&l, (uint64_t)i + 1, alone, &blocked, &durable);
		blocked_sum += i ? blocked : 0;
		durable_sum += i ? durable : 0;
	}
	compare_steps(&l);
	gpu_time("blocked", blocked_sum / saves);
	gpu_time("durable", durable_sum / saves);
	return ckpt_close(l.state.s) ? 1 : 0;
}
