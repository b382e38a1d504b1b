/* A training loop with checkpoints: plain gradient descent with momentum towards a target, no framework, no communication. Every
 * rank computes the same; the parameters are replicated, each rank keeps its share of the momentum.
 *
 *	cc train.c $(pkg-config --cflags --libs ckpt) -o train
 *	ckptd --store /data/checkpoints &
 *	ckpt run --ranks 4 -- ./train 1000 */
#include <ckpt.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 1 << 16, MEMORY_EVERY = 10, STORAGE_EVERY = 100 };

struct state {
	float parameters[N];
	float momentum[N];
	uint64_t step;
};

static int die(const ckpt *s, const char *what, int rc)
{
	fprintf(stderr, "%s: %s (%d)\n", what, ckpt_error(s), rc);
	exit(1);
}

/* Once, before ckpt_join: what this rank holds and where it stands. */
static void register_state(ckpt *s, struct state *st)
{
	uint64_t shape[] = {N}, first = (uint64_t)N * ckpt_rank(s) / ckpt_world(s);
	uint64_t next = (uint64_t)N * (ckpt_rank(s) + 1) / ckpt_world(s);

	/* Whole on every rank, the same everywhere: kept once per node, written once per job. */
	ckpt_piece whole = {.data = st->parameters};
	ckpt_tensor parameters = CKPT_INIT(ckpt_tensor);
	parameters.name = "parameters";
	parameters.dtype = CKPT_F32;
	parameters.ndim = 1;
	parameters.shape = shape;
	parameters.pieces = &whole;
	parameters.npieces = 1;
	parameters.replica = "data-parallel";
	parameters.device = CKPT_HOST;

	/* A flat range per rank, as in ZeRO. Another world size restores it all the same. */
	ckpt_piece share = {.data = st->momentum + first, .start = first, .count = next - first};
	ckpt_tensor momentum = parameters;
	momentum.name = "momentum";
	momentum.group = "optimizer";
	momentum.pieces = &share;
	momentum.replica = NULL;

	int rc = ckpt_register_tensor(s, &parameters);
	if (!rc)
		rc = ckpt_register_tensor(s, &momentum);
	if (!rc)
		rc = ckpt_register_blob(s, "step", CKPT_SCOPE_JOB, &st->step, sizeof(st->step));
	if (rc)
		die(s, "register", rc);
}

/* At the start, and again whenever a call says -ESTALE: a rank was lost, all meet in a new epoch and go back to the newest state. */
static void meet(ckpt *s, struct state *st)
{
	ckpt_restored from = CKPT_INIT(ckpt_restored);
	const ckpt_view *view;
	int rc;
	do {
		rc = ckpt_join(s, NULL, 0, &view, -1);
		if (!rc)
			rc = ckpt_restore(s, CKPT_LATEST, NULL, &from, -1);
	} while (rc == -ESTALE);
	if (rc == -ENOENT)
		memset(st, 0, sizeof(*st)); /* nothing was saved yet: a fresh start */
	else if (rc)
		die(s, "restore", rc);
	printf("rank %d of %d, epoch %u: step %llu\n", view->rank, view->world, view->epoch,
	       (unsigned long long)st->step);
}

static void forward_and_backward(const struct state *st, float *gradient)
{
	for (int i = 0; i < N; i++)
		gradient[i] = st->parameters[i] - (float)i / N;
}

static void optimizer(struct state *st, const float *gradient)
{
	for (int i = 0; i < N; i++) {
		st->momentum[i] = 0.9f * st->momentum[i] + gradient[i];
		st->parameters[i] -= 0.1f * st->momentum[i];
	}
	st->step++;
}

/* Starts a save of the state as it is now. A save that cannot start is no reason to stop training. */
static ckpt_snapshot *save(ckpt *s, const struct state *st, int *rc)
{
	ckpt_snapshot *snap = NULL;
	ckpt_target target = st->step % STORAGE_EVERY == 0 ? CKPT_STORAGE : CKPT_MEMORY;
	if (st->step == 0 || st->step % MEMORY_EVERY != 0)
		return NULL;
	*rc = ckpt_begin(s, st->step, target, NULL, &snap);
	return snap;
}

/* One step; -ESTALE: the others went on to a new epoch. */
static int train_step(ckpt *s, struct state *st, float *gradient)
{
	int rc = 0;
	ckpt_snapshot *snap = save(s, st, &rc);
	ckpt_beat(s, st->step, CKPT_PHASE_FORWARD);
	/* The copy hides behind this: the state is only read. */
	forward_and_backward(st, gradient);
	/* From here on the state changes. */
	if (snap)
		rc = ckpt_fence(snap, NULL);
	/* Ranks of a real job are kept together by their collectives; these have none, and wait for each other here instead. */
	if (snap && !rc)
		rc = ckpt_wait(snap, CKPT_CAPTURED, -1);
	ckpt_snapshot_free(snap);
	if (rc == -ESTALE)
		return rc;
	if (rc)
		fprintf(stderr, "not saved: %s\n", ckpt_error(s));
	optimizer(st, gradient);
	return 0;
}

int main(int argc, char **argv)
{
	static struct state st;
	static float gradient[N];
	uint64_t steps = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000;
	char why[256];
	ckpt *s;

	printf("libckpt %s\n", ckpt_version());
	/* Job, rank, world and the daemon's socket come from the environment of the launcher. */
	int rc = ckpt_open(NULL, &s, why, sizeof(why));
	if (rc) {
		fprintf(stderr, "open: %s (%d)\n", why, rc);
		return 2;
	}
	register_state(s, &st);
	meet(s, &st);
	while (st.step < steps && !ckpt_should_stop(s))
		if (train_step(s, &st, gradient) == -ESTALE)
			meet(s, &st);
	printf("parameter %d after step %llu: %.6f\n", N / 2, (unsigned long long)st.step, st.parameters[N / 2]);
	return ckpt_close(s) ? 1 : 0;
}
