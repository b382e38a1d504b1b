/* A training loop with checkpoints: plain gradient descent with momentum towards a target, no framework, no communication. Every
 * rank computes the same; the parameters are replicated, each rank keeps its share of the momentum.
 *
 *	cc train.c $(pkg-config --cflags --libs ckpt) -o train
 *	ckptd --store /data/checkpoints &
 *	ckpt run --ranks 4 -- ./train 1000
 *
 * Another number after that: the loss of this step is no number, to see the way back to a healthy checkpoint. */
#include <ckpt.h>

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 1 << 16, MEMORY_EVERY = 10, STORAGE_EVERY = 100, GOOD_STEPS = 5 };

struct state {
	float parameters[N];
	float momentum[N];
	uint64_t step;
	uint64_t entered; /* the step that this epoch began with: earlier saves are of other epochs */
};

static int die(const ckpt *s, const char *what, int rc)
{
	fprintf(stderr, "%s: %s (%d)\n", what, ckpt_error(s), rc);
	exit(1);
}

/* Before ckpt_join: what this rank holds and where it stands. Once, and again when it has become another rank. */
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

/* Each rank has told the others in ckpt_join whether it goes back to what is healthy: one of them may have been called out of its step before it
 * found the loss bad. Ranks that have collectives agree there, and tell the addresses at which they listen here. */
static bool somebody_goes_back(const ckpt_view *view)
{
	bool back = false;
	for (int r = 0; r < view->world; r++)
		back |= view->addresses[r * CKPT_ADDRESS_MAX];
	return back;
}

/* At the start, and again whenever a call says -ESTALE: a rank was lost, all meet in a new epoch and go back to the newest state.
 * -EREMCHG: there are more or fewer ranks from now on, and this one may have another number. */
static void meet(ckpt *s, struct state *st, bool back)
{
	ckpt_restored from = CKPT_INIT(ckpt_restored);
	const ckpt_view *view;
	int rc;
	do {
		rc = ckpt_join(s, &back, sizeof(back), &view, -1);
		if (rc == -EREMCHG)
			register_state(s, st);
		if (!rc)
			rc = ckpt_restore(s, somebody_goes_back(view) ? CKPT_LATEST_HEALTHY : CKPT_LATEST, NULL, &from,
					  -1);
	} while (rc == -ESTALE || rc == -EREMCHG);
	if (rc == -ENOENT)
		memset(st, 0, sizeof(*st)); /* there is nothing to go on from: a fresh start */
	else if (rc)
		die(s, "restore", rc);
	st->entered = st->step;
	printf("rank %d of %d, epoch %u: step %llu\n", view->rank, view->world, view->epoch,
	       (unsigned long long)st->step);
}

/* Returns the loss. */
static float forward_and_backward(const struct state *st, float *gradient)
{
	float loss = 0;
	for (int i = 0; i < N; i++) {
		gradient[i] = st->parameters[i] - (float)i / N;
		loss += gradient[i] * gradient[i] / N;
	}
	return loss;
}

static void optimizer(struct state *st, const float *gradient)
{
	for (int i = 0; i < N; i++) {
		st->momentum[i] = 0.9f * st->momentum[i] + gradient[i];
		st->parameters[i] -= 0.1f * st->momentum[i];
	}
	st->step++;
}

/* The state of this save was good for some steps more: what training is to go back to, should it go wrong. It need not be on storage yet.
 * What cannot be told now may be told later, or left out: the next one will do. */
static void mark(ckpt *s, const struct state *st)
{
	uint64_t saved = st->step - GOOD_STEPS;
	if (st->step <= GOOD_STEPS || saved % STORAGE_EVERY != 0 || saved < st->entered)
		return;
	if (ckpt_mark(s, saved, 0, CKPT_HEALTHY, "good steps were made from it", 500))
		fprintf(stderr, "not marked: %s\n", ckpt_error(s));
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

/* One step. -ESTALE: the others went on to a new epoch; -EDOM: the state is no longer good, as all ranks find alike. */
static int train_step(ckpt *s, struct state *st, float *gradient, uint64_t *bad)
{
	int rc = 0;
	ckpt_snapshot *snap = save(s, st, &rc);
	ckpt_beat(s, st->step, CKPT_PHASE_FORWARD);
	/* The copy hides behind this: the state is only read. */
	float loss = forward_and_backward(st, gradient);
	if (st->step == *bad) {
		loss = NAN;
		*bad = UINT64_MAX;
	}
	ckpt_beat_loss(s, st->step, CKPT_PHASE_BACKWARD, loss, -1); /* the norm of the gradients is not known */
	if (!isfinite(loss)) {
		ckpt_snapshot_free(snap); /* without its fence it is never promoted */
		return -EDOM;
	}
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
	mark(s, st);
	optimizer(st, gradient);
	return 0;
}

/* The state at the end. 0, or why it is not safe. */
static int last_save(ckpt *s, const struct state *st)
{
	ckpt_snapshot *snap = NULL;
	int rc = ckpt_wait_slot(s, -1);
	if (!rc)
		rc = ckpt_begin(s, st->step, CKPT_STORAGE, NULL, &snap);
	if (!rc)
		rc = ckpt_fence(snap, NULL);
	if (!rc)
		rc = ckpt_wait(snap, CKPT_DURABLE, -1);
	if (rc)
		fprintf(stderr, "the last save: %s\n", ckpt_error(s));
	ckpt_snapshot_free(snap);
	return rc;
}

/* To the end, or until the operator asks the job to end. Ranks may see that at different steps: where they have collectives they agree. */
static int train(ckpt *s, struct state *st, float *gradient, uint64_t steps, uint64_t bad)
{
	int rc;
	do {
		while (st->step < steps && !ckpt_should_stop(s)) {
			rc = train_step(s, st, gradient, &bad);
			if (rc)
				meet(s, st, rc == -EDOM);
		}
		rc = st->step == steps ? last_save(s, st) : 0;
		if (rc == -ESTALE)
			meet(s, st, false);
	} while (rc == -ESTALE);
	return rc;
}

int main(int argc, char **argv)
{
	static struct state st;
	static float gradient[N];
	uint64_t steps = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000;
	uint64_t bad = argc > 2 ? strtoull(argv[2], NULL, 10) : UINT64_MAX;
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
	meet(s, &st, false);
	rc = train(s, &st, gradient, steps, bad);
	printf("parameter %d after step %llu: %.6f\n", N / 2, (unsigned long long)st.step, st.parameters[N / 2]);
	return ckpt_close(s) || rc ? 1 : 0;
}
