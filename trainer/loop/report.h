/* The file of --report: one JSON object per line, each appended by one write, so that all ranks may share the file. Each
 * has the rank, the process that wrote it and "at_ns", nanoseconds since 1970 when it did: behind the first step of an
 * entry, or the fence of a save. */
#ifndef CKPT_TRAINER_REPORT_H
#define CKPT_TRAINER_REPORT_H

#include <stdint.h>

#include "ckpt.h"
#include "loop/straggler.h"

struct report {
	int fd; /* -1: no report; every function is then without effect */
	int rank;
};

/* file may be NULL. 0 or -errno. */
int report_open(struct report *report, const char *file);
void report_close(struct report *report);

/* How a rank came into an epoch, in nanoseconds of CLOCK_MONOTONIC; 0: did not happen. */
struct entry_times {
	int64_t complete; /* the last collective of the epoch before: all ranks were alive shortly before */
	int64_t noticed;  /* the first sign that a rank is lost: the news, or a failed collective */
	int64_t told;     /* the news of a new epoch */
	int64_t joining, joined, connected, restored, stepped;
};

struct entry {
	struct entry_times at;
	uint32_t epoch;
	uint64_t lost_step;     /* where the rank was when it noticed; unset for a new process */
	ckpt_restored restored; /* source 0: a fresh start */
	const char *reason;     /* of the new epoch; "" if unknown */
	const char *left;       /* why this rank left the epoch before; "" for a new process */
};

/*
 * {"event":"recovery","rank":1,"pid":7,"epoch":2,"step":40,"source":"memory","steps_lost":3,"detect_ms":…,"decide_ms":…,
 *  "join_ms":…,"connect_ms":…,"restore_ms":…,"first_step_ms":…,"total_ms":…,"noticed_ns":…,"reason":"…","left":"…",
 *  "passed_over":"…"}
 * Of a new process the event is "start": steps_lost, detect_ms, decide_ms and noticed_ns are null, total_ms counts from the
 * join. detect_ms is at most how long the loss went unnoticed; noticed_ns is absolute, so that whoever killed the rank
 * can say it better.
 */
void report_entry(const struct report *report, const struct entry *entry);

struct save_stall {
	uint64_t step;
	ckpt_target target;
	double begin_ms, fence_ms;
	const char *result; /* "ok", "busy", "unreachable", "failed" */
};

/* {"event":"save","rank":1,"step":45,"target":"memory","begin_ms":0.02,"fence_ms":0.4,"result":"ok"} */
void report_save(const struct report *report, const struct save_stall *stall);

/* {"event":"straggler","rank":2,"since":12,"step":19,"steps":8,"slow":true,"rank_ms":…,"middle_ms":…,"lost_ms":…}; `rank` is who is slow */
void report_straggler(const struct report *report, const struct straggler *straggler, uint64_t step);

struct run_end {
	uint64_t step;
	double loss;
	uint64_t fingerprint; /* of the parameters */
	double wait_ms;       /* the last save, until it was safe */
	double step_ms;       /* mean of the steps of the last epoch without its first; 0: there are none */
};

/* {"event":"end","rank":1,"step":200,"loss":2.1,"params":"…","wait_ms":78.1,"step_ms":4.2} */
void report_end(const struct report *report, const struct run_end *end);

#endif
