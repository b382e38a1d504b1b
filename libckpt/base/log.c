#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static _Atomic int current_level = LOG_INFO;
static const char *_Atomic current_name;

static const char *const level_names[] = {"error", "warn", "info", "debug"};

void log_init(const char *name)
{
	current_name = name;
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

void log_line(enum log_level level, const char *fmt, ...)
{
	if ((int)level > current_level)
		return;
	char line[1024];
	int used = put_head(line, sizeof(line), level);
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(line + used, sizeof(line) - (size_t)used - 1, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	used += n;
	if (used > (int)sizeof(line) - 2)
		used = (int)sizeof(line) - 2;
	line[used++] = '\n';
	/* A log line that cannot be written has nowhere to be reported. */
	ssize_t ignored = write(STDERR_FILENO, line, (size_t)used);
	(void)ignored;
}
