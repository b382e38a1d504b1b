#include "process/launch_sink.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* in: what a rank writes to; out: what the terminal shows. */
static int in[2], out[2];
static struct sink sink;
static struct stream stream;

static void open_all(void)
{
	signal(SIGPIPE, SIG_IGN);
	cr_assert_eq(pipe2(in, O_CLOEXEC), 0);
	cr_assert_eq(pipe2(out, O_CLOEXEC | O_NONBLOCK), 0);
	sink = (struct sink){.fd = out[1]};
	stream_open(&stream, in[0], &sink, "[2] ");
}

static void close_all(void)
{
	stream_close(&stream);
	sink_free(&sink);
	close(in[1]);
	close(out[0]);
	close(out[1]);
}

static void say(const char *text)
{
	cr_assert_eq(write(in[1], text, strlen(text)), (ssize_t)strlen(text));
	stream_read(&stream);
}

static const char *shown(void)
{
	static char text[65536];
	sink_flush(&sink);
	ssize_t n = read(out[0], text, sizeof(text) - 1);
	text[n < 0 ? 0 : n] = 0;
	return text;
}

Test(launch_sink, shows_whole_lines_with_their_prefix, .init = open_all, .fini = close_all)
{
	say("one\ntwo\nthr");
	cr_expect_str_eq(shown(), "[2] one\n[2] two\n");
	say("ee\n\n");
	cr_expect_str_eq(shown(), "[2] three\n[2] \n");
}

Test(launch_sink, shows_an_incomplete_line_when_the_rank_ends, .init = open_all, .fini = close_all)
{
	say("Traceback");
	cr_expect_str_eq(shown(), "");
	cr_assert_eq(write(in[1], ": bad\nlast", 10), 10);
	stream_close(&stream);
	cr_expect_eq(stream.fd, -1);
	cr_expect_str_eq(shown(), "[2] Traceback: bad\n[2] last\n");
}

Test(launch_sink, ends_with_the_file, .init = open_all, .fini = close_all)
{
	say("x");
	close(in[1]);
	stream_read(&stream);
	cr_expect_eq(stream.fd, -1);
	cr_expect_str_eq(shown(), "[2] x\n");
	in[1] = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

Test(launch_sink, cuts_a_line_without_end, .init = open_all, .fini = close_all)
{
	static char text[STREAM_LINE + 10];
	memset(text, 'x', sizeof(text));
	cr_assert_eq(write(in[1], text, sizeof(text)), (ssize_t)sizeof(text));
	stream_read(&stream);
	stream_read(&stream);
	cr_expect_eq(strlen(shown()), STREAM_LINE + 5);
	say("\n");
	cr_expect_str_eq(shown(), "[2] xxxxxxxxxx\n");
}

Test(launch_sink, queues_what_the_terminal_does_not_take, .init = open_all, .fini = close_all)
{
	char line[1000];
	size_t put = 0, got = 0;
	memset(line, 'y', sizeof(line));
	line[sizeof(line) - 1] = '\n';
	while (!sink_full(&sink)) {
		sink_put(&sink, line, sizeof(line));
		sink_flush(&sink);
		put += sizeof(line);
		cr_assert_lt(put, 1 << 20);
	}
	cr_expect(put >= SINK_FULL);
	for (size_t n; (n = strlen(shown()));)
		got += n;
	cr_expect_eq(got, put);
	cr_expect_not(sink_pending(&sink));
}

Test(launch_sink, drops_everything_once_nobody_reads, .init = open_all, .fini = close_all)
{
	close(out[0]);
	say("x\n");
	sink_flush(&sink);
	cr_expect(sink.broken);
	cr_expect_not(sink_pending(&sink));
	say("y\n");
	cr_expect_not(sink_pending(&sink));
	out[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

Test(launch_sink, drains_until_the_deadline_only, .init = open_all, .fini = close_all)
{
	while (!sink_full(&sink))
		sink_put(&sink, "0123456789abcde\n", 16);
	uint64_t start = clock_now();
	sink_drain(&sink, clock_deadline(50 * CLOCK_NS_PER_MS));
	cr_expect(sink_pending(&sink));
	cr_expect_lt(clock_now() - start, 5 * CLOCK_NS_PER_S);
}
