#include "report/report_match.h"

#include "base/bytes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* What ranks say when they leave an epoch (trainer/loop/loop_train.c, trainer/collective/ring_exchange.c). */
#define LOSS_TEXT "the loss of step"
#define REPLICAS_TEXT "replicas differ"
#define MISMATCH_TEXT "mismatch: "

static const enum trace traces[FAULT_KIND_END] = {
	[FAULT_KILL] = BY_LOSS,
	[FAULT_STOP] = BY_HANG,
	[FAULT_ABORT] = BY_LOSS,
	[FAULT_KILL_DAEMON] = BY_DAEMON,
	[FAULT_RESTART_DAEMON] = BY_DAEMON,
	[FAULT_TRAP] = BY_LOSS,
	[FAULT_ILLEGAL_ADDRESS] = BY_LOSS,
	[FAULT_NEVER_ENDS] = BY_LOSS,
	[FAULT_DEVICE_LOST] = BY_LOSS,
	[FAULT_ECC] = BY_LOSS,
	[FAULT_ABSENT] = BY_HANG,
	[FAULT_MISMATCH] = BY_MISMATCH,
	[FAULT_NAN] = BY_LOSS_VALUE,
	[FAULT_FLIP] = BY_REPLICAS,
	[FAULT_SLOW] = BY_LATENESS,
	[FAULT_LOSS_SPIKE] = BY_MONITOR,
	[FAULT_EXIT_EARLY] = BY_LOSS,
	[FAULT_STOP_DAEMON] = BY_DAEMON,
	[FAULT_FLIP_ARENA] = BY_READING,
	[FAULT_FLIP_REPLICA] = BY_READING,
	[FAULT_FLIP_FILE] = BY_READING,
	[FAULT_FLIP_MANIFEST] = BY_READING,
	[FAULT_FLIP_SIDECAR] = BY_READING,
	[FAULT_DISK_FULL] = BY_SAVE,
	[FAULT_DISK_EIO] = BY_SAVE,
	[FAULT_DISK_READ_ONLY] = BY_SAVE,
	[FAULT_DISK_STALL] = BY_WAITING,
	[FAULT_DISK_SLOW] = BY_WAITING,
	[FAULT_DISK_CORRUPT] = BY_READING,
	[FAULT_DRAIN] = BY_DRAIN,
	[FAULT_KILL_NODE] = BY_NODE,
	[FAULT_LINK_DOWN] = BY_NETWORK,
	[FAULT_ONE_WAY] = BY_NETWORK,
	[FAULT_PARTITION] = BY_NETWORK,
	[FAULT_LINK_SLOW] = BY_NETWORK,
	[FAULT_LINK_LOSS] = BY_NETWORK,
	[FAULT_LINK_DELAY] = BY_NETWORK,
	[FAULT_REBOOT] = BY_NODE,
	[FAULT_POWER_CUT] = BY_NODE,
};

const char *report_end_name(enum report_end end)
{
	static const char *const names[] = {"unseen", "not-fired", "overtaken", "found", "recovered"};
	return names[end];
}

bool report_names_cause(const char *text)
{
	return strstr(text, LOSS_TEXT) || strstr(text, REPLICAS_TEXT) || strstr(text, MISMATCH_TEXT);
}

enum trace report_trace_of(const struct report_fault *f)
{
	return f->entry ? traces[f->entry->kind] : BY_NOTHING;
}

uint64_t report_outcome_at(const struct report_fault *f)
{
	return f->at + (uint64_t)(f->fired_ms > 0 ? fmin(f->fired_ms, LONGEST_MS) * 1e6 : 0);
}

void report_found(struct report_fault *f, const char *by, uint64_t at, const char *text)
{
	f->found_by = by;
	f->found = at ? max_u64(at, f->at) : 0;
	snprintf(f->found_text, sizeof(f->found_text), "%s", text);
	f->end = REPORT_FOUND;
}

/* "rank 1 joins" begins in the same way. */
static bool names_lost(const char *reason, uint32_t rank)
{
	unsigned is = 0;
	int n = 0;
	return sscanf(reason, "rank %u is lost%n", &is, &n) == 1 && n && is == rank;
}

static bool was_replaced(const struct report_recovery *one, uint32_t rank)
{
	return names_lost(one->reason, rank) || (rank < REPORT_RANKS_MAX && one->fresh >> rank & 1);
}

/* As the other nodes say it: "node node-1 is lost: …". */
static bool names_lost_node(const char *reason, uint32_t node)
{
	unsigned is = 0;
	int n = 0;
	return sscanf(reason, "node node-%u is lost%n", &is, &n) == 1 && n && is == node;
}

/* Of a job whose coordinator is there again: "6 ranks begin". */
static bool begins_anew(const char *reason)
{
	int n = 0;
	return sscanf(reason, "%*u ranks begin%n", &n) == 0 && n;
}

bool report_fits(const struct report_fault *f, const struct report_recovery *one)
{
	switch (report_trace_of(f)) {
	case BY_LOSS:
	case BY_HANG:
		return was_replaced(one, f->rank);
	case BY_LOSS_VALUE:
		return strstr(one->left, LOSS_TEXT);
	case BY_REPLICAS:
		return strstr(one->left, REPLICAS_TEXT);
	case BY_MISMATCH:
		return strstr(one->left, MISMATCH_TEXT);
	case BY_NODE:
		return names_lost_node(one->reason, f->node) || (f->ranks && (one->fresh & f->ranks) == f->ranks);
	case BY_NETWORK:
		return one->seen <= report_outcome_at(f);
	case BY_DRAIN:
		return strstr(one->reason, "drain");
	case BY_DAEMON:
		return strstr(one->reason, "daemon") || names_lost_node(one->reason, f->node) ||
		       begins_anew(one->reason);
	default:
		return false;
	}
}
