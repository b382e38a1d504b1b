#include "loop/progress.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/deadline.h"

static const int64_t second = 1000000000;

void progress_start(struct progress *p, bool on, uint64_t step)
{
	*p = (struct progress){.on = on, .shown_ns = monotonic_ns(), .shown_step = step};
}

/* "memory 45" or "memory -" */
static void describe(char text[48], const char *where, uint64_t step)
{
	if (step)
		snprintf(text, 48, "%s %" PRIu64, where, step);
	else
		snprintf(text, 48, "%s -", where);
}

int progress_line(struct progress *p, int64_t now, uint64_t step, uint64_t steps, double loss, uint64_t tokens,
		  const struct saver *saver, char line[PROGRESS_SIZE])
{
	char memory[48], storage[48], skipped[64] = "";
	double seconds = (double)(now - p->shown_ns) / (double)second;

	if (!p->on || now - p->shown_ns < second)
		return 0;
	describe(memory, "memory", saver->in_memory);
	describe(storage, "storage", saver->on_storage);
	if (saver->busy || saver->failed)
		snprintf(skipped, sizeof(skipped), "  skipped %" PRIu64 ", failed %" PRIu64, saver->busy,
			 saver->failed);
	snprintf(line, PROGRESS_SIZE, "step %" PRIu64 "/%" PRIu64 "  loss %.4f  %.0f tokens/s  saved: %s, %s%s", step,
		 steps, loss, (double)((step - p->shown_step) * tokens) / seconds, memory, storage, skipped);
	p->shown_ns = now;
	p->shown_step = step;
	return 1;
}
