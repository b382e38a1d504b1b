#include "base/log.h"

#include "base/utf8.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 1024, JSON_LINE_MAX_BYTES = 6 * LINE_MAX_BYTES + 256 }; /* a byte becomes six at most */

static _Atomic int current_level = LOG_INFO;
static _Atomic int current_format = LOG_TEXT;
static const char *_Atomic current_name;

static const char *const level_names[] = {"error", "warn", "info", "debug"};

static void init_format(void)
{
	const char *word = getenv("CKPT_LOG_FORMAT");
	current_format = word && !strcmp(word, "json") ? LOG_JSON : LOG_TEXT;
	if (word && *word && strcmp(word, "json") != 0 && strcmp(word, "text") != 0)
		log_warn("CKPT_LOG_FORMAT=%s is not one of text, json: using text", word);
}

void log_init(const char *name)
{
	current_name = name;
	init_format();
	const char *word = getenv("CKPT_LOG");
	if (!word || !*word)
		return;
	for (int i = 0; i <= LOG_DEBUG; i++) {
		if (!strcmp(word, level_names[i])) {
			current_level = i;
			return;
		}
	}
	log_warn("CKPT_LOG=%s is not one of error, warn, info, debug: using info", word);
}

void log_set_name(const char *name)
{
	current_name = name;
}

void log_set_level(enum log_level level)
{
	current_level = level;
}

enum log_level log_get_level(void)
{
	return (enum log_level)current_level;
}

static int put_head(char *line, size_t size, enum log_level level)
{
	struct timespec now;
	struct tm tm;
	char stamp[32];
	clock_gettime(CLOCK_REALTIME, &now);
	localtime_r(&now.tv_sec, &tm);
	strftime(stamp, sizeof(stamp), "%H:%M:%S", &tm);
	const char *name = current_name;
	return snprintf(line, size, "%s.%03ld %s %.64s%s", stamp, now.tv_nsec / 1000000, level_names[level],
			name ? name : "", name ? ": " : "");
}

/* Quoted, with what is no text replaced by "?". size is large enough for any text of LINE_MAX_BYTES. */
static size_t put_quoted(char *dst, size_t size, const char *text)
{
	size_t at = 0, len = strlen(text);
	dst[at++] = '"';
	for (size_t i = 0; i < len && at + 8 < size;) {
		unsigned char c = (unsigned char)text[i];
		size_t n = utf8_sequence(text + i, len - i);
		if (c == '"' || c == '\\')
			at += (size_t)snprintf(dst + at, size - at, "\\%c", c);
		else if (c < 0x20 || c == 0x7f)
			at += (size_t)snprintf(dst + at, size - at, "\\u%04x", c);
		else if (!n)
			dst[at++] = '?';
		else
			at = (size_t)((char *)mempcpy(dst + at, text + i, n) - dst);
		i += n ? n : 1;
	}
	dst[at++] = '"';
	return at;
}

static size_t put_json(char *line, size_t size, enum log_level level, const char *text)
{
	struct timespec now;
	struct tm tm;
	char stamp[32];
	const char *name = current_name;
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &tm);
	size_t used = (size_t)snprintf(
		line, size,
		"{\"time\":\"%s.%03ldZ\",\"level\":\"%s\",\"program\":\"%.64s\",\"pid\":%d,\"text\":", stamp,
		now.tv_nsec / 1000000, level_names[level], name ? name : "", (int)getpid());
	used += put_quoted(line + used, size - used - 2, text);
	line[used++] = '}';
	return used;
}

static size_t put_text(char *line, size_t size, enum log_level level, const char *text)
{
	int used = put_head(line, size, level);
	int n = snprintf(line + used, size - (size_t)used, "%s", text);
	return n < (int)size - used ? (size_t)(used + n) : size - 1;
}

void log_line(enum log_level level, const char *fmt, ...)
{
	if ((int)level > current_level)
		return;
	char text[LINE_MAX_BYTES], line[JSON_LINE_MAX_BYTES];
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	size_t used = current_format == LOG_JSON ? put_json(line, sizeof(line) - 1, level, text)
						 : put_text(line, LINE_MAX_BYTES - 1, level, text);
	line[used++] = '\n';
	/* A log line that cannot be written has nowhere to be reported. */
	ssize_t ignored = write(STDERR_FILENO, line, used);
	(void)ignored;
}
