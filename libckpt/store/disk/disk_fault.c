#include "store/disk/disk.h"

/* On a full disk bytes cannot be added; on a broken one nothing can be made safe either. */
static bool is_hit(const struct disk_op *op, int rc)
{
	switch (op->kind) {
	case DISK_WRITE:
	case DISK_ALLOCATE:
	case DISK_MKDIR:
		return true;
	case DISK_FSYNC:
		return rc != -ENOSPC;
	default:
		return false;
	}
}

int disk_fault_of(struct disk_fault *fault, const struct disk_op *op, uint64_t now)
{
	if (now >= fault->until || !is_hit(op, fault->rc))
		return 0;
	fault->refusals++;
	return fault->rc;
}
