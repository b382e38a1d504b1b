/* What is noted of a restore on its way, for restore/recovery_log.h: when what began, where each part came from, and why not from a better place. */
#include "restore/restore_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "daemon.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define EACH_OF(recover, ranks, r)                                                                                     \
	for (uint32_t r = 0; r < (recover)->job->nlocal; r++)                                                          \
		if ((ranks)&1ull << r)

void recover_note_asked(struct recover *recover)
{
	recover->start_ns = clock_now();
	recover->chosen_ns = 0;
	memset(recover->parts, 0, sizeof(recover->parts));
	EACH_OF(recover, UINT64_MAX, r) recover->parts[r].rank = recover->job->ranks[r].id;
}

void recover_note_chosen(struct recover *recover)
{
	if (!recover->chosen_ns)
		recover->chosen_ns = clock_now();
	EACH_OF(recover, UINT64_MAX, r)
	recover->parts[r].skipped[0] = 0; /* of the step before, which passed_over tells */
}

void recover_note_begun(struct recover *recover, uint64_t ranks)
{
	EACH_OF(recover, ranks, r) recover->begun_ns[r] = clock_now();
}

void recover_note_brought(struct recover *recover, uint64_t ranks, enum wire_source source, uint32_t from)
{
	EACH_OF(recover, ranks, r)
	{
		struct recovery_part *part = &recover->parts[r];
		part->source = source;
		part->from = from;
		part->fetch_ns = clock_now() - recover->begun_ns[r];
	}
}

void recover_note_skipped(struct recover *recover, uint64_t ranks, const char *fmt, ...)
{
	char text[RECOVERY_SKIPPED_MAX];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	EACH_OF(recover, ranks, r)
	{
		char *skipped = recover->parts[r].skipped;
		size_t at = strlen(skipped);
		snprintf(skipped + at, RECOVERY_SKIPPED_MAX - at, "%s%s", at ? "; " : "", text);
	}
}

static void log_parts(const struct recover *recover)
{
	EACH_OF(recover, UINT64_MAX, r)
	{
		const struct recovery_part *part = &recover->parts[r];
		if (part->skipped[0])
			log_info("job %s: the part of rank %u comes from %s; passed over: %s", recover->job->name,
				 part->rank, source_name(part->source), part->skipped);
	}
}

/* Of a job that begins there is nothing to tell. */
void recover_note_answered(const struct recover *recover, struct recovery_end *end)
{
	struct job *job = recover->job;
	if (!end->rc && !end->source && !job->recoveries.raised_ns)
		return;
	end->asked_ns = recover->start_ns;
	end->chosen_ns = recover->chosen_ns;
	end->parts = recover->parts;
	end->nparts = end->rc ? 0 : job->nlocal;
	if (end->source)
		log_parts(recover);
	recoveries_answered(job, end);
}
