#include "store/disk/disk.h"

#include <string.h>

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
	if (!fault->rc || now >= fault->until || !is_hit(op, fault->rc))
		return 0;
	fault->hits++;
	return fault->rc;
}

uint64_t disk_fault_due(struct disk_fault *fault, uint64_t now)
{
	if (!fault->delay || now >= fault->until)
		return 0;
	fault->hits++;
	return now + min_u64(fault->delay, fault->until - now);
}

/* Only what stands in a checkpoint's directory is read back. What is longer than a block may end in padding that is cut off. */
bool disk_fault_byte(const struct disk_fault *fault, const struct disk_op *op, const char *file, uint64_t now,
		     uint64_t *at)
{
	if (!fault->corrupts || fault->hits || now >= fault->until || op->kind != DISK_WRITE || !op->len ||
	    op->result < 0 || !strstr(file, "step-"))
		return false;
	*at = op->len > DISK_ALIGN ? op->len / 2 : 0;
	return true;
}
