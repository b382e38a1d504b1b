/* Output of the ranks: lines of many streams into one descriptor, without ever blocking the launcher. A sink queues what its
 * descriptor does not take yet; above SINK_FULL the streams are no longer read, so that a stalled terminal stalls the ranks and not
 * their supervision. A stream turns one pipe into whole lines with a prefix. */
#ifndef CKPT_CLI_LAUNCH_SINK_H
#define CKPT_CLI_LAUNCH_SINK_H

#include "base/bytes.h"

#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SINK_FULL = 256 << 10,
	STREAM_LINE = 8192, /* longer lines are cut */
	STREAM_PREFIX = 64,
};

struct sink {
	int fd; /* not owned */
	struct wbuf data;
	size_t from; /* of the first byte not yet written */
	bool broken; /* nobody reads any more: everything is dropped */
};

void sink_free(struct sink *sink);
/* Appends, also above SINK_FULL: who fills it asks sink_full before. Without memory the text is dropped. */
void sink_put(struct sink *sink, const char *text, size_t len);
/* A line of the program's own, after "ckpt run: ", at once. */
void sink_say(struct sink *sink, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
bool sink_full(const struct sink *sink);
bool sink_pending(const struct sink *sink);
/* Ready when it is time to flush. */
struct pollfd sink_poll(const struct sink *sink);
/* Writes a piece when the descriptor has room for it. */
void sink_flush(struct sink *sink);
/* Writes all, until the deadline. */
void sink_drain(struct sink *sink, uint64_t deadline);

struct stream {
	int fd; /* read end, owned, non-blocking; -1: none */
	struct sink *sink;
	char prefix[STREAM_PREFIX];
	size_t used;
	char line[STREAM_LINE];
};

/* Takes over fd (-1 is allowed: a stream that is never readable). */
void stream_open(struct stream *stream, int fd, struct sink *sink, const char *prefix);
/* Ready when it is time to read: there is something, and the sink is not full. */
struct pollfd stream_poll(const struct stream *stream);
/* Reads once; the lines that are complete go to the sink. At the end of the file the stream closes. */
void stream_read(struct stream *stream);
/* Takes what is still in the pipe, also an incomplete line, and closes. */
void stream_close(struct stream *stream);

#endif
