#include "faults/fault_log.h"

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "catalog/room.h"
#include "checkpoint/room.h"
#include "job/room.h"
#include "runtime/room.h"

#include <stdarg.h>
#include <stdio.h>

struct fault_record *fault_log_take(struct fault_log *log)
{
	struct fault_record *oldest = NULL;
	for (uint32_t i = 0; i < FAULT_LOG_MAX; i++) {
		struct fault_record *f = &log->ring[i];
		if (f->number && f->outcome == FAULT_PENDING)
			continue;
		if (!oldest || f->number < oldest->number)
			oldest = f;
	}
	if (oldest)
		*oldest = (struct fault_record){.number = ++log->last};
	return oldest;
}

struct fault_record *fault_log_find(struct fault_log *log, uint32_t number)
{
	for (uint32_t i = 0; number && i < FAULT_LOG_MAX; i++)
		if (log->ring[i].number == number)
			return &log->ring[i];
	return NULL;
}

const struct fault_record *fault_log_at(const struct fault_log *log, uint32_t i)
{
	const struct fault_record *next = NULL;
	uint32_t after = 0;
	for (uint32_t k = 0; k <= i; k++) {
		next = NULL;
		for (uint32_t j = 0; j < FAULT_LOG_MAX; j++) {
			const struct fault_record *f = &log->ring[j];
			if (f->number > after && (!next || f->number < next->number))
				next = f;
		}
		if (!next)
			return NULL;
		after = next->number;
	}
	return next;
}

const char *fault_outcome_name(enum fault_outcome outcome)
{
	static const char *const names[] = {"pending", "fired", "not-fired"};
	return outcome < FAULT_OUTCOME_END ? names[outcome] : "?";
}

static void tell(const struct jobs *jobs, const struct fault_record *f, const char *outcome)
{
	char text[WIRE_REASON_MAX + 64];
	bool pending = f->outcome == FAULT_PENDING;
	snprintf(text, sizeof(text), "fault %u on purpose, %s: %s", f->number, f->entry->name, f->text);
	if (*f->job)
		log_warn("job %s: %s", f->job, text);
	else
		log_warn("%s", text);
	if (jobs->storage->catalog && *f->job)
		catalog_event(jobs->storage->catalog, f->job, (struct step_id){0}, "fault", text);
	if (!jobs->runtime->spanlog)
		return;
	AUTO_WBUF struct wbuf out = {0};
	span_begin(&out, jobs->runtime->spanlog, "fault", f->job);
	span_u64(&out, "number", f->number);
	span_text(&out, "kind", f->entry->name);
	span_text(&out, "target", fault_target_name(f->entry->target));
	span_ns(&out, "rank", f->rank, f->entry->target == FAULT_AT_RANK);
	span_ns(&out, "for_ms", f->for_ms, f->for_ms != 0);
	span_u64(&out, "caused_ns", f->wall_ns);
	span_text(&out, "outcome", outcome);
	span_ns(&out, "after_ns", f->after_ns, !pending);
	span_text(&out, "text", f->text);
	span_end(jobs->runtime->spanlog, &out);
}

void fault_log_caused(const struct jobs *jobs, const struct fault_record *f)
{
	tell(jobs, f, "caused");
}

void fault_log_end(const struct jobs *jobs, struct fault_record *f, enum fault_outcome outcome, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	if (fmt)
		vsnprintf(f->text, sizeof(f->text), fmt, ap);
	va_end(ap);
	f->outcome = outcome;
	f->after_ns = clock_now() - f->caused_ns;
	tell(jobs, f, fault_outcome_name(outcome));
}
