/* A rank whose state is on GPUs, played by the fake of the CUDA runtime: saves STEPS times, and behind each begin its optimiser overwrites the
 * tensor `weights`, on the training stream. "careful": behind the fence; "careless": before it, and the fence comes too late. The tensor
 * `base`, of a group of its own, is frozen: only the optimiser of every fourth step overwrites it, too, as it does weights. All have the
 * number of the step before in every byte.
 * "several": the same with the tensor `moments` on a second GPU, overwritten on its default stream, and `table` on the host; "several-careless":
 * only `moments` are overwritten before the fence.
 * "deviates": careful, with replicas of other ranks; rank 1 of them writes something else after step DEVIATION.
 * Prints a line for each step: its number, 0 or the negated errno of the wait for `durable`, and the sentence.
 * "restored": restores what "several" saved last, and prints whether it is what stood there when step STEPS was begun.
 *
 *   torn careful|careless|several|several-careless|restored|deviates STEPS */
#include "../../fake/cuda_fake.h"

#include "client/session/session.h"
#include "cuda/device_cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WEIGHTS = 3 << 20, BASE = 2 << 20, MOMENTS = 2 << 20, BIASES = 4096, THAWS = 4, CALLS_MAX = 64, DEVIATION = 5 };

static struct cuda_fake *fake;
static char weights[WEIGHTS], base[BASE], moments[MOMENTS], biases[BIASES], table[BIASES];
static int fills[CALLS_MAX];
static const char *replica; /* group of all tensors; NULL: none */

static int open_fake(int ordinal, struct device **out, struct err *err)
{
	return device_cuda_open(cuda_fake_rt(fake), ordinal, out, err);
}

static void overwrite(void *arg)
{
	int step = *(const int *)arg;
	memset(weights, step, WEIGHTS);
	if (step % THAWS == 0)
		memset(base, step, BASE);
}

static void overwrite_moments(void *arg)
{
	memset(moments, *(const int *)arg, MOMENTS);
}

static void must(ckpt *s, int rc, const char *what)
{
	if (rc == 0)
		return;
	fprintf(stderr, "%s: %d %s\n", what, rc, s ? ckpt_error(s) : "");
	exit(1);
}

static void add(ckpt *s, const char *name, const char *group, void *data, uint64_t bytes, int device)
{
	ckpt_piece piece = {.data = data};
	ckpt_tensor t = {.size = sizeof(t),
			 .name = name,
			 .dtype = CKPT_U8,
			 .ndim = 1,
			 .shape = &bytes,
			 .group = group,
			 .pieces = &piece,
			 .npieces = 1,
			 .replica = replica,
			 .device = device};
	must(s, ckpt_register_tensor(s, &t), "register");
}

static void update_weights(struct rt_stream *stream, int step)
{
	cuda_fake_call(fake, stream, overwrite, &fills[step]);
}

static void update_moments(int step)
{
	cuda_fake_select(fake, 1);
	cuda_fake_call(fake, NULL, overwrite_moments, &fills[step]);
	cuda_fake_select(fake, 0);
}

static void save(ckpt *s, struct rt_stream *stream, int step, bool careful, bool several)
{
	ckpt_snapshot *snap;
	/* The daemon gives the slots of failed saves back when nothing is copied into them any more. */
	must(s, ckpt_wait_slot(s, -1), "slot");
	must(s, ckpt_begin(s, (uint64_t)step, CKPT_STORAGE, stream, &snap), "begin");
	fills[step] = replica && step == DEVIATION && ckpt_rank(s) == 1 ? 77 : step;
	if (!careful && several)
		update_moments(step);
	else if (!careful)
		update_weights(stream, step);
	int rc = ckpt_fence(snap, stream);
	if (careful || several)
		update_weights(stream, step);
	if (careful && several)
		update_moments(step);
	if (several)
		memset(table, step, BIASES);
	if (!rc)
		rc = ckpt_wait(snap, CKPT_DURABLE, -1);
	printf("%d %d %s\n", step, rc, rc ? ckpt_error(s) : "");
	ckpt_snapshot_free(snap);
	cuda_fake_settle(fake);
}

static bool all(const char *bytes, size_t n, int are)
{
	for (size_t i = 0; i < n; i++)
		if (bytes[i] != are)
			return false;
	return true;
}

static void restored(ckpt *s, struct rt_stream *stream, int steps)
{
	ckpt_restored out = CKPT_INIT(ckpt_restored);
	must(s, ckpt_restore(s, CKPT_LATEST, stream, &out, -1), "restore");
	bool good = out.step == (uint64_t)steps && all(weights, WEIGHTS, steps - 1) &&
		    all(moments, MOMENTS, steps - 1) && all(base, BASE, (steps - 1) / THAWS * THAWS) &&
		    all(table, BIASES, steps - 1);
	printf("%s\n", good ? "the same" : "something else");
}

int main(int argc, char **argv)
{
	static struct device_ops ops;
	struct rt_stream *stream;
	ckpt *s;
	int steps = argc == 3 ? (int)strtol(argv[2], NULL, 10) : 0;
	if (steps < 1 || steps >= CALLS_MAX)
		return 2;
	bool reads = !strcmp(argv[1], "restored"), several = reads || !strncmp(argv[1], "several", 7);
	fake = cuda_fake_new(4);
	struct cuda_rt *rt = cuda_fake_rt(fake);
	stream = cuda_fake_stream(fake);
	must(NULL, ckpt_open(NULL, &s, NULL, 0), "open");
	ops = device_cuda_ops;
	ops.open = open_fake;
	s->layers.cuda = &ops;
	replica = strcmp(argv[1], "deviates") ? NULL : "all";
	add(s, "base", "base", base, BASE, 0);
	add(s, "biases", NULL, biases, BIASES, 0);
	add(s, "weights", NULL, weights, WEIGHTS, 0);
	if (several) {
		add(s, "moments", NULL, moments, MOMENTS, 1);
		add(s, "table", NULL, table, BIASES, CKPT_HOST);
	}
	must(s, ckpt_join(s, NULL, 0, NULL, -1), "join");
	if (reads)
		restored(s, stream, steps);
	for (int step = 1; step <= steps && !reads; step++)
		save(s, stream, step, !strstr(argv[1], "careless"), several);
	cuda_fake_settle(fake);
	(void)ckpt_close(s); /* it repeats the failures */
	rt->stream_destroy(rt, stream);
	cuda_fake_free(fake);
	return 0;
}
