/* The GPU's driver: whether it is there, and new enough for the CUDA toolkit of this build. Both libraries of the driver are loaded here
 * alone, so that this program starts without them; neither is made to touch a GPU. */
#include "operate/doctor.h"

#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

#ifndef CKPT_CUDA_TOOLKIT
#define CKPT_CUDA_TOOLKIT 0
#endif

enum { NVML_NO_ATTACH = 2 };

/* The first driver of a toolkit's major version runs all its minor ones. Source: NVIDIA's page "CUDA compatibility, minor version
 * compatibility"; docs/howto/check-a-gpu-machine.md has the link. */
static const struct need {
	unsigned major;
	const char *driver, *remedy;
} needs[] = {
	{12, "525", "Install NVIDIA's driver 525 or newer (570 for GPUs of compute capability 10.0 and 12.0)."},
	{13, "580", "Install NVIDIA's driver 580 or newer, or use a build of ckpt with CUDA 12.8, which needs 525."},
};
static const struct need unknown = {
	0, "that of this toolkit",
	"Install NVIDIA's driver of this CUDA toolkit or a newer one, or use a build of ckpt with an older toolkit."};

static const struct need *need_of(unsigned toolkit)
{
	for (size_t i = 0; i < sizeof(needs) / sizeof(*needs); i++)
		if (needs[i].major == toolkit / 1000)
			return &needs[i];
	return &unknown;
}

/* ---- what is there --------------------------------------------------------------------------------------------- */

static void *library(const char *name)
{
	return dlopen(name, RTLD_LAZY | RTLD_LOCAL);
}

static unsigned newest_cuda(void)
{
	int version = 0, (*ask)(int *) = NULL;
	void *driver = library("libcuda.so.1");
	if (driver)
		*(void **)&ask = dlsym(driver, "cuDriverGetVersion");
	int code = ask ? ask(&version) : 1;
	if (driver)
		dlclose(driver);
	return code || version < 0 ? 0 : (unsigned)version;
}

static void ask_version(void *nvml, char *dst, unsigned size)
{
	int (*init)(unsigned) = NULL, (*shut)(void) = NULL, (*version)(char *, unsigned) = NULL;
	*(void **)&init = dlsym(nvml, "nvmlInitWithFlags");
	*(void **)&shut = dlsym(nvml, "nvmlShutdown");
	*(void **)&version = dlsym(nvml, "nvmlSystemGetDriverVersion");
	if (!init || !shut || !version || init(NVML_NO_ATTACH))
		return;
	if (version(dst, size))
		*dst = 0;
	dst[size - 1] = 0;
	shut();
}

static void look(struct gpu_seen *seen)
{
	*seen = (struct gpu_seen){.device = !access("/dev/nvidiactl", F_OK),
				  .usable = !access("/dev/nvidiactl", R_OK | W_OK),
				  .cuda = newest_cuda()};
	void *nvml = seen->cuda ? library("libnvidia-ml.so.1") : NULL;
	if (!nvml)
		return;
	ask_version(nvml, seen->driver, sizeof(seen->driver));
	dlclose(nvml);
}

/* ---- what that means ------------------------------------------------------------------------------------------- */

static void judge_driver(struct doctor *d, const struct gpu_seen *seen, unsigned toolkit)
{
	const struct need *need = need_of(toolkit);
	bool old = seen->cuda / 1000 < toolkit / 1000;
	doctor_add(d, "gpu",
		   old            ? RESULT_DEGRADED
		   : seen->device ? RESULT_FINE
				  : RESULT_NOTE,
		   old ? "Ranks with state on a GPU cannot join: a driver runs no program of a later CUDA."
		       : "State is captured from host memory only.",
		   old ? need->remedy : "Give the container the NVIDIA devices.",
		   "driver %s for CUDA %u.%u; this build has CUDA %u.%u, and needs driver %s%s%s",
		   seen->driver[0] ? seen->driver : "of unknown version", seen->cuda / 1000, seen->cuda % 1000 / 10,
		   toolkit / 1000, toolkit % 1000 / 10, need->driver, need == &unknown ? "" : " or newer",
		   seen->device ? "" : "; /dev/nvidiactl is not there");
}

void doctor_gpu_judge(struct doctor *d, const struct gpu_seen *seen, unsigned toolkit)
{
	const char *mend = "Install the NVIDIA driver, and give the container its devices and libcuda.so.1.";
	if (seen->device && !seen->usable)
		doctor_add(d, "gpu", RESULT_DEGRADED,
			   "The device cannot be used by this user: ranks keep their state in host memory.",
			   "Let this user open the NVIDIA devices, in its container, too.",
			   "/dev/nvidiactl may not be opened");
	else if (!seen->cuda)
		doctor_add(d, "gpu", seen->device ? RESULT_DEGRADED : RESULT_NOTE,
			   "State is captured from host memory only.", mend, "%s",
			   seen->device ? "libcuda.so.1 does not load" : "none (/dev/nvidiactl is not there)");
	else if (!toolkit)
		doctor_add(d, "gpu", seen->device ? RESULT_DEGRADED : RESULT_NOTE,
			   "State is captured from host memory only.",
			   "Use a build of ckpt with CUDA: install the toolkit, then build again.",
			   "driver %s is there, and this build has no CUDA",
			   seen->driver[0] ? seen->driver : "of unknown version");
	else
		judge_driver(d, seen, toolkit);
}

void doctor_gpu(struct doctor *d)
{
	struct gpu_seen seen;
	look(&seen);
	doctor_gpu_judge(d, &seen, CKPT_CUDA_TOOLKIT);
}
