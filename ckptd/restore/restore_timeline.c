/* What is noted of a restore on its way, for restore/recovery_log.h: when what began, where each part came from, and why not from a better place. */
#include "restore/restore_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "save/room.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define EACH_OF(restore, ranks, r)                                                                                     \
	for (uint32_t r = 0; r < *(restore)->of.nlocal; r++)                                                           \
		if ((ranks)&1ull << r)

void restore_note_asked(struct restore *restore)
{
	restore->start_ns = clock_now();
	restore->chosen_ns = 0;
	memset(restore->parts, 0, sizeof(restore->parts));
	EACH_OF(restore, UINT64_MAX, r) restore->parts[r].rank = restored_rank(restore, r).id;
}

void restore_note_chosen(struct restore *restore)
{
	if (!restore->chosen_ns)
		restore->chosen_ns = clock_now();
	EACH_OF(restore, UINT64_MAX, r)
	restore->parts[r].skipped[0] = 0; /* of the step before, which passed_over tells */
}

void restore_note_begun(struct restore *restore, uint64_t ranks)
{
	EACH_OF(restore, ranks, r) restore->begun_ns[r] = clock_now();
}

void restore_note_brought(struct restore *restore, uint64_t ranks, enum wire_source source, uint32_t from)
{
	EACH_OF(restore, ranks, r)
	{
		struct recovery_part *part = &restore->parts[r];
		part->source = source;
		part->from = from;
		part->fetch_ns = clock_now() - restore->begun_ns[r];
	}
}

void restore_note_skipped(struct restore *restore, uint64_t ranks, const char *fmt, ...)
{
	char text[RECOVERY_SKIPPED_MAX];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	EACH_OF(restore, ranks, r)
	{
		char *skipped = restore->parts[r].skipped;
		size_t at = strlen(skipped);
		snprintf(skipped + at, RECOVERY_SKIPPED_MAX - at, "%s%s", at ? "; " : "", text);
	}
}

static void log_parts(const struct restore *restore)
{
	EACH_OF(restore, UINT64_MAX, r)
	{
		const struct recovery_part *part = &restore->parts[r];
		if (part->skipped[0])
			log_info("job %s: the part of rank %u comes from %s; passed over: %s", restore->of.name,
				 part->rank, source_name(part->source), part->skipped);
	}
}

/* Of a job that begins there is nothing to tell. */
void restore_note_answered(const struct restore *restore, struct recovery_end *end)
{
	if (!end->rc && !end->source && !restore->of.log->raised_ns)
		return;
	end->epoch = *restore->of.epoch;
	end->world = *restore->of.world;
	end->asked_ns = restore->start_ns;
	end->chosen_ns = restore->chosen_ns;
	end->parts = restore->parts;
	end->nparts = end->rc ? 0 : *restore->of.nlocal;
	if (end->source)
		log_parts(restore);
	recoveries_answered(restore->of.log, end);
}
