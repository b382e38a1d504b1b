/* Opening a CUDA device: what there must be for it. */
#include "cuda_world.h"

#include <criterion/criterion.h>

#include <string.h>

Test(cuda_open, a_gpu_that_no_kernel_fits_is_refused_when_it_is_opened)
{
	struct cuda_world *w = cuda_world_memory(29);
	cuda_fake_no_image(w->fake);
	cr_assert_eq(device_cuda_open(cuda_fake_rt(w->fake), 0, &w->dev, &w->err), -ENODEV);
	cr_assert_str_eq(w->err.text,
			 "GPU 0: loading kernels: no kernel image is available for execution on the device "
			 "(its compute capability is 7.5; this build has kernels for 8.0 and newer)");
	cuda_world_free(w);
}

Test(cuda_open, a_missing_gpu_is_named)
{
	struct cuda_world *w = cuda_world_memory(11);
	cr_assert_eq(device_cuda_open(cuda_fake_rt(w->fake), FAKE_GPUS, &w->dev, &w->err), -ENODEV);
	cr_assert_str_eq(w->err.text, "there is no GPU 2: the driver shows 2");
	cr_assert_null(w->dev);
	cuda_world_free(w);
}

/* With a driver the answer is about the ordinal, without one about the driver: both are "no such device". */
Test(cuda_open, the_real_runtime_says_why_there_is_no_gpu)
{
	struct device *dev;
	struct err err = {""};
	if (!device_cuda()) {
		cr_assert_eq(device_cuda_ops.open(0, &dev, &err), -ENODEV);
		cr_assert(strstr(err.text, "without the CUDA toolkit"), "%s", err.text);
		return;
	}
	cr_assert_eq(device_cuda()->open(4096, &dev, &err), -ENODEV);
	cr_assert_null(dev);
	cr_assert_gt(strlen(err.text), 20u);
	cr_log_info("the real runtime says: %s", err.text);
}
