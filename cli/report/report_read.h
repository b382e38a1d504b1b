/* How the files of a campaign's folder become a report.
 *
 *	report_read.c     the files, and what they say together
 *	report_journal.c  what the campaign did          report_trainer.c  what the ranks measured
 *	report_spans.c    what the daemon measured       report_epochs.c   how the job came into its epochs
 *	report_line.c     values of a line               report_list.c     lists that grow
 *
 * Whoever wrote the folder may have written anything: numbers, texts, files and lists are bounded. */
#ifndef CKPT_CLI_REPORT_READ_H
#define CKPT_CLI_REPORT_READ_H

#include "report/report.h"

/* Of each list. Beyond the number of stalls the newest are left out; of the others that many are refused. */
enum { NOTED_MAX = 1 << 16, ENTRIES_MAX = 1 << 20, SAVES_MAX = 1 << 18, STALLS_MAX = 1 << 22 };

/* One line each: 0 or -ENOMEM. */
int report_take_journal(struct report *r, const json_t *line);
int report_take_train(struct report *r, const json_t *line);
int report_take_span(struct report *r, const json_t *line);

/* The way into that epoch, made when it is new; NULL: there are too many. */
struct report_recovery *report_epoch(struct report *r, uint32_t epoch);
/* When all files are read: puts them in the order of the epochs, and works out their times. */
void report_settle_epochs(struct report *r);

/* 0: not there, or below. */
uint64_t line_whole(const json_t *line, const char *key);
/* NAN: null, or not there. */
double line_number(const json_t *line, const char *key);
bool line_is(const json_t *line, const char *key, const char *text);
/* What does not fit is cut, but not within a character. */
void line_copy(char *dst, size_t size, const json_t *line, const char *key);
/* Nanoseconds since 1970; the report remembers the last. */
uint64_t line_time(struct report *r, const json_t *line, const char *key);
/* As a daemon dated it, whose time of day may have been ahead (clock-jump); once the journal is read. */
uint64_t line_time_of_day(struct report *r, const json_t *line, const char *key);
/* So long before, at least 0; of NAN and less than 0 the time itself. */
uint64_t time_before(uint64_t ns, double ms);

#endif
