#include "process/launch_sink.h"

#include "frame/output.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void sink_free(struct sink *sink)
{
	wbuf_free(&sink->data);
	*sink = (struct sink){.fd = -1};
}

void sink_put(struct sink *sink, const char *text, size_t len)
{
	if (sink->broken)
		return;
	wbuf_put(&sink->data, text, len);
	if (!sink->data.failed)
		return;
	/* What was queued goes, too: the output of a program is no reason to lose its supervisor. */
	wbuf_free(&sink->data);
	sink->data = (struct wbuf){0};
	sink->from = 0;
}

void sink_say(struct sink *sink, const char *fmt, va_list ap)
{
	static const char head[] = "ckpt run: ";
	char text[1024], plain[1024];
	vsnprintf(text, sizeof(text), fmt, ap);
	text_plain(plain, sizeof(plain), text);
	sink_put(sink, head, sizeof(head) - 1);
	sink_put(sink, plain, strlen(plain));
	sink_put(sink, "\n", 1);
	sink_flush(sink);
}

bool sink_pending(const struct sink *sink)
{
	return sink->data.len > sink->from;
}

bool sink_full(const struct sink *sink)
{
	return sink->data.len - sink->from >= SINK_FULL;
}

struct pollfd sink_poll(const struct sink *sink)
{
	return (struct pollfd){.fd = sink_pending(sink) ? sink->fd : -1, .events = POLLOUT};
}

static void forget_written(struct sink *sink)
{
	size_t left = sink->data.len - sink->from;
	if (left && sink->from < SINK_FULL)
		return;
	memmove(sink->data.data, sink->data.data + sink->from, left);
	sink->data.len = left;
	sink->from = 0;
}

void sink_flush(struct sink *sink)
{
	/* A pipe that polls ready takes PIPE_BUF bytes without blocking. */
	while (sink_pending(sink)) {
		struct pollfd p = {.fd = sink->fd, .events = POLLOUT};
		if (poll(&p, 1, 0) < 1)
			return;
		size_t len = min_u64(sink->data.len - sink->from, PIPE_BUF);
		ssize_t n = write(sink->fd, sink->data.data + sink->from, len);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			return;
		if (n < 0)
			sink->broken = true;
		sink->from = n < 0 ? sink->data.len : sink->from + (size_t)n;
		forget_written(sink);
	}
}

void sink_drain(struct sink *sink, uint64_t deadline)
{
	for (sink_flush(sink); sink_pending(sink) && clock_now() < deadline; sink_flush(sink)) {
		struct pollfd p = {.fd = sink->fd, .events = POLLOUT};
		poll(&p, 1, clock_ms_until(deadline));
	}
}

void stream_open(struct stream *stream, int fd, struct sink *sink, const char *prefix)
{
	stream->fd = fd;
	stream->sink = sink;
	stream->used = 0;
	snprintf(stream->prefix, sizeof(stream->prefix), "%s", prefix);
	if (fd >= 0)
		fcntl(fd, F_SETFL, O_NONBLOCK);
}

static void put_line(struct stream *stream, const char *text, size_t len)
{
	sink_put(stream->sink, stream->prefix, strlen(stream->prefix));
	sink_put(stream->sink, text, len);
	sink_put(stream->sink, "\n", 1);
}

/* The lines that are complete leave the buffer; a full buffer without an end of line leaves as a line of its own. */
static void put_lines(struct stream *stream)
{
	size_t from = 0;
	for (char *end; (end = memchr(stream->line + from, '\n', stream->used - from));) {
		put_line(stream, stream->line + from, (size_t)(end - stream->line) - from);
		from = (size_t)(end - stream->line) + 1;
	}
	if (!from && stream->used == STREAM_LINE) {
		put_line(stream, stream->line, stream->used);
		from = stream->used;
	}
	memmove(stream->line, stream->line + from, stream->used - from);
	stream->used -= from;
}

static ssize_t read_more(struct stream *stream)
{
	ssize_t n;
	do {
		n = read(stream->fd, stream->line + stream->used, STREAM_LINE - stream->used);
	} while (n < 0 && errno == EINTR);
	if (n > 0) {
		stream->used += (size_t)n;
		put_lines(stream);
	}
	return n;
}

static void end(struct stream *stream)
{
	if (stream->used)
		put_line(stream, stream->line, stream->used);
	stream->used = 0;
	close(stream->fd);
	stream->fd = -1;
}

struct pollfd stream_poll(const struct stream *stream)
{
	bool wanted = stream->fd >= 0 && !sink_full(stream->sink);
	return (struct pollfd){.fd = wanted ? stream->fd : -1, .events = POLLIN};
}

void stream_read(struct stream *stream)
{
	ssize_t n = read_more(stream);
	if (!n || (n < 0 && errno != EAGAIN))
		end(stream);
}

void stream_close(struct stream *stream)
{
	/* A pipe holds a bounded amount; one that somebody still fills is left after as much. */
	for (int i = 0; stream->fd >= 0 && i < 1024; i++) {
		if (read_more(stream) <= 0)
			break;
	}
	if (stream->fd >= 0)
		end(stream);
}
