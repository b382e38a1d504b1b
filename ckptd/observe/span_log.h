/* Span log: one line of JSON for each save and each recovery that has ended, in the file of --span-log. A thread of its own writes it,
 * so that a slow file system keeps nobody; what it cannot take is dropped, counted, and that is said in the log itself. At
 * SPANLOG_FILE_MAX the file becomes FILE.1 and a new one begins: two of them at most. Schema: docs/reference/monitoring.md. */
#ifndef CKPTD_OBSERVE_SPAN_LOG_H
#define CKPTD_OBSERVE_SPAN_LOG_H

#include "base/err.h"

#include <stdint.h>

enum { SPANLOG_FILE_MAX = 32 << 20, SPANLOG_QUEUE_MAX = 1 << 20, SPANLOG_CLOSE_MS = 2000 };

struct spanlog;
struct save_record;
struct recovery_record;

/* The file is opened here, so that a wrong path is told at once. -errno with the sentence. */
int spanlog_open(const char *path, const char *node, uint64_t file_max, struct spanlog **out, struct err *err);
/* Writes what is queued, for at most SPANLOG_CLOSE_MS: what takes longer is left behind, with the memory. NULL is allowed. */
void spanlog_close(struct spanlog *log);

/* NULL log: nothing is written. */
void spanlog_save(struct spanlog *log, const char *job, const struct save_record *r);
void spanlog_recovery(struct spanlog *log, const char *job, const struct recovery_record *r);

#endif
