/* The loop on a GPU: kernels in the emulator, cuBLAS, NCCL and libckpt as fakes. One rank, since the emulator has one thread. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/platform_cuda.h"
#include "loop/loop.h"
#include "trainer/fake_blas.h"
#include "trainer/fake_ckpt.h"
#include "trainer/fake_nccl.h"

static const struct nccl_table *nccl;
static struct timespec abort_takes;

static int open_gpu(struct platform **platform, char why[PLATFORM_WHY_SIZE])
{
	return platform_cuda_with(fake_blas(-1), nccl, 0, platform, why);
}

static int open_none(struct platform **platform, char why[PLATFORM_WHY_SIZE])
{
	*platform = NULL;
	snprintf(why, PLATFORM_WHY_SIZE, "there is no GPU here");
	return -ENODEV;
}

struct outcome {
	char last_words[LOOP_WHY_SIZE]; /* of the process that was lost first */
	struct loop_result result;
	int rc, lives, restores, collectives;
	char why[LOOP_WHY_SIZE];
};

static struct train_options small(void)
{
	struct train_options o;

	options_default(&o);
	o.steps = 4;
	o.batch = 2;
	o.model = (struct model_config){.layers = 1, .width = 8, .seq_len = 4, .heads = 2};
	o.memory_every = 2;
	o.storage_every = 0;
	o.world = 1;
	o.device = DEVICE_CUDA;
	o.open_gpu = open_gpu;
	return o;
}

static struct outcome run(struct train_options o, uint64_t kill_at)
{
	static struct fake_nccl fake;
	static struct fake_job job;
	struct outcome out = {.lives = 0};
	char error[DATA_ERROR_SIZE];
	volatile sig_atomic_t stop = 0;
	struct data *data;

	cr_assert_eq(data_load(NULL, 0, &data, error), 0, "%s", error);
	nccl = fake_nccl_start(&fake);
	fake.abort_takes = abort_takes;
	fake_start(&job, 1);
	if (kill_at)
		job.kills[job.kill_count++] = (struct fake_kill){.rank = 0, .step = kill_at};
	do {
		out.lives++;
		out.rc = loop_run(&o, data, &stop, &out.result, out.why);
		if (out.rc == -ECHILD || out.rc == -ENOTRECOVERABLE)
			fake_lost(&job, 0);
		if (out.rc == -ENOTRECOVERABLE)
			memcpy(out.last_words, out.why, sizeof(out.last_words));
		o.faults = NULL;
	} while ((out.rc == -ECHILD || out.rc == -ENOTRECOVERABLE) && out.lives < 4);
	out.restores = job.restores;
	out.collectives = (int)fake.largest;
	cr_assert_eq(job.torn, 0, "a capture was torn");
	fake_end(&job);
	fake_nccl_end(&fake);
	data_free(data);
	return out;
}

Test(loop_gpu, trains_and_goes_on_from_a_checkpoint_bit_for_bit)
{
	struct outcome whole = run(small(), 0), killed = run(small(), 2);

	cr_assert_eq(whole.rc, 0, "%s", whole.why);
	cr_assert_eq(whole.result.step, 4);
	cr_assert_gt(whole.collectives, 0, "gradients went over NCCL");
	cr_assert_eq(killed.rc, 0, "%s", killed.why);
	cr_assert_eq(killed.lives, 2);
	cr_assert_eq(killed.result.fingerprint, whole.result.fingerprint);
}

Test(loop_gpu, begins_with_the_parameters_of_the_host)
{
	struct train_options on_gpu = small(), on_host = small();
	struct outcome gpu, host;

	on_gpu.steps = on_host.steps = 1;
	on_host.device = DEVICE_HOST;
	gpu = run(on_gpu, 0);
	host = run(on_host, 0);
	cr_assert_eq(gpu.rc, 0, "%s", gpu.why);
	cr_assert_eq(host.rc, 0, "%s", host.why);
	cr_assert_eq(host.collectives, 0);
	cr_assert_float_eq(gpu.result.loss, host.result.loss, 0.01);
}

Test(loop_gpu, a_lost_device_costs_the_process)
{
	struct train_options o = small();
	struct outcome lost;

	o.faults = "device-lost@3";
	setenv("CKPT_NVML_LIBRARY", FAKE_NVML, 1);
	setenv("NVML_FAKE", "xid=79", 1);
	lost = run(o, 0);
	cr_assert_eq(lost.rc, 0, "%s", lost.why);
	cr_assert_eq(lost.lives, 2);
	cr_assert(strstr(lost.last_words, "; GPU 0 (0000:1B:00.0) is lost: XID 79"), "%s", lost.last_words);
	cr_assert_eq(lost.restores, 1);
	cr_assert_eq(lost.result.fingerprint, run(small(), 0).result.fingerprint);
}

Test(loop_gpu, without_a_gpu_the_host_computes_unless_one_is_asked_for)
{
	struct train_options o = small();
	struct outcome out;

	o.open_gpu = open_none;
	out = run(o, 0);
	cr_assert_eq(out.rc, -ENODEV);
	cr_assert_str_eq(out.why, "--device cuda: there is no GPU here");
	o.device = DEVICE_AUTO;
	out = run(o, 0);
	cr_assert_eq(out.rc, 0, "%s", out.why);
	o.device = DEVICE_CUDA;
	o.open_gpu = NULL;
	out = run(o, 0);
	cr_assert_str_eq(out.why, "--device cuda: this program was built without CUDA");
}

/* What is left out of them is state on the device: a run that was killed ends with the bits of one that was not. */
Test(loop_gpu, compressed_gradients_go_over_nccl_and_outlive_the_process)
{
	struct train_options o = small();
	struct outcome whole, killed;

	o.compress = COMPRESS_TOPK;
	o.steps = 5;
	whole = run(o, 0);
	killed = run(o, 4);
	cr_assert_eq(whole.rc, 0, "%s", whole.why);
	cr_assert_gt(whole.collectives, 0, "over NCCL");
	cr_assert_eq(killed.rc, 0, "%s", killed.why);
	cr_assert_eq(killed.lives, 2);
	cr_assert_eq(killed.restores, 1);
	cr_assert_eq(killed.result.fingerprint, whole.result.fingerprint);
	o.compress = COMPRESS_NONE;
	cr_assert_neq(whole.result.fingerprint, run(o, 0).result.fingerprint);
}

/* As it does on a GPU. While it is waited for the session is told, which at the end of a run is closed. */
Test(loop_gpu, an_abort_that_takes_its_time_ends_the_run_and_no_process)
{
	struct outcome out;

	abort_takes.tv_nsec = 250000000;
	out = run(small(), 0);
	cr_assert_eq(out.rc, 0, "%s", out.why);
	cr_assert_eq(out.lives, 1);
	cr_assert_eq(out.result.step, 4);
}
