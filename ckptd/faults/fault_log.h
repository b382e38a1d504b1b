/* Fault log: the faults on purpose of this incarnation of the daemon, in a ring. Each is told in the daemon's log, the
 * span log, the events of the catalog, and the status. Belongs to the loop's thread. */
#ifndef CKPTD_FAULTS_FAULT_LOG_H
#define CKPTD_FAULTS_FAULT_LOG_H

#include "format/message/wire.h"

#include <sys/types.h>

struct jobs;

enum { FAULT_LOG_MAX = 64 };

struct fault_record {
	uint32_t number; /* from 1; 0: unused */
	const struct fault_entry *entry;
	char job[NAME_JOB_MAX];
	uint32_t rank;
	uint64_t for_ms, wall_ns, caused_ns, deadline_ns; /* clock_now() but wall_ns */
	enum fault_outcome outcome;
	uint64_t after_ns; /* until the outcome was seen */
	pid_t pid;         /* of a fault at a process */
	uint32_t seq;      /* of a fault that a rank plays */
	uint64_t continue_ns;
	char text[WIRE_REASON_MAX]; /* what was done, then what became of it */
};

struct fault_log {
	struct fault_record ring[FAULT_LOG_MAX];
	uint32_t last; /* number of the newest; 0: none */
};

/* A record to be filled; the oldest one that has ended gives way. NULL: all are pending. */
struct fault_record *fault_log_take(struct fault_log *log);
/* NULL: there is none any more. */
struct fault_record *fault_log_find(struct fault_log *log, uint32_t number);
/* i-th of those that are there, the oldest first; NULL: there are no more. */
const struct fault_record *fault_log_at(const struct fault_log *log, uint32_t i);
/* It has been caused: tells of it. */
void fault_log_caused(const struct jobs *jobs, const struct fault_record *f);
/* The only place where an outcome is set: tells of it. fmt NULL: the sentence stays. */
void fault_log_end(const struct jobs *jobs, struct fault_record *f, enum fault_outcome outcome, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* "pending", "fired", "not-fired". */
const char *fault_outcome_name(enum fault_outcome outcome);

#endif
