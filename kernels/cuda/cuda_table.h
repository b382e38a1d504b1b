/* Spans in device memory, for the kernels. */
#ifndef CKPT_KERNELS_CUDA_TABLE_H
#define CKPT_KERNELS_CUDA_TABLE_H

#include "device_cuda.h"

struct cuda_table {
	struct gpu_table gpu; /* in the memory of the device; n 0: nothing is there */
	uint64_t units;
	void *memory;
};

/* The spans of a list (they are simplified), on the device's own stream: kernels of other streams may read it when this returns. The
 * device is entered. */
int cuda_table_init(struct device *dev, struct cuda_table *table, const struct span *spans, size_t n, struct err *err);
/* The same without the wait: for what comes on that stream. *filled is what it is copied from, to be freed when that has
 * been done; also after an error, when the table is to be freed, too. */
int cuda_table_start(struct device *dev, struct cuda_table *table, const struct span *spans, size_t n, void **filled,
		     struct err *err);
/* When nothing on any stream reads it any more but what is on the device's own. */
void cuda_table_free(struct device *dev, struct cuda_table *table);

#endif
