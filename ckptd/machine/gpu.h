/* GPU: what the driver's management library (NVML) tells of all GPUs of this machine. The library is taken at run time:
 * libnvidia-ml.so.1, or what CKPT_NVML_LIBRARY names. It creates no context on a GPU. Blocks, where the driver does: for
 * one thread that may. */
#ifndef CKPTD_MACHINE_GPU_H
#define CKPTD_MACHINE_GPU_H

#include <stdbool.h>
#include <stdint.h>

enum { GPU_MAX = 16, GPU_BUS_MAX = 32 };

/* What a GPU does not tell is as of one that is well. */
struct gpu {
	char bus_id[GPU_BUS_MAX];
	bool lost;            /* it is not on its bus any more, or answers nothing */
	bool reset;           /* it wants to be reset, and does no work before */
	bool full;            /* it runs at full performance: then its link does, too */
	bool slowed;          /* by heat or by its power supply, not by what it is allowed to draw */
	uint64_t uncorrected; /* ECC errors since the driver was loaded */
	unsigned width, width_max, generation, generation_max; /* of its PCIe link; max 0: not known */
	unsigned xid; /* the critical error of the hardware that the driver has reported since the last look; 0: none */
	uint64_t xids;   /* of these, since gpus_open() */
	uint64_t others; /* XIDs that a program can cause */
};

struct gpus;

/* NULL: no memory. The library is looked for by gpus_read(). */
struct gpus *gpus_open(void);
/* -ENOENT: there is no such library, or it has no GPU; -EIO: NVML cannot be asked. */
int gpus_read(struct gpus *gpus, struct gpu *out, unsigned *n);
void gpus_close(struct gpus *gpus);

/* An XID that tells of the hardware. */
bool gpu_xid_is_hard(uint64_t xid);

#endif
