/* Saves of a training loop with its state on a GPU, to a daemon with a store: what a step costs while a capture and its persist run, and how long
 * it takes until a save is durable. Run under `ckpt run --store DIR -n 1`; for scripts/gpu-check, which compares it with
 * gpu_torch.py on the same disk. Prints its times for that, too.
 *
 *   bench_gpu_save [GIB [SAVES]] */
#include "shared/gpu_load.h"
#include "shared/gpu_state.h"

#include <stdio.h>
#include <stdlib.h>

enum { BLOCKS = 1024, STEPS_ALONE = 5, SAVES_MAX = 20 };

struct loop {
	struct gpu g;
	struct gpu_state state;
	float *values;
	uint64_t nvalues;
	unsigned rounds;
};

static void must(const struct loop *l, int rc, const char *what)
{
	gpu_state_must(&l->state, rc, what);
}

static double step(struct loop *l)
{
	double began = gpu_seconds();
	gpu_check(&l->g, gpu_work(l->values, l->nvalues, l->rounds, BLOCKS, l->g.stream), "working");
	gpu_drain(&l->g, l->g.stream);
	return gpu_seconds() - began;
}

static double step_alone(struct loop *l)
{
	double best = 1e9;
	l->rounds = 4;
	step(l);
	l->rounds = (unsigned)(0.6 / (step(l) / l->rounds)) + 1;
	for (int i = 0; i < STEPS_ALONE; i++) {
		double t = step(l);
		best = t < best ? t : best;
	}
	return best;
}

/* Begin, steps until the save is durable, the fence after the first. The sum of what the steps took beyond their own time is what
 * the save blocked the training. */
static void save(struct loop *l, uint64_t number, double alone, double *blocked, double *durable, double *worst)
{
	ckpt_snapshot *snap;
	double began = gpu_seconds();
	must(l, ckpt_begin(l->state.s, number, CKPT_STORAGE, l->g.stream, &snap), "begin");
	*blocked = gpu_seconds() - began;
	*worst = 0;
	for (bool fenced = false;; fenced = true) {
		double before = gpu_seconds();
		step(l);
		if (!fenced)
			must(l, ckpt_fence(snap, l->g.stream), "fence");
		gpu_drain(&l->g, l->g.stream);
		double t = gpu_seconds() - before;
		*blocked += t > alone ? t - alone : 0;
		*worst = t / alone > *worst ? t / alone : *worst;
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

int main(int argc, char **argv)
{
	struct loop l = {.g = gpu_open()};
	size_t bytes = (size_t)((argc > 1 ? strtod(argv[1], NULL) : 20) * 1024) << 20;
	int saves = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 3;
	double blocked_sum = 0, durable_sum = 0, worst_of_all = 0;
	saves = saves < 1 || saves > SAVES_MAX ? 3 : saves;
	l.state = gpu_state_open(&l.g, bytes);
	l.nvalues = 1 << 28;
	l.values = gpu_memory(&l.g, l.nvalues * sizeof(float));
	double alone = step_alone(&l);
	for (int i = 0; i <= saves; i++) { /* the first is not counted: graphs are recorded, files are new */
		double blocked, durable, worst;
		save(&l, (uint64_t)i + 1, alone, &blocked, &durable, &worst);
		blocked_sum += i ? blocked : 0;
		durable_sum += i ? durable : 0;
		worst_of_all = i && worst > worst_of_all ? worst : worst_of_all;
	}
	gpu_figure("step time while a capture and its persist run", worst_of_all, "of a step alone, the worst", 1.02,
		   false, "a step alone: %.0f ms", alone * 1e3);
	printf("times\tblocked\t%.6f\n", blocked_sum / saves);
	printf("times\tdurable\t%.6f\n", durable_sum / saves);
	return ckpt_close(l.state.s) ? 1 : 0;
}
