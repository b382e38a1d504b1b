/* Span log: one line of JSON for each save, recovery and hand-over that has ended, in the file of --span-log. A thread of
 * its own writes it, so that a slow file system keeps nobody; what it cannot take is dropped, counted, and that is said
 * in the log itself. At SPANLOG_FILE_MAX the file becomes FILE.1 and a new one begins: two of them at most. Schema:
 * docs/reference/monitoring.md. */
#ifndef CKPTD_RUNTIME_SPAN_LOG_H
#define CKPTD_RUNTIME_SPAN_LOG_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { SPANLOG_FILE_MAX = 32 << 20, SPANLOG_QUEUE_MAX = 1 << 20, SPANLOG_CLOSE_MS = 2000 };

struct spanlog;
struct wbuf;

/* The file is opened here, so that a wrong path is told at once. -errno with the sentence. */
int spanlog_open(const char *path, const char *node, uint64_t file_max, struct spanlog **out, struct err *err);
/* Writes what is queued, for at most SPANLOG_CLOSE_MS: what takes longer is left behind, with the memory. NULL is allowed. */
void spanlog_close(struct spanlog *log);

/* A line: span_begin, its members, span_end, which queues it. What the spans say is written beside what they tell of (save/save_span.c,
 * restore/recovery_span.c). */
void span_begin(struct wbuf *out, const struct spanlog *log, const char *span, const char *job);
void span_u64(struct wbuf *out, const char *key, uint64_t v);
/* null unless it is known. */
void span_ns(struct wbuf *out, const char *key, uint64_t v, bool known);
/* null: NULL. */
void span_text(struct wbuf *out, const char *key, const char *text);
void span_end(struct spanlog *log, struct wbuf *out);

#endif
