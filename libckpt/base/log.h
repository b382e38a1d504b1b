/* Log lines on stderr: "time level subsystem: text", or with CKPT_LOG_FORMAT=json a JSON object {"time","level","program","pid","text"};
 * one write(2) each, so that lines of several processes do not mix.
 * Thread-safe. Level, format and name are the only mutable globals of the code base. */
#ifndef CKPT_BASE_LOG_H
#define CKPT_BASE_LOG_H

enum log_format { LOG_TEXT, LOG_JSON };
enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* Reads CKPT_LOG=error|warn|info|debug; an unknown word is reported and leaves the default (info); and
 * CKPT_LOG_FORMAT=text|json. The name (static storage) is printed in each line; NULL prints none. */
void log_init(const char *name);
/* Another name from now on; static storage, as log_init's. */
void log_set_name(const char *name);
void log_set_level(enum log_level level);
enum log_level log_get_level(void);

void log_line(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_line(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_line(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_DEBUG, __VA_ARGS__)

#endif
