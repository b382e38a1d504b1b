#include "loop/report.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* A line under construction. What does not fit is left out at the end; strings are short enough that all fits. */
struct line {
	char text[4096];
	size_t used;
};

int report_open(struct report *r, const char *file)
{
	*r = (struct report){.fd = -1};
	if (!file)
		return 0;
	/* O_NONBLOCK: nobody has to read a pipe for the training to go on */
	r->fd = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
	return r->fd < 0 ? -errno : 0;
}

void report_close(struct report *r)
{
	if (r->fd >= 0)
		close(r->fd);
	r->fd = -1;
}

__attribute__((format(printf, 2, 3))) static void put(struct line *l, const char *format, ...)
{
	va_list arguments;
	size_t room = sizeof(l->text) - l->used;
	int n;

	va_start(arguments, format);
	n = vsnprintf(l->text + l->used, room, format, arguments);
	va_end(arguments);
	if (n > 0)
		l->used += (size_t)n < room ? (size_t)n : room - 1;
}

/* A string of at most 300 bytes; control characters become blanks. */
static void put_string(struct line *l, const char *name, const char *text)
{
	put(l, ",\"%s\":\"", name);
	for (size_t i = 0; text[i] && i < 300; i++) {
		if (text[i] == '"' || text[i] == '\\')
			put(l, "\\%c", text[i]);
		else
			put(l, "%c", (unsigned char)text[i] < ' ' ? ' ' : text[i]);
	}
	put(l, "\"");
}

/* The time between two points, null when either did not happen. */
static void put_span(struct line *l, const char *name, int64_t from, int64_t to)
{
	if (from && to)
		put(l, ",\"%s\":%.3f", name, (double)(to > from ? to - from : 0) / 1e6);
	else
		put(l, ",\"%s\":null", name);
}

static void begin_of(struct line *l, const char *event, int rank)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	l->used = 0;
	put(l, "{\"event\":\"%s\",\"rank\":%d,\"pid\":%d,\"at_ns\":%" PRId64, event, rank, (int)getpid(),
	    (int64_t)now.tv_sec * 1000000000 + now.tv_nsec);
}

static void begin(const struct report *r, struct line *l, const char *event)
{
	begin_of(l, event, r->rank);
}

static void end(const struct report *r, struct line *l)
{
	ssize_t ignored;

	put(l, "}\n");
	ignored = write(r->fd, l->text, l->used); /* a full disk or pipe must not end the training */
	(void)ignored;
}

static const char *source_name(const ckpt_restored *restored)
{
	static const char *const names[] = {"none", "memory", "peer", "storage"};

	return (unsigned int)restored->source < 4 ? names[restored->source] : "unknown";
}

void report_entry(const struct report *r, const struct entry *e)
{
	const struct entry_times *at = &e->at;
	struct line l;

	if (r->fd < 0)
		return;
	begin(r, &l, at->noticed ? "recovery" : "start");
	put(&l, ",\"epoch\":%" PRIu32 ",\"step\":%" PRIu64 ",\"source\":\"%s\"", e->epoch, e->restored.step,
	    source_name(&e->restored));
	if (at->noticed)
		put(&l, ",\"steps_lost\":%" PRIu64,
		    e->lost_step > e->restored.step ? e->lost_step - e->restored.step : 0);
	else
		put(&l, ",\"steps_lost\":null");
	put_span(&l, "detect_ms", at->complete, at->noticed);
	put_span(&l, "decide_ms", at->noticed, at->told);
	put_span(&l, "join_ms", at->joining, at->joined);
	put_span(&l, "connect_ms", at->joined, at->connected);
	put_span(&l, "restore_ms", at->connected, at->restored);
	put_span(&l, "first_step_ms", at->restored, at->stepped);
	put_span(&l, "total_ms", at->noticed ? at->noticed : at->joining, at->stepped ? at->stepped : at->restored);
	put(&l, at->noticed ? ",\"noticed_ns\":%" PRId64 : ",\"noticed_ns\":null", at->noticed);
	put_string(&l, "reason", e->reason);
	put_string(&l, "left", e->left);
	put_string(&l, "passed_over", e->restored.why);
	end(r, &l);
}

void report_save(const struct report *r, const struct save_stall *s)
{
	struct line l;

	if (r->fd < 0)
		return;
	begin(r, &l, "save");
	put(&l, ",\"step\":%" PRIu64 ",\"target\":\"%s\",\"begin_ms\":%.3f,\"fence_ms\":%.3f", s->step,
	    s->target == CKPT_STORAGE ? "storage" : "memory", s->begin_ms, s->fence_ms);
	put_string(&l, "result", s->result);
	end(r, &l);
}

void report_straggler(const struct report *r, const struct straggler *s, uint64_t step)
{
	struct line l;

	if (r->fd < 0)
		return;
	begin_of(&l, "straggler", s->rank);
	put(&l, ",\"since\":%" PRIu64 ",\"step\":%" PRIu64 ",\"steps\":%" PRIu64, s->since, step, s->steps);
	put(&l, ",\"slow\":%s,\"rank_ms\":%.3f,\"middle_ms\":%.3f,\"lost_ms\":%.3f", s->slow ? "true" : "false",
	    s->rank_ms, s->middle_ms, s->lost_ms);
	end(r, &l);
}

void report_end(const struct report *r, const struct run_end *e)
{
	struct line l;

	if (r->fd < 0)
		return;
	begin(r, &l, "end");
	put(&l, ",\"step\":%" PRIu64 ",\"loss\":%.9g,\"params\":\"%016" PRIx64 "\",\"wait_ms\":%.3f,\"step_ms\":%.3f",
	    e->step, e->loss, e->fingerprint, e->wait_ms, e->step_ms);
	end(r, &l);
}
