/* The folder of a campaign, written by hand. Times are milliseconds after SINCE. */
#ifndef CKPT_TESTS_CAMPAIGN_FOLDER_H
#define CKPT_TESTS_CAMPAIGN_FOLDER_H

#include "report/report.h"
#include "scratch.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SINCE 1700000000000ull

static char folder[SCRATCH_MAX];
static struct report report;
static struct err err;
static bool made;

static inline void setup(void)
{
	scratch_new(folder);
	made = false;
}

static inline void teardown(void)
{
	if (made)
		report_free(&report);
	scratch_remove(folder);
}

/* One line more of that file. */
static inline void put(const char *name, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static inline void put(const char *name, const char *fmt, ...)
{
	char path[SCRATCH_MAX + 32];
	va_list ap;
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	FILE *f = fopen(path, "a");
	cr_assert(f);
	va_start(ap, fmt);
	vfprintf(f, fmt, ap);
	va_end(ap);
	fputc('\n', f);
	fclose(f);
}

static inline void put_begin(unsigned ranks)
{
	put("journal",
	    "{\"event\":\"begin\",\"file\":\"c\",\"seed\":3,\"faults\":4,\"left_out\":0,\"ranks\":%u,"
	    "\"save_memory_every\":2,\"save_storage_every\":10,\"hang_ms\":4000}",
	    ranks);
}

static inline void put_time(const char *event, unsigned ms)
{
	put("journal", "{\"event\":\"%s\",\"wall_ns\":%llu000000}", event, SINCE + ms);
}

static inline void put_fault(unsigned index, const char *kind, unsigned rank, const char *cause, unsigned ms)
{
	put("journal",
	    "{\"event\":\"fault\",\"index\":%u,\"kind\":\"%s\",\"rank\":%u,\"cause\":\"%s\",\"outcome\":\"fired\","
	    "\"wall_ns\":%llu000000,\"ms\":5.0,\"text\":\"it was caused\"}",
	    index, kind, rank, cause, SINCE + ms);
}

static inline void put_start(unsigned rank, unsigned epoch, unsigned ms, unsigned took)
{
	put("train.jsonl",
	    "{\"event\":\"start\",\"rank\":%u,\"pid\":7,\"at_ns\":%llu000000,\"epoch\":%u,\"step\":0,\"source\":"
	    "\"none\","
	    "\"steps_lost\":null,\"total_ms\":%u.0,\"reason\":\"\",\"left\":\"\",\"passed_over\":\"\"}",
	    rank, SINCE + ms, epoch, took);
}

/* Of a rank that went on: it noticed `took` before. */
static inline void put_way_back(unsigned rank, unsigned epoch, unsigned ms, unsigned took, unsigned lost,
				const char *reason, const char *left)
{
	put("train.jsonl",
	    "{\"event\":\"recovery\",\"rank\":%u,\"pid\":7,\"at_ns\":%llu000000,\"epoch\":%u,\"step\":40,\"source\":"
	    "\"memory\","
	    "\"steps_lost\":%u,\"detect_ms\":10.0,\"decide_ms\":5.0,\"join_ms\":1.0,\"connect_ms\":1.0,\"restore_ms\":"
	    "20.0,"
	    "\"first_step_ms\":10.0,\"total_ms\":%u.0,\"reason\":\"%s\",\"left\":\"%s\",\"passed_over\":\"\"}",
	    rank, SINCE + ms, epoch, lost, took, reason, left);
}

static inline const struct report *make(void)
{
	made = true;
	cr_assert_eq(report_make(folder, &report, &err), 0, "%s", err.text);
	return &report;
}

#endif
