/* Until when a rank that hangs must be named. The launcher names it when hang-timeout is over, on a busy machine half of it later. That time
 * begins anew with each epoch, and when another rank is replaced. While a node is not heard none begins, until as long again, and half of
 * peer-timeout, is over; a node is not heard, too, if a single answer is late: that is peer-timeout in all. */
#include "judge/hangs.h"

#include "base/bytes.h"
#include "base/clock.h"

bool hangs_is_one(const struct hang_fault *f)
{
	return f->entry->kind == FAULT_ABSENT || f->entry->kind == FAULT_STOP || f->entry->kind == FAULT_NEVER_ENDS ||
	       f->entry->kind == FAULT_MISMATCH;
}

static bool ends_process(enum fault_kind kind)
{
	return kind == FAULT_KILL || kind == FAULT_ABORT || kind == FAULT_EXIT_EARLY || kind == FAULT_TRAP ||
	       kind == FAULT_ILLEGAL_ADDRESS || kind == FAULT_DEVICE_LOST || kind == FAULT_ECC;
}

static bool loses_node(enum fault_kind kind)
{
	return kind == FAULT_KILL_NODE || kind == FAULT_POWER_CUT || kind == FAULT_REBOOT;
}

static bool ends_epoch(const struct fault_entry *entry)
{
	return ends_process(entry->kind) || loses_node(entry->kind) || entry->target == FAULT_AT_NETWORK ||
	       entry->kind == FAULT_DRAIN || entry->kind == FAULT_NAN || entry->kind == FAULT_FLIP;
}

/* Its node is not heard meanwhile. */
static bool silences_node(const struct fault_entry *entry)
{
	return (entry->target == FAULT_AT_DAEMON && entry->kind != FAULT_CLOCK_JUMP) || loses_node(entry->kind) ||
	       entry->target == FAULT_AT_NETWORK;
}

static bool came_with(const struct hang_fault *f, const struct hang_fault *other)
{
	return other != f && other->first == f->first;
}

bool hangs_has_company(const struct campaign_hangs *h, const struct hang_fault *f)
{
	for (size_t i = 0; i < h->nfaults; i++)
		if (came_with(f, &h->faults[i]))
			return true;
	return false;
}

uint64_t hangs_next(const struct campaign_hangs *h, const struct hang_fault *f)
{
	uint64_t next = UINT64_MAX;
	for (size_t i = 0; i < h->nfaults; i++)
		if (h->faults[i].first != f->first && h->faults[i].from > f->from)
			next = min_u64(next, h->faults[i].from);
	return next;
}

static uint64_t patience(const struct campaign_hangs *h, const struct hang_fault *f)
{
	return h->hang_ns + h->hang_ns / 2 + (h->nodes > 1 ? h->peer_ns : 0) + f->entry->expected_ms * CLOCK_NS_PER_MS;
}

static uint64_t after_away(const struct campaign_hangs *h, const struct hang_fault *f, uint64_t from, uint64_t to)
{
	return to + (to - from) + h->peer_ns / 2 + patience(h, f);
}

/* Of two ranks that hang one is named first: it is replaced, and then all wait for the other one. */
static bool ends_another(const struct hang_name *name, const struct hang_fault *f)
{
	return (name->by == HANG_BY_LAUNCHER || name->by == HANG_BY_RANK) && name->rank != f->rank;
}

/* What began before `due` and was over after the fault puts it off. */
static uint64_t put_off(const struct campaign_hangs *h, const struct hang_fault *f, uint64_t due)
{
	uint64_t now = due;
	for (size_t i = 0; i < h->nfaults; i++) {
		const struct hang_fault *x = &h->faults[i];
		if (came_with(f, x) && silences_node(x->entry) && x->from < due)
			now = max_u64(now, after_away(h, f, x->from, max_u64(x->to, x->from + x->for_ns)));
	}
	for (size_t i = 0; i < h->naways; i++) {
		const struct hang_away *a = &h->aways[i];
		if (a->from < due && a->to > f->from && a->to != UINT64_MAX)
			now = max_u64(now, after_away(h, f, a->from, a->to));
	}
	for (size_t i = 0; i < h->nentered; i++)
		if (h->entered[i] > f->from && h->entered[i] < due)
			now = max_u64(now, h->entered[i] + patience(h, f));
	for (size_t i = 0; i < h->nnames; i++)
		if (ends_another(&h->names[i], f) && h->names[i].at > f->from && h->names[i].at < due)
			now = max_u64(now, h->names[i].at + patience(h, f));
	return now;
}

/* What is put off beyond the next fault is not: all were at work then. */
uint64_t hangs_due(const struct campaign_hangs *h, const struct hang_fault *f)
{
	uint64_t next = hangs_next(h, f), due = f->to + patience(h, f), was;
	do {
		was = due;
		due = put_off(h, f, min_u64(due, next));
	} while (due > was && due < next);
	return due;
}

static bool was_ended(const struct campaign_hangs *h, const struct hang_fault *f)
{
	for (size_t i = 0; i < h->nfaults; i++) {
		const struct hang_fault *x = &h->faults[i];
		bool process = ends_process(x->entry->kind) && x->rank == f->rank,
		     node = loses_node(x->entry->kind) && x->node == f->node;
		if (came_with(f, x) && (process || node))
			return true;
	}
	return false;
}

static bool was_left(const struct campaign_hangs *h, const struct hang_fault *f)
{
	for (size_t i = 0; i < h->nfaults; i++)
		if (came_with(f, &h->faults[i]) && ends_epoch(h->faults[i].entry))
			return f->entry->kind == FAULT_MISMATCH;
	return false;
}

static bool was_interrupted(const struct campaign_hangs *h, const struct hang_fault *f, uint64_t due)
{
	for (size_t i = 0; i < h->nbreaks; i++)
		if (h->breaks[i] >= f->from && h->breaks[i] <= due)
			return true;
	return false;
}

enum hang_moot hangs_moot(const struct campaign_hangs *h, const struct hang_fault *f, uint64_t due)
{
	if (f->entry->kind == FAULT_STOP && f->for_ns && f->from + f->for_ns <= due)
		return HANG_WENT_ON;
	return was_ended(h, f)              ? HANG_ENDED
	       : was_left(h, f)             ? HANG_LEFT
	       : was_interrupted(h, f, due) ? HANG_INTERRUPTED
					    : HANG_DUE;
}
