/* Memory errors: what the kernel's EDAC drivers have counted since they were loaded, over all memory controllers. */
#ifndef CKPTD_MACHINE_MEMORY_ERRORS_H
#define CKPTD_MACHINE_MEMORY_ERRORS_H

#include <stdint.h>

/* Below the root of sysfs. */
#define MEMORY_ERRORS_DIR "devices/system/edac/mc"

struct memory_errors {
	uint64_t corrected, uncorrected;
	unsigned controllers;
};

/* -ENOENT: the kernel counts none, as in most virtual machines. */
int memory_errors_read(const char *sysfs, struct memory_errors *out);

#endif
