/* A fault on purpose in a running job, from the asking to what has become of it: for `ckpt fault` and for campaigns.
 *
 *   fault_begin: the daemon causes it, or allows it, and then it is caused here → fault_look, until it is not pending */
#ifndef CKPT_CLI_FAULT_REQUEST_H
#define CKPT_CLI_FAULT_REQUEST_H

#include "format/message/wire.h"

#include <sys/types.h>

struct fault_request {
	const struct fault_entry *entry;
	const char *socket; /* of the daemon */
	const char *user;   /* as in frame/contact.h; NULL: one's own */
	const char *job;    /* "": the only one */
	const char *node;   /* of a fault at a node */
	const char *store;  /* of a fault at a checkpoint; NULL: the daemon's */
	uint64_t step;      /* of it; UINT64_MAX: the newest one */
	uint32_t rank;
	int32_t by_s;          /* of clock-jump; 0: a day */
	const char *interface; /* of a fault at the network, of the daemon's node */
	uint32_t percent;      /* of link-loss */
	uint64_t for_ms, seed; /* seed: which file, byte and bit, or what is lost */
	uint64_t deadline;     /* of all that is asked of the daemon */
};

struct fault_result {
	uint32_t number;
	enum fault_outcome outcome;
	char job[NAME_JOB_MAX];
	char text[WIRE_TEXT_MAX];
};

/* An error with *refused set is the daemon's own answer. Else nobody answers, or what was allowed could not be done. */
int fault_begin(const struct fault_request *request, struct fault_result *result, bool *refused, struct err *err);
int fault_look(const struct fault_request *request, struct fault_result *result, bool *refused, struct err *err);

/* A node that was drained may have ranks again. */
int fault_undrain(const struct fault_request *request, const char *job, char text[WIRE_REASON_MAX], struct err *err);

/* A pidfd of the daemon, or -errno. pid, err may be NULL. */
int fault_open_daemon(const struct fault_request *request, pid_t *pid, struct err *err);
/* It ends its node, and has said so. One that goes on has not fired. */
void fault_await_daemon(const struct fault_request *request, int pidfd, struct fault_result *result);
/* What is caused here. 0 with the sentence of what was done; it has been seen to have fired. */
int fault_signal_daemon(const struct fault_request *request, char text[WIRE_REASON_MAX], struct err *err);
/* Its time is over when it returns. -EAGAIN: there was nothing to break. */
int fault_break_link(const struct fault_request *request, char text[WIRE_REASON_MAX], struct err *err);
int fault_flip_stored(const struct fault_request *request, const char *job, char text[WIRE_REASON_MAX],
		      struct err *err);

#endif
