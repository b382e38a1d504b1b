/* Fabric: libfabric, loaded when the first net is opened whose copies go by RDMA. A node without them starts without it, and no
 * process has it that does not need it. Its dependency libinfinipath sets signal handlers. With these, a crash writes a file into
 * the working directory and ends like an error. */
#ifndef CKPTD_NET_FABRIC_H
#define CKPTD_NET_FABRIC_H

#include "base/err.h"

#include <rdma/fabric.h>

/* The calls that are symbols of the library; all others go through what these return. */
struct fabric {
	int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
		       const struct fi_info *hints, struct fi_info **info);
	void (*freeinfo)(struct fi_info *info);
	struct fi_info *(*dupinfo)(const struct fi_info *info); /* NULL: an empty one */
	int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
	const char *(*strerror)(int code);
};

/* Loads it once; it stays until the process ends. -ENOPKG: it is not installed. Not thread-safe. */
int fabric_load(const struct fabric **out, struct err *err);
/* In words; 0 or a negative code of libfabric. Only after fabric_load. */
const char *fabric_error(int rc);

#endif
