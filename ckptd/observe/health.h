/* Health: what is wrong now, what that means, and what to do about it. Looked up on demand in what the daemon knows; nothing is asked
 * of the disk here. */
#ifndef CKPTD_OBSERVE_HEALTH_H
#define CKPTD_OBSERVE_HEALTH_H

#include "base/bytes.h"
#include "format/tensor/names.h"

struct observe;

enum health_code {
	HEALTH_STORE_MISSING = 0,
	HEALTH_STORE_READ_ONLY,
	HEALTH_STORE_FULL,
	HEALTH_STORE_FULL_SOON,
	HEALTH_SAVE_FAILING,
	HEALTH_NOT_VERIFIED,
	HEALTH_DAMAGED,
	HEALTH_RESTORE_FAILED,
	HEALTH_RANK_HUNG,
	HEALTH_RANKS_MISSING,
	HEALTH_COPIES_MISSING,
	HEALTH_COORDINATOR_AWAY,
	HEALTH_REGISTRY_AWAY,
	HEALTH_LOSS_NOT_FINITE,
	HEALTH_LOSS_DIVERGED,
	HEALTH_NODE_MEMORY_UNCORRECTED,
	HEALTH_NODE_DISK_DEAD,
	HEALTH_NODE_GPU_LOST,
	HEALTH_NODE_GPU_ECC,
	HEALTH_NODE_GPU_XID,
	HEALTH_STANDSTILL,
	HEALTH_STRAGGLER,
	HEALTH_LOSS_SPIKE,
	HEALTH_NODE_MEMORY_CORRECTED,
	HEALTH_NODE_DISK_SLOW,
	HEALTH_NODE_GPU_SLOWED,
	HEALTH_NODE_GPU_LINK,
	HEALTH_NODE_CLOCK,
	HEALTH_NODE_FAR,
	HEALTH_NODE_PEER_FAR,
	HEALTH_NODE_SET_ASIDE,
	HEALTH_MEMORY_FULL,
	HEALTH_NO_STORE,
	HEALTH_NO_HUGE_PAGES,
	HEALTH_MEMLOCK,
	HEALTH_IO_URING_FORBIDDEN,
	HEALTH_CODE_END
};

/* A notice costs speed or comfort and leaves the status as it is. Degraded: checkpoints are still made, or an older one is good.
 * Failing: what happens next is not saved, or a job stands still. */
enum health_severity { HEALTH_NOTICE = 0, HEALTH_DEGRADED, HEALTH_FAILING };

enum { HEALTH_MAX = 256, HEALTH_TEXT_MAX = 320 };

struct finding {
	enum health_code code;
	enum health_severity severity;
	char job[NAME_JOB_MAX]; /* "": of the whole daemon */
	char text[HEALTH_TEXT_MAX];
};

/* The worst first. Number of findings, at most max; *severity is the worst of them, HEALTH_NOTICE when there is none. */
unsigned health_find(struct observe *observe, struct finding *found, unsigned max, enum health_severity *severity);
const char *health_code_name(enum health_code code);
const char *health_remedy(enum health_code code);
const char *health_severity_name(enum health_severity severity);
/* Of the whole: "ok", "degraded", "failing". */
const char *health_status_name(enum health_severity severity);

/* The document of /healthz. 0 or -ENOMEM. */
int health_json(struct observe *observe, struct wbuf *out, enum health_severity *severity);

#endif
