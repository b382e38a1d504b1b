/*
 * What the driver's management library (NVML) knows of a device that has failed. It tells whether the device is gone,
 * wants a reset, or is well, so that only the context of one process was lost. And it tells the last critical error (XID)
 * that the driver reported of it. The library is taken at run time; without it nothing is lost but what it would have
 * said.
 */
#ifndef CKPT_TRAINER_NVML_H
#define CKPT_TRAINER_NVML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nvml;

/*
 * Begins to watch the device of this place on the bus. libnvidia-ml.so.1, or what CKPT_NVML_LIBRARY names; why it cannot
 * be had is told by nvml_explain(). NULL: no memory.
 */
struct nvml *nvml_open(int ordinal, const char *bus_id);

/*
 * "GPU 3 (0000:1b:00.0) is lost: XID 79". lost: it is to be taken for lost whatever NVML says. Whoever hangs in the
 * driver is not waited for after the deadline; then the struct must stay for the rest of the process's life. NULL is
 * allowed: says nothing.
 */
void nvml_explain(struct nvml *nvml, bool lost, int64_t deadline, char *text, size_t size);

/* Not after an nvml_explain() that came to its deadline. */
void nvml_close(struct nvml *nvml);

#endif
