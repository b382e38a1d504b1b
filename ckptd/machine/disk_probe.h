/* Disk probe: how long the store takes for a small file: made, written, on its disk, and removed again. By system calls,
 * not by the disk engine: what is measured is the machine, and not what waits in the engine. Blocks; for a thread that
 * may. */
#ifndef CKPTD_MACHINE_DISK_PROBE_H
#define CKPTD_MACHINE_DISK_PROBE_H

#include <stdint.h>

enum { DISK_PROBE_BYTES = 4096 };

/* The file is `store`/.check-`node`: what a daemon that was killed has left of it is removed first. 0 or -errno. */
int disk_probe(const char *store, const char *node, uint64_t *ns);

#endif
